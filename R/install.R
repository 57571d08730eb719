#' Install plugins
#'
#' `install_pjrt()` downloads plugins, and the libraries that they need, into the package's cache: the folder in the
#' environment variable `PJRT_CACHE_DIR`, or else `tools::R_user_dir("pjrt", "cache")`. Plugins that are already there
#' are not downloaded again. The first use of a platform does the same if the environment variable `PJRT_INSTALL` is
#' `1`. If it is `0`, a missing plugin is an error; if it is unset, interactive sessions ask and others raise the error.
#'
#' A progress bar shows the download. If it breaks off or is interrupted, the next call continues it.
#'
#' @param platforms A character vector of platforms, or `NULL` for `"cpu"` and, depending on `cuda`, `"cuda"`:
#'   * `"cpu"`: Linux on x86_64 and aarch64; macOS and Windows with `source = "release"`.
#'   * `"cuda"`: NVIDIA GPUs, on Linux on x86_64 and aarch64. The machine's driver decides between `"cuda13"` and
#'     `"cuda12"`, which you can also name, for example to prepare another machine.
#'   * `"rocm"` (AMD GPUs) and `"intel"` (Intel GPUs): Linux on x86_64, with the vendor's system libraries installed.
#'   * `"tpu"`: Linux on x86_64.
#'   * `"metal"`: macOS.
#' @param version A string: a version of the plugin from the index, instead of this package's default, or one of
#'   [`pjrt_plugins(available = TRUE)`][pjrt_plugins]. It is used until you call `install_pjrt(platforms)` without
#'   `version`.
#' @param source A string: where the plugin comes from.
#'   * `"auto"`: the URL in `PJRT_PLUGIN_URL_<PLATFORM>`, or else an index.
#'   * `"index"`: a Python package index.
#'   * `"release"`: an archive published by the plugin's authors, whose checksum this package does not know.
#'   * `"file"`: the file or folder `path`.
#' @param path A string, for `source = "file"`: a wheel, a zip or tar.gz archive, a library, or a folder with wheels.
#'   Use this on machines without a network.
#' @param force A flag: whether to download plugins again that are already installed.
#' @param cuda A flag: whether to install the CUDA plugin as well. `NULL` does so if there is a driver for it and
#'   `platforms` is `NULL`.
#' @param site A flag: whether to install into the folder in `PJRT_SITE_DIR`, for all users; see below.
#' @return A character vector of the platforms whose plugins are installed, invisibly.
#' @section Where plugins come from:
#' The index is the first that is set of `options(pjrt.index_url = )`, `PJRT_INDEX_URL`, `PIP_INDEX_URL`,
#' `UV_DEFAULT_INDEX` and pip's configuration, or else the default index of the machine's pip. It can be a local folder.
#' `PJRT_PLUGIN_URL_<PLATFORM>` (`http`, `https` or `file`) is the URL of a wheel, an archive or a library to use
#' instead. Append `#sha256=<digits>` to have its checksum verified.
#'
#' Proxies are taken from the usual variables (`HTTPS_PROXY`, `NO_PROXY`, ...). Trusted certificates are the system's
#' and those in the files that `SSL_CERT_FILE`, `PIP_CERT`, `REQUESTS_CA_BUNDLE` and `CURL_CA_BUNDLE` specify.
#' Credentials in URLs are never shown or stored.
#' @section Checksums:
#' A file must have the SHA-256 checksum that this package knows, before anything is unpacked or loaded. If you specify
#' `version`, it must have the checksum in the index. Files from `source = "release"` and `"file"`, and from URLs
#' without `#sha256=`, are not verified. An installed plugin is used only if no other user can write to it.
#' @section Plugins for all users:
#' If the environment variable `PJRT_SITE_DIR` is the absolute path of a folder, plugins in it are used as if the user
#' had installed them; those in the user's own cache come first. `install_pjrt(site = TRUE)` and
#' `uninstall_pjrt(site = TRUE)`, called by the administrator, fill and empty the folder. Nothing else writes to it.
#' `vignette("cluster")` has examples (see [pjrt_articles]).
#'
#' A plugin is used only if nobody else could have changed it. It and the folders around it, up to the site's folder,
#' must belong to root, to you or to the owner of this package's files, and neither their group nor others may have
#' permission to write. [pjrt_plugins()], [pjrt_sitrep()] and the error for a missing plugin say why a plugin is not
#' used.
#' @section Errors:
#' The messages say what to do.
#' * `pjrt_error_download`: no index is known, or the download failed.
#' * `pjrt_error_checksum`: the file does not have the expected checksum.
#' * `pjrt_error_plugin_not_found`: there is no such plugin or version for this machine.
#' * `pjrt_error_plugin_invalid`: the file does not contain a plugin.
#' * `pjrt_error_plugin_invalid`: the new plugin crashes on this machine, or computes wrong numbers. A quick part of
#'   [pjrt_check_plugin()] tries it in another process, and a plugin that fails is removed.
#' * `pjrt_error_driver_missing`, `pjrt_error_driver_too_old`: the machine's driver cannot run the plugin.
#' * `pjrt_error_io`: the cache cannot be written, the disk is full, or there is no folder for a cache, because the user
#'   has no home folder.
#' @seealso [pjrt_plugins()], [pjrt_sitrep()], [pjrt_plugin()], [plugins_downloaded()]
#' @examplesIf "cache (from index)" %in% subset(pjrt::pjrt_plugins(), platform == "cpu")$source
#' # the plugin is already installed, so this downloads nothing
#' print(install_pjrt("cpu"))
#' @export
install_pjrt <- function(platforms = NULL, version = NULL, source = c("auto", "index", "release", "file"), path = NULL,
                         force = FALSE, cuda = NULL, site = FALSE) {
  source <- check_choice(source, c("auto", "index", "release", "file"), "source")
  if (is.logical(platforms) && is.null(cuda)) {
    # r-xla/pjrt has `cuda` as the first argument
    cuda <- platforms
    platforms <- NULL
  }
  check_string_or_null(version, "version")
  check_string_or_null(path, "path")
  check_flag(force, "force")
  check_flag(site, "site")
  if (!is.null(cuda)) {
    check_flag(cuda, "cuda")
  }
  platforms <- platforms_to_install(platforms, cuda, alone = !is.null(version) || source != "auto")
  if (length(platforms) != 1L && !(is.null(version) && is.null(path))) {
    abort_input("`version` and `path` need exactly one platform in `platforms`.")
  }
  if (site) {
    # other users must be able to read it
    before <- Sys.umask("022")
    on.exit(Sys.umask(before))
  }
  for (platform in platforms) {
    folder <- if (site) needed_site_dir() else needed_cache_dir()
    start <- Sys.time()
    library <- fetch_plugin(platform, version %||% "", source, path %||% "", force, folder)
    refuse_broken(platform, library, folder, start)
    inform("The plugin for ", platform, " is ", library)
  }
  invisible(unique(without_cuda_version(platforms)))
}

