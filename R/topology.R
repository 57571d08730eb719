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
#' @seealso [pjrt_topology()] for devices of other machines, [client_info()], [device_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' topology("cpu")
#' @export
topology <- function(x = NULL) {
  new_topology(call_native(ffi_client_topology, as_pjrt_client(x)))
}

new_topology <- function(facts) {
  facts$devices <- lapply(facts$devices, new_info, class = "PJRTDeviceDescription")
  new_info(facts, "PJRTTopology")
}

#' Topology of absent devices
#'
#' `pjrt_topology()` describes devices that this machine need not have, such as those of a cluster. It creates no client.
#'
#' Names and options are the plugin's own, and pass to it unchecked. XLA's plugin for the CPU refuses every topology. This
#' package has been tested with a plugin made for the tests, not with a plugin for GPUs or TPUs.
#'
#' Programs cannot be compiled for a topology.
#'
#' @param platform A platform's name, such as `"cuda"`, or a `PJRTPlugin`, from [pjrt_plugin()].
#' @param name A string: the topology's name. The empty name is the plugin's default.
#' @param ... Named options of the plugin. Strings, whole numbers, other numbers, `TRUE` and `FALSE`, and vectors of whole
#'   numbers pass as such. `I(1)` passes a number as a vector.
#' @return A list of class `PJRTTopology`, as [topology()] returns.
#' @section Errors:
#' * `pjrt_error_unimplemented` if the plugin does not support topologies without devices, as that of the CPU.
#' * `pjrt_error_unsupported_call` if the plugin lacks the function.
#' * `pjrt_error_invalid_input` if an option has no name or a value that cannot pass.
#' * The plugin's own errors for names and options that it does not know.
#' @seealso [topology()] for the devices of a client, [pjrt_client()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # the plugin of the CPU refuses
#' try(pjrt_topology("cpu"))
#' @export
pjrt_topology <- function(platform, name = "", ...) {
  if (!(is.character(name) && length(name) == 1L && !is.na(name))) {
    abort_type("`name` must be a string, not ", given(name), ".")
  }
  plugin <- as_pjrt_plugin(platform)
  platform <- attr(plugin, "platform") %||% "unknown"
  options <- typed_options(list(...), NULL, "Topology", platform)
  facts <- call_with_text(
    ffi_topology_create, plugin, platform, enc2utf8(as.vector(name)), options$names, options$types, options$values
  )
  new_topology(facts)
}
