#' Create a buffer
#'
#' A buffer is an array on a device. `pjrt_buffer()` makes one from an R vector or array, `pjrt_scalar()` from a single
#' value. `pjrt_empty()` makes a buffer of zeros (of 2^-127 in `f8e8m0fnu`, which has no zero). All return before the
#' data are on the device, and you can use the buffer at once.
#'
#' Doubles become `f32` by default, which has about 7 digits. This is right for neural networks and most simulations.
#' Use `dtype = "f64"`, R's own precision, for statistics: linear models, optimization, sums of many numbers, dates, and
#' whenever results are compared with R's. `options(pjrt.default_float = "f64")` makes it the default.
#'
#' Element `x[i, j]` of the R array is element (i - 1, j - 1) of the buffer. Changing the R object later does not change
#' the buffer. Names, dimnames and other attributes are dropped. Only `print()` knows the column names of a data frame
#' or matrix; results of programs have none.
#'
#' @section Element types:
#' | R data | default dtype | other dtypes |
#' |---|---|---|
#' | logical | `pred` | all |
#' | integer | `i32` | all but `pred` |
#' | double | `f32` | all |
#' | [bit64::integer64] | `i64` | `ui64`, `ui32`, all floats |
#' | complex | `c64` | `c128` |
#' | raw | must be given | all: the bytes of the elements |
#'
#' Integer types are `i2`, `i4`, `i8`, `i16`, `i32`, `i64` and, unsigned, `ui2`, `ui4`, `ui8`, `ui16`, `ui32`, `ui64`.
#' Floats are `f64`, `f32`, `f16`, `bf16`, `f8e5m2`, `f8e4m3`, `f8e4m3fn`, `f8e3m4`, `f8e5m2fnuz`, `f8e4m3fnuz`,
#' `f8e4m3b11fnuz`, `f8e8m0fnu` and `f4e2m1fn`. In raw data, each element narrower than a byte takes a whole byte.
#' Common aliases work as well: `"bool"`, `"int32"`, `"s32"`, `"uint8"`, `"float32"`, `"double"`, `"half"`,
#' `"bfloat16"`, `"float8_e4m3fn"`, `"complex64"` and so on.
#'
#' Python arrays (NumPy, JAX, PyTorch) that reticulate passes keep their type, and are not copied if they are aligned:
#' see [as_dlpack()].
#'
#' Time series, tables and data frames of numbers are treated as arrays. The columns of a data frame get one type, as in
#' [cbind()]; 64-bit integers beside doubles become doubles. Factors, dates, times, sparse matrices, lists and strings
#' raise errors that say how to convert them.
#'
#' @section What a dtype cannot hold:
#' * `NA` becomes NaN in floats and complex types. In `f64` and `c128` it stays R's `NA`. NaN stays NaN.
#' * Integers, `pred` and `f4e2m1fn` have no missing values: `NA` becomes a number, with a warning of class
#'   `pjrt_warning_na` that shows how many values are missing and which is the first. An integer `NA` becomes
#'   -2147483648, the number that R stores for it, or its last bits in narrower types. A double `NA` or NaN becomes the
#'   type's smallest value, which is 0 in unsigned types. In `pred`, both become `TRUE`. Large vectors are searched in
#'   the background, so a later call of this package may raise the warning.
#' * Integers wrap into narrower integers, as in C. [bit64::integer64] values wrap into `ui64` and `ui32`.
#' * Doubles are truncated towards zero and clamped to the range of an integer type.
#' * Floats are rounded once, to nearest, ties to even. Numbers that are too large become infinite. Formats without
#'   infinity (`fn`, `fnuz`) use NaN instead; `f4e2m1fn`, which has neither, uses its largest value, and zero for NaN.
#'   `f8e8m0fnu` has only powers of two: zero and negative numbers become NaN.
#'
#' With `check = TRUE`, all of these are errors. So is an integer that a float cannot hold exactly, such as 16777217L in
#' `f32`. The message shows how many values are missing or do not fit, and which is the first. NaN is a valid float, and
#' rounding or truncating a fraction is not an error. `options(pjrt.check = TRUE)` makes it the default, here and where
#' buffers are read, as in [as_array()] and `x[i]`.
#'
#' @section Time and memory:
#' Small arrays are copied at once. Large ones are converted and reordered in one pass, on several threads. From about
#' 8 MB on this happens in the background: the call returns at once, and anything that needs the buffer waits for it.
#'
#' A device that shares R's memory, such as the CPU, uses a large vector without a copy if it needs no conversion
#' (double to `f64`, integer to `i32`, [bit64::integer64] to `i64` or `ui64`, complex to `c128`, raw) and no reordering
#' (a vector, a matrix of one row or column, raw data in row-major order), and its address is suitably aligned. R then
#' keeps the vector as long as the device needs it, and copies it before you modify it, as it does with any shared
#' vector. Do not use functions that modify such a vector by reference, such as `data.table::set()`. See
#' [pjrt_memory_stats()].
#'
#' @param data A logical, integer, double, complex, [bit64::integer64] or raw vector or array. A `PJRTBuffer` is
#'   returned unchanged if it has the requested dtype, device and shape.
#' @param dtype A string: one of the element types below. The error for an unknown type lists them all.
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @param shape A vector of whole numbers: the dimensions; `integer()` makes a scalar. One of them may be -1: as large
#'   as the others allow for the data. Default: the dimensions of `data`, or its length. A single value fills any shape.
#' @param check A flag. If `TRUE`, missing values and values that the dtype cannot hold are errors. Default, also for
#'   `NULL`: `getOption("pjrt.check")`, or `FALSE`.
#' @param row_major A flag, for raw data: whether the bytes are in row-major order (last index fastest) or in R's order.
#'   A raw matrix or array has its own dimensions and R's order.
#' @param copy For Python arrays: whether to copy them. See [pjrt_from_dlpack()].
#' @param ... For methods. Anything else is an error.
#' @return A `PJRTBuffer`.
#' @section Errors:
#' * `pjrt_error_unsupported_dtype`: the data cannot be converted to the dtype.
#' * `pjrt_error_shape_mismatch`: the data do not fit the shape.
#' * `pjrt_error_invalid_input`: any other bad argument.
#' * `pjrt_error_resource_exhausted`: not enough memory.
#' @seealso [as_array()], [pjrt_execute()], [shape()], [elt_type()], [device()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(1:6, nrow = 2))
#' x
#' as_array(x)
#' pjrt_buffer(0, shape = c(2, 2), dtype = "f64")
#' pjrt_buffer(c(0.1, 448, 1e6), dtype = "f8e4m3fn")
#' pjrt_buffer(head(airquality$Ozone), dtype = "f64")
#' pjrt_scalar(3L)
#' pjrt_empty("i32", shape = c(2, 3))
#' pjrt_buffer(as.raw(1:4), dtype = "ui8", shape = 4, row_major = TRUE)
#' @export
pjrt_buffer <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  # a fast path for plain numbers: S3 dispatch takes as long as the rest
  if (!is.object(data) && is.numeric(data) && ...length() == 0L) {
    buffer <- .Call(ffi_buffer_new, data, dtype, device, shape, if (!missing(check)) check)
    if (is.null(dimnames(data))) buffer else with_column_names(buffer, data)
  } else {
    UseMethod("pjrt_buffer")
  }
}

