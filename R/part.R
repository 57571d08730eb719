#' Read a part of a buffer
#'
#' `x[...]` is `as_array(x)[...]` without the rest of the buffer: only the part is read where the device shares the
#' host's memory, and elsewhere no more than the stretch of memory that holds it. `x[[...]]` is a single element. Both
#' wait until the buffer's content is there.
#'
#' Subscripts mean what they mean for R's arrays: one for each dimension, or a single one that counts through the whole
#' array in R's order, or a numeric matrix with a column for each dimension and a row for each element. They are
#' numbers, of which negative ones leave out, or logical values, which are recycled. A subscript that is left out takes
#' all.
#'
#' What would be `NA` for an R array is an error, since most dtypes have no such value: subscripts that are `NA` or out
#' of bounds. Buffers have no names that strings could choose from.
#'
#' @param x A `PJRTBuffer`.
#' @param ... Subscripts; for `x[[...]]` single positive numbers.
#' @param drop Whether dimensions of extent one are dropped, as for R's arrays.
#' @return `x[...]`: a vector or array of the type that [as_array()] gives; `x[]` is `as_array(x)`. `x[[...]]`: a vector
#'   of length one.
#' @section Errors:
#' `pjrt_error_invalid_input` for subscripts that are invalid or too many, missing or out of bounds, and all errors of
#' [as_array()].
#' @seealso [buffer-methods]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(1:6, nrow = 2))
#' x[2, ]
#' x[, -1]
#' x[1, , drop = FALSE]
#' x[x[] > 3]
#' x[cbind(c(1, 2), c(1, 3))]
#' x[[2, 3]]
#' @name buffer-part
NULL

#' @rdname buffer-part
#' @export
`[.PJRTBuffer` <- function(x, ..., drop = TRUE) {
  check_flag(drop, "drop")
  count <- ...length()
  if (count == 0L || (count == 1L && missing(..1))) {
    return(as_array(x))
  }
  dims <- shape(x)
  rank <- length(dims)
  check_count(count, rank)
  given <- subscripts(environment())
  chosen <- if (count == rank) {
    all_positions(given, dims)
  } else if (is_cells(given[[1L]], rank)) {
    cell_positions(given[[1L]], dims)
  } else {
    positions(given[[1L]], prod(dims))
  }
  values <- .Call(ffi_buffer_part, x, chosen)
  if (count != rank || (drop && rank == 1L && length(values) < 2L)) {
    dim(values) <- NULL
  }
  if (drop) drop(values) else values
}

#' @rdname buffer-part
#' @param exact Has no effect, since there are no names.
#' @export
`[[.PJRTBuffer` <- function(x, ..., exact = TRUE) {
  dims <- shape(x)
  check_count(...length(), length(dims))
  chosen <- subscripts(environment())
  for (i in seq_along(chosen)) {
    chosen[[i]] <- single_position(chosen[[i]])
  }
  values <- .Call(ffi_buffer_part, x, if (length(chosen) == length(dims)) chosen else chosen[[1L]])
  dim(values) <- NULL
  values
}

check_count <- function(count, rank) {
  if (count != 1L && count != rank) {
    abort_input(
      "`x` has ", rank, " dimension(s), but there are ", count, " subscripts.",
      hints = "Give one for each dimension (`x[1, ]` leaves one out), or a single one that counts through the array."
    )
  }
}

# The subscripts of the method whose frame this is; TRUE, which takes all, for those that are left out.
subscripts <- function(frame) {
  lapply(seq_len(eval(quote(...length()), frame)), function(i) {
    name <- as.name(paste0("..", i))
    if (eval(call("missing", name), frame)) TRUE else eval(name, frame)
  })
}

# Positions along each dimension. A loop, so that errors are those of the user's call and not of lapply()'s.
all_positions <- function(given, dims) {
  for (i in seq_along(dims)) {
    given[i] <- list(positions(given[[i]], dims[[i]]))
  }
  given
}

# Which of `extent` positions a subscript means: NULL for all, else numbers from 1 on. The native side sees to the
# bounds.
positions <- function(subscript, extent) {
  if (isTRUE(subscript)) {
    return(NULL)
  }
  subscript <- plain_subscript(subscript)
  if (is.logical(subscript)) {
    if (length(subscript) > extent) {
      abort_input("Subscript out of bounds: ", length(subscript), " logical values for ", extent, " position(s).")
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
    abort_input("A subscript cannot have both negative and positive numbers: negative ones leave positions out.")
  }
  # beyond the last there is nothing to leave out, however far
  seq_len(extent)[pmax(subscript, -extent - 1)]
}

# A subscript of `[[`, which means one position.
single_position <- function(subscript) {
  subscript <- plain_subscript(subscript)
  if (is.logical(subscript) || length(subscript) != 1L || subscript < 1) {
    abort_input("`x[[...]]` is a single element: each subscript must be one positive number.")
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
      hints = if (is.character(subscript)) "A buffer has no names: give them to as_array(x), and choose there."
    )
  }
  if (any(is.na(subscript))) {
    abort_input("A subscript cannot be NA: most dtypes have no such value.")
  }
  if (!inherits(subscript, "integer64")) {
    return(unclass(subscript))
  }
  array(as.double(subscript), dim(subscript) %||% length(subscript))
}

# Whether a subscript is a matrix whose rows each mean an element.
is_cells <- function(subscript, rank) {
  is.matrix(subscript) && is.numeric(subscript) && ncol(subscript) == rank
}

# Positions in the whole array of the elements that the rows of a matrix mean. A row with a zero means none.
cell_positions <- function(cells, dims) {
  cells <- trunc(plain_subscript(cells))
  if (any(cells < 0)) {
    abort_input("A matrix of subscripts cannot have negative numbers.")
  }
  cells <- cells[rowSums(cells == 0) == 0, , drop = FALSE]
  strays <- cells > rep(dims, each = nrow(cells))
  if (any(strays)) {
    abort_input("Subscript out of bounds: row ", which(rowSums(strays) > 0)[[1L]], " of a matrix of subscripts.")
  }
  drop((cells - 1) %*% cumprod(c(1, dims[-length(dims)]))) + 1
}
