#' Map arrays in files
#'
#' `pjrt_map_file()` makes a buffer from an array that a file contains as plain numbers, written by [writeBin()],
#' NumPy's `tofile()` or `memmap`, C or Fortran. The numbers do not pass through R. On a CPU, the buffer is the file's
#' own memory: nothing is read before a program uses it, and the file may be larger than the machine's memory.
#'
#' To work on a large file, map it in parts and run a program on each. Parts whose offset is a multiple of 64 bytes are
#' used in place, if they have at least 32 kB. All other parts, and parts for devices with separate memory, are read
#' once. If a program donates a mapped buffer, it works on a copy: files are never modified. A file that changes while
#' it is in use raises an error: see [pjrt_load_safetensors()].
#'
#' Without `dtype`, the file must be a NumPy `.npy` file, which contains the type, the shape and the order of its array.
#' `shape` and `offset` then select a part of its data.
#'
#' @param path A string, the path of a file.
#' @param dtype A string, the type of the elements: see [pjrt_buffer()]. Numbers are in the machine's byte
#'   order, and each element narrower than a byte takes a whole byte. `NULL` for `.npy` files.
#' @param shape A vector of whole numbers, the dimensions. One of them may be `NA` or -1: it becomes as large as
#'   the rest of the file allows. `NULL` for all of a `.npy` file.
#' @param offset A whole number: how many bytes to skip, from the start of the file, or of the data in a
#'   `.npy` file.
#' @param row_major A flag: whether the last index varies fastest, as in C and Python. `FALSE` is R's and
#'   Fortran's order: the elements are copied into row-major order, unless at most one dimension is larger than 1.
#'   Instead of a matrix of R, you can map its transpose, in row-major order. Ignored for `.npy` files.
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @return A `PJRTBuffer`.
#' @section Errors:
#' * `pjrt_error_shape_mismatch`: the size of the file does not fit the shape.
#' * `pjrt_error_npy_invalid`: without `dtype`, the file is not a `.npy` file, or damaged.
#' * `pjrt_error_io`: the file cannot be read.
#' * `pjrt_error_file_changed`: the file was changed while it was in use.
#' * `pjrt_error_invalid_input`: an argument is invalid, or the part begins with the header of a `.npy` file.
#' @seealso [pjrt_load_npy()] for all NumPy files, [pjrt_load_safetensors()] for models, [pjrt_buffer()] for bytes in a
#'   raw vector
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- tempfile()
#' writeBin(c(t(matrix(1:12 / 2, nrow = 4))), path)
#' pjrt_map_file(path, "f64", c(4, 3))
#' # rows 3 and 4
#' pjrt_map_file(path, "f64", c(NA, 3), offset = 2 * 3 * 8)
#' @export
pjrt_map_file <- function(path, dtype = NULL, shape = NULL, offset = 0, row_major = TRUE, device = NULL) {
  check_string(path, "path")
  check_flag(row_major, "row_major")
  if (!is.null(dtype) && is.null(shape)) {
    abort_input("`shape` must be given with `dtype`.", hints = "shape = NA maps all of a file as a vector.")
  }
  unknown <- NULL
  if (!is.null(shape)) {
    shape <- plain_shape(shape)
    if (is.numeric(shape) && !is.object(shape)) shape[shape %in% -1] <- NA
    check_part_shape(shape)
    unknown <- which(is.na(shape))
    shape <- replace(shape, unknown, 0L)
  }
  if (!(is_whole_number(offset) && offset >= 0 && offset <= 2^53)) {
    abort_type("`offset` must be a whole number of bytes from 0 to 2^53, not ", given(offset), ".")
  }
  if (is.null(dtype) && is.null(shape) && offset > 0) {
    abort_input("`shape` must be given with `offset`.")
  }
  call_with_text(
    ffi_map_array, full_path(path), dtype, shape, c(unknown, 0L)[[1L]], as.double(offset), row_major,
    as_pjrt_device(device)
  )
}

# A shape with numbers from 0 on. One of them may be missing.
check_part_shape <- function(shape) {
  is_plain <- (is.numeric(shape) || identical(shape, NA)) && !is.object(shape)
  known <- if (is_plain) shape[!is.na(shape)]
  if (
    !is_plain || sum(is.na(shape)) > 1L || any(is.nan(shape)) || any(known != trunc(known) | known < 0 | known > 2^53)
  ) {
    abort_type("`shape` must be a vector of whole numbers from 0 to 2^53, with at most one NA, not ", given(shape), ".")
  }
}
