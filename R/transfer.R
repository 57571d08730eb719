#' Read a buffer into R
#'
#' `as_array()` gives an R vector or array, `as_raw()` the bytes of the elements. Both wait until the buffer's content
#' is there. [as_array_async()] does not.
#'
#' @param x A `PJRTBuffer`, or for `as_array()` a `PJRTArrayPromise`.
#' @param check Whether it is an error when R would take a value for another: the smallest `i32` or `i64`, which R
#'   takes for `NA`, or a `ui64` above 2^63 - 1, which [bit64::integer64] cannot hold.
#' @param int64 What becomes of `i64`, `ui64` and `ui32`, whose values R's integers do not all hold:
#'   [bit64::integer64], or plain numbers. A value that these cannot hold exactly is an error.
#' @param row_major The order of the bytes: row-major (last index fastest) or R's order.
#' @param ... For methods.
#' @return `as_array()`: a vector of length one for a scalar, and an array with `dim` for all else, without dimnames.
#'   Floats give doubles, `c64` and `c128` complex numbers, `pred` logical values, signed integers of up to 32 bits and
#'   unsigned ones of up to 16 integers, `i64`, `ui64` and `ui32` what `int64` says.
#'   `as_raw()`: a raw vector; elements narrower than a byte take one each.
#' @section Errors:
#' `pjrt_error_deleted_buffer` for a buffer that was donated or deleted, `pjrt_error_invalid_input` for values that `check` or
#' `int64` refuse, and whatever went wrong on the device while the content was computed.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(c(1.5, 2, 3, 4), 2))
#' as_array(x)
#' as_array(pjrt_buffer(c(1, 2^40), dtype = "i64"), int64 = "double")
#' as_raw(pjrt_buffer(1:2))
#' @export
as_array <- function(x, ...) {
  # to find the method takes longer than to read a small array: the native side knows plain buffers itself
  found <- if (...length() == 0L) .Call(ffi_quick_array, x)
  if (is.null(found)) UseMethod("as_array") else found
}

#' @rdname as_array
#' @export
as_array.PJRTBuffer <- function(x, check = FALSE, int64 = c("integer64", "double", "integer"), ...) {
  # the default is not even made: that would take as long as reading a small array
  .Call(ffi_buffer_array, x, check, if (missing(int64)) "integer64" else int64)
}

#' @export
as_array.default <- function(x, ...) {
  abort_class(x, c("PJRTBuffer", "PJRTArrayPromise"))
}

# Called by the native side, when it makes the first integer64 vector.
load_bit64 <- function(...) {
  bit64::is.integer64
}

#' @rdname as_array
#' @export
as_raw <- function(x, ...) {
  UseMethod("as_raw")
}

#' @rdname as_array
#' @export
as_raw.PJRTBuffer <- function(x, row_major = TRUE, ...) {
  .Call(ffi_buffer_raw, x, row_major)
}

#' @export
as_raw.default <- function(x, ...) {
  abort_class(x, "PJRTBuffer")
}
