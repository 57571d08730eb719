#' Compile a program
#'
#' `pjrt_compile()` compiles a program for a device, or for several. It waits for the compiler; [pjrt_compile_async()]
#' does not.
#'
#' Programs for the CPU are compiled in a separate process: if the compiler crashes, R continues. See the section on
#' separate compilers in [pjrt_options]. Ctrl-C ends the separate compiler. A compiler in R's process finishes in the
#' background instead, and its result is discarded.
#'
#' A program that was compiled before, in this or another session, is loaded from the cache: see [pjrt_cache]. If this
#' session still has its executable, you get that one: both objects are `identical()`.
#'
#' @param program A `PJRTProgram`, or a `PJRTExported` from [pjrt_load_exported()].
#' @param compile_options A `PJRTCompileOptions`, from [pjrt_compile_options()]. By default, a program runs on as many
#'   devices as it declares.
#' @param device A device: anything that [as_pjrt_device()] takes. The program is compiled for it.
#' @param devices A list of devices, or a character vector of their names such as `c("cpu:0", "cpu:1")`, for a program
#'   that runs on several: one for each replica and partition, starting with all partitions of the first replica. Some
#'   may belong to other processes; see [pjrt_distributed()]. Default: the first devices of the default platform, or the
#'   devices of the options' `device_assignment`.
#' @param shapes The shapes of inputs, for a program without fixed shapes, such as `tensor<?x4xf32>`, or an exported
#'   function with symbolic dimensions: a list of integer vectors with the names of inputs, such as
#'   `list(x = c(32, 4))`. It can be nested as the arguments of a function are. You can pass the sizes of symbolic
#'   dimensions instead: `list(b = 32)`. A list without names must have the order of the inputs. See
#'   [pjrt_load_exported()].
#' @param topology A `PJRTTopology`, from [pjrt_topology()], to compile for devices of other machines; see the section
#'   on absent devices. It cannot be combined with `device` or `devices`.
#' @section Absent devices:
#' With `topology`, no client and no device is needed. The program is compiled for the first devices of the topology, or
#' for the devices of the options' `device_assignment`. The result is a `PJRTExecutable`, which is not loaded and
#' cannot be executed here. [pjrt_save_executable()] saves it, and [pjrt_load_executable()] loads it where the devices
#' are: on machines with the same build of the plugin and the same kind of device. [executable_info()] describes it. It
#' is not cached.
#'
#' The plugin must support this. XLA's plugin for the CPU does not: it raises `pjrt_error_unimplemented`. This was
#' tested with a plugin made for the tests, not with plugins for GPUs or TPUs.
#' @section Types narrower than a byte:
#' XLA's CPU compiler throws a C++ exception if an operation that is not fused with another one changes the order in
#' memory of an array of `i2`, `ui2`, `i4`, `ui4` or `f4e2m1fn`. A separate compiler tries such programs; if it fails,
#' the error says what to change. If programs are compiled in R's process, the package refuses those in which this may
#' happen:
#' * Programs with several results that include a matrix of such a type, if they move dimensions: `transpose`, `gather`,
#'   `scatter`, `convolution`, or a `broadcast_in_dim` that swaps dimensions. Convert the result to `i8` in the program
#'   (`f4e2m1fn`: to `f32`), which makes no difference in R, or return it from a separate program.
#' * Programs with loops or branches that move dimensions of such a matrix. Convert it to `i8`, move it, pass it through
#'   `optimization_barrier`, and convert it back.
#' * `concatenate` of `i2` and `ui2`, for which the compiler ends the process. Convert to `i8` and back.
#'
#' Some of these programs would compile, but the package cannot predict what the compiler fuses. Programs with one
#' result and without loops or branches are not refused. They may still make the compiler throw. If this happens in R's
#' process, the plugin can no longer be used: see the section on poisoned plugins in [pjrt_errors].
#'
#' Two kinds of programs are always refused: `sort` of `i2` and `ui2`, whose result is wrong, and those in which a
#' matrix of such a type is an argument or result with an `mhlo.layout_mode`.
#' @return A `PJRTLoadedExecutable`: run it with [pjrt_execute()], or with [pjrt_execute_sharded()] on several devices.
#'   With `topology`, a `PJRTExecutable`, which must be loaded first.
#' @section Errors:
#' * `pjrt_error_compile`: the program has a mistake. The message contains the compiler's message, marks the place in
#'   the line, and suggests a name for unknown operations, types and values. The fields `line`, `column` and `source`
#'   contain the place and the line, unless they are unknown, as for bytecode. `detail` contains the compiler's whole
#'   message. The condition also has the class of the compiler's code, such as `pjrt_error_unknown`.
#' * `pjrt_error_compiler_crashed`: the separate compiler crashed. The message shows the signal and the compiler's last
#'   output.
#' * `pjrt_error_deadline_exceeded`, `pjrt_error_resource_exhausted`: the separate compiler exceeded its time or memory
#'   limit.
#' * `pjrt_error_unsupported_program`: the program has an `infeed`, `outfeed`, `send` or `recv`, which would wait for
#'   ever.
#' * `pjrt_error_dynamic_shape`: arguments or results of `main` have no fixed shape (the message lists them; pass
#'   `shapes`), the size of one is known only at a run, or sizes do not follow from `shapes`.
#' * `pjrt_error_shape_mismatch`: `shapes` contradicts the shapes of the program. The message says where.
#' * `pjrt_error_custom_call`, also of class `pjrt_error_not_found`: the program calls a function that has no handler.
#'   The field `target` contains its name. See [pjrt_register_custom_call()].
#' * `pjrt_error_unimplemented`: the plugin cannot compile for a `topology`.
#' * Other errors of the compiler have the class of its code.
#' * `pjrt_error_program_version`: the program has an operation that is newer than the plugin and cannot be replaced by
#'   older ones. The message names it. See [plugin_info()].
#' * `pjrt_error_unsupported_dtype`: XLA's CPU compiler would fail on types narrower than a byte.
#' * `pjrt_error_device_mismatch`: the devices belong to several clients, or none of them belongs to this process.
#' * `pjrt_error_invalid_input`: the devices do not fit the options, collective operations need more devices, or an
#'   exported function cannot run here (see [pjrt_load_exported()]).
#' @seealso [pjrt_compile_options()], [pjrt_cache], [pjrt_save_executable()], and [pjrt_compile_async()] to compile
#'   several programs at once
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "add-2x2.mlir", package = "pjrt")
#' program <- pjrt_program(path = path)
#' add <- pjrt_compile(program)
#' add
#' device(add)
#'
#' typo <- pjrt_program("func.func @main(%x: tensor<f32>) -> tensor<f32> {
#'   %y = stablehlo.exp %x : tensor<f32>
#'   return %y : tensor<f32>
#' }")
#' try(pjrt_compile(typo))
#' place <- function(error) c(line = error$line, column = error$column)
#' tryCatch(pjrt_compile(typo), pjrt_error_compile = place)
#' @export
pjrt_compile <- function(program, compile_options = pjrt_compile_options(), device = NULL, devices = NULL,
                         shapes = NULL, topology = NULL) {
  if (!is.null(topology)) {
    check_topology(topology)
    if (!is.null(device) || !is.null(devices)) {
      abort_input(
        "`topology` has the devices, so `device` and `devices` must not be given.",
        hints = "To choose devices of the topology, pass `device_assignment` in `compile_options`."
      )
    }
    return(compile_for_topology(program, compile_options, topology, shapes))
  }
  with_arguments(start_compile(ffi_executable_compile, program, compile_options, device, devices, shapes), program)
}

