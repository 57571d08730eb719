#' Read a part of a buffer
#'
#' `x[...]` returns the same as `as_array(x)[...]`, but reads only the part if the device shares the host's memory, and
#' otherwise only the range of memory that contains it. Of types narrower than a byte, it reads everything. `x[[...]]`
#' returns a single element. Both wait for the buffer's content.
#'
#' `x[..., as = "buffer"]` copies the part on the device, without waiting: rows for a mini-batch, for example. As other
#' [operators], it is compiled at its first use for each size of the part.
#'
#' Subscripts work as for R's arrays. Use one for each dimension, or a single one that counts through the whole array in
#' R's order, or a numeric matrix with a column for each dimension and a row for each element. They are numbers from 1,
#' negative numbers to leave elements out, or logical values, which are recycled. An empty subscript selects everything.
#' A subscript that is a buffer is read first, as `x > 3` in `x[x > 3]`.
#'
#' Subscripts that are `NA` or out of bounds are errors, since most dtypes have no `NA`. Strings are errors, since
#' buffers have no names.
#'
#' @param x A `PJRTBuffer`.
#' @param ... Subscripts. For `x[[...]]`, single positive numbers.
#' @param drop A flag: whether dimensions of length one are dropped, as for R's arrays.
#' @param as A string: whether to return an R array or a buffer.
#' @return `x[...]`: a vector or array of the type that [as_array()] returns; `x[]` is `as_array(x)`. `x[[...]]`: a
#'   vector of length one. With `as = "buffer"`, a `PJRTBuffer`; of one element, it has one dimension.
#' @section Errors:
#' `pjrt_error_invalid_input` if subscripts are invalid, out of bounds, or of the wrong number, and the errors of
#' [as_array()].
#' @seealso [buffer-methods]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(1:6, nrow = 2))
#' x[2, ]
#' x[, -1]
#' x[1, , drop = FALSE]
#' x[x > 3]
#' x[cbind(c(1, 2), c(1, 3))]
#' x[[2, 3]]
#' x[c(2, 1), , as = "buffer"]
#' @name buffer-slice
NULL

#' @rdname buffer-slice
#' @export
`[.PJRTBuffer` <- function(x, ..., drop = TRUE, as = c("array", "buffer")) {
  check_flag(drop, "drop")
  stays <- !missing(as) && check_choice(as, c("array", "buffer"), "as") == "buffer"
  count <- ...length()
  if (count == 0L || (count == 1L && missing(..1))) {
    return(if (stays) duplicated_buffer(x) else as_array(x))
  }
  dims <- shape(x)
  rank <- length(dims)
  check_count(count, rank)
  given <- subscripts(environment())
  chosen <- if (count == rank) {
    all_positions(given, dims)
  } else if (is_index_matrix(given[[1L]], rank)) {
    matrix_positions(given[[1L]], dims)
  } else {
    positions(given[[1L]], prod(dims))
  }
  if (stays) {
    return(taken(x, chosen, drop))
  }
  values <- .Call(ffi_buffer_slice, x, chosen)
  if (count != rank || (drop && rank == 1L && length(values) < 2L)) {
    dim(values) <- NULL
  }
  for_statistics(if (drop) drop(values) else values, x, sys.call(), parent.frame())
}

# The elements for the caller of a subscript. Functions of base and utils, such as head(), return them to the user.
for_statistics <- function(values, x, call, frame) {
  for_caller(values, x, call, frame, c("stats", "graphics", "grDevices"))
}

# The part of a buffer at some positions, on its device: a list with those along each dimension, NULL for all, or a
# vector of those in the whole array.
taken <- function(x, chosen, drop) {
  if (!is.list(chosen)) {
    x <- .Call(ffi_operator_1, "dim", x, length(x))
    chosen <- list(chosen)
  }
  dims <- shape(x)
  cut <- which(!vapply(chosen, is.null, NA))
  places <- lapply(cut, function(i) {
    if (any(trunc(chosen[[i]]) > dims[[i]])) {
      abort_input(
        "Subscript out of bounds: ", format(max(chosen[[i]]), scientific = 15L), ", where dimension ", i, " has ",
        counted(dims[[i]], "position"), "."
      )
    }
    dtype <- if (dims[[i]] > .Machine$integer.max) "i64" else "i32"
    pjrt_buffer(trunc(chosen[[i]]) - 1, dtype, device(x), shape = length(chosen[[i]]))
  })
  if (length(cut) > 0L) {
    x <- .Call(ffi_operator_n, "[", c(list(x), places), cut - 1L)
  }
  kept <- shape(x)[shape(x) != 1L]
  if (drop && length(kept) < length(shape(x))) {
    dim(x) <- if (length(kept) > 0L) kept else 1L
  } else if (length(cut) == 0L) {
    x <- duplicated_buffer(x)
  }
  x
}