#' @export
pjrt_buffer.numeric <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  check_unused(...)
  buffer <- .Call(ffi_buffer_new, data, dtype, device, shape, if (!missing(check)) check)
  with_column_names(buffer, data)
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
#' @usage
#' \method{pjrt_buffer}{raw}(
#'   data, ..., dtype = NULL, device = NULL, shape = NULL, row_major
#' )
#' @export
pjrt_buffer.raw <- function(data, ..., dtype = NULL, device = NULL, shape = NULL, row_major) {
  by_name <- "Raw data take named arguments: pjrt_buffer(data, dtype = \"f32\", shape = c(2, 3), row_major = TRUE)."
  has_dims <- !is.null(dim(data))
  lacking <- c(
    if (is.null(dtype)) "dtype", if (is.null(shape) && !has_dims) "shape",
    if (missing(row_major) && !has_dims) "row_major"
  )
  check_unused(..., hints = c(if (length(lacking) > 0L) sprintf("Missing: %s.", quoted_list(lacking)), by_name))
  if (is.null(shape) && has_dims) {
    # the bytes of an array of R
    shape <- dim(data)
    row_major <- if (missing(row_major)) FALSE else row_major
  }
  if (is.null(shape)) {
    abort_input("shape must be provided for raw data.", hints = by_name)
  }
  if (is.null(dtype)) {
    abort_input("dtype must be provided for raw data.", hints = by_name)
  }
  if (missing(row_major)) {
    abort_input("row_major must be provided for raw data: TRUE if the last index varies fastest, else FALSE.")
  }
  .Call(ffi_buffer_from_raw, data, dtype, device, shape, row_major)
}