# An executable with what pjrt_function() must know of the exported function that it was compiled from.
with_arguments <- function(executable, program) {
  force(executable)
  if (inherits(program, "PJRTExported")) {
    attr(executable, "exported") <- call_native(ffi_exported_function, program)
  }
  executable
}

#' Compile asynchronously
#'
#' `pjrt_compile_async()` starts a compile in the background and returns a promise at once. `value()` waits for the
#' executable and returns it. At most one program per processor is compiled at a time; the others follow in order.
#' [pjrt_compile()] never waits for them.
#'
#' Ctrl-C ends a wait, not the compile, so you can call `value()` again. If you drop the promise, its separate compiler
#' ends (see [pjrt_options]); a compiler in R's process finishes, and its result is discarded. At the end of the
#' session, R waits at most 10 seconds for compiles in its own process, or until Ctrl-C.
#'
#' @inheritParams pjrt_compile
#' @return A `PJRTExecutablePromise`. `value()` returns a `PJRTLoadedExecutable`, as [pjrt_compile()] does; every call
#'   returns the same object. `await()` waits for it and returns the promise, invisibly. `is_ready()` returns `TRUE`
#'   when the compiler has finished, even if it failed.
#' @section Errors:
#' Errors in arguments are raised at once. `value()` and `await()` raise the compiler's errors, at every call, as
#' [pjrt_compile()] does.
#' @seealso [pjrt_compile()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' files <- c("add-2x2.mlir", "square.mlir")
#' promises <- lapply(files, function(file) {
#'   path <- system.file("programs", file, package = "pjrt")
#'   pjrt_compile_async(pjrt_program(path = path))
#' })
#' is_ready(promises[[1]])
#' lapply(promises, value)
#' promises[[1]]
#' @export
pjrt_compile_async <- function(program, compile_options = pjrt_compile_options(), device = NULL, devices = NULL,
                               shapes = NULL) {
  promise <- new.env(parent = emptyenv())
  promise$data <- start_compile(ffi_compiling_start, program, compile_options, device, devices, shapes)
  promise$executable <- NULL
  promise$program <- if (inherits(program, "PJRTExported")) program
  class(promise) <- "PJRTExecutablePromise"
  promise
}

