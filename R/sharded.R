#' Run a program on several devices
#'
#' Launches a program that was compiled for several devices on all of them, each with inputs of its own. Returns at once,
#' as [pjrt_execute()] does, and makes the same checks of every input of every device first.
#'
#' Results of one launch are inputs of the next, and there is no need to wait in between. `Map(list, xs, ys)` makes the
#' inputs from what [pjrt_shard()] gives for each argument of a program. A device with one input needs no list around it.
#'
#' Donation works as for one device: each device's input is given to that device's output.
#'
#' @section Devices that wait for each other:
#' A launch begins when all inputs of all devices are there and the devices have done what they were given before; on
#' the CPU, it also ends before the next one begins. At a collective operation every device waits for all others. XLA's
#' CPU client ends the process when a program is more than a minute late there on one of its devices. The flag
#' `--xla_cpu_collective_call_terminate_timeout_seconds=` in the environment variable `XLA_FLAGS`, set before the client
#' is created, gives it more time.
#'
#' @param executable A `PJRTLoadedExecutable`, compiled with several `num_replicas` or `num_partitions` in
#'   [pjrt_compile_options()].
#' @param inputs A list with one element for each device, in the order of `devices(executable)` (all partitions of the
#'   first replica first): the list of that device's inputs, which lie there.
#' @param execution_options Made by [pjrt_execution_options()], or `NULL`.
#' @param simplify Whether a single output is returned as it is, not in a list.
#' @return A list with one element for each device: a `PJRTBuffer`, or a list of those when the program has several
#'   outputs, none, or `simplify` is `FALSE`.
#' @section Errors:
#' Those of [pjrt_execute()]; messages say for which device and argument. What fails on one device later is raised when
#' any output is read that needs it.
#' @seealso [pjrt_shard()], `vignette("several-devices")`
#' @examplesIf pjrt::plugins_downloaded("cpu") && length(devices("cpu")) > 1L
#' # needs a CPU of two devices, by pjrt_client("cpu", cpu_device_count = 2L)
#' sum_of_all <- pjrt_compile(pjrt_program("
#' func.func @main(%x: tensor<f32>) -> tensor<f32> {
#'   %0 = \"stablehlo.all_reduce\"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
#'     ^bb0(%a: tensor<f32>, %b: tensor<f32>):
#'       %c = stablehlo.add %a, %b : tensor<f32>
#'       stablehlo.return %c : tensor<f32>
#'   }) : (tensor<f32>) -> tensor<f32>
#'   return %0 : tensor<f32>
#' }"), pjrt_compile_options(num_replicas = 2L))
#' inputs <- list(pjrt_scalar(1, device = "cpu:0"), pjrt_scalar(2, device = "cpu:1"))
#' pjrt_execute_sharded(sum_of_all, inputs)
#' @export
pjrt_execute_sharded <- function(executable, inputs, execution_options = NULL, simplify = TRUE) {
  .Call(ffi_executable_execute_sharded, executable, inputs, execution_options, simplify)
}
