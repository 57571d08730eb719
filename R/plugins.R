#' List plugins
#'
#' `pjrt_plugins()` lists the plugins that [pjrt_plugin()] can use without a download. The first row for a platform is
#' the plugin that is used, unless its source says that it is not in use. Installed plugins that others could have
#' changed are listed as not in use, with the reason. Nothing is loaded or downloaded.
#'
#' `pjrt_plugins(available = TRUE)` lists the plugins that [install_pjrt()] can download for this machine. The first
#' for a platform is the default: `install_pjrt(platform, version)` installs another from an index,
#' `install_pjrt(platform, source = "release")` an archive.
#'
#' @param available A flag: whether to list the plugins that can be downloaded.
#' @return A data frame with a row for each plugin:
#' * `platform`: the platform's name.
#' * `path`: the plugin's library.
#' * `source`: where it was found: an environment variable, [pjrt_register_plugin()], this package's cache or the site
#'   folder (and where it was downloaded from), or another place; and why it is not in use.
#' * `version`: the plugin's version, `NA` if unknown.
#' * `api_version`: its version of the PJRT C API, `NA` if it is known only after loading.
#' * `size`: the size in bytes of its files; outside the cache, of its library.
#' * `loaded`: whether this session has loaded it. `FALSE` for a plugin whose hardware is missing.
#'
#' With `available = TRUE`, the columns are `platform`, `version`, `source` (as in [install_pjrt()]), `api_version`,
#' `stablehlo` (the versions of StableHLO that it reads), `size` (the bytes of the download), each `NA` if unknown, and
#' `installed`: whether it is in this package's cache or the site's folder.
#' @seealso [install_pjrt()], [uninstall_pjrt()], [pjrt_sitrep()]
#' @examples
#' pjrt_plugins()
#' pjrt_plugins(available = TRUE)
#' @export
pjrt_plugins <- function(available = FALSE) {
  check_flag(available, "available")
  if (available) {
    return(available_plugins())
  }
  stored <- stored_plugins()
  idle <- endsWith(stored$source, "not in use")
  refused <- refused_plugins()
  all <- rbind(
    given_plugins(), as_plugin_table(registered_plugins()), stored[!idle, ], as_plugin_table(found_plugins()),
    stored[idle, ],
    plugin_table(refused$platform, refused$path, sprintf("%s, not in use: %s", refused$store, refused$reason))
  )
  all <- all[!duplicated(all[c("platform", "path")]), , drop = FALSE]
  files <- normalizePath(native_path(all$path), mustWork = FALSE)
  loaded <- loaded_plugins()
  which <- match(paste(all$platform, files), paste(loaded$platform, native_path(loaded$path)))
  unknown <- is.na(all$api_version)
  all$api_version[unknown] <- loaded$api_version[which][unknown]
  all$size[is.na(all$size)] <- file.size(native_path(all$path[is.na(all$size)]))
  all$loaded <- !is.na(which)
  all <- all[c("platform", "path", "source", "version", "api_version", "size", "loaded")]
  all <- all[order(match(all$platform, known_platforms), all$platform), , drop = FALSE]
  row.names(all) <- NULL
  all
}

# The plugins that can be downloaded for this machine.
available_plugins <- function() {
  all <- as.data.frame(call_with_text(ffi_plugins_available, manifest_path()))
  stored <- stored_plugins()
  all$installed <- paste(without_cuda_version(all$platform), all$version) %in% paste(stored$platform, stored$version)
  all
}

# A data frame of plugins from one source.
plugin_table <- function(platform = character(), path = character(), source = character(), version = NA_character_,
                         api_version = NA_character_, size = NA_real_) {
  n <- length(platform)
  data.frame(
    platform = platform, path = path, source = rep_len(source, n), version = rep_len(version, n),
    api_version = rep_len(api_version, n), size = rep_len(size, n)
  )
}

as_plugin_table <- function(found) {
  plugin_table(found$platform, found$path, found$source, found$version)
}

# The plugins in environment variables.
given_plugins <- function() {
  variables <- environment_variables()
  given <- variables[startsWith(names(variables), "PJRT_PLUGIN_PATH_") & nzchar(variables)]
  paths <- vapply(given, full_path, "", USE.NAMES = FALSE)
  plugin_table(tolower(sub("^PJRT_PLUGIN_PATH_", "", names(given))), paths, names(given))
}

# All environment variables, by name. Sys.getenv() fails if any is not valid text; here invalid bytes are replaced.
environment_variables <- function() {
  all <- call_native(ffi_variables)
  by_name <- order(all$name)
  structure(all$value[by_name], names = all$name[by_name])
}

# The plugins in the cache and in the site's folder. At most one for a platform is in use: the last that the user chose,
# or the one that this package knows, in the first of these folders that has it.
stored_plugins <- function() {
  of_store <- function(name, store) {
    all <- call_with_text(ffi_plugins_cached, store[[1L]], store[[2L]])
    used <- unlist(lapply(unique(all$platform), stored_plugin_path))
    source <- sprintf("%s (from %s)%s", name, all$source, ifelse(all$path %in% used, "", ", not in use"))
    plugin_table(all$platform, all$path, source, all$version, all$api_version, all$size)
  }
  stores <- plugin_stores()
  do.call(rbind, c(list(plugin_table()), unname(Map(of_store, names(stores), stores))))
}

# The plugins that this session has loaded, and that can drive devices.
loaded_plugins <- function() {
  platforms <- sort(names(the$plugins))
  is_absent <- function(platform) call_native(ffi_plugin_is_absent, the$plugins[[platform]])
  platforms <- platforms[!vapply(platforms, is_absent, NA)]
  describe <- function(platform) {
    plugin <- the$plugins[[platform]]
    plugin_table(
      platform, call_native(ffi_plugin_file, plugin), "loaded",
      api_version = paste(unlist(pjrt_api_version(plugin)), collapse = ".")
    )
  }
  do.call(rbind, c(list(plugin_table()), lapply(platforms, describe)))
}