# The platforms of names such as "cuda12".
without_cuda_version <- function(names) {
  sub("^cuda[0-9]+$", "cuda", names)
}

# Tries a plugin that was installed after `start` in another process, and removes it if it crashes there or computes
# wrong numbers. One that does not start may be for another machine's hardware.
refuse_broken <- function(platform, library, folder, start) {
  within <- strsplit(substring(library, nchar(folder) + 2L), "[/\\\\]")[[1L]]
  installed <- do.call(file.path, as.list(c(folder, within[1:2])))
  is_new <- file.mtime(native_path(file.path(installed, "source.toml"))) >= start - 1
  if (!isTRUE(is_new)) {
    return()
  }
  wrong <- broken_checks(library)
  if (nrow(wrong) > 0L) {
    unlink(native_path(installed), recursive = TRUE)
    abort_input(
      "The plugin for ", platform, " does not work on this machine and was removed: ", wrong$check[[1L]], ": ",
      wrong$detail[[1L]], class = "plugin_invalid",
      hints = "Another version may work: install_pjrt(version = ). pjrt_check_plugin() reports more of a plugin."
    )
  }
}

# The platforms for install_pjrt(). `alone` keeps it to one.
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
#' `uninstall_pjrt()` removes plugins from the package's cache, and `uninstall_pjrt(everything = TRUE)` all that the
#' package has stored for you: plugins, unfinished downloads, compiled programs, and the folders that are empty then. A
#' session that has loaded a plugin can go on using it. Plugins elsewhere on the machine, and files that this package
#' did not create, stay.
#'
#' @param platforms A character vector of platforms, as for [install_pjrt()]: `"cuda"` stands for the plugins for CUDA
#'   12 and CUDA 13, `"cuda12"` for the former only. `NULL` removes all that [install_pjrt()] installed.
#' @param version A string: the version to remove. `NULL` removes all versions.
#' @param everything A flag: whether to remove the compiled programs and all plugins of your cache. It cannot be
#'   combined with other arguments.
#' @param site A flag: whether to remove plugins from the folder in `PJRT_SITE_DIR` instead of the cache.
#' @return A character vector of the removed folders, invisibly. Messages say what was removed, with sizes.
#' @section Errors:
#' `pjrt_error_io` if a folder cannot be removed.
#' @seealso [install_pjrt()], [pjrt_plugins()], [pjrt_clear_cache()]
#' @examples
#' # nothing is installed for this platform
#' uninstall_pjrt("abacus")
#' @export
uninstall_pjrt <- function(platforms = NULL, version = NULL, everything = FALSE, site = FALSE) {
  check_string_or_null(version, "version")
  check_flag(everything, "everything")
  check_flag(site, "site")
  if (everything && (site || !is.null(platforms) || !is.null(version))) {
    abort_input("`everything = TRUE` cannot be combined with other arguments.")
  }
  folder <- if (site) needed_site_dir() else cache_dir()
  if (everything && is_same_folder(folder, site_dir())) {
    abort_input("The cache '", folder, "' is also the site's folder.", hints = "Use uninstall_pjrt(site = TRUE).")
  }
  if (!is.null(platforms)) {
    check_platforms(platforms)
  } else {
    # other things may be in the cache's folder as well
    platforms <- if (!is.null(folder)) list.files(native_path(folder), no.. = TRUE)
    platforms <- platforms[file.exists(native_path(file.path(folder, platforms, ".lock")))]
  }
  remove <- function(platform) {
    gone <- call_with_text(ffi_plugin_uninstall, platform, version %||% "", folder, manifest_path())
    data.frame(path = as.character(gone$path), bytes = as.double(gone$bytes))
  }
  gone <- do.call(
    rbind, c(list(data.frame(path = character(), bytes = double())), lapply(if (!is.null(folder)) platforms, remove))
  )
  told <- sprintf("Removed %s (%s)", gone$path, vapply(gone$bytes, format_bytes, ""))
  gone <- gone$path
  if (everything) {
    rest <- remove_programs(folder)
    told <- c(told, rest$told)
    gone <- c(gone, rest$gone)
  }
  inform(if (length(told) > 0L) paste(told, collapse = "\n") else "Nothing to remove.")
  invisible(gone)
}

