#' Share arrays with other libraries
#'
#' @description
#' DLPack is a protocol with which array libraries share arrays without copying them. `as_dlpack()` lends a buffer to
#' another library, and `pjrt_from_dlpack()` makes a buffer from another library's array.
#'
#' With the reticulate package, buffers and the arrays of NumPy, JAX, PyTorch and other Python libraries convert
#' directly:
#' * `reticulate::r_to_py(buffer)` is an object with `__dlpack__()`, which `numpy.from_dlpack()`,
#'   `jax.numpy.from_dlpack()` and `torch.from_dlpack()` take. Python functions get it when you pass them a buffer.
#' * `pjrt_buffer(array)` and `pjrt_from_dlpack(array)` take any Python array with `__dlpack__()`.
#'
#' @section Memory:
#' An exported buffer and its array share memory, on CPUs and GPUs. You may drop either one first: the memory is freed
#' when both are gone. `pjrt_delete()` frees it when the other library has released the array. If a program donates the
#' buffer, it works on a copy, and the array keeps its values. `as_dlpack()` waits for the buffer's content.
#'
#' An imported array is used in place if it is dense, in row-major order and, on a CPU, if its data begin at a multiple
#' of 64 bytes. Arrays of JAX and PyTorch are aligned like this; large NumPy arrays only by chance. Other arrays are
#' copied once. Programs never write to an imported array: if one donates the buffer, it works on a copy.
#'
#' An array that is used in place must not be modified while the buffer is in use, since programs may read it at any
#' time. Use `copy = TRUE` if you will modify it.
#'
#' An array in the memory of a file (see [pjrt_map_file()]) does not notice when the file changes: only the buffer
#' itself raises `pjrt_error_file_changed`.
#'
#' After R has collected the buffer, the next call of a function of this package releases the other library's array.
#'
#' @section Read-only arrays:
#' Buffers are immutable, so the exported array is marked as read-only. NumPy and JAX respect that. PyTorch does not
#' have read-only tensors: do not modify a tensor that is a buffer's memory. DLPack before version 1.0 (`versioned =
#' FALSE`) has no such mark, so its consumers must not write, either. With `copy = TRUE`, the array is a copy that its
#' consumer may modify.
#'
#' @section Types:
#' All types with at least 8 bits, that is all but `i2`, `i4`, `ui2`, `ui4` and `f4e2m1fn`. The other library may have
#' fewer: NumPy, for example, has no `bf16`.
#'
#' @section GPUs:
#' An exported array is complete, so it can be used on any stream. An imported array is taken on the stream that the
#' plugin names, as `__dlpack__(stream = )` of the Python array API standard requires.
#'
#' @param x For `as_dlpack()`, a `PJRTBuffer`. For `pjrt_from_dlpack()`, the value of `as_dlpack()`, or a Python object
#'   that has `__dlpack__()` or is a DLPack capsule.
#' @param device A device: anything that [as_pjrt_device()] takes. Default: the default device for arrays in host
#'   memory, otherwise the device that the array is on.
#' @param copy A flag. `TRUE` makes a copy, in host memory for `as_dlpack()`. `FALSE` never does: an error says why the
#'   array cannot be used in place. `NULL`, the default of `pjrt_from_dlpack()`, copies only if needed.
#' @param versioned A flag: whether to use the struct of DLPack 1.0, which has a version and flags, or the older one.
#' @param ... For methods.
#' @return `as_dlpack()` returns a `PJRTDLPack`, which can be used once, by `pjrt_from_dlpack()` or as a Python capsule
#'   by `reticulate::r_to_py()`. If nobody uses it, R releases the array. `pjrt_from_dlpack()` returns a `PJRTBuffer`.
#' @section Errors:
#' * `pjrt_error_unsupported_dtype`: the type has no counterpart.
#' * `pjrt_error_device_mismatch`: the array is in memory that the device cannot use.
#' * `pjrt_error_invalid_input`: the array was used already, or needs a copy but `copy` is `FALSE`.
#' @seealso [pjrt_buffer()], `vignette("python")` (see [pjrt_articles])
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(1:6, nrow = 2))
#' lent <- as_dlpack(x)
#' lent
#' y <- pjrt_from_dlpack(lent)
#' as_array(y)
#' @examplesIf pjrt::plugins_downloaded("cpu") && requireNamespace("reticulate") && reticulate::py_numpy_available()
#' numpy <- reticulate::import("numpy", convert = FALSE)
#' numpy$from_dlpack(pjrt_buffer(matrix(1:6, nrow = 2)))
#' pjrt_buffer(numpy$ones(c(2L, 3L), dtype = "float32"))
#' @export
as_dlpack <- function(x, ...) {
  UseMethod("as_dlpack")
}

