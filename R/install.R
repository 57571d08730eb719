#' Install plugins
#'
#' Fetches plugins into the package's cache (`tools::R_user_dir("pjrt", "cache")`), and with them the libraries that they
#' need. What is there already is not fetched again. The first use of a platform does the same, as far as the
#' environment variable `PJRT_INSTALL` allows: `1` always, `0` never; when it is unset, interactive sessions ask and
#' others raise an error.
#'
#' A progress bar tells how far a download is. What came before it broke or was interrupted is kept, and the next call goes
#' on from there.
#'
#' @param platforms Names of platforms: `"cpu"` (Linux on x86_64 and aarch64), `"cuda"` (NVIDIA GPUs, Linux on x86_64 and
#'   aarch64; the machine's driver decides between `"cuda13"` and `"cuda12"`, which can be named, too, for another machine),
#'   `"rocm"` (AMD GPUs) and `"intel"` (Intel GPUs, both Linux on x86_64, and their own system libraries must be there),
#'   `"tpu"` (Linux on x86_64), `"metal"` (macOS). `NULL` is `"cpu"`, and `"cuda"` as far as `cuda` says.
#' @param version A version of the plugin other than the one that this package knows, as the index has it. It is used from
#'   then on, until `install_pjrt(platforms)` returns to the known one.
#' @param source Where the plugin comes from:
#'   * `"auto"`: the URL that `PJRT_PLUGIN_URL_<PLATFORM>` names, or else an index.
#'   * `"index"`: a Python package index.
#'   * `"release"`: an archive that its authors published, whose checksum this package does not know. This is the only
#'     source for the CPU plugin on macOS and Windows.
#'   * `"file"`: what `path` names.
#' @param path For `source = "file"`: a wheel, a zip or tar.gz archive, a library, or a folder with wheels, for machines
#'   without a network.
#' @param force Whether to fetch again what is there.
#' @param cuda Whether to fetch the CUDA plugin as well. `NULL` does when there is a driver for it and no `platforms` are
#'   given.
#' @return The platforms whose plugins are installed, invisibly.
#' @section Where it looks:
#' The index is that of `options(pjrt.index_url = )`, `PJRT_INDEX_URL`, `PIP_INDEX_URL`, `UV_DEFAULT_INDEX` or pip's
#' configuration, and else the one that the machine's own pip uses. It may be a local folder. `PJRT_PLUGIN_URL_<PLATFORM>`
#' (`http`, `https` or `file`) names a wheel, an archive or a library instead; `#sha256=<digits>` behind it says what it
#' must be.
#'
#' Proxies are taken from the usual variables (`HTTPS_PROXY`, `NO_PROXY`, ...). Trusted are the system's certificates and
#' those in the files that `SSL_CERT_FILE`, `PIP_CERT`, `REQUESTS_CA_BUNDLE` and `CURL_CA_BUNDLE` name. Logins in URLs are
#' never shown or stored.
#' @section What it trusts:
#' A file must have the SHA-256 that this package knows for it, before anything is unpacked or loaded. Where you name
#' another `version`, it must have the one that the index tells; `source = "release"` and `"file"` and a URL without
#' `#sha256=` are taken at your word. Nobody else may write to what is installed; otherwise it is not used.
#' @section Errors:
#' `pjrt_error_download` when no index is known or the download fails, `pjrt_error_checksum` when what came is not what
#' was expected, `pjrt_error_plugin_not_found` where there is no such plugin or version for this machine,
#' `pjrt_error_plugin_invalid` when it has no plugin, `pjrt_error_driver_missing` and `pjrt_error_driver_too_old` when the choice takes a
#' driver, `pjrt_error_io` when the cache cannot be written or is too small. They say what to do.
#' @seealso [pjrt_plugins()], [pjrt_sitrep()], [pjrt_plugin()], [plugins_downloaded()]
#' @examplesIf pjrt::plugins_downloaded("cpu") && !nzchar(Sys.getenv("PJRT_PLUGIN_PATH_CPU"))
#' # the plugin is there, so this fetches nothing
#' print(install_pjrt("cpu"))
#' @export
install_pjrt <- function(platforms = NULL, version = NULL, source = c("auto", "index", "release", "file"), path = NULL,
                         force = FALSE, cuda = NULL) {
  source <- check_choice(source, c("auto", "index", "release", "file"), "source")
  check_string_or_null(version, "version")
  check_string_or_null(path, "path")
  check_flag(force, "force")
  if (!is.null(cuda)) {
    check_flag(cuda, "cuda")
  }
  platforms <- platforms_to_install(platforms, cuda, alone = !is.null(version) || source != "auto")
  if (length(platforms) != 1L && !(is.null(version) && is.null(path))) {
    abort_input("`version` and `path` belong to one platform: name it in `platforms`.")
  }
  for (platform in platforms) {
    library <- fetch_plugin(platform, version %||% "", source, path %||% "", force)
    say("The plugin for ", platform, " is ", library)
  }
  invisible(unique(sub("^cuda[0-9]+$", "cuda", platforms)))
}

