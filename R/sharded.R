#' Run a program on several devices
#'
#' `pjrt_execute_sharded()` starts a program that was compiled for several devices, with separate inputs for each
#' device. Like [pjrt_execute()], it returns at once and first checks every input of every device.
#'
#' You can pass results to the next call without waiting. `Map(list, xs, ys)` combines the lists that [pjrt_shard()]
#' returns for the program's arguments. If the program has one argument, you can pass the list from [pjrt_shard()]
#' itself.
#'
#' Donation works as on one device: each device's input is donated to an output of that device.
#'
#' @section Devices that wait for each other:
#' A program starts when all inputs on all devices are ready and the devices have finished their earlier work. On the
#' CPU, it also ends before the next one starts. At a collective operation, every device waits for all others. If one of
#' its devices is more than a minute late there, XLA's CPU client ends the process. To allow more time, add the flag
#' `--xla_cpu_collective_call_terminate_timeout_seconds=` to the environment variable `XLA_FLAGS` before the client is
#' created.
#'
#' @param executable A `PJRTLoadedExecutable`, compiled with several `num_replicas` or `num_partitions` in
#'   [pjrt_compile_options()].
#' @param inputs A list with an element for each device, in the order of `devices(executable)`, which starts with all
#'   partitions of the first replica: a list of that device's inputs, which must be on that device. If some devices
#'   belong to other processes (see [pjrt_distributed()]), the list is for this process's devices.
#' @param execution_options A `PJRTExecutionOptions`, from [pjrt_execution_options()], or `NULL`.
#' @param simplify A flag: whether to return a single output itself instead of a list.
#' @return A list with an element for each device: a `PJRTBuffer`, or a list of `PJRTBuffer`s if the program does not
#'   have exactly one output or `simplify` is `FALSE`.
#' @section Errors:
#' The errors of [pjrt_execute()]; messages name the device and the argument. If a computation fails on one device
#' later, the error is raised when you read an output that depends on it.
#' @seealso [pjrt_shard()], `vignette("several-devices")` (see [pjrt_articles])
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # a client of the CPU with two devices
#' pair <- plugin_client_create(
#'   pjrt_plugin("cpu"), "pair", list(cpu_device_count = 2L)
#' )
#' sum_of_all <- pjrt_compile(pjrt_program("
#' func.func @main(%x: tensor<f32>) -> tensor<f32> {
#'   %0 = \"stablehlo.all_reduce\"(%x) <{
#'     replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>
#'   }> ({
#'     ^bb0(%a: tensor<f32>, %b: tensor<f32>):
#'       %c = stablehlo.add %a, %b : tensor<f32>
#'       stablehlo.return %c : tensor<f32>
#'   }) : (tensor<f32>) -> tensor<f32>
#'   return %0 : tensor<f32>
#' }"), pjrt_compile_options(num_replicas = 2L), devices = devices(pair))
#' inputs <- Map(pjrt_scalar, c(1, 2), device = devices(pair))
#' pjrt_execute_sharded(sum_of_all, inputs)
#' @export
pjrt_execute_sharded <- function(executable, inputs, execution_options = NULL, simplify = TRUE) {
  .Call(ffi_executable_execute_sharded, executable, inputs, execution_options, simplify)
}
