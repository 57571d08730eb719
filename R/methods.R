#' Methods for buffers
#'
#' Methods that let functions written for R's arrays take buffers. `dim()`, `length()`, `is.numeric()`, `format()` and
#' `str()` tell what a buffer knows of itself: they neither wait for its content nor move it, and work for donated
#' buffers, too. All others read the whole buffer, as [as_array()] does; `x[...]` reads a part ([buffer-part]).
#'
#' Buffers carry no names and no dimnames. They do not change either: assignments such as `x[1] <- 0` and `dim(x) <- 6`
#' are errors. Compute a new buffer by a program, or read it with [as_array()], change that, and give it to
#' [pjrt_buffer()].
#'
#' `i64`, `ui64` and `ui32` come as [bit64::integer64]; `as.vector()` keeps that class, and the functions named for a
#' type convert the numbers: `as.double()` with bit64's warning where a double is not exact, `as.integer()` with `NA`
#' and a warning where an integer cannot hold them.
#'
#' @param x,object,target A `PJRTBuffer`.
#' @param current Another `PJRTBuffer`, or an R vector or array.
#' @param mode The type of the vector, as for [base::as.vector()].
#' @param ... For `all.equal()` the comparison's arguments, such as `tolerance`; for `summary()` those of the values'
#'   summary; else for methods.
#' @return
#' * `dim()`: the dimensions, `NULL` for a scalar; `length()`: the number of elements.
#' * `as.array()`: the values as an array, of one dimension for a scalar; `as.matrix()`: as a matrix, of one column
#'   unless there are two dimensions; `as.vector()` and its kin: without dimensions. `as.list()` and [lapply()] go
#'   through the elements.
#' * `is.numeric()`: `TRUE` for integers and floats.
#' * `is.na()`, `is.nan()`, `is.finite()` and `is.infinite()`: a logical array; `anyNA()`: `TRUE` or `FALSE`.
#' * `format()`: one string, such as `"<PJRTBuffer f32[2x3] on CpuDevice(id=0)>"`. `str()` prints such a line.
#' * `summary()`: the summary of the values, which prints below that line.
#' * `all.equal()`: `TRUE`, or what differs. Two buffers are compared by dtype, shape and values; a buffer and an R
#'   object by shape and values, where a vector is an array of one dimension or, when it has one element, a scalar.
#' @section Errors:
#' `pjrt_error_invalid_input` for assignments and `x$name`; those of [as_array()] from what reads the buffer.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(c(1.5, 2, 3, 4), 2))
#' dim(x)
#' nrow(x)
#' as.vector(x)
#' str(list(weights = x))
#' summary(x)
#' all.equal(x, matrix(c(1.5, 2, 3, 4), 2))
#' try(x[1, 1] <- 0)
#' @name buffer-methods
NULL

#' @rdname buffer-methods
#' @export
dim.PJRTBuffer <- function(x) {
  dims <- shape(x)
  if (length(dims) > 0L) dims
}

#' @rdname buffer-methods
#' @export
length.PJRTBuffer <- function(x) {
  count <- prod(shape(x))
  if (count <= .Machine$integer.max) as.integer(count) else count
}

#' @rdname buffer-methods
#' @export
as.array.PJRTBuffer <- function(x, ...) {
  values <- as_array(x)
  dim(values) <- dim(values) %||% length(values)
  values
}

#' @rdname buffer-methods
#' @export
as.matrix.PJRTBuffer <- function(x, ...) {
  values <- as_array(x)
  if (length(dim(values)) != 2L) {
    dim(values) <- c(length(values), 1L)
  }
  values
}

#' @rdname buffer-methods
#' @export
as.vector.PJRTBuffer <- function(x, mode = "any") {
  modes <- c("any", "logical", "integer", "numeric", "double", "complex", "character", "raw", "list")
  check_choice(mode, modes, "mode")
  values <- bare_values(x)
  if (mode == "any") {
    return(values)
  }
  if (!inherits(values, "integer64")) {
    return(as.vector(values, mode))
  }
  # as.vector() itself would take the bits of integer64 for doubles
  switch(mode,
    logical = as.logical(values),
    character = as.character(values),
    list = lapply(seq_along(values), function(i) values[[i]]),
    as.vector(rounded(values, elt_type(x)), mode)
  )
}

# The doubles nearest to 64-bit integers; the upper half of unsigned ones is negative as integer64.
rounded <- function(values, dtype) {
  doubles <- as.double(values)
  if (dtype == "ui64") {
    doubles[is.na(values)] <- 2^63
    doubles <- ifelse(doubles < 0, doubles + 2^64, doubles)
  }
  doubles
}

#' @rdname buffer-methods
#' @export
as.double.PJRTBuffer <- function(x, ...) {
  as.vector(x, "double")
}

#' @rdname buffer-methods
#' @export
as.integer.PJRTBuffer <- function(x, ...) {
  as.vector(x, "integer")
}

#' @rdname buffer-methods
#' @export
as.logical.PJRTBuffer <- function(x, ...) {
  as.vector(x, "logical")
}

