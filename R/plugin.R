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
#' found is no plugin that can be used: no shared library, one for another system or processor, incomplete, without a library
#' that it needs, or of another major version of PJRT. The file is checked before any of its code runs. A plugin that fails
#' to set itself up gives its own error.
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
#' @description
#' * `plugin_attributes()` gives what the plugin tells of itself.
#' * `pjrt_api_version()` gives the version of the PJRT C API that the plugin was built with. This package speaks 0.90. Plugins
#'   of other minor versions work, older and newer ones; a call that a plugin lacks is an error when it is made.
#' * `plugin_stablehlo_versions()` gives the versions of StableHLO in which the plugin reads portable programs.
#' * `plugin_extensions()` lists what the plugin offers beside PJRT's calls.
#'
#' @details
#' A portable program names the version of StableHLO that it is written in. One newer than the plugin still compiles as long as
#' it uses nothing new; otherwise [pjrt_compile()] says so.
#'
#' @param plugin A `PJRTPlugin` or a platform's name.
#' @return
#' * `plugin_attributes()`: a named list. XLA's plugins give `xla_version`, `stablehlo_current_version` and
#'   `stablehlo_minimum_version`; other plugins give what they like. Texts are character, floats double, flags logical, and
#'   whole numbers and vectors of them integer, or double, or [bit64::integer64] where they are too
#'   large to be exact otherwise. A value of a type that this package does not know is `NA`.
#' * `pjrt_api_version()`: a list of two integers, `major` and `minor`.
#' * `plugin_stablehlo_versions()`: a list of two [numeric_version()]s, `minimum` and `current`, or `NULL` when the plugin
#'   does not tell.
#' * `plugin_extensions()`: a data frame with a row for each extension: its `name` in the PJRT headers (`NA` for one newer than
#'   this package), the number of its `type`, and the `size` of its struct in bytes, which grows with its version.
#' @section Errors:
#' `pjrt_error_plugin_not_found` and `pjrt_error_plugin_invalid` as for [pjrt_plugin()].
#' @seealso [pjrt_plugin()], [client_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' str(plugin_attributes("cpu"))
#' pjrt_api_version("cpu")
#' plugin_stablehlo_versions("cpu")$current
#' plugin_extensions("cpu")
#' @export
plugin_attributes <- function(plugin) {
  with_bit64(call_native(ffi_plugin_attributes, as_pjrt_plugin(plugin)))
}

#' @rdname plugin_attributes
#' @export
pjrt_api_version <- function(plugin) {
  call_native(ffi_plugin_version, as_pjrt_plugin(plugin))
}

#' @rdname plugin_attributes
#' @export
plugin_stablehlo_versions <- function(plugin) {
  versions <- call_native(ffi_plugin_stablehlo_versions, as_pjrt_plugin(plugin))
  if (!is.null(versions)) lapply(versions, numeric_version)
}

#' @rdname plugin_attributes
#' @export
plugin_extensions <- function(plugin) {
  found <- call_native(ffi_plugin_extensions, as_pjrt_plugin(plugin))
  data.frame(name = found$name, type = found$number, size = found$size)
}

# Attributes, with bit64 loaded where they need it to be shown right.
with_bit64 <- function(attributes) {
  if (any(vapply(attributes, inherits, NA, "integer64"))) {
    load_bit64()
  }
  attributes
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
