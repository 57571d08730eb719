#' Save and load executables
#'
#' A compiled program as bytes or in a file, from which it is loaded, also in another session, many times faster than it is
#' compiled. Nothing needs to be saved to save time: [pjrt_compile()] keeps what it compiles, see [pjrt_cache]. A file serves
#' to take an executable along, without its program.
#'
#' What is loaded is as good as what was compiled: names and donation of inputs, layouts, replicas and partitions are kept,
#' and all that [executable] tells.
#'
#' A plugin believes any machine code that it is given. So the bytes carry a checksum, and tell what they were made for: the
#' build of the plugin, the version of its API, the kind of device, the processor's features where the program runs on a CPU.
#' They are loaded only if they are whole and all of that is the same here; a processor may have more features. Load files
#' only from those whom you would let run code.
#'
#' @param executable A `PJRTLoadedExecutable`, from [pjrt_compile()].
#' @param path Path of a file.
#' @param data A raw vector, from `pjrt_serialize()`.
#' @param device The device to load it for: anything that [as_pjrt_device()] takes; for a program of several replicas or
#'   partitions a list of devices, or of their names. By default those that it was compiled for.
#' @param compile_options Options of [pjrt_compile_options()], of which the `device_assignment` counts. The others were for the
#'   compiler; numbers of replicas and partitions must be those that it was compiled with.
#' @return `pjrt_serialize()`: a raw vector. `pjrt_save_executable()`: the path, invisibly. `pjrt_deserialize()` and
#'   `pjrt_load_executable()`: a `PJRTLoadedExecutable`.
#' @section Errors:
#' `pjrt_error_serialized_invalid` for what is damaged, or no executable. `pjrt_error_serialized_mismatch` when it was saved for
#' another plugin, processor or device, with all that differs. `pjrt_error_io` when a file cannot be read or written,
#' `pjrt_error_unimplemented` for what is not supported by the plugin.
#' @seealso [pjrt_compile()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
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
pjrt_serialize <- function(executable) {
  check_executable(executable)
  call_native(ffi_executable_serialize, executable, hash_folder())
}

#' @rdname pjrt_serialize
#' @export
pjrt_deserialize <- function(data, device = NULL, compile_options = NULL) {
  if (!is.raw(data)) {
    abort_input("`data` must be a raw vector, as pjrt_serialize() makes it, not ", given(data), ".")
  }
  load_executable(ffi_executable_deserialize, data, device, compile_options)
}

#' @rdname pjrt_serialize
#' @export
pjrt_save_executable <- function(executable, path) {
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

load_executable <- function(symbol, from, device, compile_options) {
  if (!is.null(compile_options)) {
    check_compile_options(compile_options)
  }
  if (!is.null(device) && !is.null(compile_options$device_assignment)) {
    abort_input("The compile options have a `device_assignment`, so that `device` cannot be given, too.")
  }
  several <- is.list(device) || (is.character(device) && length(device) > 1L)
  chosen <- if (several) device_list(device, "device") else if (!is.null(device)) list(as_pjrt_device(device))
  first <- if (is.null(chosen)) as_pjrt_device(NULL)
  call_with_text(symbol, from, as.list(chosen), first, compile_options, hash_folder())
}

# The folder that keeps what the files of plugins hash to.
hash_folder <- function() {
  settings <- cache_settings()
  if (is.null(settings)) "" else settings$dir
}