# What install_pjrt() is asked for. `alone` keeps it to one platform.
platforms_to_install <- function(platforms, cuda, alone) {
  if (!is.null(platforms)) {
    check_platforms(platforms)
  } else {
    platforms <- "cpu"
    if (is.null(cuda) && !alone) {
      cuda <- "cuda" %in% names(fetchable_plugins()) && !is.na(cuda_report()$cuda)
    }
  }
  unique(c(platforms, if (isTRUE(cuda)) "cuda"))
}

#' Remove plugins
#'
#' Removes plugins from the package's cache. A session that has loaded one keeps it. Plugins that are elsewhere on the
#' machine stay.
#'
#' @param platforms Names of platforms, as for [install_pjrt()]: `"cuda"` is those for CUDA 12 and for CUDA 13, `"cuda12"` the
#'   former. `NULL` removes all that [install_pjrt()] installed.
#' @param version Only this version; `NULL` removes all.
#' @return The folders that are gone, invisibly.
#' @section Errors:
#' `pjrt_error_io` when a folder cannot be removed.
#' @seealso [install_pjrt()], [pjrt_plugins()]
#' @examples
#' # nothing is installed for this platform
#' print(uninstall_pjrt("abacus"))
#' @export
uninstall_pjrt <- function(platforms = NULL, version = NULL) {
  check_string_or_null(version, "version")
  if (is.null(platforms)) {
    # others may keep something there, too
    platforms <- list.files(cache_dir(), no.. = TRUE)
    platforms <- platforms[file.exists(file.path(cache_dir(), platforms, ".lock"))]
  }
  check_platforms(platforms)
  gone <- lapply(platforms, function(platform) {
    call_with_text(ffi_plugin_uninstall, platform, version %||% "", cache_dir(), manifest_path())
  })
  gone <- as.character(unlist(gone))
  say(if (length(gone) > 0L) paste0("Removed ", gone, collapse = "\n") else "There was nothing to remove.")
  invisible(gone)
}

#' Check for installed plugins
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
  check_platforms(platforms)
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
    if (!file.exists(given)) {
      abort_no_file(platform, given)
    }
    return(given)
  }
  local_plugin_path(platform) %||% {
    if (!can_fetch(platform)) {
      abort_no_plugin(platform)
    }
    ask_to_fetch(platform)
    fetch_plugin(platform)
  }
}

# Names of what can be fetched for this machine, with the bytes of the download; NA where that is not known.
fetchable_plugins <- function() {
  found <- call_with_text(ffi_plugins_fetchable, manifest_path())
  structure(found$bytes, names = found$name)
}

index_option <- function() {
  string_option("pjrt.index_url")
}

# An option that is one string; "" when it is not set.
string_option <- function(name) {
  value <- getOption(name, "")
  if (!is.character(value) || length(value) != 1L || is.na(value) || Encoding(value) == "bytes") {
    abort_input("`options(", name, " = )` must be one string, not ", given(value), ".")
  }
  enc2utf8(value)
}

# What the package knows of plugins that can be fetched.
manifest_path <- function() {
  given <- string_option("pjrt.manifest")
  if (nzchar(given)) full_path(given) else system.file("plugins.toml", package = "pjrt", mustWork = TRUE)
}

