# Runs code as another user, who has no name, no group and no home folder.

# A user that no system has.
other_uid <- 54321L

# Whether this session can become another user. Otherwise these tests run as the same user, without a home folder.
is_root <- function() .Platform$OS.type == "unix" && identical(unname(Sys.info()[["effective_user"]]), "root")

can_switch_user <- function() is_root() && nzchar(Sys.which("setpriv"))

# A folder that everybody can read, outside of R's own temporary folder, which nobody else can enter.
shared_folder <- function(env = parent.frame()) {
  folder <- tempfile("pjrt-shared-", dirname(tempdir()))
  dir.create(folder, mode = "0755")
  Sys.chmod(folder, "0755", use_umask = FALSE)
  withr::defer(unlink(folder, recursive = TRUE, force = TRUE), env)
  folder
}

# Runs `code` (quoted) as the other user with these variables; NA unsets one. With `threads`, the user may have only so
# many. Returns the exit status and the lines printed.
as_other_user <- function(code, env, folder, threads = NULL) {
  script <- file.path(folder, "script.R")
  temporary <- file.path(folder, "tmp")
  dir.create(temporary, showWarnings = FALSE)
  Sys.chmod(temporary, "1777", use_umask = FALSE)
  writeLines(c("options(warn = 1)", "library(pjrt)", deparse(code)), script)
  Sys.chmod(script, "0644", use_umask = FALSE)
  given <- c(
    R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "", TMPDIR = temporary, HOME = "/no/home",
    XDG_CACHE_HOME = NA, XDG_CONFIG_HOME = NA, R_USER_CACHE_DIR = NA, PJRT_CACHE_DIR = NA, PJRT_PLUGIN_PATH_CPU = NA,
    PJRT_DISCOVER = "0", PJRT_INSTALL = "0", PJRT_CACHE = "1"
  )
  withr::local_envvar(c(given[setdiff(names(given), names(env))], env))
  withr::local_dir("/")
  command <- c(rscript(), "--vanilla", script)
  if (can_switch_user()) {
    # R and its packages may be in a folder that only root can enter
    caps <- if (!readable_by_all(c(R.home(), .libPaths()))) c(
      "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"
    )
    command <- c(
      "setpriv", sprintf("--reuid=%d", other_uid), sprintf("--regid=%d", other_uid), "--clear-groups", caps, command
    )
  }
  if (!is.null(threads)) {
    command <- c("sh", "-c", sprintf("ulimit -u %d; exec \"$@\"", threads), "sh", command)
  }
  ended <- processx::run(command[[1L]], command[-1L], error_on_status = FALSE, timeout = 300)
  lines <- function(text) strsplit(text, "\n", fixed = TRUE)[[1L]]
  list(status = ended$status, out = lines(ended$stdout), err = lines(ended$stderr))
}

readable_by_all <- function(paths) {
  all(vapply(normalizePath(paths), function(path) {
    while (path != dirname(path)) {
      if (bitwAnd(as.integer(file.mode(path)), 5L) != 5L) {
        return(FALSE)
      }
      path <- dirname(path)
    }
    TRUE
  }, NA))
}