#' @export
pjrt_buffer.PJRTBuffer <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  check_unused(...)
  if (!is.null(check)) check_flag(check, "check")
  if (!has_dtype(data, dtype)) {
    abort_input("Must use the same data type as the data.")
  }
  if (!is.null(device) && as_pjrt_device(device) != device(data)) {
    abort_input("Must use the same device as the data.", hints = "copy_buffer() copies a buffer to another device.")
  }
  if (!has_shape(data, shape)) {
    abort_input(
      "Must use the same shape as the data: ", format(data), ".", class = c("shape_mismatch", "invalid_value")
    )
  }
  data
}

#' @export
pjrt_buffer.default <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  plain <- plain_data(data) %||% abort_not_data(data)
  check_unused(...)
  buffer <- .Call(ffi_buffer_new, plain, dtype, device, shape, if (!missing(check)) check)
  with_column_names(buffer, data)
}

# Keeps the column names of a data frame or matrix for print(). A column of several has no name for each.
with_column_names <- function(buffer, data) {
  names <- if (is.data.frame(data)) names(data) else if (length(dim(data)) == 2L) dimnames(data)[[2L]]
  if (!is.null(names) && length(shape(buffer)) == 2L && shape(buffer)[[2L]] == length(names)) {
    attr(buffer, "column_names") <- names
  }
  buffer
}

# Whether a buffer has what the user wants; NULL is any.
has_dtype <- function(buffer, dtype) {
  is.null(dtype) || identical(.Call(ffi_dtype_canonical, dtype), elt_type(buffer))
}

has_shape <- function(buffer, shape) {
  shape <- plain_shape(shape)
  own <- as.double(shape(buffer))
  if (is.numeric(shape) && length(shape) == length(own) && sum(shape %in% -1) == 1L) {
    own[shape %in% -1] <- -1
  }
  is.null(shape) || is.numeric(shape) && identical(as.double(shape), own)
}

# Classes whose objects are arrays of numbers with other attributes.
array_classes <- c("ts", "mts", "table", "xtabs", "AsIs", "noquote", "matrix", "array")

# Objects that mean an array of numbers, as that; NULL for others.
plain_data <- function(data) {
  if (is.data.frame(data)) {
    return(plain_columns(data))
  }
  if (
    isS4(data) || !(is.numeric(data) || is.logical(data) || is.complex(data)) || !all(oldClass(data) %in% array_classes)
  ) {
    return(NULL)
  }
  structure(as.vector(data), dim = dim(data))
}

# The matrix of a data frame of numbers, with the type that R's rules give for all columns; NULL for others.
plain_columns <- function(data) {
  columns <- lapply(data, plain_column)
  if (length(columns) == 0L || any(vapply(columns, is.null, NA))) {
    return(NULL)
  }
  is_long <- vapply(columns, inherits, NA, "integer64")
  # bit64's own rules for a mix do not hold for all its functions
  all_long <- !any(vapply(columns[!is_long], function(x) is.double(x) || is.complex(x), NA))
  if (any(is_long)) {
    load_bit64()
    columns <- lapply(columns, if (all_long) as_long_bits else as_doubles)
  }
  found <- do.call(cbind, unname(columns))
  if (any(is_long) && all_long) structure(found, class = "integer64") else found
}

plain_column <- function(x) {
  if (inherits(x, "integer64") && is.null(dim(x))) x else if (!is.data.frame(x)) plain_data(x)
}

# The bits of 64-bit integers, in doubles.
as_long_bits <- function(x) {
  bits <- unclass(bit64::as.integer64(x))
  if (!is.null(dim(x))) dim(bits) <- dim(x)
  bits
}

as_doubles <- function(x) {
  if (inherits(x, "integer64")) as.double(x) else x
}

abort_not_data <- function(data) {
  abort_type(
    "`data` must be a logical, integer, double, complex, integer64 or raw vector, not ", given(data), ".",
    hints = conversion_advice(data)
  )
}

