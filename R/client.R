#' Get or create a client
#'
#' A client is a session's connection to the devices of one platform. The first call for a platform creates its client;
#' later calls return the same one, until you [close()][pjrt_delete] it.
#'
#' @param platform A string: the platform's name. Default: the environment variable `PJRT_PLATFORM`, or `"cpu"`.
#' @param ... Client options, as `name = value`. You can pass them only when the client is created; see below.
#' @param distributed A [pjrt_distributed()], for a client that uses the devices of several processes. Default: a client
#'   of this process alone.
#' @param x A `PJRTClient`, a platform's name, or `NULL` for the default platform.
#' @return A `PJRTClient`.
#' @section Options:
#' For `"cpu"`:
#' * `cpu_device_count`: the number of devices that the CPU is divided into, 1 to 4096. Default: the environment
#'   variable `PJRT_CPU_DEVICE_COUNT`, or 1.
#' * `threads`: the number of threads that run programs, 1 to 4096. Default: the environment variable
#'   `PJRT_CPU_THREADS`, or the number of processors that the process or its job may use: see [pjrt_options]. All
#'   devices share these threads, and there are at least as many threads as devices. You can ask for more threads than
#'   processors. Threads are not pinned to processors. The compiler has separate threads, which are idle while programs
#'   run.
#'
#' For `"cuda"` and `"rocm"`: XLA's options `allocator` (`"default"`, `"bfc"`, `"cuda_async"`, `"platform"`, ...),
#' `memory_fraction`, `preallocate`, `collective_memory_size`, `visible_devices`, `platform_name`, `node_id`,
#' `num_nodes`, `partition_index`, `should_stage_host_to_device_transfers`, `abort_collectives_on_failure`,
#' `use_tfrt_gpu_client`, `enable_mock_nccl` and `mock_gpu_topology`. For other platforms: the options of their plugin.
#'
#' Strings and flags are passed to the plugin as they are. A whole number (integer, double or [bit64::integer64]) is
#' passed as a 64-bit integer, several as a list of integers, and a number with a fraction as a 32-bit float. If this
#' package knows the platform's options, it uses their types: `memory_fraction = 1` is a float, and
#' `visible_devices = 0` is a list. For other platforms, write a list of one number as `list(0)` or `I(0)`.
#' @section XLA_FLAGS:
#' XLA reads the environment variable `XLA_FLAGS` when the first client is created, and ends the process if it finds an
#' unknown flag or a wrong value there. If the variable is set, a separate process tries this first, in about 0.05 s for
#' CPUs, and what XLA refuses is a `pjrt_error_invalid_input`. This does not happen on Windows, and not for CUDA, where
#' a client reserves memory of the device.
#' @section Errors:
#' `pjrt_error_invalid_input` if the platform has no such option, if a value has the wrong type, or if you pass options
#' and the client already exists. `pjrt_error_driver_missing` if the plugin throws an exception because its hardware is
#' missing. See [cuda] for errors about NVIDIA drivers and libraries.
#' @seealso [devices()], [client_info()], [platform()], [close()][pjrt_delete]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' client <- pjrt_client("cpu")
#' client
#' platform(client)
#' devices(client)
#' @export
pjrt_client <- function(platform = NULL, ..., distributed = NULL) {
  platform <- platform %||% default_platform()
  check_platform(platform)
  check_distributed(distributed, platform)
  known <- the$clients[[platform]]
  if (
    !is.null(known) && ...length() == 0L && (is.null(distributed) || same_place(distributed, the$places[[platform]]))
  ) {
    return(known)
  }
  create_client(pjrt_plugin(platform), platform, list(...), distributed)
}

#' @rdname pjrt_client
#' @export
as_pjrt_client <- function(x) {
  if (inherits(x, "PJRTClient")) {
    call_native(ffi_client_platform, x)
    x
  } else if (is.null(x) || (is_text(x) && nzchar(x))) {
    pjrt_client(x)
  } else {
    abort_type("Must be a PJRTClient or a platform name, not ", given(x), ".")
  }
}

#' Create a client of a plugin
#'
#' `plugin_client_create()` creates a client under a name of your choice. [pjrt_client()] calls it once it has found the
#' plugin.
#'
#' @param plugin A `PJRTPlugin`.
#' @param platform A string: the name under which the client is kept, such as `"cpu"`.
#' @param options A named list of client options, as for [pjrt_client()]. They override the defaults.
#' @return A `PJRTClient`: the client of that name, which is created if necessary.
#' @inheritSection pjrt_client Errors
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # a client of the CPU besides the default one, with two devices
#' client <- plugin_client_create(
#'   pjrt_plugin("cpu"), "two", list(cpu_device_count = 2L)
#' )
#' devices(client)
#' @export
plugin_client_create <- function(plugin, platform, options = list()) {
  check_platform(platform)
  plugin <- as_pjrt_plugin(plugin)
  if (!is.null(options) && (!is.list(options) || is.object(options))) {
    abort_type("`options` must be a named list, not ", given(options), ".")
  }
  create_client(plugin, platform, options)
}

