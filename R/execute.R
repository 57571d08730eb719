#' Run a compiled program
#'
#' Returns at once with the output buffers, whose content the device computes meanwhile. Outputs can be passed on to
#' other programs right away, and reading one waits for it.
#'
#' Every input is checked before the device sees it: that it is alive, on the executable's device, and of the dtype,
#' shape and layout that the program takes. Programs for several devices are run by [pjrt_execute_sharded()].
#'
#' A program can take over the memory of an input for an output (its argument has the attribute `tf.aliasing_output` or
#' `jax.buffer_donor`). Such an input is donated: after the call it is gone, and using it is an error. A buffer that is
#' donated cannot be a second input of the same call. [executable_inputs()] tells which inputs are donated.
#'
#' @param executable A `PJRTLoadedExecutable`.
#' @param ... The inputs, `PJRTBuffer`s in the program's order, without names.
#' @param execution_options Made by [pjrt_execution_options()], or `NULL`.
#' @param simplify Whether a single output is returned as it is, not in a list.
#' @param check Whether names in `...` are an error. The inputs themselves are always checked.
#' @return A `PJRTBuffer`, or a list of those when there are several outputs, none, or `simplify` is `FALSE`.
#' @section Errors:
#' `pjrt_error_argument_count`, `pjrt_error_dtype_mismatch`, `pjrt_error_shape_mismatch`, `pjrt_error_device_mismatch`,
#' `pjrt_error_layout_mismatch`, `pjrt_error_deleted_buffer`, `pjrt_error_invalid_pointer` and
#' `pjrt_error_invalid_input` for inputs that do not fit. Messages say which argument it is, as in
#' ``argument 2 (`%y`)``: by its place, counted from 1, and by its name in the program. What goes wrong on the device
#' later is raised by whatever reads an output, or by [await()].
#' @seealso [as_array()], [as_array_async()], [await()], [pjrt_execution_options()], [executable_inputs()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
#' add <- pjrt_compile(program)
#' x <- pjrt_buffer(matrix(1:4, 2), dtype = "f32")
#' sum <- pjrt_execute(add, x, x)
#' as_array(pjrt_execute(add, sum, x))
#' @export
pjrt_execute <- function(executable, ..., execution_options = NULL, simplify = TRUE, check = TRUE) {
  .Call(ffi_executable_execute, executable, list(...), execution_options, simplify, check)
}

#' Execution options
#'
#' @param non_donatable_input_indices Inputs, counted from 0, that keep their memory although the program would take it
#'   over. An integer vector.
#' @param launch_id A number that tells executions of one program apart when several processes run it together. An
#'   integer.
#' @param device Where a portable executable runs, by default where its inputs are: anything that [as_pjrt_device()]
#'   takes. See [pjrt_compile_options()].
#' @return A `PJRTExecuteOptions` for [pjrt_execute()] and [pjrt_execute_sharded()].
#' @section Errors:
#' `pjrt_error_invalid_input` for numbers that are not integers, indices below 0, and anything but a device. An execution
#' raises it for a `device` when its executable is not portable.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program("
#' func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
#'   %0 = stablehlo.add %x, %x : tensor<2xf32>
#'   return %0 : tensor<2xf32>
#' }")
#' double <- pjrt_compile(program)
#' x <- pjrt_buffer(c(1, 2))
#' pjrt_execute(double, x, execution_options = pjrt_execution_options(0L))
#' x
#' @export
pjrt_execution_options <- function(non_donatable_input_indices = integer(), launch_id = 0L, device = NULL) {
  if (!is.integer(non_donatable_input_indices) || anyNA(non_donatable_input_indices)) {
    abort_input("`non_donatable_input_indices` must be an integer vector without NA, such as `0L`; it is ", given(non_donatable_input_indices), ".")
  }
  if (!is.integer(launch_id) || length(launch_id) != 1L || is.na(launch_id)) {
    abort_input("`launch_id` must be one integer, such as `0L`, not ", given(launch_id), ".")
  }
  device <- if (!is.null(device)) as_pjrt_device(device)
  call_native(ffi_execute_options_new, non_donatable_input_indices, launch_id, device)
}

#' @export
print.PJRTExecuteOptions <- function(x, ...) {
  said <- call_native(ffi_execute_options_describe, x)
  cat(sep = "", "<PJRTExecuteOptions: launch ", said$launch_id, ">\n", c(
    if (length(said$non_donatable) > 0L) {
      paste0("  non_donatable_input_indices = ", paste(said$non_donatable, collapse = ", "), "\n")
    },
    if (!is.na(said$device)) paste0("  device = ", said$device, "\n")
  ))
  invisible(x)
}
