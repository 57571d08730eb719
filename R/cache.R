#' Inspect and clear the compile cache
#'
#' [pjrt_compile()] keeps compiled programs in a folder. The next time you compile the same program, with the same
#' options for the same device, it is loaded from there, in any session. This happens automatically; these functions
#' show what the cache holds and remove entries.
#'
#' Two programs are the same if their code is equal byte by byte, and the build of the plugin, the kind of device and
#' processor, the compile options and the flags in `XLA_FLAGS` are equal. Compiling never fails because of problems with
#' the folder: a damaged entry is dropped and the program is compiled again, and if the disk is full or read-only,
#' nothing is kept. `PJRT_DEBUG=1` prints such problems. Several R sessions can use the folder at the same time.
#'
#' When the entries exceed the size limit, the least recently used ones are removed.
#'
#' A program is not kept if it calls a function that did not exist when the plugin was loaded, if it is compiled with
#' `xla_dump_to`, or if the plugin cannot serialize executables.
#'
#' @section Settings:
#' * The folder is `executables` in the folder that the environment variable `PJRT_CACHE_DIR` names, or in
#'   `tools::R_user_dir("pjrt", "cache")`, which `R_USER_CACHE_DIR` moves. If the home folder does not exist, nothing is
#'   kept.
#' * `PJRT_CACHE=0` or `options(pjrt.cache = FALSE)` turns the cache off, on disk and in memory. The option overrides
#'   the variable. During `R CMD check`, the cache is off unless you turn it on.
#' * `PJRT_CACHE_MAX_SIZE` or `options(pjrt.cache_max_size = )` sets the size limit: a number of bytes, or a string such
#'   as `"500MB"` or `"2GiB"`, the default. The option overrides the variable.
#'
#' @param max_size A number of bytes, or a string as in the settings: the least recently used entries are removed until
#'   at most this much is left. If you pass only `max_age`, the default is the limit in the settings.
#' @param max_age A number of days: entries that were not used for this long are removed. Without `max_age` and
#'   `max_size`, all entries are removed.
#' @param x A `PJRTCacheInfo`.
#' @param row.names,optional,... Not used.
#' @return
#' * `pjrt_cache_info()`: a list of class `PJRTCacheInfo`.
#'   - `dir`: the folder, `NA` if there is none; `enabled`: whether the cache is on; `max_size`: the limit in bytes.
#'   - `problem`: why nothing can be kept in the folder, or why it is not trusted, `NA` if all is well.
#'   - `entries`, `bytes`: the number and total size of the entries.
#'   - `hits`: how many compiles of this session were loaded from disk; `shared`: how many returned an executable that
#'     the session already had; `misses`: how many programs were compiled.
#'   - `evictions`: entries that this session removed to make room; `errors`: entries that it could not read or write.
#'   - `saved_seconds`: compile time saved by the hits, less the time to load them.
#'   - `operators`: the number of programs of [operators] that the session keeps; `operators_max`: how many it keeps at
#'     most; `operators_made`: how many it made; `operators_evicted`: how many it removed to make room.
#' * `as.data.frame()`: a data frame with a row for each entry that the cache has now, the last used first: `key`,
#'   `name` of the program, `platform`, `bytes`, `created`, `last_used` and `compile_seconds`.
#' * `pjrt_clear_cache()`: the number of `entries` and `bytes` removed, invisibly. Executables that sessions have loaded
#'   stay valid.
#' @section Errors:
#' `pjrt_error_io` if `pjrt_clear_cache()` cannot remove entries. `pjrt_error_invalid_input` for invalid settings, also
#' from [pjrt_compile()].
#' @seealso [pjrt_compile()]; [pjrt_save_executable()] to save an executable to a file
#' @examples
#' pjrt_cache_info()
#' programs <- as.data.frame(pjrt_cache_info())
#' head(programs[c("name", "platform", "bytes", "last_used")], 3)
#' # remove entries that were not used for ten years
#' print(pjrt_clear_cache(max_size = "1TB", max_age = 3650))
#' @name pjrt_cache
NULL

#' @rdname pjrt_cache
#' @export
pjrt_cache_info <- function() {
  place <- cache_place()
  facts <- c(call_native(ffi_cache_info, place), .Call(ffi_operator_counts))
  facts$problem <- cache_dir_problem() %||% facts$problem %||% NA_character_
  structure(
    c(
      list(dir = place$dir %||% NA_character_, enabled = cache_enabled(), max_size = cache_max_size()), facts,
      list(operators_max = operators_max())
    ),
    class = "PJRTCacheInfo"
  )
}

#' @rdname pjrt_cache
#' @export
as.data.frame.PJRTCacheInfo <- function(x, row.names = NULL, optional = FALSE, ...) {
  columns <- call_native(ffi_cache_list, cache_place())
  for (time in c("created", "last_used")) {
    columns[[time]] <- .POSIXct(columns[[time]])
  }
  as_table(columns)
}

