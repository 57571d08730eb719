# An interactive R session in a terminal. `type()` sends a line; `press_ctrl_c()` and `interrupt()` interrupt R, with
# the terminal's key or with a signal; `see()` waits for a pattern in output that it has not passed yet, and returns the
# seconds it took, or NA.
start_terminal <- function(env = character(), options = "--no-readline") {
  withr::local_envvar(c(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "", env))
  r <- tryCatch(
    processx::process$new(
      file.path(R.home("bin"), "R"), c("--interactive", "--quiet", "--vanilla", options), pty = TRUE
    ),
    error = function(e) skip("this system gives no pseudo-terminal")
  )
  shown <- ""
  all <- list()
  see <- function(pattern, timeout = 120, poll = 50) {
    start <- proc.time()[["elapsed"]]
    repeat {
      found <- regexpr(pattern, shown, perl = TRUE)
      took <- proc.time()[["elapsed"]] - start
      if (found > 0L) {
        shown <<- substring(shown, found + attr(found, "match.length"))
        return(took)
      }
      if (took > timeout || !r$is_alive()) {
        return(NA_real_)
      }
      r$poll_io(poll)
      new <- r$read_output()
      # keep only the end: the output may be long, but patterns are short
      shown <<- paste0(substring(shown, nchar(shown) - 1e4), new)
      all[[length(all) + 1L]] <<- new
    }
  }
  list(
    type = function(line) r$write_input(paste0(line, "\n")),
    press = function(key) r$write_input(key),
    press_ctrl_c = function() r$write_input("\003"),
    interrupt = function() r$interrupt(),
    see = see,
    shown = function() shown,
    all = function() paste(all, collapse = ""),
    wait = function(seconds) r$wait(1000 * seconds),
    status = function() r$get_exit_status(),
    is_alive = function() r$is_alive(),
    kill = function() r$kill()
  )
}
