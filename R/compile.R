#' Compile a program
#'
#' @param program A `PJRTProgram`.
#' @param compile_options Options of the compiler; the default suits programs for one device.
#' @param device The device to compile for: anything that [as_pjrt_device()] takes.
#' @return A `PJRTLoadedExecutable` for [pjrt_execute()].
#' @section Errors:
#' What the compiler says, with line and column in the program, as a condition of class `pjrt_error` with the compiler's
#' error code.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
#' add <- pjrt_compile(program)
#' add
#' device(add)
#' try(pjrt_compile(pjrt_program("func.func @main() { nonsense }")))
#' @export
pjrt_compile <- function(program, compile_options = new_compile_options(), device = NULL) {
  if (!inherits(program, "PJRTProgram")) {
    abort_input("`program` must be a `PJRTProgram`; make one with pjrt_program().")
  }
  if (!inherits(compile_options, "PJRTCompileOptions")) {
    abort_input("`compile_options` must be a `PJRTCompileOptions`.")
  }
  build <- compile_options$build_options
  call_native(
    ffi_executable_compile, program, as_pjrt_device(device), build$num_replicas, build$num_partitions
  )
}

new_compile_options <- function(build_options = new_build_options()) {
  structure(list(build_options = build_options), class = "PJRTCompileOptions")
}

# `device_ordinal` is taken for compatibility: the device that a program is compiled for says its number itself.
new_build_options <- function(num_replicas = 1L, num_partitions = 1L, device_ordinal = -1) {
  for (x in list(num_replicas, num_partitions, device_ordinal)) {
    if (!is_whole_number(x) || abs(x) > .Machine$integer.max) {
      abort_input("Build options must be whole numbers.")
    }
  }
  structure(
    list(
      num_replicas = as.integer(num_replicas), num_partitions = as.integer(num_partitions),
      device_ordinal = as.integer(device_ordinal)
    ),
    class = "PJRTBuildOptions"
  )
}