# Removes the compiled programs, and the cache's folder if it is empty then. Returns the removed folders, and what to
# tell.
remove_programs <- function(folder) {
  if (is.null(folder)) {
    return()
  }
  place <- cache_place()
  is_there <- function(folder) dir.exists(native_path(folder))
  there <- is_there(place$dir)
  removed <- call_native(ffi_cache_clear, place)
  gone <- if (there && !is_there(place$dir)) place$dir
  told <- if (removed$entries > 0) {
    sprintf(
      "Removed %s from %s (%s)", counted(removed$entries, "compiled program"), place$dir, format_bytes(removed$bytes)
    )
  }
  # a folder in a variable of this package is the user's, and a link may lead to another disk
  own <- !nzchar(Sys.getenv("PJRT_CACHE_DIR")) && !nzchar(Sys.readlink(native_path(folder)))
  left <- list.files(native_path(folder), all.files = TRUE, no.. = TRUE)
  if (own && is_there(folder) && length(left) == 0L && suppressWarnings(file.remove(native_path(folder)))) {
    gone <- c(gone, folder)
    told <- c(told, sprintf("Removed the empty folder %s", folder))
  }
  if (length(left) > 0L) {
    told <- c(
      told, sprintf("Left what this package did not create: %s", toString(shorten_list(file.path(folder, left), 3L)))
    )
  }
  list(gone = gone, told = told)
}