create_client <- function(plugin, platform, options, distributed = NULL) {
  known <- the$clients[[platform]]
  if (!is.null(known)) {
    if (length(options) > 0L || !is.null(distributed)) {
      typed_client_options(options, attr(plugin, "platform") %||% "")
      abort_input(
        "Can only specify client options the first time you create a client.",
        hints = paste0("The client for ", platform, " already exists: close() it first, or restart R.")
      )
    }
    return(known)
  }
  # the client may have another name than its plugin
  driven <- attr(plugin, "platform") %||% platform
  defaults <- c(registered_options(driven), default_client_options(driven))
  defaults <- defaults[!duplicated(names(defaults))]
  options <- c(options, defaults[setdiff(names(defaults), names(options))])
  client <- if (is.null(distributed)) {
    new_client(plugin, options)
  } else {
    new_distributed_client(plugin, platform, options, distributed)
  }
  debug_message("created the client for ", platform)
  the$places[[platform]] <- distributed
  register_client(client, platform)
}

# Names for native code what a client needs.
before_client <- function() {
  name_lapack()
  # it finds out whether these flags would make XLA end the process
  if (nzchar(Sys.getenv("XLA_FLAGS"))) has_compile_helper()
}

# A client that is not kept under a name.
new_client <- function(plugin, options = list()) {
  before_client()
  platform <- attr(plugin, "platform") %||% ""
  given <- typed_client_options(options, platform)
  for_xla <- given$names != "threads" | platform != "cpu"
  with_threads(
    if (!all(for_xla)) options$threads,
    call_native(ffi_client_create, plugin, given$names[for_xla], given$types[for_xla], given$values[for_xla])
  )
}

register_client <- function(client, platform) {
  the$clients[[platform]] <- client
  the$devices[[platform]] <- .Call(ffi_client_devices, client)
  name_devices(platform)
  client
}

# Removes the names of a closed client and its devices.
forget_client <- function(client) {
  platforms <- names(the$clients)
  its <- platforms[vapply(platforms, function(platform) identical(the$clients[[platform]], client), NA)]
  rm(list = its, envir = the$clients)
  rm(list = its, envir = the$devices)
  unname_devices(its)
}

#' Get client information
#'
#' @param x A `PJRTClient`, a platform's name, or `NULL` for the default platform.
#' @return A list of class `PJRTClientInfo`:
#' * `platform`, and `platform_version`: the version of the software that drives the devices, such as that of CUDA.
#' * `api_version`: the version of the PJRT C API that the plugin implements.
#' * `process_index`: the number of this process among those that share the devices, from 0.
#' * `devices`: the devices that this process can use; `devices_in_all`: the number of devices in all processes.
#' * `memory_spaces`: the memory spaces of these devices.
#' * `attributes`: the plugin's attributes; see [plugin_info()].
#' @section Errors:
#' `pjrt_error_invalid_input` if `x` is neither a client nor a platform's name.
#' @seealso [platform()], [devices()], [device_info()], [pjrt_topology()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' client_info("cpu")
#' client_info("cpu")$platform_version
#' @export
client_info <- function(x = NULL) {
  client <- as_pjrt_client(x)
  facts <- call_native(ffi_client_info, client)
  members <- list(
    devices = devices(client), devices_in_all = length(devices(client, addressable = FALSE)),
    memory_spaces = memory_spaces(client)
  )
  new_info(c(facts[names(facts) != "attributes"], members, facts["attributes"]), "PJRTClientInfo")
}

#' Get the name of a platform
#'
#' @param x A `PJRTClient`, `PJRTDevice` or `PJRTBuffer`.
#' @param ... For methods.
#' @return A string: the platform's name, such as `"cpu"` or `"cuda"`.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' platform(pjrt_scalar(1))
#' @export
platform <- function(x, ...) {
  UseMethod("platform")
}

#' @export
platform.PJRTClient <- function(x, ...) {
  check_unused(...)
  call_native(ffi_client_platform, x)
}

#' @export
as.character.PJRTClient <- function(x, ...) {
  check_unused(...)
  platform(x)
}

#' @export
format.PJRTClient <- function(x, ...) {
  dead_client(x) %||% platform(x)
}

#' @export
print.PJRTClient <- function(x, ...) {
  show_lines(dead_client(x) %||% paste0("<PJRTClient:", platform(x), ">"))
  invisible(x)
}

dead_client <- function(x) {
  dead_text(x, "PJRTClient", paste0("PJRTClient:", platform(x)), closed = "closed")
}

#' @export
platform.default <- function(x, ...) {
  pass_on("platform", x, c("PJRTClient", "PJRTDevice", "PJRTBuffer"), ...)
}
