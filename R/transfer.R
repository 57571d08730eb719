#' Read a buffer into R
#'
#' `as_array()` returns an R vector or array, `as_raw()` the bytes of the elements. Both wait for the buffer's content;
#' [as_array_async()] does not.
#'
#' @param x A `PJRTBuffer`. For `as_array()`, also a `PJRTArrayPromise`, or a nested list of these, such as the outputs
#'   of a program.
#' @param check A flag: whether values that R would misread are errors. These are the smallest `i32` or `i64`, which R
#'   reads as `NA`, and `ui64` values above 2^63 - 1, which [bit64::integer64] cannot hold.
#' @param int64 A string: the R type for `i64`, `ui64` and `ui32`. With `"double"` and `"integer"`, a value that the
#'   type cannot hold exactly is an error.
#' @param drop A flag: whether to drop dimensions of size 1, as [base::drop()] does. An array of rank 1 becomes a plain
#'   vector.
#' @param row_major A flag: whether the bytes are in row-major order (last index fastest) or in R's order.
#' @param ... For methods.
#' @return `as_array()`: a vector of length one for a scalar, otherwise an array without dimnames. Floats become double,
#'   `c64` and `c128` complex, `pred` logical, signed integers of up to 32 bits and unsigned integers of up to 16 bits
#'   integer. `i64`, `ui64` and `ui32` become the type in `int64`. For a list, a list of the same structure; on devices
#'   other than the CPU, all transfers start at once. `as_raw()`: a raw vector; each element narrower than a byte takes
#'   a whole byte.
#' @section Errors:
#' `pjrt_error_deleted_buffer` if the buffer was donated or deleted, `pjrt_error_invalid_input` for values that `check`
#' or `int64` refuse. If the computation failed on the device, its error is raised.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(c(1.5, 2, 3, 4), 2))
#' as_array(x)
#' as_array(pjrt_buffer(c(1, 2^40), dtype = "i64"), int64 = "double")
#' as_raw(pjrt_buffer(1:2))
#' str(as_array(list(x = x, more = list(pjrt_scalar(1)))))
#'
#' # a result of rank 1 keeps its dimension; a plain vector recycles
#' y <- pjrt_buffer(c(10, 20))
#' dim(as_array(y))
#' as_array(y, drop = TRUE) + 1:4
#' @export
as_array <- function(x, ...) {
  # a fast path for plain buffers: S3 dispatch takes longer than reading a small array
  found <- if (...length() == 0L) .Call(ffi_fast_array, x)
  if (is.null(found)) UseMethod("as_array") else found
}

#' @rdname as_array
#' @export
as_array.PJRTBuffer <- function(x, check = FALSE, int64 = c("integer64", "double", "integer"), drop = FALSE, ...) {
  check_unused(...)
  # the default is not evaluated: that would take as long as reading a small array
  array <- .Call(ffi_buffer_array, x, if (!missing(check)) check, if (missing(int64)) "integer64" else int64)
  if (missing(drop)) array else dropped(array, drop)
}

# An array without dimensions of size 1 if `drop` says so; without all of them if only one is left.
dropped <- function(array, drop) {
  check_flag(drop, "drop")
  if (!drop || is.null(dim(array))) {
    return(array)
  }
  kept <- dim(array)[dim(array) != 1L]
  dim(array) <- if (length(kept) > 1L) kept
  array
}

#' @export
as_array.default <- function(x, ...) {
  pass_on("as_array", x, c("PJRTBuffer", "PJRTArrayPromise"), ...)
}

#' @rdname as_array
#' @export
as_raw <- function(x, ...) {
  UseMethod("as_raw")
}

#' @rdname as_array
#' @export
as_raw.PJRTBuffer <- function(x, row_major = TRUE, ...) {
  check_unused(...)
  .Call(ffi_buffer_raw, x, row_major)
}

#' @export
as_raw.default <- function(x, ...) {
  pass_on("as_raw", x, "PJRTBuffer", ...)
}
