#' Use R's functions for arrays
#'
#' These methods let functions for R's arrays work with buffers. `dim()`, `length()`, `is.numeric()`, `format()` and
#' `str()` do not read a buffer's content, and also work for donated buffers. All others read the whole buffer, as
#' [as_array()] does. `x[...]` reads a part; see [buffer-slice].
#'
#' Operators and functions that compute on the device are in [operators], [matrices] and [summaries].
#'
#' Buffers have no names or dimnames. They are immutable: assignments such as `x[1] <- 0` are errors. Compute a new
#' buffer with operators or a program, or read the buffer with [as_array()], change the array, and pass it to
#' [pjrt_buffer()].
#'
#' `i64`, `ui64` and `ui32` are read as [bit64::integer64]. `as.vector()` keeps that class. `as.double()` converts the
#' numbers, with bit64's warning if a double is not exact. `as.integer()` returns `NA` with a warning for numbers that
#' are too large. R's own functions do not know integer64, so `apply()`, `sapply()`, `vapply()`, `mapply()`,
#' `tapply()`, `outer()`, `matrix()`, `scale()`, `solve()`, `svd()` and other functions that convert a buffer by
#' themselves get doubles. So do functions of stats and graphics that take elements of a buffer, such as `fivenum()` and
#' `hist()`.
#'
#' @section Attributes and classes:
#' A buffer is a reference, like an environment: R does not copy it. `attr(x, "unit") <- "m"`, `class(x) <- "mine"` and
#' `structure(x, class = "mine")` therefore change the buffer itself, for all variables that refer to it. A package
#' cannot prevent this. The only attributes of a buffer are its class, which `class(x) <- "PJRTBuffer"` restores, and
#' the column names that [print()][print.PJRTBuffer] shows. You can put a class in front of it, as in `c("mine",
#' "PJRTBuffer")`, but this also affects all variables.
#'
#' To add information to a buffer, or to define your own class, put the buffer into a list and write the methods that
#' you need. See the example, and `vignette("using-pjrt")` (see [pjrt_articles]).
#'
#' @param x,object,target A `PJRTBuffer`.
#' @param current A `PJRTBuffer`, an array promise, or an R vector or array.
#' @param mode A string: the type of the vector, as for [base::as.vector()].
#' @param row.names,optional,nm As for [base::as.data.frame()].
#' @param ... Arguments for the comparison, such as `tolerance`, in `all.equal()`. Arguments for the values' summary in
#'   `summary()`, or for their data frame. Otherwise for methods.
#' @return
#' * `dim()`: an integer vector, or `NULL` for a scalar. `length()`: the number of elements.
#' * `as.array()`: an array, with one dimension for a scalar. `as.matrix()`: a matrix, with one column unless the buffer
#'   has two dimensions. `as.data.frame()`: a data frame, with one column unless the buffer has more dimensions;
#'   [data.frame()] takes buffers, too. `as.vector()`, `as.double()` and so on: a vector. `as.list()` and [lapply()] use
#'   the elements.
#' * `is.numeric()`: `TRUE` for integers and floats. `is.array()`: `TRUE` unless it is a scalar. `is.matrix()`: `TRUE`
#'   for two dimensions.
#' * `is.na()`, `is.nan()`, `is.finite()` and `is.infinite()`: a logical array. `anyNA()`: `TRUE` or `FALSE`.
#' * `format()`: a string, such as `"<PJRTBuffer f32[2x3] on CpuDevice(id=0)>"`. `str()` prints such a line.
#' * `summary()`: the summary of the values, which prints below that line.
#' * `all.equal()`: `TRUE`, or a character vector of differences. Two buffers are compared by dtype, shape and values; a
#'   buffer and an R object by shape and values. Here a vector has one dimension, but a vector of length one also equals
#'   a scalar.
#' @section Errors:
#' `pjrt_error_invalid_input` for assignments and `x$name`. Methods that read the buffer raise the errors of
#' [as_array()].
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(c(1.5, 2, 3, 4), 2))
#' dim(x)
#' nrow(x)
#' as.vector(x)
#' str(list(weights = x))
#' summary(x)
#' all.equal(x, matrix(c(1.5, 2, 3, 4), 2))
#' try(x[1, 1] <- 0)
#'
#' # a class with a buffer inside
#' measured <- function(x, unit) {
#'   structure(list(buffer = x, unit = unit), class = "measured")
#' }
#' format.measured <- function(x, ...) paste(format(x$buffer), "in", x$unit)
#' format(measured(x, "m"))
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
  element_count(shape(x))
}