#' @rdname pjrt_cache
#' @export
pjrt_clear_cache <- function(max_size = NULL, max_age = NULL) {
  if (is.null(max_size) && is.null(max_age)) {
    return(invisible(call_native(ffi_cache_clear, cache_place())))
  }
  max_age <- max_age %||% Inf
  if (!is.numeric(max_age) || length(max_age) != 1L || is.na(max_age) || max_age < 0) {
    abort_type("`max_age` must be a non-negative number of days, not ", given(max_age), ".")
  }
  if (!is.null(max_size)) {
    max_size <- parse_bytes(max_size, "`max_size`")
  }
  place <- cache_place(max_size)
  invisible(call_native(ffi_cache_prune, place, max_age * 86400))
}

#' @export
format.PJRTCacheInfo <- function(x, ...) {
  check_intact(x, "PJRTCacheInfo", parts = c("dir", "enabled", "max_size", "problem"))
  c(
    "<PJRTCacheInfo>",
    paste0("  ", labelled(c(
      folder = x$dir, state = state_line(x), `on disk` = disk_line(x), `this session` = session_line(x),
      operators = operators_line(x)
    )))
  )
}

state_line <- function(info) {
  if (!info$enabled) {
    "off"
  } else if (is.na(info$problem)) {
    "on"
  } else {
    paste("keeps nothing:", info$problem)
  }
}

disk_line <- function(info) {
  sprintf("%s, %s of %s", counted(info$entries, "program"), format_bytes(info$bytes), format_bytes(info$max_size))
}

session_line <- function(info) {
  sprintf(
    "%.0f from disk, %.0f shared, %.0f compiled, %.0f evicted, %s, %.2f s saved",
    info$hits, info$shared, info$misses, info$evictions, counted(info$errors, "error"), info$saved_seconds
  )
}

operators_line <- function(info) {
  sprintf(
    "%s of %.0f, %.0f made, %.0f evicted",
    counted(info$operators, "program"), info$operators_max, info$operators_made, info$operators_evicted
  )
}

#' @export
print.PJRTCacheInfo <- function(x, ...) {
  print_lines(x)
}

# The cache for a compile. NULL if it is off or without a folder.
cache_settings <- function() {
  place <- if (cache_enabled()) cache_place()
  if (is.null(place)) {
    return()
  }
  if (!may_exist(place$dir)) {
    debug_message("cache: cannot keep programs in ", place$dir, ", which cannot be created")
    return()
  }
  place
}

# The folder of compiled programs and its limit. NULL if there is no place for one.
cache_place <- function(max_size = NULL) {
  max_size <- max_size %||% cache_max_size()
  folder <- cache_dir()
  if (!is.null(folder)) list(dir = enc2utf8(file.path(folder, "executables")), max_size = max_size)
}

# Whether a folder exists or can be created. Otherwise no keys need to be computed.
may_exist <- function(folder) {
  folder <- native_path(folder)
  if (dir.exists(folder)) {
    return(TRUE)
  }
  parent <- dirname(folder)
  while (!file.exists(parent) && parent != dirname(parent)) parent <- dirname(parent)
  file.access(parent, 3L) == 0L
}

cache_enabled <- function() {
  flag_option("pjrt.cache") %||% {
    variable <- Sys.getenv("PJRT_CACHE")
    # R CMD check must leave no files
    if (nzchar(variable)) variable != "0" else !nzchar(Sys.getenv("_R_CHECK_PACKAGE_NAME_"))
  }
}

cache_max_size <- function() {
  option <- getOption("pjrt.cache_max_size")
  if (!is.null(option)) {
    return(parse_bytes(option, "`options(pjrt.cache_max_size = )`"))
  }
  variable <- Sys.getenv("PJRT_CACHE_MAX_SIZE")
  if (nzchar(variable)) parse_bytes(variable, "PJRT_CACHE_MAX_SIZE") else 2 * 1024^3
}

# Bytes, from a number or a string such as "2GiB"; `name` for the error.
parse_bytes <- function(x, name) {
  units <- c(B = 1, KB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12, KIB = 1024, MIB = 1024^2, GIB = 1024^3, TIB = 1024^4)
  bytes <- NA_real_
  if (is.numeric(x) && length(x) == 1L) {
    bytes <- as.double(x)
  } else if (is.character(x) && length(x) == 1L && is_size(x)) {
    unit <- toupper(gsub("[^A-Za-z]", "", x))
    bytes <- as.double(gsub("[^0-9.]", "", x)) * if (nzchar(unit)) units[unit] else 1
  }
  if (is.na(bytes) || bytes < 0 || bytes > 2^53) {
    abort_type(name, " must be a number of bytes, or a size such as \"500MB\" or \"2GiB\", not ", given(x), ".")
  }
  unname(bytes)
}

# Matches bytes, since some versions of R warn about invalid text.
is_size <- function(x) grepl("^ *[0-9]+([.][0-9]+)? *[A-Za-z]* *$", x, useBytes = TRUE)

# Prints the cache's problems if the user turned messages on.
show_cache_messages <- function() {
  if (is_verbose()) {
    for (message in .Call(ffi_cache_messages)) debug_message(message)
  }
}