#' @export
value.PJRTExecutablePromise <- function(x, ...) {
  check_unused(...)
  check_executable_promise(x)
  if (is.null(x$executable)) {
    x$executable <- with_arguments(call_native(ffi_compiling_value, x$data), x$program)
    x$data <- x$program <- NULL
  }
  x$executable
}

#' @export
await.PJRTExecutablePromise <- await.PJRTArrayPromise

#' @export
is_ready.PJRTExecutablePromise <- function(x, ...) {
  check_unused(...)
  check_executable_promise(x)
  !is.null(x$executable) || call_native(ffi_compiling_is_ready, x$data)
}

#' @export
format.PJRTExecutablePromise <- function(x, ...) {
  check_executable_promise(x)
  dead <- dead_text(x$executable %||% x$data, "PJRTExecutablePromise")
  if (!is.null(dead)) {
    return(dead)
  }
  outcome <- function() tryCatch({
    value(x)
    "ready"
  }, pjrt_error = function(e) "failed")
  sprintf("<PJRTExecutablePromise: %s>", if (is_ready(x)) outcome() else "compiling")
}

#' @export
print.PJRTExecutablePromise <- function(x, ...) {
  print_lines(x)
}

check_executable_promise <- function(x) {
  check_intact(x, "PJRTExecutablePromise", "environment", "executable")
}

# Checks the arguments of a compile and starts it.
start_compile <- function(symbol, program, compile_options, device, devices, shapes = NULL) {
  shapes <- check_compilable(program, shapes)
  check_compile_options(compile_options)
  if (!is.null(device) && !is.null(devices)) {
    abort_input("Only one of `device` and `devices` can be given.")
  }
  chosen <- if (!is.null(devices)) device_list(devices) else if (!is.null(device)) list(as_pjrt_device(device))
  if (!is.null(chosen) && !is.null(compile_options$device_assignment)) {
    abort_input(
      "`compile_options` has a `device_assignment`, so `device` and `devices` must not be given.",
      hints = "Use either `device` or `devices`, or a `device_assignment`."
    )
  }
  first <- if (is.null(chosen)) as_pjrt_device(NULL)
  program <- fixed_program(program, platform(if (is.null(chosen)) first else chosen[[1L]]), shapes)
  made <- call_native(symbol, program, compile_options, as.list(chosen), first, cache_settings(), compile_place())
  show_cache_messages()
  made
}

# The devices that an argument names: a device, a list of devices or names, or a character vector of names.
device_list <- function(devices, name = "devices") {
  if (inherits(devices, "PJRTDevice")) {
    devices <- list(devices)
  }
  if (!(is.list(devices) || is.character(devices)) || is.object(devices) || length(devices) == 0L) {
    abort_type(
      "`", name, "` must be a list of devices, or names such as c(\"cpu:0\", \"cpu:1\"), not ", given(devices), "."
    )
  }
  found <- vector("list", length(devices))
  for (i in seq_along(devices)) {
    found[[i]] <- pjrt_device(devices[[i]])
  }
  found
}
