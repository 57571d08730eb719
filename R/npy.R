#' Load NumPy files
#'
#' `pjrt_load_npy()` loads the array of a `.npy` file, or the arrays of a `.npz` file, as buffers. In Python,
#' `numpy.save(path, x)` writes the former, and `numpy.savez(path, w=w, b=b)` the latter. The content of the file
#' determines its format, not its name.
#'
#' Arrays do not pass through R's memory. On a CPU, an array whose data begin at a multiple of 64 bytes is memory-mapped
#' and not copied; its pages are read on first use. This is true for `.npy` files, which NumPy aligns, and only by
#' chance for arrays in `.npz` files. All others are read once, by several threads. If a program donates a mapped
#' buffer, it works on a copy: files are never modified. See [pjrt_load_safetensors()] for files that change while they
#' are in use.
#'
#' Arrays that Python stores in Fortran order are transposed, and big-endian numbers are converted, so that every buffer
#' is in row-major order with the indices of Python. Compressed arrays, of `numpy.savez_compressed()`, are inflated.
#' Every array of an archive is checked by its checksum. A warning names the members of an archive that are not arrays.
#'
#' @section Types:
#' `bool`, integers of 8 to 64 bits, `float16`, `float32`, `float64`, `complex64` and `complex128`, and `float8_e5m2`.
#' NumPy has no `bfloat16` and no other small types. It writes only the size of their elements, so you must pass their
#' type in `dtype`. Pickled Python objects, text, dates and structured arrays cannot be loaded.
#'
#' @param path A string, the path of a file.
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @param names A character vector, the names of arrays in a `.npz` file. Default: all. Other arrays are not read.
#' @param dtype A string, the type of elements that the file does not name, such as `"bf16"`. Arrays of other types keep
#'   theirs.
#' @return For a `.npy` file, a `PJRTBuffer`. For a `.npz` file, a named list of `PJRTBuffer`s, in the order of `names`
#'   or of the file. Of several arrays with one name, the last counts, as in NumPy.
#' @section Errors:
#' * `pjrt_error_npy_invalid`: the file is damaged, or not a file of NumPy.
#' * `pjrt_error_unsupported_dtype`: PJRT lacks the elements' type, or `dtype` is needed.
#' * `pjrt_error_io`: the file cannot be read.
#' * `pjrt_error_file_changed`: the file was changed while it was in use.
#' * `pjrt_error_invalid_input`: an argument is invalid. This includes a `dtype` that is not the type of any array.
#' @seealso [pjrt_load_safetensors()]; [pjrt_load_exported()] for PyTorch models, whose weights are such files
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' folder <- system.file("exported", "iris-torch", package = "pjrt")
#' pjrt_load_npy(file.path(folder, "data", "0.bias"))
#' @export
pjrt_load_npy <- function(path, device = NULL, names = NULL, dtype = NULL) {
  check_string(path, "path")
  check_array_names(names)
  device <- as_pjrt_device(device)
  loaded <- call_with_text(
    ffi_npy_load, full_path(path), device, if (!is.null(names)) as_utf8(names), dtype, shows_progress(),
    console_columns()
  )
  if (is.null(names) && length(loaded$others) > 0L) {
    warn(
      "'", path, "' also has ", counted(length(loaded$others), "member"), " that ",
      if (length(loaded$others) == 1L) "is" else "are", " not an array of NumPy: ", quoted_list(loaded$others), "."
    )
  }
  if (is.null(loaded$names)) loaded$buffers[[1L]] else structure(loaded$buffers, names = loaded$names)
}

check_array_names <- function(names) {
  valid <- is.null(names) || (is.character(names) && !is.object(names) && !anyNA(names) &&
    all(validEnc(names) & Encoding(names) != "bytes") && anyDuplicated(names) == 0L)
  if (!valid) {
    abort_type("`names` must be NULL, or unique names of arrays, not ", given(names), ".")
  }
}