# Platforms for which plugins exist elsewhere.
known_platforms <- c("cpu", "cuda", "rocm", "tpu", "metal", "intel", "neuron")

plugin_path_variable <- function(platform) {
  plugin_variable("PATH", platform)
}

plugin_variable <- function(what, platform) {
  paste0("PJRT_PLUGIN_", what, "_", toupper(gsub("[^A-Za-z0-9]", "_", platform)))
}

check_platforms <- function(platforms) {
  if (!is.character(platforms) || anyNA(platforms) || !all(is_platform_name(platforms))) {
    abort_input("`platforms` must be a character vector of platforms' names, without NA; it is ", given(platforms), ".")
  }
}

given_plugin_path <- function(platform) {
  path.expand(Sys.getenv(plugin_path_variable(platform)))
}

cache_dir <- function() {
  enc2utf8(path.expand(tools::R_user_dir("pjrt", "cache")))
}

cached_plugin_path <- function(platform) {
  call_with_text(ffi_plugin_installed, platform, cache_dir(), manifest_path())
}

fetch_plugin <- function(platform, version = "", source = "auto", path = "", force = FALSE) {
  debug_message("fetching the plugin for ", platform)
  call_with_text(
    ffi_plugin_install, platform, cache_dir(), manifest_path(), enc2utf8(version), source, full_path(path),
    index_option(), force, interactive() || isatty(stderr()), console_columns()
  )
}

# What fits into a line of the console. A terminal's own number is in COLUMNS, which may be less than R's.
console_columns <- function() {
  columns <- suppressWarnings(as.integer(Sys.getenv("COLUMNS")))
  min(as.integer(getOption("width")), columns, na.rm = TRUE)
}

# Whether there is a place to fetch a platform's plugin from.
can_fetch <- function(platform) {
  nzchar(Sys.getenv(plugin_variable("URL", platform))) || platform %in% names(fetchable_plugins())
}

# The size of a download in words, where it is known.
download_size <- function(platform) {
  bytes <- fetchable_plugins()[platform]
  if (is.na(bytes)) "" else sprintf(" (%s)", format_bytes(bytes))
}

ask_to_fetch <- function(platform) {
  switch(Sys.getenv("PJRT_INSTALL"),
    "1" = return(invisible()),
    "0" = NULL,
    if (interactive()) {
      question <- sprintf(
        "The %s plugin%s is not on this machine. Fetch it into %s?", platform, download_size(platform), cache_dir()
      )
      if (isTRUE(utils::askYesNo(question))) {
        return(invisible())
      }
    }
  )
  pjrt_abort(
    sprintf("There is no plugin for platform '%s' on this machine.", platform), "plugin_not_found",
    hints = c(
      if (platform == "cuda" && is.na(cuda_report()$cuda)) {
        "There is no NVIDIA driver either, and no GPU can be used without."
      },
      sprintf(
        "Fetch it with pjrt::install_pjrt(\"%s\"), or set PJRT_INSTALL=1 to have that done on first use.", platform
      ),
      sprintf("Or set %s to the library of a plugin that you have.", plugin_path_variable(platform)),
      where_looked(platform)
    ),
    platform = platform
  )
}

abort_no_file <- function(platform, path) {
  variable <- plugin_path_variable(platform)
  pjrt_abort(
    sprintf("There is no plugin at '%s', which the environment variable %s names.", path, variable), "plugin_not_found",
    hints = "Set it to the library of a plugin, or unset it to have the plugin looked for elsewhere.", platform = platform
  )
}

abort_no_plugin <- function(platform) {
  message <- if (platform %in% known_platforms) {
    sprintf("There is no plugin for platform '%s' on this machine, and none that can be fetched for it.", platform)
  } else {
    sprintf("Invalid platform '%s': no plugin is known for it.", platform)
  }
  pjrt_abort(
    message, "plugin_not_found",
    hints = c(
      sprintf(
        "Set %s to the library of a plugin for it, or name that with pjrt_register_plugin().",
        plugin_path_variable(platform)
      ),
      where_looked(platform)
    ),
    platform = platform
  )
}
