#' Send buffers, programs and executables to other sessions
#'
#' `pjrt_serialize()` converts a buffer, program or executable to bytes, and `pjrt_deserialize()` creates it again, also in another
#' session. `pjrt_save_executable()` and `pjrt_load_executable()` use a file.
#'
#' R's own [serialize()] and [saveRDS()] cannot save these objects: what arrives is a null pointer, and using it is an error. So
#' packages that send R objects to other processes, such as parallel, future and callr, need their bytes. For nested lists, use
#' `map_tree(x, pjrt_serialize)` there and `map_tree(bytes, pjrt_deserialize)` here. mirai calls both functions by itself if you
#' configure it to; see `vignette("workers")`.
#'
#' The bytes of a buffer contain its element type, its shape and its content, for any device. Those of a program contain its code.
#' Both have a checksum.
#'
#' @section Executables:
#' Loading an executable is many times faster than compiling its program. You do not need this to save time, since
#' [pjrt_compile()] caches compiled programs; see [pjrt_cache]. Use a file to distribute an executable without its program.
#'
#' A loaded executable is equivalent to the original: it has the same inputs, donation, layouts, replicas and partitions, and the
#' same [information][executable].
#'
#' Plugins do not verify machine code. The bytes therefore contain a checksum and describe their target: the plugin's build, its
#' API version, the kind of device and, on a CPU, the processor's features. They are loaded only if they are intact and the
#' target matches; the processor may have additional features. Load files only from sources that you trust to run code.
#'
#' @param x A `PJRTBuffer`, a `PJRTProgram` or a `PJRTLoadedExecutable`. `pjrt_serialize()` waits for a buffer's content.
#' @param executable A `PJRTLoadedExecutable`, from [pjrt_compile()].
#' @param path A string: the file's path.
#' @param data A raw vector, from `pjrt_serialize()`.
#' @param device A device: anything that [as_pjrt_device()] takes; or, for a program with several replicas or partitions, a list
#'   of devices or their names. Default: the devices that it was compiled for; for a buffer, the default device.
#' @param compile_options A `PJRTCompileOptions`, from [pjrt_compile_options()]. Only `device_assignment` is used; the numbers of
#'   replicas and partitions must be those that the program was compiled with.
#' @return `pjrt_serialize()`: a raw vector. `pjrt_deserialize()`: an object like the one that was serialized.
#'   `pjrt_save_executable()`: `path`, invisibly. `pjrt_load_executable()`: a `PJRTLoadedExecutable`.
#' @section Errors:
#' * `pjrt_error_serialized_invalid`: the data are damaged, or not from `pjrt_serialize()`.
#' * `pjrt_error_serialized_mismatch`: it was saved for another plugin, processor or device. The message lists all differences.
#' * `pjrt_error_io`: a file cannot be read or written.
#' * `pjrt_error_unimplemented`: the plugin does not support this.
#' @seealso [pjrt_compile()]; [safetensors_save()] for files of arrays; [pjrt_parallel]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' bytes <- pjrt_serialize(pjrt_buffer(matrix(1:4, 2), "bf16"))
#' length(bytes)
#' # here or in another session
#' pjrt_deserialize(bytes)
#'
#' path <- system.file("programs", "add-2x2.mlir", package = "pjrt")
#' program <- pjrt_program(path = path)
#' path <- tempfile(fileext = ".pjrtx")
#' pjrt_save_executable(pjrt_compile(program), path)
#'
#' # in this session or another one
#' add <- pjrt_load_executable(path)
#' add
#' pjrt_execute(add, pjrt_buffer(diag(2)), pjrt_buffer(diag(2)))
#' @name pjrt_serialize
NULL

#' @rdname pjrt_serialize
#' @export
pjrt_serialize <- function(x) {
  if (inherits(x, "PJRTBuffer")) {
    return(call_native(ffi_buffer_serialize, x))
  }
  if (inherits(x, "PJRTProgram")) {
    return(call_native(ffi_program_serialize, x))
  }
  if (!inherits(x, "PJRTLoadedExecutable")) {
    abort_class(x, c("PJRTLoadedExecutable", "PJRTBuffer", "PJRTProgram"))
  }
  call_native(ffi_executable_serialize, x, hash_folder())
}

#' @rdname pjrt_serialize
#' @export
pjrt_deserialize <- function(data, device = NULL, compile_options = NULL) {
  if (!is.raw(data)) {
    abort_type("`data` must be a raw vector from pjrt_serialize(), not ", given(data), ".")
  }
  found <- call_native(ffi_contained_read, data)
  if (is.null(found)) {
    return(load_executable(ffi_executable_deserialize, data, device, compile_options))
  }
  if (!is.null(compile_options)) {
    check_compile_options(compile_options)
    abort_input("`compile_options` are for executables only.")
  }
  if (!inherits(found, "PJRTProgram")) {
    return(pjrt_buffer(found$content, dtype = found$dtype, device = device, shape = found$shape, row_major = TRUE))
  }
  if (!is.null(device)) {
    as_pjrt_device(device)
    abort_input("`device` is for executables and buffers only: a program has no device before it is compiled.")
  }
  found
}

#' @rdname pjrt_serialize
#' @export
pjrt_save_executable <- function(executable, path) {
  check_not_buffer(executable)
  check_executable(executable)
  check_string(path, "path")
  call_with_text(ffi_executable_save, executable, full_path(path), hash_folder())
  invisible(path)
}

#' @rdname pjrt_serialize
#' @export
pjrt_load_executable <- function(path, device = NULL, compile_options = NULL) {
  check_string(path, "path")
  load_executable(ffi_executable_load, full_path(path), device, compile_options)
}

# Says how to save a buffer.
check_not_buffer <- function(executable) {
  if (inherits(executable, "PJRTBuffer")) {
    abort_type(
      "`executable` must be a `PJRTLoadedExecutable`, not a buffer.",
      hints = c(
        "safetensors_save(list(x = buffer), path) saves buffers to a file.",
        "pjrt_serialize() returns its bytes, and as_array() an R array, which saveRDS() takes."
      )
    )
  }
}

load_executable <- function(symbol, from, device, compile_options) {
  if (!is.null(compile_options)) {
    check_compile_options(compile_options)
  }
  if (!is.null(device) && !is.null(compile_options$device_assignment)) {
    abort_input("`compile_options` has a `device_assignment`, so `device` must not be given.")
  }
  several <- is.list(device) || (is.character(device) && length(device) > 1L)
  chosen <- if (several) device_list(device, "device") else if (!is.null(device)) list(as_pjrt_device(device))
  first <- if (is.null(chosen)) as_pjrt_device(NULL)
  call_with_text(symbol, from, as.list(chosen), first, compile_options, hash_folder())
}

# The folder that keeps the hashes of plugins' files.
hash_folder <- function() {
  settings <- cache_settings()
  if (is.null(settings)) "" else settings$dir
}