element_count <- function(shape) {
  count <- prod(shape)
  if (count <= .Machine$integer.max) as.integer(count) else count
}

#' @rdname buffer-methods
#' @export
as.array.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  values <- for_caller(as_array(x), x, sys.call(-1L), parent.frame())
  dim(values) <- dim(values) %||% length(values)
  values
}

#' @rdname buffer-methods
#' @export
as.matrix.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  values <- for_caller(as_array(x), x, sys.call(-1L), parent.frame())
  if (length(dim(values)) != 2L) {
    dim(values) <- c(length(values), 1L)
  }
  values
}

#' @rdname buffer-methods
#' @export
as.data.frame.PJRTBuffer <- function(x, row.names = NULL, optional = FALSE, ..., nm = deparse1(substitute(x))) {
  check_flag(optional, "optional")
  values <- as_array(x)
  if (length(dim(values)) == 1L) {
    dim(values) <- NULL
  } else if (length(values) == 0L) {
    # bit64's method needs a column
    values <- unclass(values)
  }
  as.data.frame(values, row.names = row.names, optional = optional, ..., nm = nm)
}

#' @rdname buffer-methods
#' @export
as.vector.PJRTBuffer <- function(x, mode = "any") {
  modes <- c("any", "logical", "integer", "numeric", "double", "complex", "character", "raw", "list")
  check_choice(mode, modes, "mode")
  if (mode == "character" && elt_type(x) == "ui64") {
    return(exact_text(x))
  }
  values <- bare_values(x)
  if (mode == "any") {
    return(for_caller(values, x, sys.call(sys.parent()), parent.frame(2L)))
  }
  if (!inherits(values, "integer64")) {
    return(as.vector(values, mode))
  }
  # base's as.vector() would read the bits of integer64 as doubles
  switch(mode,
    logical = as.logical(values),
    character = as.character(values),
    list = elements(values),
    as.vector(rounded(values, elt_type(x)), mode)
  )
}

#' @rdname buffer-methods
#' @export
as.list.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  frame <- parent.frame()
  # sapply() calls lapply(), but so do users
  if (identical(sys.function(sys.parent()), lapply)) {
    frame <- sys.frame(sys.parents()[[sys.parent()]])
  }
  elements(for_caller(bare_values(x), x, sys.call(-1L), frame))
}

# as.list() of integer64 would have its bits.
elements <- function(values) {
  if (inherits(values, "integer64")) lapply(seq_along(values), function(i) values[[i]]) else as.list(values)
}

# The values for the caller of a generic. R's own functions, such as outer() and sapply(), get doubles instead of
# integer64: they would take its bits for doubles. `call` is the call of the generic: lapply(x, as.vector) and
# Map(as.vector, x) are a user's, and do not call it by its name.
for_caller <- function(values, x, call, frame, packages = c("base", "stats", "utils", "graphics")) {
  if (!inherits(values, "integer64")) {
    return(values)
  }
  is_named <- is.name(call[[1L]]) && !identical(call[[1L]], quote(FUN))
  if (is_named && environmentName(topenv(frame)) %in% packages) rounded(values, elt_type(x)) else values
}

# The doubles nearest to 64-bit integers. Unsigned ones of 2^63 and more are negative as integer64.
rounded <- function(values, dtype) {
  doubles <- as.double(values)
  dim(doubles) <- dim(values)
  if (dtype == "ui64") {
    doubles[is.na(values)] <- 2^63
    doubles <- doubles + (doubles < 0) * 2^64
  }
  doubles
}

