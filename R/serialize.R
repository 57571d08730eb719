#' Serialize buffers, programs and executables
#'
#' `pjrt_serialize()` converts a buffer, program or executable to bytes, and `pjrt_deserialize()` creates it again, also
#' in another session. `pjrt_save_executable()` and `pjrt_load_executable()` use a file.
#'
#' R's own [serialize()] writes the same bytes for these objects, wherever they are: in lists, environments or
#' functions. Packages that send R objects to other sessions, such as parallel, callr, future and mirai, therefore also
#' send buffers, programs, executables, exported functions, and functions of [pjrt_function()] and [pjrt_step()], and
#' [saveRDS()] and [save()] save them. See the section on R's serialization.
#' Use `pjrt_serialize()` if you need the bytes, a checked transfer to a chosen device, or an error instead of an object
#' without content.
#'
#' The bytes of a buffer contain its element type, its shape and its content, for any device. The bytes of a program
#' contain its code. Both have a checksum.
#'
#' @section R's serialization:
#' An object that R has read loads its content at its first use, or when it is printed. A buffer goes to the device of
#' the same name, or else to the first device of its platform, or else to the default device. An object that occurs in
#' several places stays one object. The content is checked for damage when it is loaded.
#'
#' `options(pjrt.serialize = )` sets what R's serialization writes: everything (`TRUE`, the default), nothing (`FALSE`),
#' or programs, executables, and buffers of at most this size: a number of bytes, or text such as `"500MB"`. Set it
#' before you save a workspace with large buffers, or to keep them out of a cache, such as knitr's.
#'
#' Writing an object never fails: if it was deleted or donated, if it belongs to the parent of a forked process, or if
#' the option excludes it, R writes it without its content. It then prints as `<PJRTBuffer of another session>`, and
#' using it raises a `pjrt_error_invalid_pointer` that gives the reason. The same happens to other objects, such as
#' clients and devices, and to all objects in the old format of `save(version = 2)`. To read objects, this package must
#' be installed.
#' @section Executables:
#' Loading an executable is many times faster than compiling its program. You do not need this to save time, since
#' [pjrt_compile()] caches compiled programs; see [pjrt_cache]. Use a file to distribute an executable without its
#' program.
#'
#' A loaded executable is equivalent to the original: it has the same inputs, donation, layouts, replicas and
#' partitions, and the same [information][executable_info].
#'
#' [`pjrt_compile(topology = )`][pjrt_compile] compiles for devices of other machines. Its result must be saved and
#' loaded there.
#'
#' Plugins do not verify machine code. The bytes therefore contain a checksum and describe their target: the plugin's
#' build, its API version, the kind of device and, on a CPU, the processor's features. They are loaded only if they are
#' intact and the target matches; the processor may have additional features. Load files only from sources that you
#' trust to run code.
#'
#' @param x A `PJRTBuffer`, a `PJRTProgram`, a `PJRTLoadedExecutable` or a `PJRTExecutable`. `pjrt_serialize()` waits
#'   for a buffer's content.
#' @param executable A `PJRTLoadedExecutable` or a `PJRTExecutable`, from [pjrt_compile()].
#' @param path A string: the file's path.
#' @param data A raw vector, from `pjrt_serialize()`.
#' @param device A device: anything that [as_pjrt_device()] takes; or, for a program with several replicas or
#'   partitions, a list of devices or their names. Default: the devices that it was compiled for; for a buffer, the
#'   default device.
#' @param compile_options A `PJRTCompileOptions`, from [pjrt_compile_options()]. Only `device_assignment` is used; the
#'   numbers of replicas and partitions must be those that the program was compiled with.
#' @return `pjrt_serialize()`: a raw vector. `pjrt_deserialize()`: an object like the one that was serialized.
#'   `pjrt_save_executable()`: `path`, invisibly. `pjrt_load_executable()`: a `PJRTLoadedExecutable`.
#' @section Errors:
#' Objects that R has read raise the same errors at their first use.
#' * `pjrt_error_serialized_invalid`: the data are damaged, or not from `pjrt_serialize()`.
#' * `pjrt_error_serialized_mismatch`: it was saved for another plugin, processor or device. The message lists all
#'   differences.
#' * `pjrt_error_io`: a file cannot be read or written.
#' * `pjrt_error_unimplemented`: the plugin does not support this.
#' @seealso [pjrt_compile()]; [pjrt_save_safetensors()] for files of arrays; [pjrt_parallel]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' bytes <- pjrt_serialize(pjrt_buffer(matrix(1:4, 2), "bf16"))
#' length(bytes)
#' # here or in another session
#' pjrt_deserialize(bytes)
#'
#' # in any R object
#' path <- tempfile(fileext = ".rds")
#' saveRDS(list(step = 5, weights = pjrt_buffer(c(0.5, 2))), path)
#' readRDS(path)
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
  if (inherits(x, "PJRTExecutable")) {
    check_unloaded(x)
    return(x$bytes)
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
  if (is.list(found)) {
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
  is_unloaded <- inherits(executable, "PJRTExecutable")
  if (is_unloaded) check_unloaded(executable, "executable") else check_executable(executable)
  check_string(path, "path")
  if (is_unloaded) {
    call_with_text(ffi_executable_write, executable$bytes, full_path(path))
    return(invisible(path))
  }
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
        "pjrt_save_safetensors(list(x = buffer), path) saves buffers to a file.",
        "pjrt_serialize() returns its bytes, and as_array() an R array, which saveRDS() takes."
      )
    )
  }
}

