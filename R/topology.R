#' Topology of a client
#'
#' `topology()` describes the devices of all processes, as the compiler sees them.
#'
#' @param x A `PJRTClient`, a platform's name, or `NULL` for the default platform.
#' @return A list of class `PJRTTopology`:
#' * `platform`, `platform_version`.
#' * `devices`: for each device a list with its `id`, `kind`, `label`, `debug` string, `process_index` and `attributes`.
#' * `attributes`: a named list of the plugin's further attributes.
#' * `serialized`: a raw vector, the plugin's serialized form, which you can use to compare topologies; `NULL` if it has none.
#' @section Errors:
#' `pjrt_error_unsupported_call` or `pjrt_error_unimplemented` if the plugin does not describe its topology.
#' @seealso [client_info()], [device_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' topology("cpu")
#' @export
topology <- function(x = NULL) {
  facts <- call_native(ffi_client_topology, as_pjrt_client(x))
  facts$devices <- lapply(facts$devices, new_info, class = "PJRTDeviceDescription")
  new_info(facts, "PJRTTopology")
}