is_same_folder <- function(a, b) {
  resolved <- function(folder) normalizePath(native_path(folder), mustWork = FALSE)
  !is.null(a) && !is.null(b) && identical(resolved(a), resolved(b))
}

#' Check for installed plugins
#'
#' `plugins_downloaded()` checks whether [pjrt_plugin()] can find plugins without a download: through
#' `PJRT_PLUGIN_PATH_<PLATFORM>` or [pjrt_register_plugin()], in the cache, or elsewhere on the machine. It does not
#' load or download anything.
#'
#' @param platforms A character vector of platforms' names. Default: `PJRT_PLATFORM`, or `"cpu"`.
#' @return `TRUE` if there is a plugin for every platform, else `FALSE`.
#' @examples
#' vapply(c("cpu", "cuda", "tpu"), plugins_downloaded, NA)
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

# The library of a platform's plugin: the file that the user specified, one on the machine, or one downloaded now.
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

# The sizes in bytes, NA if unknown, of the plugins that can be downloaded for this machine, by name.
fetchable_plugins <- function() {
  found <- call_with_text(ffi_plugins_fetchable, manifest_path())
  structure(found$bytes, names = found$name)
}

index_option <- function() {
  string_option("pjrt.index_url")
}

# An option that must be a string; "" if it is not set.
string_option <- function(name) {
  value <- getOption(name, "")
  if (!is_text(value) || Encoding(value) == "bytes") {
    abort_type("`options(", name, " = )` must be one string, not ", given(value), ".")
  }
  enc2utf8(value)
}

# The file that lists the plugins that can be downloaded.
manifest_path <- function() {
  given <- string_option("pjrt.manifest")
  full_path(if (nzchar(given)) given else system.file("plugins.toml", package = "pjrt", mustWork = TRUE))
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
    abort_type("`platforms` must be a character vector of platforms' names, without NA, not ", given(platforms), ".")
  }
}

given_plugin_path <- function(platform) {
  path.expand(Sys.getenv(plugin_path_variable(platform)))
}

fetch_plugin <- function(
  platform, version = "", source = "auto", path = "", force = FALSE, folder = needed_cache_dir()
) {
  folder <- folder
  debug_message("downloading the plugin for ", platform)
  call_with_text(
    ffi_plugin_install, platform, folder, manifest_path(), enc2utf8(version), source, full_path(path),
    index_option(), force, shows_download(), console_columns()
  )
}

# The width of the console: the smaller of the terminal's, in COLUMNS, and R's.
console_columns <- function() {
  columns <- suppressWarnings(as.integer(Sys.getenv("COLUMNS")))
  min(as.integer(getOption("width")), columns, na.rm = TRUE)
}

# Whether a platform's plugin can be downloaded.
can_fetch <- function(platform) {
  nzchar(Sys.getenv(plugin_variable("URL", platform))) || platform %in% names(fetchable_plugins())
}

# The size of a download as text, if it is known.
download_size <- function(platform) {
  bytes <- fetchable_plugins()[platform]
  if (is.na(bytes)) "" else sprintf(" (%s)", format_bytes(bytes))
}