load_executable <- function(symbol, from, device, compile_options, first = NULL) {
  if (!is.null(compile_options)) {
    check_compile_options(compile_options)
  }
  if (!is.null(device) && !is.null(compile_options$device_assignment)) {
    abort_input("`compile_options` has a `device_assignment`, so `device` must not be given.")
  }
  several <- is.list(device) || (is.character(device) && length(device) > 1L)
  chosen <- if (several) device_list(device, "device") else if (!is.null(device)) list(as_pjrt_device(device))
  if (is.null(chosen)) {
    first <- as_pjrt_device(first)
  }
  call_with_text(symbol, from, as.list(chosen), first, compile_options, hash_folder())
}

# The folder that keeps the hashes of plugins' files.
hash_folder <- function() {
  cache_settings()$dir %||% ""
}

# What R's serialize() writes for a handle; native code calls this by name. A list with the value's `bytes` and its
# `device`, or with the reason why it is `lost`: R would not finish a workspace or a cache if this failed.
sent_content <- function(x) {
  content <- tryCatch(
    {
      most <- serialize_limit()
      # a wrong setting of the cache, which only saves time here, must not lose the content
      kept <- tryCatch(hash_folder(), pjrt_error = function(e) "")
      parts <- if (most > 0) call_native(ffi_sent_parts, x, kept, most)
      option <- getOption("pjrt.serialize")
      limit <- if (is.character(option)) dQuote(option, FALSE) else format(option, scientific = FALSE)
      parts %||% list(lost = sprintf("options(pjrt.serialize = %s) was set.", limit))
    },
    pjrt_error = function(e) {
      # without a value, nothing is lost
      if (!inherits(e, c("pjrt_error_deleted_buffer", "pjrt_error_client_closed", "pjrt_error_invalid_pointer"))) {
        # the loss would show only where the file is read; a warning that is an error must not end the saving
        try(warn("A `", class(x)[[1L]], "` is saved without its content: ", conditionMessage(e)), silent = TRUE)
      }
      list(lost = sub("\n.*", "", conditionMessage(e)))
    }
  )
  structure(content, class = "PJRTContent")
}

# Up to which size R's serialize() writes buffers, from the option. A wrong one must not lose content.
serialize_limit <- function() {
  option <- getOption("pjrt.serialize", TRUE)
  if (isTRUE(option) || isFALSE(option) || identical(option, Inf)) {
    return(if (option) Inf else 0)
  }
  tryCatch(
    parse_bytes(option, "`options(pjrt.serialize = )`"),
    pjrt_error = function(e) {
      try(warn(
        "Buffers are saved with their content, since `options(pjrt.serialize = )` must be TRUE, FALSE, a number of ",
        "bytes, or a size such as \"500MB\", not ", given(option), "."
      ), silent = TRUE)
      Inf
    }
  )
}

# Creates the value of the handle that a native function needs, which calls this by name.
revive_needed <- function(...) {
  revive(call_native(ffi_sent_needed))
}

# Creates the value of a handle of another session from what came with it.
revive <- function(x) {
  content <- unclass(call_native(ffi_sent_content, x))
  classes <- c("PJRTBuffer", "PJRTProgram", "PJRTLoadedExecutable", "PJRTExported")
  class <- Find(function(class) inherits(x, class), classes)
  if (is_text(content$lost)) {
    pjrt_abort(
      paste0("This `", class, "` of another session came without its content."), "invalid_pointer",
      hints = paste("Where it was saved or sent:", content$lost)
    )
  }
  fresh <- if (is.raw(content$bytes) && is_text(content$device)) from_sent(content$bytes, content$device)
  if (inherits(fresh, "PJRTExported") && is.list(content$weights)) {
    call_native(ffi_exported_keep_weights, fresh, content$weights)
  }
  if (is.null(fresh) || !.Call(ffi_sent_adopt, x, fresh)) {
    abort_input("The content of this object of another session is damaged.", class = "serialized_invalid")
  }
}

is_text <- function(x) is.character(x) && length(x) == 1L && !is.na(x)

# Whether this is a text that R can work with.
is_valid_text <- function(x) is_text(x) && validEnc(x) && Encoding(x) != "bytes"

# The object in bytes, on this session's device of that name.
from_sent <- function(bytes, device) {
  if (!nzchar(device)) {
    return(pjrt_deserialize(bytes))
  }
  found <- device_named(device)
  if (is.null(call_native(ffi_contained_read, bytes))) {
    load_executable(ffi_executable_deserialize, bytes, NULL, NULL, first = found)
  } else {
    pjrt_deserialize(bytes, found)
  }
}

# A device's platform and number, as in "cpu:0". Of a client of its own, only the platform.
device_name <- function(device) {
  platform <- platform(device)
  number <- which(vapply(devices(platform), function(x) x == device, NA))
  paste(c(platform, number - 1L), collapse = ":")
}

# This session's device of that name, or else the platform's first device, or else the default device.
device_named <- function(name) {
  found <- NULL
  for (choice in unique(c(name, sub(":.*", "", name)))) {
    found <- found %||% tryCatch(as_pjrt_device(choice), pjrt_error = function(e) NULL)
  }
  as_pjrt_device(found)
}
