#' Compile a program
#'
#' @param program A `PJRTProgram`.
#' @param compile_options Options of the compiler, made by [pjrt_compile_options()]; the default suits programs for one
#'   device.
#' @param device The device to compile for: anything that [as_pjrt_device()] takes.
#' @param devices The devices to compile for, when there are several: a list of devices, or of names as in
#'   `c("cpu:0", "cpu:1")`. One for each replica and partition of `compile_options`, all partitions of the first replica
#'   first. By default the first devices of the default platform, or those of the options' `device_assignment`.
#' @return A `PJRTLoadedExecutable` for [pjrt_execute()], or for [pjrt_execute_sharded()] when there are several devices.
#' @section Errors:
#' What the compiler says, with line and column in the program, as a condition of class `pjrt_error` with the compiler's
#' error code. `pjrt_error_program_version` when the program does not compile, and is a portable one in a version of StableHLO
#' that the plugin does not claim to read: see [plugin_stablehlo_versions()]. `pjrt_error_invalid_input` for devices that do not
#' fit the options.
#' @seealso [pjrt_compile_options()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
#' add <- pjrt_compile(program)
#' add
#' device(add)
#' try(pjrt_compile(pjrt_program("func.func @main() { nonsense }")))
#' @export
pjrt_compile <- function(program, compile_options = new_compile_options(), device = NULL, devices = NULL) {
  if (!inherits(program, "PJRTProgram")) {
    abort_input("`program` must be a `PJRTProgram`; make one with pjrt_program().")
  }
  if (!inherits(compile_options, "PJRTCompileOptions")) {
    abort_input("`compile_options` must be a `PJRTCompileOptions`; make it with pjrt_compile_options().")
  }
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
  call_native(ffi_executable_compile, program, compile_options, as.list(chosen), first)
}

# The devices that an argument names: a device, a list of devices or names, or a character vector of names.
device_list <- function(devices, name = "devices") {
  if (inherits(devices, "PJRTDevice")) {
    devices <- list(devices)
  }
  if (!(is.list(devices) || is.character(devices)) || length(devices) == 0L) {
    abort_input("`", name, "` must be a list of devices, or their names as in c(\"cpu:0\", \"cpu:1\").")
  }
  found <- vector("list", length(devices))
  for (i in seq_along(devices)) {
    found[[i]] <- pjrt_device(devices[[i]])
  }
  found
}