#' @rdname buffer-methods
#' @export
as.complex.PJRTBuffer <- function(x, ...) {
  as.vector(x, "complex")
}

# The values without dimensions. Unlike base::as.vector(), this keeps integer64.
bare_values <- function(x) {
  values <- as_array(x)
  dim(values) <- NULL
  values
}

#' @rdname buffer-methods
#' @export
is.numeric.PJRTBuffer <- function(x) {
  !grepl("^(pred|c[0-9]+)$", as.character(elt_type(x)))
}

#' @rdname buffer-methods
#' @export
is.na.PJRTBuffer <- function(x) {
  test_values(x, is.na)
}

#' @rdname buffer-methods
#' @export
is.nan.PJRTBuffer <- function(x) {
  test_values(x, is.nan)
}

#' @rdname buffer-methods
#' @export
is.finite.PJRTBuffer <- function(x) {
  test_values(x, is.finite)
}

#' @rdname buffer-methods
#' @export
is.infinite.PJRTBuffer <- function(x) {
  test_values(x, is.infinite)
}

# A test of every value; bit64 loses the dimensions in some.
test_values <- function(x, test) {
  values <- as_array(x)
  result <- test(values)
  dim(result) <- dim(values)
  result
}

#' @rdname buffer-methods
#' @param recursive Has no effect.
#' @export
anyNA.PJRTBuffer <- function(x, recursive = FALSE) {
  any(is.na(x))
}

#' @rdname buffer-methods
#' @export
format.PJRTBuffer <- function(x, ...) {
  paste0("<", describe_buffer(x), ">")
}

#' @rdname buffer-methods
#' @importFrom utils str
#' @export
str.PJRTBuffer <- function(object, ...) {
  cat(" ", describe_buffer(object), "\n", sep = "")
}

describe_buffer <- function(x) {
  tryCatch(
    sprintf("PJRTBuffer %s[%s] on %s", elt_type(x), paste(shape(x), collapse = "x"), format(device(x))),
    # as loaded with a workspace, whose objects must be shown all the same
    pjrt_error_invalid_pointer = function(e) "PJRTBuffer of another session"
  )
}

#' @rdname buffer-methods
#' @export
summary.PJRTBuffer <- function(object, ...) {
  values <- summary(bare_values(object), ...)
  structure(values, class = c("summary.PJRTBuffer", class(values)), buffer = format(object))
}

#' @export
print.summary.PJRTBuffer <- function(x, ...) {
  if (!is.character(attr(x, "buffer")) || !is.atomic(x)) {
    abort_input("`x` must be a `summary.PJRTBuffer`: it has the class, but this package did not make it.")
  }
  cat(attr(x, "buffer"), "\n", sep = "")
  values <- structure(x, class = setdiff(class(x), "summary.PJRTBuffer"), buffer = NULL)
  print(values, ...)
  invisible(x)
}

#' @rdname buffer-methods
#' @method all.equal PJRTBuffer
#' @export
all.equal.PJRTBuffer <- function(target, current, ...) {
  other <- inherits(current, "PJRTBuffer")
  if (!other && !is.atomic(current)) {
    return(sprintf("target is a PJRTBuffer, current is of type %s", typeof(current)))
  }
  dims <- shape(target)
  current_dims <- if (other) shape(current) else dim(current) %||% length(current)
  is_scalar <- !other && length(dims) == 0L && is.null(dim(current)) && length(current) == 1L
  differences <- c(
    if (other && elt_type(target) != elt_type(current)) {
      sprintf("Data types: %s, %s", elt_type(target), elt_type(current))
    },
    if (!is_scalar && !identical(as.double(dims), as.double(current_dims))) {
      sprintf("Shapes: [%s], [%s]", paste(dims, collapse = "x"), paste(current_dims, collapse = "x"))
    }
  )
  if (length(differences) > 0L) {
    return(differences)
  }
  if (other) {
    current <- bare_values(current)
  } else {
    dim(current) <- NULL
    names(current) <- NULL
  }
  all.equal(bare_values(target), current, ...)
}

#' @rdname buffer-methods
#' @usage \method{[}{PJRTBuffer}(x, ...) <- value
#' @param value,name Not used: these are errors.
#' @export
`[<-.PJRTBuffer` <- function(x, ..., value) {
  abort_change()
}

#' @export
`[[<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`$<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`dim<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`dimnames<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`names<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`length<-.PJRTBuffer` <- `[<-.PJRTBuffer`

abort_change <- function() {
  abort_input("A buffer does not change.", hints = c(
    "Compute a new buffer by a program, which may be given this one's memory (donation).",
    "Or read it with as_array(), change that, and give it to pjrt_buffer()."
  ))
}

#' @rdname buffer-methods
#' @export
`$.PJRTBuffer` <- function(x, name) {
  abort_input(
    "A buffer has no components, such as `", name, "`.",
    hints = "shape(), elt_type() and device() describe it; as_array(x) and x[...] give its elements."
  )
}
