# Package safetensors reads and writes the headers of files, and lets frameworks make the tensors. This package
# registers as the framework "pjrt".

# A tensor of a file, from its bytes `raw` and its header entry `meta`.
pjrt_tensor_from_raw <- function(raw, meta, device = NULL) {
  if (!is.raw(raw)) {
    abort_type("`raw` must be a raw vector with the bytes of the tensor, not ", given(raw), ".")
  }
  if (!is.list(meta) || !is_shape(meta$shape) || any(unlist(meta$shape) < 0)) {
    abort_input("`meta` must be a list with `shape` and `dtype`, as in the header of a safetensors file.")
  }
  shape <- as.double(unlist(meta$shape))
  dtype <- .Call(ffi_dtype_from_safetensors, meta$dtype)
  if (is_packed(meta$dtype)) {
    raw <- unpack_nibbles(raw, shape)
  }
  pjrt_buffer(raw, dtype = dtype, device = device, shape = shape, row_major = TRUE)
}

is_shape <- function(x) {
  is.numeric(x) || (is.list(x) && all(vapply(x, is.numeric, NA)))
}

#' @exportS3Method safetensors::safe_tensor_buffer
safe_tensor_buffer.PJRTBuffer <- function(x, ...) {
  bytes <- as_raw(x, row_major = TRUE)
  if (is_packed(.Call(ffi_dtype_safetensors, elt_type(x)))) pack_nibbles(bytes) else bytes
}

#' @exportS3Method safetensors::safe_tensor_meta
safe_tensor_meta.PJRTBuffer <- function(x, ...) {
  list(shape = as.list(shape(x)), dtype = .Call(ffi_dtype_safetensors, elt_type(x)))
}

# The one type narrower than a byte that both the format and PJRT have. Two elements share a byte, the first in the
# lower half.
is_packed <- function(type) type == "F4"

unpack_nibbles <- function(bytes, shape) {
  if (2 * length(bytes) != prod(shape)) {
    needed <- prod(shape) / 2
    abort_input(
      sprintf(
        "Raw data has %.15g bytes, but dtype F4 with shape (%s) requires %.15g.", length(bytes), toString(shape), needed
      )
    )
  }
  c(rbind(bytes & as.raw(15L), rawShift(bytes, -4L)))
}

pack_nibbles <- function(elements) {
  if (length(elements) %% 2L == 1L) {
    abort_input("The number of f4e2m1fn elements must be even: two of them share a byte in the safetensors format.")
  }
  first <- seq_along(elements) %% 2L == 1L
  elements[first] | rawShift(elements[!first], 4L)
}
