#' Register a plugin
#'
#' Tells the session which plugin drives a platform, for hardware that this package does not know, or in place of the
#' plugin that [pjrt_plugin()] would find. The library is looked into, and loaded when the platform is first used.
#'
#' A registration lasts for the session, and a later one for the same platform replaces it, as long as the plugin is
#' not loaded. The environment variable `PJRT_PLUGIN_PATH_<PLATFORM>` wins over it.
#'
#' @param name The platform's name: letters, digits, `_`, `-` and `.`, a letter first.
#' @param path The plugin's library.
#' @param options Options that a client of this platform gets when [pjrt_client()] is not told otherwise: a named list.
#' @return `name`, invisibly.
#' @section Errors:
#' `pjrt_error_plugin_not_found` when there is no such file, `pjrt_error_plugin_invalid` when it is not a plugin for this
#' machine. `pjrt_error_invalid_input` for another plugin than the one that the platform has loaded, for options that
#' its client was made without, and for names and options that are none.
#' @seealso [pjrt_plugin()] for where plugins are found without this.
#' @examplesIf file.exists(Sys.getenv("PJRT_PLUGIN_PATH_CPU"))
#' # the CPU under a name of its own, and as two devices
#' pjrt_register_plugin("halves", Sys.getenv("PJRT_PLUGIN_PATH_CPU"), list(cpu_device_count = 2L))
#' plugins_downloaded("halves")
#' @export
pjrt_register_plugin <- function(name, path, options = list()) {
  check_platform(name, "name")
  if (!grepl("^[A-Za-z][A-Za-z0-9_.-]*$", name)) {
    abort_input("`name` must be of letters, digits, `_`, `-` and `.`, a letter first, not '", name, "'.")
  }
  check_string(path, "path")
  if (!is.list(options)) {
    abort_input("`options` must be a named list, not ", given(options), ".")
  }
  typed_client_options(options, name)
  file <- call_with_text(ffi_plugin_check, full_path(path))
  loaded <- the$plugins[[name]]
  if (!is.null(loaded) && !identical(call_native(ffi_plugin_file, loaded), file)) {
    abort_input(
      "Platform '", name, "' has another plugin already, loaded from '", call_native(ffi_plugin_file, loaded), "'.",
      hints = "Restart R, and register the plugin before the platform is used."
    )
  }
  if (!is.null(the$clients[[name]]) && !identical(options, registered_options(name))) {
    abort_input(
      "Options count when a client is created, and platform '", name, "' has one already.",
      hints = "Register the plugin before the platform is used, or after close() of its client."
    )
  }
  the$registered[[name]] <- list(path = file, options = options)
  invisible(name)
}

# The plugins registered, as found_plugins() has its own.
registered_plugins <- function() {
  platforms <- sort(as.character(names(the$registered)))
  data.frame(
    platform = platforms, path = vapply(platforms, function(name) the$registered[[name]]$path, "", USE.NAMES = FALSE),
    source = rep("pjrt_register_plugin()", length(platforms)), version = rep(NA_character_, length(platforms))
  )
}

registered_options <- function(platform) {
  the$registered[[platform]]$options %||% list()
}

# The plugins that are on this machine without this package's doing, for one platform or for all. The first of those
# for a platform is the one to use.
found_plugins <- function(platform = NULL) {
  found <- look_for_plugins(platform)$found
  too_new <- found$platform == "cuda"
  too_new[too_new] <- vapply(found$path[too_new], needs_newer_driver, NA)
  found[order(too_new), , drop = FALSE]
}

# Looks for plugins, without loading any. Three data frames: `found`; `skipped`, what is not taken for a plugin and why;
# and `places`, where was looked.
look_for_plugins <- function(platform = NULL) {
  seen <- lapply(call_native(ffi_plugins_find), as.data.frame)
  if (!is.null(platform)) {
    seen$found <- seen$found[seen$found$platform == platform, , drop = FALSE]
    seen$skipped <- seen$skipped[seen$skipped$platform %in% c(platform, NA), , drop = FALSE]
  }
  seen
}

# The plugin for a platform that needs no download, or NULL.
local_plugin_path <- function(platform) {
  the$registered[[platform]]$path %||% cached_plugin_path(platform) %||% {
    found <- found_plugins(platform)$path
    if (length(found) > 0L) found[[1L]]
  }
}

# What to say of the search for a platform's plugin, when there is none.
where_looked <- function(platform) {
  seen <- look_for_plugins(platform)
  paths <- shorten_list(sprintf("%s (%s)", seen$places$path, seen$places$source), 3L)
  skipped <- seen$skipped
  c(
    if (length(paths) > 0L) paste0("Looked for it in ", paste(paths, collapse = ", "), "."),
    shorten_list(sprintf("Did not use '%s': %s.", skipped$path, sub("\\.$", "", skipped$reason)), 3L)
  )
}

# The first `n`, and how many more there are.
shorten_list <- function(x, n) {
  if (length(x) <= n) x else c(x[seq_len(n)], sprintf("and %d more", length(x) - n))
}
