#' Create a client, or get the one there is
#'
#' A client is a session's connection to the devices of one platform. There is one client for each platform: the first
#' call creates it, later calls return it.
#'
#' @param platform The platform's name; by default that of the environment variable `PJRT_PLATFORM`, or `"cpu"`.
#' @param ... Options of the client as named whole numbers, possible only when it is created. For `"cpu"`:
#'   `cpu_device_count`, the number of devices the CPU is divided into (default: `PJRT_CPU_DEVICE_COUNT`, or 1).
#' @param x A `PJRTClient`, a platform's name, or `NULL` for the default platform.
#' @return A `PJRTClient`.
#' @section XLA_FLAGS:
#' XLA reads the environment variable `XLA_FLAGS` when the first client is created, and ends the process when it finds a
#' flag in it that it does not know. Nothing can stop it from that.
#' @section Errors:
#' `pjrt_error_invalid_input` for options that are no whole numbers, or that come when the client exists already.
#' @seealso [devices()], [platform()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' client <- pjrt_client("cpu")
#' client
#' platform(client)
#' devices(client)
#' @export
pjrt_client <- function(platform = NULL, ...) {
  platform <- platform %||% default_platform()
  check_string(platform, "platform")
  known <- the$clients[[platform]]
  if (!is.null(known) && ...length() == 0L) {
    return(known)
  }
  plugin_client_create(pjrt_plugin(platform), platform, list(...))
}

#' @rdname pjrt_client
#' @export
as_pjrt_client <- function(x) {
  if (inherits(x, "PJRTClient")) {
    x
  } else if (is.null(x) || (is.character(x) && length(x) == 1L && !is.na(x) && nzchar(x))) {
    pjrt_client(x)
  } else {
    abort_input("Must be a PJRTClient or a platform name.")
  }
}

#' Create a client of a plugin
#'
#' What [pjrt_client()] does once it has found the plugin.
#'
#' @param plugin A `PJRTPlugin`.
#' @param platform The name under which the client is kept, e.g. `"cpu"`.
#' @param options Options of the client: a named list of whole numbers, which win over the defaults.
#' @return The `PJRTClient` of that name, created if there is none.
#' @inheritSection pjrt_client Errors
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' plugin_client_create(pjrt_plugin("cpu"), "cpu")
#' @export
plugin_client_create <- function(plugin, platform, options = list()) {
  check_string(platform, "platform")
  known <- the$clients[[platform]]
  if (!is.null(known)) {
    if (length(options) > 0L) {
      abort_input("Can only specify client options the first time you create a client.")
    }
    return(known)
  }
  defaults <- default_client_options(platform)
  client <- new_client(plugin, c(options, defaults[setdiff(names(defaults), names(options))]))
  debug_message("created the client for ", platform)
  register_client(client, platform)
}

# A client of its own, not kept under any name.
new_client <- function(plugin, options = list()) {
  is_integer <- function(x) is_whole_number(x) && abs(x) <= .Machine$integer.max
  whole <- vapply(options, is_integer, logical(1L))
  named <- length(options) == 0L || (!is.null(names(options)) && all(nzchar(names(options))))
  if (!all(whole) || !named) {
    abort_input("Client options must be integers of length 1, each with a name.")
  }
  call_native(ffi_client_create, plugin, as.character(names(options)), as.integer(unlist(options)))
}

register_client <- function(client, platform) {
  the$clients[[platform]] <- client
  found <- .Call(ffi_client_devices, client)
  the$devices[[platform]] <- found
  for (device in found) {
    label <- as.character(device)
    the$canonical_devices[[label]] <- device
    the$platforms[[label]] <- platform
  }
  client
}

default_client_options <- function(platform) {
  if (platform != "cpu") {
    return(list())
  }
  count <- Sys.getenv("PJRT_CPU_DEVICE_COUNT")
  if (!nzchar(count)) {
    return(list(cpu_device_count = the$config$cpu_device_count))
  }
  if (!grepl("^[1-9][0-9]{0,8}$", count)) {
    abort_input("The environment variable PJRT_CPU_DEVICE_COUNT must be a whole number above 0, not '", count, "'.")
  }
  list(cpu_device_count = as.integer(count))
}

#' The platform of something
#'
#' @param x A `PJRTClient`, `PJRTDevice` or `PJRTBuffer`.
#' @param ... For methods.
#' @return The platform's name, such as `"cpu"` or `"cuda"`.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' platform(pjrt_scalar(1))
#' @export
platform <- function(x, ...) {
  UseMethod("platform")
}

#' @export
platform.PJRTClient <- function(x, ...) {
  call_native(ffi_client_platform, x)
}

#' @export
as.character.PJRTClient <- function(x, ...) {
  platform(x)
}

#' @export
format.PJRTClient <- function(x, ...) {
  platform(x)
}

#' @export
print.PJRTClient <- function(x, ...) {
  cat("<PJRTClient:", platform(x), ">\n", sep = "")
  invisible(x)
}

#' @export
platform.default <- function(x, ...) {
  abort_class(x, c("PJRTClient", "PJRTDevice", "PJRTBuffer"))
}