#' @rdname buffer-methods
#' @export
as.double.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  as.vector(x, "double")
}

#' @rdname buffer-methods
#' @export
as.integer.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  as.vector(x, "integer")
}

#' @rdname buffer-methods
#' @exportS3Method bit64::as.integer64
as.integer64.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  values <- bare_values(x)
  dim(values) <- NULL
  if (inherits(values, "integer64")) values else bit64::as.integer64(as.double(values))
}

#' @rdname buffer-methods
#' @export
as.logical.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  as.vector(x, "logical")
}

#' @rdname buffer-methods
#' @export
as.complex.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  as.vector(x, "complex")
}

#' @rdname buffer-methods
#' @export
as.raw.PJRTBuffer <- function(x) {
  as.vector(x, "raw")
}

# The values without dimensions. Unlike base::as.vector(), this keeps integer64.
bare_values <- function(x, ...) {
  values <- as_array(x, ...)
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

# Tests every value. Some methods of bit64 drop the dimensions.
test_values <- function(x, test) {
  values <- as_array(x, check = FALSE)
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
  dead_buffer(x) %||% sprintf(
    "<PJRTBuffer %s[%s] on %s>", elt_type(x), paste(shape(x), collapse = "x"), format(device(x))
  )
}

#' @rdname buffer-methods
#' @importFrom utils str
#' @export
str.PJRTBuffer <- function(object, ...) {
  str_line(object)
}

# The text for a buffer that cannot be used any more, or NULL.
dead_buffer <- function(x) {
  dead_text(x, "PJRTBuffer", sprintf("PJRTBuffer %s[%s]", elt_type(x), paste(shape(x), collapse = "x")))
}

#' @rdname buffer-methods
#' @export
summary.PJRTBuffer <- function(object, ...) {
  values <- summary(exact_or_rounded(object), ...)
  structure(values, class = c("summary.PJRTBuffer", class(values)), buffer = format(object))
}

#' @export
print.summary.PJRTBuffer <- function(x, ...) {
  if (!is.character(attr(x, "buffer")) || !is.atomic(x)) {
    abort_type("`x` must be a `summary.PJRTBuffer`: it has the class, but this package did not make it.")
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
  if (inherits(current, "PJRTArrayPromise")) {
    current <- value(current)
  }
  other <- inherits(current, "PJRTBuffer")
  if (!other && (is.null(current) || !is.atomic(current))) {
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
    current <- bare_values(current, check = FALSE)
  } else {
    dim(current) <- NULL
    names(current) <- NULL
  }
  values <- bare_values(target, check = FALSE)
  if (!other && elt_type(target) == "ui64" && any(is.na(values) | values < 0)) {
    # as integer64, numbers from 2^63 on would be negative
    is_long <- inherits(current, "integer64")
    values <- if (is_long) exact_text(target) else as.vector(rounded(values, "ui64"))
    current <- if (is_long) as.character(current) else current
  }
  all.equal(values, current, ...)
}

#' @rdname buffer-methods
#' @usage \method{[}{PJRTBuffer}(x, ...) <- value
#' @param value,name Not used.
#' @export
`[<-.PJRTBuffer` <- function(x, ..., value) {
  abort_immutable()
}

#' @export
`[[<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`$<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`dimnames<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`names<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`length<-.PJRTBuffer` <- `[<-.PJRTBuffer`

#' @export
`levels<-.PJRTBuffer` <- `[<-.PJRTBuffer`

abort_immutable <- function() {
  abort_input("Buffers are immutable.", hints = c(
    "Compute a new buffer with operators, or with a program, which can reuse this one's memory (donation).",
    "Or read it with as_array(), change the array, and pass it to pjrt_buffer()."
  ))
}

#' @rdname buffer-methods
#' @export
`$.PJRTBuffer` <- function(x, name) {
  abort_input(
    "Buffers have no components: `$", name, "` does not exist.",
    hints = "shape(), elt_type() and device() describe a buffer; as_array(x) and x[...] read its elements."
  )
}
