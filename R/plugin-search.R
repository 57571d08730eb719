#' Register a plugin
#'
#' `pjrt_register_plugin()` sets the plugin for a platform: for hardware that this package does not know, or instead of
#' the plugin that [pjrt_plugin()] would find. The library is checked now, and loaded when the platform is first used.
#'
#' A registration lasts for the session, or until `pjrt_unregister_plugin()` removes it. You can replace it as long as
#' the plugin is not loaded. The environment variable `PJRT_PLUGIN_PATH_<PLATFORM>` overrides it. A plugin that is
#' loaded stays in use until the session ends.
#'
#' Two plugins for the same devices work side by side under two names, such as `"cpu"` and `"cpu-new"`. Each has its own
#' devices, buffers and executables. [copy_buffer()] copies between them, through host memory.
#'
#' @param platform A string: the platform's name. It starts with a letter and has only letters, digits, `_`, `-` and
#'   `.`.
#' @param path A string: the path of the plugin's library.
#' @param options A named list: default client options for this platform. Options in [pjrt_client()] override them.
#' @return `pjrt_register_plugin()`: `platform`, invisibly. `pjrt_unregister_plugin()`: invisibly, whether there was a
#'   registration.
#' @section Errors:
#' * `pjrt_error_plugin_not_found`: the file does not exist.
#' * `pjrt_error_plugin_invalid`: the file is not a plugin for this machine.
#' * `pjrt_error_invalid_input`: a platform's name or an option is invalid, the platform has already loaded a different
#'   plugin, or it already has a client that was created with other options.
#' @seealso [pjrt_plugin()], which describes where plugins are found
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # the CPU under another name, as two devices
#' plugins <- pjrt_plugins()
#' path <- plugins$path[plugins$platform == "cpu"][1]
#' pjrt_register_plugin("halves", path, list(cpu_device_count = 2L))
#' devices("halves")
#' pjrt_unregister_plugin("halves")
#' @export
pjrt_register_plugin <- function(platform, path, options = list()) {
  check_platform(platform)
  if (!grepl("^[A-Za-z][A-Za-z0-9_.-]*$", platform)) {
    abort_input(
      "`platform` must start with a letter and have only letters, digits, `_`, `-` and `.`, not '", platform, "'."
    )
  }
  check_string(path, "path")
  if (!is.list(options)) {
    abort_type("`options` must be a named list, not ", given(options), ".")
  }
  typed_client_options(options, platform)
  file <- call_with_text(ffi_plugin_check, full_path(path))
  loaded <- the$plugins[[platform]]
  if (!is.null(loaded) && !identical(call_native(ffi_plugin_file, loaded), file)) {
    abort_input(
      "Platform '", platform, "' has already loaded a different plugin, '", call_native(ffi_plugin_file, loaded), "'.",
      hints = "Restart R, and register the plugin before you use the platform."
    )
  }
  if (!is.null(the$clients[[platform]]) && !identical(options, registered_options(platform))) {
    abort_input(
      "Options take effect when a client is created, but platform '", platform, "' already has a client.",
      hints = "Register the plugin before you use the platform, or close() its client first."
    )
  }
  the$registered[[platform]] <- list(path = file, options = options)
  invisible(platform)
}

#' @rdname pjrt_register_plugin
#' @export
pjrt_unregister_plugin <- function(platform) {
  check_platform(platform)
  was_registered <- !is.null(the$registered[[platform]])
  if (was_registered) {
    the$registered[[platform]] <- NULL
  }
  invisible(was_registered)
}

# The registered plugins, with the columns of found_plugins().
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

# The plugins on this machine that this package did not install, for one platform or for all. The first one for a
# platform is used.
found_plugins <- function(platform = NULL) {
  found <- look_for_plugins(platform)$found
  too_new <- found$platform == "cuda"
  too_new[too_new] <- vapply(found$path[too_new], needs_newer_driver, NA)
  found[order(too_new), , drop = FALSE]
}

# Looks for plugins without loading any. Returns three data frames: `found`; `skipped`, files that are not used, with
# reasons; and `places`, the folders searched.
look_for_plugins <- function(platform = NULL) {
  seen <- lapply(call_native(ffi_plugins_find), as.data.frame)
  if (!is.null(platform)) {
    seen$found <- seen$found[seen$found$platform == platform, , drop = FALSE]
    seen$skipped <- seen$skipped[seen$skipped$platform %in% c(platform, NA), , drop = FALSE]
  }
  seen
}

# The path of a platform's plugin if it needs no download, or NULL.
local_plugin_path <- function(platform) {
  the$registered[[platform]]$path %||% stored_plugin_path(platform) %||% {
    found <- found_plugins(platform)$path
    if (length(found) > 0L) found[[1L]]
  }
}

# Where a platform's plugin was looked for in vain: hints for the error. Places that the user set come first, all of
# them.
search_hints <- function(platform) {
  seen <- look_for_plugins(platform)
  set_first <- function(text, is_set) c(text[is_set], shorten_list(text[!is_set], 3L))
  places <- rbind(stored_places(), seen$places)
  paths <- set_first(sprintf("%s (%s)", places$path, places$source), grepl("^[A-Z_]+$", places$source))
  skipped <- seen$skipped
  named <- strsplit(Sys.getenv(c("PJRT_PLUGIN_PATH", "TPU_LIBRARY_PATH")), .Platform$path.sep, fixed = TRUE)
  reasons <- sprintf("Did not use '%s': %s.", skipped$path, sub("\\.$", "", skipped$reason))
  c(
    store_hints(platform),
    if (length(paths) > 0L) paste0("Looked for it in ", paste(paths, collapse = ", "), "."),
    set_first(reasons, skipped$path %in% unlist(named))
  )
}

# The folders of installed plugins, as places.
stored_places <- function() {
  given <- nzchar(Sys.getenv("PJRT_CACHE_DIR"))
  folders <- list(cache_dir(), if (is.null(site_dir_problem())) site_dir())
  sources <- c(if (given) "PJRT_CACHE_DIR" else "cache", "PJRT_SITE_DIR")
  is_there <- lengths(folders) > 0L
  data.frame(path = as.character(unlist(folders)), source = sources[is_there])
}

# The first `n` elements, and the number of the others.
shorten_list <- function(x, n) {
  if (length(x) <= n) x else c(x[seq_len(n)], sprintf("and %d more", length(x) - n))
}
