#' Load a PJRT plugin
#'
#' A plugin is the library that drives one kind of device. It is loaded once per session and stays loaded.
#'
#' The library is looked for in this order: the file that the environment variable `PJRT_PLUGIN_PATH_<PLATFORM>` names
#' (e.g. `PJRT_PLUGIN_PATH_CPU`), the package's cache, and, for platforms that [install_pjrt()] knows, the Python
#' package index, as far as `PJRT_INSTALL` allows.
#'
#' @param platform The platform's name, e.g. `"cpu"` or `"cuda"`.
#' @param x A platform's name or a `PJRTPlugin`.
#' @return A `PJRTPlugin`; always the same object for a platform.
#' @section Errors:
#' `pjrt_error_plugin_not_found` when no plugin can be found for the platform, `pjrt_error_plugin_invalid` when the file
#' found is no plugin that can be used.
#' @seealso [plugin_attributes()], [pjrt_client()], [install_pjrt()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' plugin <- pjrt_plugin("cpu")
#' plugin
#' plugin_attributes(plugin)$stablehlo_current_version
#' @export
pjrt_plugin <- function(platform) {
  check_platform(platform)
  known <- the$plugins[[platform]]
  if (!is.null(known)) {
    return(known)
  }
  plugin <- load_plugin(plugin_path(platform), platform)
  the$plugins[[platform]] <- plugin
  plugin
}

load_plugin <- function(path, platform) {
  debug_message("loading the plugin for ", platform, " from ", path)
  plugin <- call_native(ffi_plugin_load, enc2utf8(path))
  attr(plugin, "platform") <- platform
  plugin
}

#' @rdname pjrt_plugin
#' @export
as_pjrt_plugin <- function(x) {
  if (inherits(x, "PJRTPlugin")) {
    x
  } else if (is.character(x)) {
    pjrt_plugin(x)
  } else {
    abort_input("Invalid plugin: <", paste(class(x), collapse = "/"), ">; give a platform's name or a `PJRTPlugin`.")
  }
}

#' What a plugin says of itself
#'
#' @param plugin A `PJRTPlugin` or a platform's name.
#' @return A named list. XLA's plugins give `xla_version`, `stablehlo_current_version` and `stablehlo_minimum_version`;
#'   other plugins give what they like. Texts are character, whole numbers integer (double where an integer cannot hold
#'   them), lists of them vectors, others double or logical.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' str(plugin_attributes("cpu"))
#' @export
plugin_attributes <- function(plugin) {
  call_native(ffi_plugin_attributes, as_pjrt_plugin(plugin))
}

# Major and minor version of the PJRT C API that a plugin was built with.
pjrt_api_version <- function(plugin) {
  call_native(ffi_plugin_version, as_pjrt_plugin(plugin))
}

#' @export
print.PJRTPlugin <- function(x, ...) {
  cat("<PJRTPlugin:", attr(x, "platform"), ">\n", sep = "")
  invisible(x)
}

# The platform to use when the user names none.
default_platform <- function() {
  platform <- Sys.getenv("PJRT_PLATFORM")
  if (nzchar(platform)) platform else "cpu"
}