ask_to_fetch <- function(platform) {
  switch(Sys.getenv("PJRT_INSTALL"),
    "1" = return(invisible()),
    "0" = NULL,
    if (interactive() && !is.null(cache_dir())) {
      question <- sprintf(
        "The %s plugin%s is not installed. Download it to %s?", platform, download_size(platform), cache_dir()
      )
      if (ask_yes(paste(c(store_hints(platform), question), collapse = "\n"))) {
        return(invisible())
      }
    }
  )
  check_not_damaged(platform)
  pjrt_abort(
    sprintf("There is no plugin for platform '%s' on this machine.", platform), "plugin_not_found",
    hints = c(
      if (platform == "cuda" && is.na(cuda_report()$cuda)) {
        "The NVIDIA driver, which GPUs need, is not installed either."
      },
      sprintf(
        "Download it with pjrt::install_pjrt(\"%s\"), or set PJRT_INSTALL=1 to download plugins on first use.", platform
      ),
      sprintf("Or set %s to the path of a plugin's library.", plugin_path_variable(platform)),
      search_hints(platform)
    ),
    platform = platform
  )
}

# Asks a question until the answer is yes or no. Editors may have a dialog for it.
ask_yes <- function(question) {
  if (is.function(getOption("askYesNo"))) {
    return(isTRUE(utils::askYesNo(question)))
  }
  cat(question, "\n", sep = "")
  repeat {
    answer <- is_yes(readline("1: yes (Enter), 2: no: "))
    if (!is.na(answer)) {
      return(answer)
    }
    cat("Answer yes or no.\n")
  }
}

# Whether an answer is yes; NA if it is neither yes nor no.
is_yes <- function(answer) {
  answer <- tolower(trimws(answer))
  if (answer %in% c("", "1", "y", "yes")) TRUE else if (answer %in% c("0", "2", "n", "no")) FALSE else NA
}

# Raises an error if a platform's plugin was installed, but is damaged.
check_not_damaged <- function(platform) {
  if (any(is_damaged(refused_plugins(platform)))) {
    pjrt_abort(
      sprintf("The plugin for platform '%s' on this machine is damaged.", platform), "plugin_invalid",
      hints = c(
        sprintf("Install it again: pjrt::install_pjrt(\"%s\", force = TRUE).", platform), store_hints(platform)
      ),
      platform = platform
    )
  }
}

abort_no_file <- function(platform, path) {
  variable <- plugin_path_variable(platform)
  pjrt_abort(
    sprintf("The plugin '%s' does not exist: check the environment variable %s.", path, variable), "plugin_not_found",
    hints = "Set the variable to the path of a plugin's library, or unset it to search elsewhere.", platform = platform
  )
}

# Which platforms there are: hints for the error about another.
platform_hints <- function() {
  here <- unique(pjrt_plugins()$platform)
  others <- setdiff(names(fetchable_plugins()), here)
  quoted <- function(names) paste0("\"", names, "\"", collapse = ", ")
  c(
    if (length(here) > 0L) sprintf("Platforms with a plugin on this machine: %s.", quoted(here)),
    if (length(others) > 0L) sprintf("install_pjrt() can install %s.", quoted(others))
  )
}

abort_no_plugin <- function(platform) {
  check_not_damaged(platform)
  message <- if (platform %in% known_platforms) {
    sprintf("There is no plugin for platform '%s' on this machine, and none can be downloaded for it.", platform)
  } else {
    sprintf("Invalid platform '%s': no plugin is known for it.", platform)
  }
  pjrt_abort(
    message, "plugin_not_found",
    hints = c(
      platform_hints(),
      sprintf(
        "Set %s to the path of a plugin's library, or call pjrt_register_plugin().",
        plugin_path_variable(platform)
      ),
      search_hints(platform)
    ),
    platform = platform
  )
}
