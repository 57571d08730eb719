#' Compile a program
#'
#' R waits for the compiler, which cannot be stopped: Ctrl-C ends the wait only. The compiler then goes on until it is done,
#' what it makes is dropped, and everything can be used meanwhile. [pjrt_compile_async()] does not wait.
#'
#' A program that was compiled before, in this session or another, is not compiled once more: see [pjrt_cache]. As long as this
#' session has its executable, that very object is returned.
#'
#' @param program A `PJRTProgram`.
#' @param compile_options Options of the compiler, made by [pjrt_compile_options()]. By default, a program runs on as many
#'   devices as it says.
#' @param device The device to compile for: anything that [as_pjrt_device()] takes.
#' @param devices The devices to compile for, when there are several: a list of devices, or of names as in
#'   `c("cpu:0", "cpu:1")`. One for each replica and partition of the program, all partitions of the first replica
#'   first. By default the first devices of the default platform, or those of the options' `device_assignment`.
#' @section Types narrower than a byte:
#' XLA's CPU compiler throws a C++ exception where an array of `i2`, `ui2`, `i4`, `ui4` or `f4e2m1fn` changes its order in memory
#' on its own, not fused with another operation. So these programs are refused before:
#' * Programs with several results, of which a matrix is of such a type, if they move dimensions: `transpose`, `gather`,
#'   `scatter`, `convolution`, or `broadcast_in_dim` that swaps dimensions (in bytecode, that one is not seen). Convert
#'   the result to `i8` (`f4e2m1fn`: to `f32`) in the program, which is the same for R, or have a program of its own return it.
#' * Programs with loops or branches that move dimensions of such a matrix. Convert it to `i8`, move it, pass it through
#'   `optimization_barrier`, and convert it back.
#' * Such matrices as arguments or results with an `mhlo.layout_mode`.
#' * `concatenate` of `i2` and `ui2`, at which the compiler ends the process, and `sort` of these, whose result is wrong. Convert to
#'   `i8`, and back.
#'
#' Some of the first two kinds would compile: whether the compiler fuses the change of order cannot be told before. Programs with
#' one result and without loops and branches are not refused. Other programs may make the compiler throw, too; then the
#' plugin is lost, see [pjrt-package].
#' @return A `PJRTLoadedExecutable` for [pjrt_execute()], or for [pjrt_execute_sharded()] when there are several devices.
#' @section Errors:
#' What the compiler says, with line and column in the program, as a condition of class `pjrt_error` with the compiler's
#' error code. `pjrt_error_program_version` when the program does not compile, and is a portable one in a version of StableHLO
#' that the plugin does not claim to read: see [plugin_stablehlo_versions()]. `pjrt_error_unsupported_dtype` for programs on types
#' narrower than a byte that XLA's CPU compiler is lost to. `pjrt_error_invalid_input` for devices that do not
#' fit the options.
#' @seealso [pjrt_compile_options()], [pjrt_cache], [pjrt_save_executable()], and [pjrt_compile_async()] to compile several programs at once
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
#' add <- pjrt_compile(program)
#' add
#' device(add)
#' try(pjrt_compile(pjrt_program("func.func @main() { nonsense }")))
#' @export
pjrt_compile <- function(program, compile_options = new_compile_options(), device = NULL, devices = NULL) {
  start_compile(ffi_executable_compile, program, compile_options, device, devices)
}

#' Compile asynchronously
#'
#' `pjrt_compile_async()` starts a compile on another thread and returns at once; `value()` waits for the executable. As many
#' programs are compiled at once as there are processors, the others after them, in order; a [pjrt_compile()] never has to wait for
#' these.
#'
#' Ctrl-C ends a wait, not the compile: a later `value()` still gives the executable. When the promise is dropped, so is what
#' the compiler makes. The end of the session waits for the compiles that run, for at most 10 seconds.
#'
#' @inheritParams pjrt_compile
#' @return A `PJRTExecutablePromise`. `value()` gives the `PJRTLoadedExecutable` that [pjrt_compile()] would have given, the same
#'   object on every call. `await()` waits for it and returns the promise, invisibly. `is_ready()` tells whether the compiler is
#'   done, whatever came of it.
#' @section Errors:
#' What the compiler says is raised by `value()` and `await()`, on every call, as [pjrt_compile()] would have raised it. What is
#' wrong with the arguments is raised at once.
#' @seealso [pjrt_compile()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' paths <- system.file("programs", c("add-2x2.mlir", "square.mlir"), package = "pjrt")
#' promises <- lapply(paths, function(path) pjrt_compile_async(pjrt_program(path = path)))
#' is_ready(promises[[1]])
#' lapply(promises, value)
#' promises[[1]]
#' @export
pjrt_compile_async <- function(program, compile_options = new_compile_options(), device = NULL, devices = NULL) {
  promise <- new.env(parent = emptyenv())
  promise$data <- start_compile(ffi_compiling_start, program, compile_options, device, devices)
  promise$executable <- NULL
  class(promise) <- "PJRTExecutablePromise"
  promise
}

#' @export
value.PJRTExecutablePromise <- function(x, ...) {
  check_executable_promise(x)
  if (is.null(x$executable)) {
    x$executable <- call_native(ffi_compiling_value, x$data)
    x$data <- NULL
  }
  x$executable
}

#' @export
await.PJRTExecutablePromise <- function(x, ...) {
  value(x)
  invisible(x)
}

#' @export
is_ready.PJRTExecutablePromise <- function(x, ...) {
  check_executable_promise(x)
  !is.null(x$executable) || call_native(ffi_compiling_is_ready, x$data)
}

#' @export
format.PJRTExecutablePromise <- function(x, ...) {
  outcome <- function() tryCatch({
    value(x)
    "ready"
  }, pjrt_error = function(e) "failed")
  sprintf("<PJRTExecutablePromise: %s>", if (is_ready(x)) outcome() else "compiling")
}

#' @export
print.PJRTExecutablePromise <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

check_executable_promise <- function(x) {
  check_made(x, "PJRTExecutablePromise", "environment", "executable")
}

# Checks what there is to compile, for which devices, and has it done.
start_compile <- function(symbol, program, compile_options, device, devices) {
  check_program(program)
  check_compile_options(compile_options)
  if (!is.null(device) && !is.null(devices)) {
    abort_input("Only one of `device` and `devices` can be given.")
  }
  chosen <- if (!is.null(devices)) device_list(devices) else if (!is.null(device)) list(as_pjrt_device(device))
  if (!is.null(chosen) && !is.null(compile_options$device_assignment)) {
    abort_input(
      "The compile options have a `device_assignment`, so devices cannot be chosen once more.",
      hints = "Leave out `device` and `devices`, or the `device_assignment`."
    )
  }
  first <- if (is.null(chosen)) as_pjrt_device(NULL)
  made <- call_native(symbol, program, compile_options, as.list(chosen), first, cache_settings())
  tell_cache_messages()
  made
}

# The devices that an argument names: a device, a list of devices or names, or a character vector of names.
device_list <- function(devices, name = "devices") {
  if (inherits(devices, "PJRTDevice")) {
    devices <- list(devices)
  }
  if (!(is.list(devices) || is.character(devices)) || is.object(devices) || length(devices) == 0L) {
    abort_input(
      "`", name, "` must be a list of devices, or their names as in c(\"cpu:0\", \"cpu:1\"), not ", given(devices), "."
    )
  }
  found <- vector("list", length(devices))
  for (i in seq_along(devices)) {
    found[[i]] <- pjrt_device(devices[[i]])
  }
  found
}
