# Progress of long work, for people who look. Called by src/rust/src/r/progress.rs, always on R's main thread, and only
# once work has taken long. An interrupt waits until the display is done, so that the caller sees it, and not code of
# cli.

# Whether to show progress: `options(pjrt.progress = )`, or in interactive sessions but not in documents.
shows_progress <- function() {
  flag_option("pjrt.progress") %||% (interactive() && !isTRUE(getOption("knitr.in.progress")))
}

# Shows how long a wait has lasted. `arguments` is a list with the name of the work and the seconds.
wait_progress <- function(arguments) suspendInterrupts(print_wait(arguments))

print_wait <- function(arguments) {
  seconds <- arguments[[2L]]
  now <- the$progress
  if (isTRUE(now$is_bar)) {
    return(TRUE)
  }
  if (is.null(now)) {
    now <- list(kind = progress_kind(), label = arguments[[1L]], drawn = 0L, width = 0L)
    if (now$kind == "cli") {
      # cli fills in what is in braces
      now$bar <- new_cli_bar(format = paste0("{cli::pb_spin} ", now$label, " [{.strong {cli::pb_status}}]"), total = NA)
    }
  }
  if (now$kind == "cli") {
    cli::cli_progress_update(set = floor(10 * seconds), status = duration_text(seconds), id = now$bar, force = TRUE)
  } else if (now$kind == "plain" && seconds - now$drawn >= 0.5) {
    line <- sprintf("%s: %s", now$label, duration_text(seconds))
    cat("\r", formatC(line, width = -now$width), file = stderr(), sep = "")
    now$drawn <- seconds
    now$width <- nchar(line)
  }
  the$progress <- now
  TRUE
}

# Draws a bar if cli is there, and returns whether it did. `arguments` is a list with the name of the work, and four
# numbers: the bytes that are done and in all, and those that took the last of these numbers of seconds.
bar_progress <- function(arguments) suspendInterrupts(print_bar(arguments))

print_bar <- function(arguments) {
  done <- arguments[[2L]][[1L]]
  total <- arguments[[2L]][[2L]]
  now <- the$progress
  if (is.null(now)) {
    if (!has_cli()) {
      return(FALSE)
    }
    format <- if (is.na(total)) {
      "{cli::pb_spin} {cli::pb_name}{cli::pb_current_bytes}{cli::pb_status}"
    } else {
      "{cli::pb_name}{cli::pb_bar} {cli::pb_percent} of {cli::pb_total_bytes}{cli::pb_status}"
    }
    now <- list(kind = "cli", is_bar = TRUE, bar = new_cli_bar(format, total, paste0(arguments[[1L]], " ")))
  }
  status <- bar_speed(total - done, arguments[[2L]][[3L]], arguments[[2L]][[4L]])
  cli::cli_progress_update(set = done, status = status, id = now$bar, force = TRUE)
  the$progress <- now
  TRUE
}

# The speed of work that began before its bar, and how long the rest of it takes.
bar_speed <- function(left, arrived, seconds) {
  if (arrived <= 0 || seconds < 0.1) {
    return("")
  }
  speed <- paste0(", ", format_bytes(arrived / seconds), "/s")
  if (is.na(left) || left <= 0) speed else paste0(
    speed, ", ", duration_text(ceiling(left * seconds / arrived)), " left"
  )
}

# Ends a wait, which leaves nothing behind; a bar around it stays.
end_wait <- function(arguments) {
  if (isTRUE(the$progress$is_bar)) FALSE else end_progress(arguments)
}

end_progress <- function(arguments) suspendInterrupts(print_end(arguments))

print_end <- function(arguments) {
  now <- the$progress
  the$progress <- NULL
  if (is.null(now)) {
    return(FALSE)
  }
  if (now$kind == "cli") {
    cli::cli_progress_done(id = now$bar)
  } else if (now$kind == "plain" && now$width > 0L) {
    cat("\r", strrep(" ", now$width), "\r", file = stderr(), sep = "")
  }
  TRUE
}

progress_kind <- function() {
  if (!shows_progress()) "quiet" else if (has_cli()) "cli" else "plain"
}

has_cli <- function() {
  requireNamespace("cli", quietly = TRUE)
}

new_cli_bar <- function(format, total, name = NULL) {
  # the work has taken long already
  old <- options(cli.progress_show_after = 0)
  on.exit(options(old))
  cli::cli_progress_bar(
    name = name, format = format, total = total, clear = TRUE, .auto_close = FALSE, .envir = topenv()
  )
}

duration_text <- function(seconds) {
  if (seconds < 60) sprintf("%.0f s", floor(seconds)) else sprintf(
    "%.0f min %02.0f s", seconds %/% 60, floor(seconds %% 60)
  )
}

# Downloads also show it in scripts on a terminal: they can take minutes.
shows_download <- function() {
  shows_progress() || (
    isatty(stderr()) && !isFALSE(getOption("pjrt.progress")) && !isTRUE(getOption("knitr.in.progress"))
  )
}
