# Ends `count` sessions while work is under way, in all ways and with all kinds of work: for each way, `hands` sessions
# share the kinds. Returns a line for each session that did not end as expected.
bad_endings <- function(count, seed, hands = 5L) {
  withr::local_seed(seed)
  cache <- withr::local_tempdir()
  kinds <- c(
    "executions", "chain", "loop", "inline", "donations", "uploads", "shared", "downloads", "copies", "compiles",
    "sharded",
    "dropped", "nothing"
  )
  ways <- c("script", "quit", "status", "error", "terminate", "unload", "batch", "prompt", "end of input")
  deal <- function(way) {
    dealt <- split(sample(kinds), rep_len(seq_len(hands), length(kinds)))
    lapply(unname(dealt), function(work) {
      list(end = way, work = paste(work, collapse = " "), delay = sample(c(0, 0, 5, 20, 50), 1L))
    })
  }
  rounds <- ceiling(count / (hands * length(ways)))
  waiting <- utils::head(unlist(lapply(rep(ways, rounds), deal), recursive = FALSE), count)
  running <- list()
  bad <- character()
  while (length(waiting) + length(running) > 0L) {
    while (length(running) < 2L && length(waiting) > 0L) {
      running <- c(running, list(start_ending(waiting[[1L]], cache)))
      waiting <- waiting[-1L]
    }
    first <- running[[1L]]
    running <- running[-1L]
    bad <- c(bad, first())
  }
  bad
}

# Starts a session. Returns a function that waits for its end and describes what went wrong, if anything.
start_ending <- function(ending, cache) {
  script <- normalizePath(test_path("fixtures", "ending.R"))
  env <- c(
    WORK = ending$work, END = ending$end, DELAY = ending$delay, HELPER = normalizePath(test_path("helper-programs.R")),
    PJRT_CPU_DEVICE_COUNT = "2", PJRT_CACHE = "1", R_USER_CACHE_DIR = cache, PJRT_PLUGIN_PATH_CPU = real_plugin(),
    PJRT_DISCOVER = "0", R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = ""
  )
  start <- function(program, ..., out = "|") {
    withr::with_envvar(
      env, processx::process$new(file.path(R.home("bin"), program), c(...), stdout = out, stderr = "|")
    )
  }
  expected <- list(
    status = switch(ending$end, status = 3L, error = 1L, terminate = -15L, 0L), out = "leaving\n",
    err = if (ending$end == "error") "Error: for a reason\nExecution halted\n" else ""
  )
  said <- function(found) {
    if (!identical(found, expected)) {
      paste0(ending$end, " with ", ending$work, " after ", ending$delay, " ms: ", paste(deparse(found), collapse = ""))
    }
  }
  if (ending$end %in% c("prompt", "end of input")) {
    return(end_in_terminal(ending, script, env))
  }
  if (ending$end == "batch") {
    file <- tempfile()
    r <- start("R", "CMD", "BATCH", "--vanilla", "--no-echo", "--no-timing", script, file, out = NULL)
  } else {
    file <- NULL
    r <- start("Rscript", "--vanilla", script)
  }
  function() {
    r$wait(60000)
    hangs <- r$is_alive()
    if (hangs) r$kill()
    out <- if (is.null(file)) r$read_all_output() else paste0(readLines(file), "\n", collapse = "")
    said(list(status = if (hangs) "hangs" else r$get_exit_status(), out = out, err = r$read_all_error()))
  }
}

end_in_terminal <- function(ending, script, env) {
  terminal <- start_terminal(env)
  terminal$type(sprintf("source('%s')", script))
  function() {
    left <- terminal$see("leaving[^>]*> ", 60)
    if (ending$end == "prompt") terminal$type("q('no')") else terminal$press("\004")
    terminal$wait(60)
    hangs <- terminal$is_alive()
    terminal$kill()
    if (is.na(left) || hangs || !identical(terminal$status(), 0L) || grepl("rror|abort|fault|free", terminal$all())) {
      paste0(ending$end, " with ", ending$work, ": status ", terminal$status(), ", ", terminal$all())
    }
  }
}