# How to convert an object that is not an array of numbers.
conversion_advice <- function(data) {
  if (inherits(data, "python.builtin.object")) {
    "pjrt_buffer(x) reads an array of Python, with its own type."
  } else if (is.factor(data)) {
    "as.integer(x) gives a factor's codes, and model.matrix(~ x - 1) a column for each level."
  } else if (inherits(data, "Date")) {
    "as.numeric(x) gives the days since 1970-01-01."
  } else if (inherits(data, "POSIXct")) {
    "as.numeric(x) gives the seconds since 1970-01-01. They need dtype = \"f64\"."
  } else if (inherits(data, "POSIXlt")) {
    "as.numeric(as.POSIXct(x)) gives the seconds since 1970-01-01. They need dtype = \"f64\"."
  } else if (inherits(data, "difftime")) {
    "as.numeric(x, units = \"secs\") gives seconds."
  } else if (is.data.frame(data)) {
    column_advice(data)
  } else if (inherits(data, "PJRTArrayPromise")) {
    "value(x) waits for the promise and returns its array."
  } else if (isS4(data) && inherits(data, c("Matrix", "sparseVector"))) {
    if (inherits(data, "sparseVector")) "as.numeric(x) gives a dense vector." else "as.matrix(x) gives a dense matrix."
  } else if (is.object(data) && typeof(data) %in% c("integer", "double")) {
    "as.numeric(x) or as.integer(x) gives plain numbers."
  } else if (is.list(data)) {
    "Use unlist(x), or create one buffer per element."
  } else if (is.character(data)) {
    "as.numeric(x) reads numbers. For categories, as.integer(factor(x)) gives codes."
  } else {
    "Convert it to numbers first."
  }
}

# How to convert the first column of a data frame that is not of numbers.
column_advice <- function(data) {
  is_bad <- vapply(data, function(x) is.null(plain_column(x)), NA)
  if (!any(is_bad)) {
    return("The data frame has no columns.")
  }
  column <- data[[which(is_bad)[[1L]]]]
  name <- deparse1(names(data)[is_bad][[1L]])
  c(
    sprintf(
      "Column %s is %s: convert x[[%s]], or leave it out, as in x[setdiff(names(x), %s)].", name, given(column), name,
      name
    ),
    gsub("\\bx\\b", sprintf("x[[%s]]", name), conversion_advice(column))
  )
}

#' @rdname pjrt_buffer
#' @export
pjrt_scalar <- function(data, dtype = NULL, device = NULL, check = FALSE, ...) {
  if (!is.object(data) && is.numeric(data) && ...length() == 0L) {
    .Call(ffi_buffer_scalar, data, dtype, device, if (!missing(check)) check)
  } else {
    UseMethod("pjrt_scalar")
  }
}

#' @export
pjrt_scalar.numeric <- function(data, dtype = NULL, device = NULL, check = FALSE, ...) {
  check_unused(...)
  .Call(ffi_buffer_scalar, data, dtype, device, if (!missing(check)) check)
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
  data <- plain_data(data) %||% abort_not_data(data)
  check_unused(...)
  .Call(ffi_buffer_scalar, data, dtype, device, if (!missing(check)) check)
}

#' @rdname pjrt_buffer
#' @export
pjrt_empty <- function(dtype, shape, device = NULL) {
  .Call(ffi_buffer_empty, dtype, shape, device)
}

# Also of a buffer that was deleted or is of another session.
is_buffer <- function(x) {
  typeof(x) == "externalptr" && inherits(x, "PJRTBuffer")
}

#' Get the shape of a buffer
#'
#' @param x A `PJRTBuffer`.
#' @param ... For methods.
#' @return An integer vector: the dimensions; `integer()` for a scalar.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' shape(pjrt_buffer(matrix(0, 2, 3)))
#' shape(pjrt_scalar(1))
#' @export
shape <- function(x, ...) {
  found <- if (...length() == 0L) .Call(ffi_fast_shape, x)
  if (is.null(found)) UseMethod("shape") else found
}

#' @export
shape.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  .Call(ffi_buffer_shape, x)
}

#' @export
shape.default <- function(x, ...) {
  pass_on("shape", x, "PJRTBuffer", ...)
}

#' @export
platform.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  .Call(ffi_buffer_platform, x)
}

#' Copy a buffer to a device or a memory space
#'
#' `copy_buffer()` returns at once; the copy continues in the background. A copy between clients of different plugins
#' goes through the host and waits for the buffer's content.
#'
#' @param buffer A `PJRTBuffer`.
#' @param device A device: anything that [as_pjrt_device()] takes; or a memory space from [memory_spaces()].
#' @return A `PJRTBuffer` on the device or in the memory space. This is `buffer` itself if it is already there.
#' @section Errors:
#' `pjrt_error_invalid_input` if `device` is not a device, `pjrt_error_invalid_pointer` if `buffer` is not a buffer,
#' `pjrt_error_deleted_buffer` if the buffer was donated or deleted.
#' @seealso [devices()], [memory_space()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(1:3)
#' identical(copy_buffer(x, "cpu:0"), x)
#' copy_buffer(x, memory_spaces(device(x))[[2]])
#' @export
copy_buffer <- function(buffer, device) {
  if (inherits(device, "PJRTMemory")) {
    .Call(ffi_buffer_copy_to_memory, buffer, device)
  } else {
    .Call(ffi_buffer_copy, buffer, as_pjrt_device(device))
  }
}
