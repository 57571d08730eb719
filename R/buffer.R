#' Create a buffer
#'
#' A buffer is an array on a device. `pjrt_buffer()` moves an R vector or array there, `pjrt_scalar()` a single value,
#' and `pjrt_empty()` makes an array of zeros. They return before the device has the data; the buffer can be used at
#' once.
#'
#' R's arrays have their first index vary fastest, programs see the same array by the same indices. The buffer has a
#' copy of the data: changing the R object later does not change it. Names and dimnames are not kept.
#'
#' | R data | default dtype | other dtypes |
#' |---|---|---|
#' | logical | `pred` | none |
#' | integer | `i32` | `i8` `i16` `i64` `ui8` `ui16` `ui32` `ui64` `f16` `bf16` `f32` `f64` |
#' | double | `f32` | `f64` `f16` `bf16`, all integer types, `pred` |
#' | `bit64::integer64` | `i64` | `ui64` |
#' | raw | must be given | all |
#'
#' What a dtype cannot hold: integers wrap into narrower integers, as in C, and `NA_integer_` counts as the number
#' -2147483648 that R stores for it, in every dtype. Doubles are cut towards zero and take the nearest value of an
#' integer type; `NA` and `NaN` become its smallest value (which is `NA` again for `i32` and `i64`) or 0 for unsigned
#' types. `NA` is `TRUE` as a `pred`. `NA_real_` stays itself in `f64` and becomes NaN in narrower floats.
#' With `check = TRUE`, `NA`, `NaN` and numbers outside the dtype's range are errors instead; cutting a fraction is not.
#'
#' @param data A logical, integer, double, [bit64::integer64] or raw vector or array. A `PJRTBuffer` is returned as it
#'   is, if it has the dtype, device and shape asked for.
#' @param dtype The element type: `"pred"`, `"i8"`, `"i16"`, `"i32"`, `"i64"`, `"ui8"`, `"ui16"`, `"ui32"`, `"ui64"`,
#'   `"f16"`, `"bf16"`, `"f32"`, `"f64"`, or another name of it such as `"bool"`, `"int32"` or `"float64"`.
#' @param device The device: anything that [as_pjrt_device()] takes.
#' @param shape The dimensions, whole numbers; `integer()` is a scalar. By default those of `data`, or its length. A
#'   single value fills any shape.
#' @param check Whether values that the dtype cannot hold are an error: `NA` and `NaN`, and numbers outside an integer
#'   type's range.
#' @param row_major For raw data: whether the bytes are in row-major order (last index fastest) or in R's order.
#' @param ... For methods; anything else here is an error.
#' @return A `PJRTBuffer`.
#' @section Errors:
#' `pjrt_error_unsupported_dtype` when the data cannot become the dtype, `pjrt_error_shape_mismatch` when data and
#' shape do not fit, `pjrt_error_invalid_input` for any other bad argument, `pjrt_error_resource_exhausted` when memory
#' is full.
#' @seealso [as_array()], [pjrt_execute()], [shape()], [elt_type()], [device()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(1:6, nrow = 2))
#' x
#' as_array(x)
#' pjrt_buffer(0, shape = c(2, 2), dtype = "f64")
#' pjrt_scalar(3L)
#' pjrt_empty("i32", shape = c(2, 3))
#' pjrt_buffer(as.raw(1:4), dtype = "ui8", shape = 4, row_major = TRUE)
#' @export
pjrt_buffer <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  # plain numbers go straight on: to find their method takes as long as all the rest
  if (!is.object(data) && is.numeric(data) && ...length() == 0L) {
    .Call(ffi_buffer_new, data, dtype, device, shape, check)
  } else {
    UseMethod("pjrt_buffer")
  }
}

#' @export
pjrt_buffer.numeric <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  check_unused(...)
  .Call(ffi_buffer_new, data, dtype, device, shape, check)
}

#' @export
pjrt_buffer.integer <- pjrt_buffer.numeric

#' @export
pjrt_buffer.logical <- pjrt_buffer.numeric

#' @export
pjrt_buffer.complex <- pjrt_buffer.numeric

#' @export
pjrt_buffer.integer64 <- pjrt_buffer.numeric

#' @rdname pjrt_buffer
#' @export
pjrt_buffer.raw <- function(data, ..., dtype = NULL, device = NULL, shape = NULL, row_major) {
  check_unused(...)
  if (is.null(shape)) {
    abort_input("shape must be provided for raw data.")
  }
  if (is.null(dtype)) {
    abort_input("dtype must be provided for raw data.")
  }
  if (missing(row_major)) {
    abort_input("row_major must be provided for raw data: TRUE when the last index varies fastest, else FALSE.")
  }
  .Call(ffi_buffer_from_raw, data, dtype, device, shape, row_major)
}

