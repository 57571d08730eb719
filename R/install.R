#' Fetch plugins
#'
#' Fetches the CPU plugin, Linux on x86_64 and aarch64, into the package's cache (`tools::R_user_dir("pjrt",
#' "cache")`). Does nothing when it is there already. The first use of a platform does the same, as far as the
#' environment variable `PJRT_INSTALL` allows: `1` always, `0` never; when it is unset, interactive sessions ask and
#' others raise an error.
#'
#' The plugin comes as a wheel from the Python package index that `options(pjrt.index_url = )`, `PJRT_INDEX_URL`,
#' `PIP_INDEX_URL`, `UV_DEFAULT_INDEX` or pip's configuration names, and else from the one that the machine's own pip
#' uses. Its SHA-256 must be the one this package knows, before anything is unpacked or loaded. Proxies are taken from
#' the usual environment variables.
#'
#' Plugins for other platforms are used from wherever they are: set `PJRT_PLUGIN_PATH_<PLATFORM>`.
#'
#' @param cuda Whether to fetch the CUDA plugin as well. It cannot be fetched yet: `TRUE` is an error that says how to
#'   use one that is on the machine.
#' @return The platforms whose plugins are installed, invisibly.
#' @section Errors:
#' `pjrt_error_download` when no index is known or the download fails, `pjrt_error_checksum` when what came is not what
#' was expected, `pjrt_error_plugin_not_found` where there is no such plugin for this machine. They say what to do.
#' @seealso [pjrt_plugin()], [plugins_downloaded()]
#' @examplesIf pjrt::plugins_downloaded("cpu") && !nzchar(Sys.getenv("PJRT_PLUGIN_PATH_CPU"))
#' # the plugin is there, so this fetches nothing
#' print(install_pjrt())
#' @export
install_pjrt <- function(cuda = NULL) {
  if (!is.null(cuda)) {
    check_flag(cuda, "cuda")
  }
  if (isTRUE(cuda)) {
    pjrt_abort(
      "The CUDA plugin cannot be fetched.", "plugin_not_found",
      hints = "Set PJRT_PLUGIN_PATH_CUDA to the library of one that is on this machine."
    )
  }
  fetch_plugin("cpu")
  invisible("cpu")
}

#' Whether plugins are on this machine
#'
#' @param platforms Platforms' names; by default that of `PJRT_PLATFORM`, or `"cpu"`.
#' @return `TRUE` when [pjrt_plugin()] finds a plugin for each of them without a download: named by
#'   `PJRT_PLUGIN_PATH_<PLATFORM>` or [pjrt_register_plugin()], in the cache, or elsewhere on the machine. Else `FALSE`.
#'   Nothing is loaded or fetched.
#' @examples
#' plugins_downloaded("cpu")
#' @export
plugins_downloaded <- function(platforms = NULL) {
  platforms <- platforms %||% default_platform()
  if (!is.character(platforms) || anyNA(platforms) || !all(validUTF8(platforms))) {
    abort_input("`platforms` must be a character vector without NA.")
  }
  has_plugin <- function(platform) {
    given <- given_plugin_path(platform)
    if (nzchar(given)) file.exists(given) else !is.null(local_plugin_path(platform))
  }
  all(vapply(platforms, has_plugin, logical(1L)))
}

# The library of a platform's plugin: the file that the user names, one that is on the machine, or one fetched now.
plugin_path <- function(platform) {
  given <- given_plugin_path(platform)
  if (nzchar(given)) {
    return(given)
  }
  local_plugin_path(platform) %||% {
    if (!platform %in% names(fetchable)) {
      abort_no_plugin(platform)
    }
    ask_to_fetch(platform)
    fetch_plugin(platform)
  }
}

# Platforms whose plugins can be fetched, with the size of the download.
fetchable <- c(cpu = "60 MB")

# Platforms for which plugins exist elsewhere.
known_platforms <- c("cpu", "cuda", "rocm", "tpu", "metal", "intel", "neuron")

plugin_path_variable <- function(platform) {
  paste0("PJRT_PLUGIN_PATH_", toupper(platform))
}

given_plugin_path <- function(platform) {
  Sys.getenv(plugin_path_variable(platform))
}

cache_dir <- function() {
  path.expand(tools::R_user_dir("pjrt", "cache"))
}

cached_plugin_path <- function(platform) {
  if (platform %in% names(fetchable)) {
    .Call(ffi_plugin_installed, platform, cache_dir())
  }
}

fetch_plugin <- function(platform) {
  index_url <- getOption("pjrt.index_url", "")
  if (!is.character(index_url) || length(index_url) != 1L || is.na(index_url)) {
    abort_input("`options(pjrt.index_url = )` must be one string.")
  }
  debug_message("fetching the plugin for ", platform)
  call_native(ffi_plugin_install, platform, cache_dir(), index_url, FALSE, interactive())
}

ask_to_fetch <- function(platform) {
  switch(Sys.getenv("PJRT_INSTALL"),
    "1" = return(invisible()),
    "0" = NULL,
    if (interactive()) {
      question <- sprintf(
        "The %s plugin (%s) is not on this machine. Fetch it into %s?", platform, fetchable[[platform]], cache_dir()
      )
      if (isTRUE(utils::askYesNo(question))) {
        return(invisible())
      }
    }
  )
  pjrt_abort(
    sprintf("There is no plugin for platform '%s' on this machine.", platform), "plugin_not_found",
    hints = c(
      "Fetch it with pjrt::install_pjrt(), or set PJRT_INSTALL=1 to have that done on first use.",
      sprintf("Or set %s to the library of a plugin that you have.", plugin_path_variable(platform)),
      where_looked(platform)
    ),
    platform = platform
  )
}

abort_no_plugin <- function(platform) {
  message <- if (platform %in% known_platforms) {
    sprintf("There is no plugin for platform '%s' on this machine, and it cannot be fetched.", platform)
  } else {
    sprintf("Invalid platform '%s': no plugin is known for it.", platform)
  }
  pjrt_abort(
    message, "plugin_not_found",
    hints = c(
      sprintf("Set %s to the library of a plugin for it.", plugin_path_variable(platform)), where_looked(platform)
    ),
    platform = platform
  )
}