# A copy of a buffer on its device.
duplicated_buffer <- function(x) .Call(ffi_operator_1, "dim", x, shape(x))

#' @rdname buffer-slice
#' @param exact Not used, since buffers have no names.
#' @export
`[[.PJRTBuffer` <- function(x, ..., exact = TRUE) {
  dims <- shape(x)
  check_count(...length(), length(dims))
  chosen <- subscripts(environment())
  for (i in seq_along(chosen)) {
    chosen[[i]] <- single_position(chosen[[i]])
  }
  values <- .Call(ffi_buffer_slice, x, if (length(chosen) == length(dims)) chosen else chosen[[1L]])
  dim(values) <- NULL
  if (!inherits(values, "integer64")) {
    return(values)
  }
  if (identical(sys.function(sys.parent()), mapply)) {
    # it would simplify its results to the bits
    return(rounded(values, elt_type(x)))
  }
  for_statistics(values, x, sys.call(), parent.frame())
}

check_count <- function(count, rank) {
  if (count != 1L && count != rank) {
    abort_input(
      "`x` has ", counted(rank, "dimension"), ", but got ", count, " subscripts.",
      hints = "Use one for each dimension, as in `x[1, ]`, or a single one that counts through the array."
    )
  }
}

# The subscripts in a method's frame, those on a device as R data; TRUE, which selects everything, for empty ones.
subscripts <- function(frame) {
  lapply(seq_len(eval(quote(...length()), frame)), function(i) {
    name <- as.name(paste0("..", i))
    subscript <- if (eval(call("missing", name), frame)) TRUE else eval(name, frame)
    if (is_buffer(subscript)) as_array(subscript) else subscript
  })
}

# Positions along each dimension. A loop, not lapply(), so that errors show the user's call.
all_positions <- function(given, dims) {
  for (i in seq_along(dims)) {
    given[i] <- list(positions(given[[i]], dims[[i]]))
  }
  given
}

# The positions from 1 to `extent` that a subscript selects, NULL for all. The native side checks the upper bound.
positions <- function(subscript, extent) {
  if (isTRUE(subscript)) {
    return(NULL)
  }
  subscript <- plain_subscript(subscript)
  if (is.logical(subscript)) {
    if (length(subscript) > max(extent, 1)) {
      abort_input(
        "Subscript out of bounds: ", length(subscript), " logical values for ", counted(extent, "position"), "."
      )
    }
    return(which(rep_len(subscript, extent)))
  }
  if (min(subscript, 1) >= 1) {
    return(subscript)
  }
  subscript <- trunc(subscript)
  if (all(subscript >= 0)) {
    return(subscript[subscript != 0])
  }
  if (any(subscript > 0)) {
    abort_input("A subscript must not have both negative and positive numbers: negative ones leave positions out.")
  }
  if (any(is.infinite(subscript))) {
    abort_input("Subscript out of bounds: -Inf.")
  }
  # positions beyond the last are ignored
  seq_len(extent)[pmax(subscript, -extent - 1)]
}

# A subscript of `[[`, which selects one position.
single_position <- function(subscript) {
  subscript <- plain_subscript(subscript)
  if (is.logical(subscript) || length(subscript) != 1L || subscript < 1) {
    abort_input("`x[[...]]` selects a single element: each subscript must be one positive number.")
  }
  subscript
}

# A subscript as plain numbers or logical values, none of them missing.
plain_subscript <- function(subscript) {
  if (is.null(subscript)) {
    return(integer())
  }
  if (!typeof(subscript) %in% c("logical", "integer", "double")) {
    abort_input(
      "A subscript must be numbers or logical values, not of type <", typeof(subscript), ">.",
      hints = if (is.character(subscript)) "Buffers have no names: read the buffer with as_array() and name the array."
    )
  }
  if (any(is.na(subscript))) {
    abort_input("A subscript must not be NA: most dtypes have no such value.")
  }
  if (!inherits(subscript, "integer64")) {
    return(unclass(subscript))
  }
  array(as.double(subscript), dim(subscript) %||% length(subscript))
}

# Whether a subscript is a matrix with a row for each element.
is_index_matrix <- function(subscript, rank) {
  is.matrix(subscript) && is.numeric(subscript) && ncol(subscript) == rank
}

# The positions in the whole array that the rows of a matrix select. A row with a zero selects nothing.
matrix_positions <- function(indices, dims) {
  indices <- trunc(plain_subscript(indices))
  if (any(indices < 0)) {
    abort_input("A matrix of subscripts must not have negative numbers.")
  }
  indices <- indices[rowSums(indices == 0) == 0, , drop = FALSE]
  strays <- indices > rep(dims, each = nrow(indices))
  if (any(strays)) {
    abort_input("Subscript out of bounds: row ", which(rowSums(strays) > 0)[[1L]], " of a matrix of subscripts.")
  }
  drop((indices - 1) %*% cumprod(c(1, dims[-length(dims)]))) + 1
}
