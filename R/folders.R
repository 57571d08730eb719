# The folders of the package: the user's cache, for plugins and compiled programs, and the site's folder, for the
# plugins of all users.

# The cache's folder, or NULL if there is no place for it.
cache_dir <- function() {
  if (is.null(cache_dir_problem())) full_path(cache_dir_name())
}

cache_dir_name <- function() {
  given <- Sys.getenv("PJRT_CACHE_DIR")
  # R_user_dir() warns about a missing home folder, even if it does not need it
  if (nzchar(given)) given else suppressWarnings(path.expand(tools::R_user_dir("pjrt", "cache")))
}

# Why there is no place for a cache: R's own folder is in the user's home folder, which this package never creates.
cache_dir_problem <- function() {
  name <- cache_dir_name()
  if (!validUTF8(name) && .Platform$OS.type != "windows") {
    return(sprintf("the folder's name is not valid UTF-8, '%s'", readable(name)))
  }
  if (
    any(nzchar(Sys.getenv(c("PJRT_CACHE_DIR", "R_USER_CACHE_DIR", "XDG_CACHE_HOME")))) || .Platform$OS.type == "windows"
  ) {
    return()
  }
  home <- path.expand("~")
  if (!nzchar(home) || startsWith(home, "~")) {
    "HOME is not set"
  } else if (!dir.exists(home)) {
    sprintf("the home folder '%s' does not exist", readable(home))
  }
}

cache_dir_hint <- "Set PJRT_CACHE_DIR to a folder that only you can write to."

# The cache's folder, or an error.
needed_cache_dir <- function() {
  cache_dir() %||% pjrt_abort(
    sprintf("There is no folder for plugins: %s.", cache_dir_problem()), "io", hints = cache_dir_hint
  )
}

# The site's folder, or NULL if the site has none.
site_dir <- function() {
  given <- Sys.getenv("PJRT_SITE_DIR")
  if (nzchar(given)) full_path(given)
}

needed_site_dir <- function() {
  site_dir() %||% abort_input(
    "`site = TRUE` needs the environment variable PJRT_SITE_DIR.",
    hints = "Set it to the absolute path of a folder that all users can read and only you can write to."
  )
}

# Why no plugins are taken from the site's folder, or NULL.
site_dir_problem <- function() {
  folder <- site_dir()
  if (is.null(folder)) {
    return()
  }
  if (!grepl(if (.Platform$OS.type == "windows") "^([A-Za-z]:)?[/\\\\]" else "^/", folder, useBytes = TRUE)) {
    "PJRT_SITE_DIR must be an absolute path"
  } else if (!dir.exists(native_path(folder))) {
    "the folder does not exist"
  } else if (file.access(native_path(folder), 5L) != 0L) {
    "you cannot read the folder"
  }
}

# The folders with plugins, the first one first, as the routines for them take them: path, and this package's folder for
# a site.
plugin_stores <- function() {
  site <- if (is.null(site_dir_problem())) site_dir()
  c(
    if (!is.null(cache_dir())) list(cache = list(cache_dir(), "")),
    if (!is.null(site)) list(`site folder` = list(site, package_folder()))
  )
}

# Whoever owns this package can run code in this session, and may also own the site's folder.
package_folder <- function() {
  full_path(system.file(package = "pjrt"))
}

# The library of a platform's plugin in the cache or in the site's folder, or NULL.
stored_plugin_path <- function(platform) {
  for (store in plugin_stores()) {
    path <- call_with_text(ffi_plugin_installed, platform, store[[1L]], manifest_path(), store[[2L]])
    if (!is.null(path)) {
      return(path)
    }
  }
}

# The plugins in these folders that are not used because others could have changed them: a data frame with columns
# `platform`, `path`, `store` and `reason`.
refused_plugins <- function(platform = NULL) {
  of_store <- function(name, store) {
    found <- call_with_text(ffi_plugins_refused, store[[1L]], store[[2L]])
    data.frame(
      platform = as.character(found$platform), path = as.character(found$path),
      store = rep(name, length(found$path)), reason = as.character(found$reason)
    )
  }
  stores <- plugin_stores()
  empty <- data.frame(platform = character(), path = character(), store = character(), reason = character())
  all <- do.call(rbind, c(list(empty), unname(Map(of_store, names(stores), stores))))
  if (is.null(platform)) all else all[all$platform == platform, , drop = FALSE]
}

# Hints for errors about a missing plugin: what is wrong with the folders, and with what is in them.
store_hints <- function(platform) {
  refused <- refused_plugins(platform)
  of_cache <- cache_dir_problem()
  of_site <- site_dir_problem()
  c(
    if (nrow(refused) > 0L) {
      c(
        shorten_list(sprintf("Did not use '%s': %s.", refused$path, refused$reason), 3L),
        if (!all(is_damaged(refused))) {
          paste(
            "Others could have changed it. If you trust it, take the permission away with `chmod -R go-w`, or install it",
            "again."
          )
        }
      )
    },
    if (!is.null(of_cache)) sprintf("There is no cache: %s. %s", of_cache, cache_dir_hint),
    if (!is.null(of_site)) sprintf("Did not search the site folder '%s': %s.", readable(site_dir()), of_site)
  )
}

# Whether plugins that are not used are damaged.
is_damaged <- function(refused) startsWith(as.character(refused$reason), "it is damaged")

# The sizes in bytes of the files in a folder.
folder_bytes <- function(folder) {
  folder <- native_path(folder)
  sum(file.size(list.files(folder, recursive = TRUE, all.files = TRUE, full.names = TRUE)), na.rm = TRUE)
}
