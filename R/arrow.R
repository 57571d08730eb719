#' Create buffers from Arrow arrays
#'
#' `pjrt_buffer()` accepts arrays of the packages nanoarrow and arrow, through Arrow's C data interface. With
#' reticulate, it also accepts Python objects with `__arrow_c_array__()`, such as arrays of pyarrow.
#'
#' Numbers of 8 to 64 bits keep their type; truth values become `pred`. Lists of one length
#' (`fixed_size_list`) add a dimension. Missing values become NaN in floats, and are an error in other
#' types. Strings, dates, decimals, dictionaries and tables are errors: convert them in Arrow first, and
#' take columns one by one.
#'
#' On a CPU, the buffer uses Arrow's memory without a copy if the address of the first number is a multiple of 64, as
#' Arrow recommends, and no value is missing. Arrow keeps the memory as long as the device needs it, even if the array
#' is removed. It must not be modified.
#'
#' @param data An array of nanoarrow, or an array or chunked array of arrow. A chunked array must have one
#'   chunk.
#' @param dtype,shape The array's own type and shape, or `NULL`: arrays are not converted.
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @param check Ignored: nothing is lost.
#' @param ... Anything else is an error.
#' @return A `PJRTBuffer`. An array has one dimension, its length, and lists have more.
#' @section Errors:
#' * `pjrt_error_unsupported_dtype`: the elements are not numbers.
#' * `pjrt_error_invalid_input`: missing values in integers; arrays that were released; other arguments.
#' @seealso [pjrt_buffer()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' if (requireNamespace("nanoarrow", quietly = TRUE)) {
#'   pjrt_buffer(nanoarrow::as_nanoarrow_array(c(1.5, NA, 3)))
#' } else {
#'   cat("This needs the package nanoarrow.\n")
#' }
#' @name arrow
#' @export
pjrt_buffer.nanoarrow_array <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  check_unused(...)
  export <- function(to) {
    nanoarrow::nanoarrow_pointer_export(data, to$array)
    nanoarrow::nanoarrow_pointer_export(nanoarrow::infer_nanoarrow_schema(data), to$schema)
  }
  from_arrow(export, dtype, device, shape)
}

#' @rdname arrow
#' @export
pjrt_buffer.ArrowDatum <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...) {
  check_unused(...)
  if (inherits(data, "ChunkedArray")) {
    if (data$num_chunks != 1L) {
      abort_input(
        "`data` must have one chunk, not ", data$num_chunks, ".",
        hints = "arrow::concat_arrays() makes one array of chunks."
      )
    }
    data <- data$chunk(0L)
  }
  from_arrow(function(to) data$export_to_c(to$array, to$schema), dtype, device, shape)
}

# Whether a Python object is an array of Arrow, and not one of another library that also offers itself to Arrow.
is_arrow_in_python <- function(x) {
  inherits(x, "pyarrow.lib.Array") ||
    !reticulate::py_has_attr(x, "__dlpack__") && reticulate::py_has_attr(x, "__arrow_c_array__")
}

# Capsules own the structs until they are moved.
from_arrow_in_python <- function(x, dtype, device, shape) {
  device <- as_pjrt_device(device)
  lent <- call_python(python_module()$lend_arrow(x))
  check_as_it_is(take_arrow(lent[[1L]], lent[[2L]], device), dtype, shape)
}

# The buffer of an array that `export` moves into room for it.
from_arrow <- function(export, dtype, device, shape) {
  device <- as_pjrt_device(device)
  room <- call_native(ffi_arrow_room)
  export(room)
  buffer <- take_arrow(room$array, room$schema, device)
  check_as_it_is(buffer, dtype, shape)
}

# The buffer of the array and its type at these addresses, in digits. Wrong ones crash R.
take_arrow <- function(array, schema, device = as_pjrt_device(NULL)) {
  call_with_text(ffi_arrow_take, array, schema, device)
}

# Checks that a buffer has the type and shape that the user wants.
check_as_it_is <- function(buffer, dtype, shape) {
  if (!has_dtype(buffer, dtype)) {
    abort_input(
      "The array has elements of type ", elt_type(buffer), ", not ", dtype_text(dtype), ".",
      hints = "Cast it in Arrow first."
    )
  }
  if (!has_shape(buffer, shape)) {
    abort_input("The array has another shape: ", paste(shape(buffer), collapse = "x"), ".", class = "shape_mismatch")
  }
  buffer
}
