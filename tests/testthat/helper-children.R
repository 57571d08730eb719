# Runs `code` (quoted) in a new R process that sources these helpers and helper-soak.R, and kills it after `timeout`
# seconds. Returns its exit status and the lines that it printed. With the helpers "custom-calls", it has the handlers.
run_child <- function(code, env = character(), timeout = 300, helpers = "programs") {
  end_child(start_child(code, env, helpers), timeout)
}

# Waits for a child; returns its exit status and the lines that it printed.
end_child <- function(child, timeout = 300) {
  child$wait(timeout * 1000)
  if (child$is_alive()) {
    # read the output before the child is killed
    withr::defer(child$kill())
    return(list(status = "hangs", out = child$read_output_lines(), err = child$read_error_lines()))
  }
  list(status = child$get_exit_status(), out = child$read_all_output_lines(), err = child$read_all_error_lines())
}

start_child <- function(code, env = character(), helpers = "programs") {
  file <- tempfile("child", fileext = ".R")
  writeLines(c("library(pjrt)", sourcing(c("soak", helpers)), deparse(code)), file)
  if ("custom-calls" %in% helpers) env <- c(env, handlers_env())
  withr::local_envvar(c(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "", env))
  processx::process$new(rscript(), c("--vanilla", file), stdout = "|", stderr = "|")
}

# Environment variables with which children take programs that another one has compiled, until this session ends. In
# tools/soak.sh, each compiles its own.
compiled_once <- function() {
  if (is_soak()) {
    return(NULL)
  }
  # the folder of the cache is also that of plugins
  c(PJRT_CACHE = "1", PJRT_CACHE_DIR = file.path(tempdir(), "compiled"), PJRT_PLUGIN_PATH_CPU = real_plugin())
}

# Lines of code that source these helpers.
sourcing <- function(helpers) {
  paths <- normalizePath(test_path(sprintf("helper-%s.R", helpers)))
  sprintf("source(%s)", encodeString(paths, quote = "\""))
}

rscript <- function() file.path(R.home("bin"), "Rscript")

# Expects that a child exits with status 0, prints `out` and writes nothing to stderr.
expect_clean <- function(child, out = NULL) {
  testthat::expect_identical(child$status, 0L)
  testthat::expect_identical(child$err, character())
  if (!is.null(out)) testthat::expect_identical(child$out, out)
  invisible(child)
}

# Returns a function that reads a running child's next line, or NULL if none arrives within `timeout` seconds.
line_reader <- function(child) {
  lines <- character()
  function(timeout = 120) {
    end <- Sys.time() + timeout
    while (length(lines) == 0L && Sys.time() < end && (child$is_alive() || child$is_incomplete_output())) {
      child$poll_io(50)
      lines <<- c(lines, child$read_output_lines())
    }
    if (length(lines) == 0L) {
      return(NULL)
    }
    first <- lines[[1L]]
    lines <<- lines[-1L]
    first
  }
}

# Installs the sources of package `name`, for child processes, and returns the new library. It is deleted after `env`.
install_stand_in <- function(source, name, env) {
  lib <- withr::local_tempdir(.local_envir = env)
  arguments <- c("CMD", "INSTALL", "--no-test-load", "-l", shQuote(lib), shQuote(source))
  output <- suppressWarnings(system2(file.path(R.home("bin"), "R"), arguments, stdout = TRUE, stderr = TRUE))
  if (!dir.exists(file.path(lib, name))) stop(paste(output, collapse = "\n"))
  lib
}
