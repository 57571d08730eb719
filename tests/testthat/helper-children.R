# Runs code in an R process of its own, which ends by itself or, after `timeout` seconds, by us. `code` is quoted; it
# sees the helpers for programs. Returns what it printed, line by line.
run_child <- function(code, env = character(), timeout = 60) {
  child <- start_child(code, env)
  child$wait(timeout * 1000)
  hangs <- child$is_alive()
  if (hangs) child$kill()
  list(
    status = if (hangs) "hangs" else child$get_exit_status(), out = child$read_all_output_lines(),
    err = child$read_all_error_lines()
  )
}

start_child <- function(code, env = character()) {
  file <- tempfile("child", fileext = ".R")
  lines <- c(
    "library(pjrt)", sprintf("source(%s)", encodeString(normalizePath(test_path("helper-programs.R")), quote = "\"")),
    deparse(code)
  )
  writeLines(lines, file)
  withr::local_envvar(c(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "", env))
  processx::process$new(rscript(), c("--vanilla", file), stdout = "|", stderr = "|")
}

rscript <- function() file.path(R.home("bin"), "Rscript")

# That a child did its work, ended well, and had nothing to complain about.
expect_clean <- function(child, out = NULL) {
  testthat::expect_identical(child$status, 0L)
  testthat::expect_identical(child$err, character())
  if (!is.null(out)) testthat::expect_identical(child$out, out)
  invisible(child)
}

# A function that gives the next line of a running child, or NULL when none comes within `timeout` seconds.
line_reader <- function(child) {
  lines <- character()
  function(timeout = 30) {
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