#' @rdname as_dlpack
#' @export
as_dlpack.PJRTBuffer <- function(x, ..., copy = FALSE, versioned = TRUE) {
  check_unused(...)
  .Call(ffi_dlpack_export, x, versioned, copy)
}

#' @export
as_dlpack.default <- function(x, ...) {
  pass_on("as_dlpack", x, "PJRTBuffer", ...)
}

#' @rdname as_dlpack
#' @export
pjrt_from_dlpack <- function(x, device = NULL, copy = NULL) {
  UseMethod("pjrt_from_dlpack")
}

#' @export
pjrt_from_dlpack.PJRTDLPack <- function(x, device = NULL, copy = NULL) {
  .Call(ffi_dlpack_import, x, device, copy)
}

#' @export
pjrt_from_dlpack.python.builtin.object <- function(x, device = NULL, copy = NULL) {
  if (any(grepl("^numpy\\.ma\\.", class(x)))) {
    abort_input(
      "`x` is a masked array of NumPy: a buffer has no mask.",
      hints = "In Python, x.astype(float).filled(numpy.nan) gives an array of floats, and x.data one without the mask."
    )
  }
  .Call(ffi_dlpack_import, take_from_python(x, device), device, copy)
}

#' @export
pjrt_from_dlpack.default <- function(x, device = NULL, copy = NULL) {
  abort_type("`x` must be a `PJRTDLPack` or a Python array with `__dlpack__()`, not ", given(x), ".")
}

#' @rdname pjrt_buffer
#' @export
pjrt_buffer.python.builtin.object <- function(data, dtype = NULL, device = NULL, shape = NULL, check = FALSE, ...,
                                              copy = NULL) {
  if (is_arrow_in_python(data)) {
    check_unused(...)
    return(from_arrow_in_python(data, dtype, device, shape))
  }
  buffer <- pjrt_from_dlpack(data, device, copy)
  if (!has_dtype(buffer, dtype)) {
    abort_input(
      "`data` is a Python array of type ", as.character(elt_type(buffer)), ", not ", dtype_text(dtype),
      ": such arrays are not converted.",
      hints = "Convert it in Python first, as with astype() in NumPy and JAX or to() in PyTorch."
    )
  }
  pjrt_buffer.PJRTBuffer(buffer, NULL, NULL, shape, check, ...)
}

#' @export
format.PJRTDLPack <- function(x, ...) {
  dead <- dead_text(x, "PJRTDLPack")
  if (!is.null(dead)) {
    return(dead)
  }
  array <- call_native(ffi_dlpack_describe, x)
  if (array$used) {
    return("<PJRTDLPack: used>")
  }
  sprintf(
    "<PJRTDLPack: %s%s in %s memory%s%s>", array$dtype, shape_text(array$shape), array$place,
    if (array$read_only) ", read-only" else "", if (array$versioned) "" else ", without version"
  )
}

#' @export
print.PJRTDLPack <- function(x, ...) {
  print_lines(x)
}

# The device that a DLPack array is on. Called by the native code.
device_of_dlpack <- function(x) {
  array <- call_native(ffi_dlpack_describe, x)
  device_for_place(array$kind, array$id, array$place)
}

device_for_place <- function(kind, id, place) {
  platform <- if (kind == 2L) "cuda" else if (kind == 10L) "rocm"
  if (is.null(platform)) {
    pjrt_abort(
      paste0("The array is in ", place, " memory, which this package cannot use."), "device_mismatch",
      hints = "Copy it to host memory in the library that made it."
    )
  }
  found <- Filter(function(device) device_info(device)$local_hardware_id == id, devices(platform))
  if (length(found) == 0L) {
    pjrt_abort(
      sprintf("The array is on device %d of platform %s, which the client lacks.", id, platform), "device_mismatch"
    )
  }
  found[[1L]]
}