#' @export
pjrt_buffer.PJRTBuffer <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  check_unused(...)
  if (!is.null(dtype) && !identical(.Call(ffi_dtype_canonical, dtype), elt_type(data))) {
    abort_input("Must use the same data type as the data.")
  }
  if (!is.null(device) && as_pjrt_device(device) != device(data)) {
    abort_input("Must use the same device as the data; copy_buffer() moves a buffer.")
  }
  if (!is.null(shape) && !(is.numeric(shape) && identical(as.double(shape), as.double(shape(data))))) {
    abort_input("Must use the same shape as the data.")
  }
  data
}

#' @export
pjrt_buffer.default <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  abort_no_data(data)
}

abort_no_data <- function(data) {
  hints <- if (is.factor(data)) {
    "Use as.integer() for a factor's codes."
  } else if (is.data.frame(data)) {
    "Use as.matrix() on columns of one type."
  } else if (is.object(data) && is.numeric(unclass(data))) {
    "Use as.numeric() or as.integer() for the numbers behind it."
  } else if (is.list(data)) {
    "Use unlist(), or create one buffer for each element."
  } else {
    "Convert it to numbers first."
  }
  abort_input(
    "`data` must be a logical, integer, double, complex, integer64 or raw vector, not an object of class <",
    paste(class(data), collapse = "/"), ">.",
    hints = hints
  )
}

#' @rdname pjrt_buffer
#' @export
pjrt_scalar <- function(data, dtype = NULL, device = NULL, check = FALSE, ...) {
  if (!is.object(data) && is.numeric(data) && ...length() == 0L) {
    .Call(ffi_buffer_scalar, data, dtype, device, check)
  } else {
    UseMethod("pjrt_scalar")
  }
}

#' @export
pjrt_scalar.numeric <- function(data, dtype = NULL, device = NULL, check = FALSE, ...) {
  check_unused(...)
  .Call(ffi_buffer_scalar, data, dtype, device, check)
}

#' @export
pjrt_scalar.integer <- pjrt_scalar.numeric

#' @export
pjrt_scalar.logical <- pjrt_scalar.numeric

#' @export
pjrt_scalar.complex <- pjrt_scalar.numeric

#' @export
pjrt_scalar.integer64 <- pjrt_scalar.numeric

#' @rdname pjrt_buffer
#' @export
pjrt_scalar.raw <- function(data, ..., dtype = NULL, device = NULL) {
  check_unused(...)
  if (is.null(dtype)) {
    abort_input("dtype must be provided for raw data.")
  }
  .Call(ffi_buffer_from_raw, data, dtype, device, integer(), TRUE)
}

#' @export
pjrt_scalar.PJRTBuffer <- function(data, dtype = NULL, device = NULL, check = FALSE, ...) {
  pjrt_buffer.PJRTBuffer(data, dtype, device, shape = integer(), check = check, ...)
}

#' @export
pjrt_scalar.default <- function(data, dtype = NULL, device = NULL, check = FALSE, ...) {
  abort_no_data(data)
}

#' @rdname pjrt_buffer
#' @export
pjrt_empty <- function(dtype, shape, device = NULL) {
  .Call(ffi_buffer_empty, dtype, shape, device)
}

#' The shape of a buffer
#'
#' @param x A `PJRTBuffer`.
#' @param ... For methods.
#' @return The dimensions as an integer vector, `integer()` for a scalar.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' shape(pjrt_buffer(matrix(0, 2, 3)))
#' shape(pjrt_scalar(1))
#' @export
shape <- function(x, ...) {
  UseMethod("shape")
}

#' @export
shape.PJRTBuffer <- function(x, ...) {
  .Call(ffi_buffer_shape, x)
}

#' @export
shape.default <- function(x, ...) {
  abort_class(x, "PJRTBuffer")
}

#' @export
platform.PJRTBuffer <- function(x, ...) {
  .Call(ffi_buffer_platform, x)
}

#' Copy a buffer to a device
#'
#' Returns at once; the copy goes on while R works. Between clients of different plugins the data go through the host,
#' which takes until the buffer's content is there.
#'
#' @param buffer A `PJRTBuffer`.
#' @param device The device: anything that [as_pjrt_device()] takes.
#' @return A `PJRTBuffer` on `device`: `buffer` itself when that is where it lies.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(1:3)
#' identical(copy_buffer(x, "cpu:0"), x)
#' @export
copy_buffer <- function(buffer, device) {
  .Call(ffi_buffer_copy, buffer, as_pjrt_device(device))
}
