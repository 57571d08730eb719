#' Compile cache
#'
#' [pjrt_compile()] keeps what it compiles in a folder, so that the same program, with the same options for the same device,
#' is loaded from there the next time, in any session. These functions tell what is there, and remove it.
#'
#' The same program is one with the same code, byte by byte, compiled by the same build of the plugin for the same kind of
#' device and processor, with the same options and the same flags in `XLA_FLAGS`. Nothing that goes wrong with the folder fails a
#' compile: an entry that is damaged is dropped and the program compiled afresh, and a disk that is full or cannot be written to
#' means that nothing is kept. `PJRT_DEBUG` has such things told. Many R sessions can use the folder at once.
#'
#' When the entries take more than the limit, those go that were not used for the longest time.
#'
#' Not kept are programs that call functions which were not there when the plugin was loaded, and those that are compiled
#' to see what the compiler does (`xla_dump_to`). Plugins that cannot save programs have no entries.
#'
#' @section Settings:
#' * The folder is `executables` in `tools::R_user_dir("pjrt", "cache")`, which the environment variable `R_USER_CACHE_DIR`
#'   moves.
#' * `PJRT_CACHE=0` or `options(pjrt.cache = FALSE)` turns the cache off, in memory as well: every compile is one. The option
#'   wins. While `R CMD check` runs, the cache is off unless it is turned on.
#' * `PJRT_CACHE_MAX_SIZE` or `options(pjrt.cache_max_size = )` limits its size: a number of bytes, or a string such as
#'   `"500MB"` or `"2GiB"`, the default. The option wins.
#'
#' @param max_size Entries are removed until no more than this is left: bytes, or a string as in the settings. By default the
#'   limit that is set.
#' @param max_age Entries that were not used for this many days are removed; `Inf` for none.
#' @return
#' * `pjrt_cache_info()`: a list of class `PJRTCacheInfo`.
#'   - `dir`: the folder; `enabled`: whether it is used; `max_size`: the limit in bytes.
#'   - `entries`, `bytes`: what is there.
#'   - `hits`: how many compiles of this session were spared, since the program was there; `shared`: how many, since the
#'     session had its executable already; `misses`: how many were not.
#'   - `evictions`: entries that this session removed for others; `errors`: what it could not read or write.
#'   - `saved_seconds`: the time that the compiler would have taken for the hits, less that of loading.
#' * `pjrt_cache_list()`: a data frame with a row for each entry, the last used first: `key`, `name` of the program, `platform`,
#'   `bytes`, `created`, `last_used` and `compile_seconds`.
#' * `pjrt_cache_clear()`, `pjrt_cache_prune()`: how many `entries` and `bytes` were removed, invisibly. Executables that
#'   a session has stay as they are.
#' @section Errors:
#' `pjrt_error_io` from `pjrt_cache_clear()` when entries cannot be removed. `pjrt_error_invalid_input` for settings that make no
#' sense, also from [pjrt_compile()].
#' @seealso [pjrt_compile()]; [pjrt_save_executable()] for a file of your own
#' @examples
#' pjrt_cache_info()
#' pjrt_cache_list()
#' \dontrun{
#' # keep what was used in the last month, at most 500 MB of it
#' pjrt_cache_prune(max_size = "500MB", max_age = 30)
#' }
#' @name pjrt_cache
NULL

#' @rdname pjrt_cache
#' @export
pjrt_cache_info <- function() {
  place <- cache_place()
  structure(
    c(
      list(dir = place$dir, enabled = cache_enabled(), max_size = place$max_size),
      call_native(ffi_cache_info, place)
    ),
    class = "PJRTCacheInfo"
  )
}

#' @rdname pjrt_cache
#' @export
pjrt_cache_list <- function() {
  columns <- call_native(ffi_cache_list, cache_place())
  for (time in c("created", "last_used")) {
    columns[[time]] <- .POSIXct(columns[[time]])
  }
  as_table(columns)
}

#' @rdname pjrt_cache
#' @export
pjrt_cache_clear <- function() {
  invisible(call_native(ffi_cache_clear, cache_place()))
}

#' @rdname pjrt_cache
#' @export
pjrt_cache_prune <- function(max_size = NULL, max_age = Inf) {
  if (!is.numeric(max_age) || length(max_age) != 1L || is.na(max_age) || max_age < 0) {
    abort_input("`max_age` must be a number of days, 0 or more, not ", given(max_age), ".")
  }
  place <- cache_place()
  if (!is.null(max_size)) {
    place$max_size <- parse_bytes(max_size, "`max_size`")
  }
  invisible(call_native(ffi_cache_prune, place, max_age * 86400))
}

#' @export
format.PJRTCacheInfo <- function(x, ...) {
  check_made(x, "PJRTCacheInfo", parts = c("dir", "enabled", "max_size"))
  c(
    "<PJRTCacheInfo>",
    labelled(c(folder = x$dir, state = if (x$enabled) "on" else "off", `on disk` = disk_line(x), `this session` = session_line(x)))
  )
}

disk_line <- function(info) {
  sprintf("%.0f program(s), %s of %s", info$entries, format_bytes(info$bytes), format_bytes(info$max_size))
}

session_line <- function(info) {
  sprintf(
    "%.0f from disk, %.0f shared, %.0f compiled, %.0f evicted, %.0f error(s), %.2f s saved",
    info$hits, info$shared, info$misses, info$evictions, info$errors, info$saved_seconds
  )
}

#' @export
print.PJRTCacheInfo <- function(x, ...) {
  writeLines(format(x))
  invisible(x)
}

# The cache for a compile, NULL when it is off, or its folder has no name in this locale.
cache_settings <- function() {
  place <- if (cache_enabled()) cache_place()
  if (!is.null(place) && validUTF8(place$dir)) place
}

cache_place <- function() {
  list(dir = enc2utf8(file.path(cache_dir(), "executables")), max_size = cache_max_size())
}

cache_enabled <- function() {
  option <- getOption("pjrt.cache")
  if (!is.null(option)) {
    if (!isTRUE(option) && !isFALSE(option)) {
      abort_input("`options(pjrt.cache = )` must be TRUE or FALSE, not ", given(option), ".")
    }
    return(option)
  }
  variable <- Sys.getenv("PJRT_CACHE")
  # a check must leave nothing behind
  if (nzchar(variable)) variable != "0" else !nzchar(Sys.getenv("_R_CHECK_PACKAGE_NAME_"))
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
    abort_input(name, " must be a number of bytes, or a size such as \"500MB\" or \"2GiB\", not ", given(x), ".")
  }
  unname(bytes)
}

# As bytes, since some versions of R warn of text that is not valid.
is_size <- function(x) grepl("^ *[0-9]+([.][0-9]+)? *[A-Za-z]* *$", x, useBytes = TRUE)

# What the cache could not do, when the user asked to be told.
tell_cache_messages <- function() {
  if (is_verbose()) {
    for (message in .Call(ffi_cache_messages)) debug_message(message)
  }
}
