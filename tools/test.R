# The parts of tools/test.sh that run in R, on the installed package:
#
#   Rscript tools/test.R tests|quick|soak|examples|vignettes COUNTS
#
# Each part appends a line "passed failed skipped" to the file COUNTS and prints the failures.
#
# Test files run in parallel sessions: one per processor, at most 4, or PJRT_TEST_SESSIONS. A test file can contain
# lines that start with one of these:
#
#   # Slow:         `quick` leaves it out
#   # Runs alone:   nothing else runs meanwhile
#
# `soak` runs the files that repeat more then, see tests/testthat/helper-soak.R.

# Accepted reasons for skipping a test: hardware that the machine lacks, terminals and network namespaces that a
# container lacks, packages that apt lacks (tools/setup.sh installs all that it has), PyTorch where Debian's is for
# another Python, and an MPI with the standard ABI where PyPI has none for the machine.
is_missing <- function(package) !nzchar(system.file(package = package))
absent <- Filter(is_missing, c(
  "tengen", "safetensors", "later", "promises", "shiny", "reticulate", "Matrix", "ggplot2", "pillar", "callr", "future",
  "rmarkdown", "jsonlite", "png", "tibble", "cli", "Rmpi"
))
excused <- paste(c(
  "GPU", "CUDA", "pseudo-terminal", "too little memory", "PJRT_TEST_TORCH_PYTHON", "network namespaces",
  "MPI with the standard ABI", "fault of ", "newer plugins", absent
), collapse = "|")

count <- function(passed, failed, skipped = 0L) {
  cat(passed, failed, skipped, "\n", file = counts, append = TRUE)
}

run_tests <- function(which = "tests") {
  files <- test_files()
  files <- switch(which, quick = files[!files$slow, ], soak = files[files$soaks, ], files)
  if (which == "soak") {
    Sys.setenv(PJRT_SOAK = "1")
  }
  results <- c(
    run_files(files$name[!files$alone], sessions = test_sessions()),
    run_files(files$name[files$alone], sessions = 1L)
  )
  note_seconds(results, keep = which != "soak")
  state <- vapply(results, test_state, "")
  for (test in results[state %in% c("skipped", "excused")]) {
    cat(sprintf("SKIPPED %s: %s: %s\n", test$file, test$test, skip_reason(test)))
  }
  count(sum(state == "passed"), sum(state == "failed"), sum(state == "skipped"))
  numbers <- table(factor(state, c("passed", "failed", "skipped", "excused")))
  cat(sprintf("R %s: %d tests, %s\n", getRversion(), length(state), toString(paste(numbers, names(numbers)))))
}

# The test files and how to run them, sorted by their time in the last run, longest first.
test_files <- function() {
  paths <- list.files("tests/testthat", "^test-.*[.]R$", full.names = TRUE)
  says <- function(what) vapply(paths, function(path) any(grepl(what, readLines(path))), NA, USE.NAMES = FALSE)
  files <- data.frame(
    name = sub("^test-(.*)[.]R$", "\\1", basename(paths)), slow = says("^# Slow:"), alone = says("^# Runs alone:"),
    soaks = says("\\b(times|torture|is_soak)[(]")
  )
  files$seconds <- unname(last_seconds()[files$name])
  unknown <- is.na(files$seconds)
  files$seconds[unknown] <- ifelse(files$slow, 20, 2)[unknown]
  files[order(-files$seconds), ]
}

# Stores the seconds that each file took in the last run, in the library that the tests use.
seconds_file <- function() file.path(.libPaths()[[1L]], "test-seconds.rds")

last_seconds <- function() if (file.exists(seconds_file())) readRDS(seconds_file()) else numeric()

test_sessions <- function() {
  given <- Sys.getenv("PJRT_TEST_SESSIONS")
  if (nzchar(given)) as.integer(given) else min(4L, max(1L, parallel::detectCores(), na.rm = TRUE))
}

# Runs these files in `sessions` at a time, in this order, and returns all results. A session takes one file after the
# other until it is half a minute old, and another follows: a start takes a second, and old sessions hold much memory.
run_files <- function(names, sessions) {
  if (length(names) == 0L) {
    return(list())
  }
  folder <- tempfile("files")
  dir.create(folder)
  running <- list()
  on.exit({
    for (session in running) session$process$kill()
    unlink(folder, recursive = TRUE)
  })
  started <- 0L
  results <- list()
  is_any_left <- function() !all(dir.exists(file.path(folder, names)))
  while (length(running) > 0L || is_any_left()) {
    while (length(running) < sessions && is_any_left()) {
      started <- started + 1L
      running <- c(running, list(start_session(folder, names, started)))
    }
    processx::poll(lapply(running, `[[`, "process"), 1000)
    ended <- !vapply(running, function(session) session$process$is_alive(), NA)
    results <- c(results, unlist(lapply(running[ended], end_session, folder), recursive = FALSE))
    running <- running[!ended]
  }
  results
}

# With `cleanup`, a session's object that is freed late kills a newer session that got the same process number.
start_session <- function(folder, names, id) {
  session <- list(id = id, log = tempfile("log"))
  session$process <- processx::process$new(
    file.path(R.home("bin"), "Rscript"), c("--vanilla", "tools/test.R", "session", folder, id, names),
    stdout = session$log, stderr = "2>&1", env = c("current", NOT_CRAN = "true", PJRT_TEST = "1"), cleanup = FALSE
  )
  session
}

# Returns the results of a session. If it died, or ended within a file, that is one failure.
end_session <- function(session, folder) {
  own <- list.files(folder, sprintf("^%d$", session$id), full.names = TRUE, recursive = TRUE)
  is_done <- file.size(own) > 0
  results <- unlist(lapply(own[is_done], readRDS), recursive = FALSE)
  status <- session$process$get_exit_status()
  died <- !identical(status, 0L) || !all(is_done)
  if (died || any(vapply(results, test_state, "") == "failed")) {
    writeLines(readLines(session$log, warn = FALSE))
  }
  if (died) {
    file <- basename(dirname(own[!is_done]))
    cat(sprintf("FAILED: the session of %s ended with status %s\n", toString(file), status))
    count(0L, 1L)
    if (length(own) == 0L) stop("Sessions for tests do not start.")
  }
  unlink(session$log)
  results
}

# Runs the files that no other session has taken. The results of each are in a file whose name is the session's number,
# and which is empty before.
run_session <- function(folder, id, names) {
  for (name in names) {
    taken <- file.path(folder, name)
    if (!dir.create(taken, showWarnings = FALSE)) next
    file <- file.path(taken, id)
    file.create(file)
    results <- testthat::test_dir(
      "tests/testthat",
      filter = sprintf("^%s$", name),
      package = "pjrt",
      load_package = "installed",
      reporter = "check",
      stop_on_failure = FALSE
    )
    saveRDS(unclass(results), file)
    if (proc.time()[["elapsed"]] > 30) break
  }
}

# Prints the files and the tests that took more than five seconds, and stores the times of all files for the next run
# unless `keep` is FALSE.
note_seconds <- function(results, keep = TRUE) {
  files <- sub("^test-(.*)[.]R$", "\\1", vapply(results, `[[`, "", "file"))
  real <- vapply(results, `[[`, 0, "real")
  seconds <- tapply(real, files, sum)
  slow <- sort(seconds[seconds > 5], decreasing = TRUE)
  cat(sprintf("%.0f s in all; %s\n", sum(seconds), toString(sprintf("%s %.0f", names(slow), slow))))
  for (i in Filter(function(i) real[[i]] > 5, order(-real))) {
    cat(sprintf("%4.0f s  %s: %s\n", real[[i]], files[[i]], results[[i]]$test))
  }
  if (!keep) {
    return(invisible())
  }
  last <- last_seconds()
  last[names(seconds)] <- seconds
  saveRDS(last, seconds_file())
}

test_state <- function(test) {
  is_a <- function(class) any(vapply(test$results, inherits, NA, class))
  if (is_a("expectation_failure") || is_a("expectation_error")) {
    "failed"
  } else if (is_a("expectation_skip")) {
    if (grepl(excused, skip_reason(test), ignore.case = TRUE)) "excused" else "skipped"
  } else {
    "passed"
  }
}

skip_reason <- function(test) {
  skip <- Find(function(result) inherits(result, "expectation_skip"), test$results)
  conditionMessage(skip)
}

# Runs a script in a new session and returns whether it succeeded. Prints its output if it fails.
script_works <- function(script) {
  rscript <- file.path(R.home("bin"), "Rscript")
  output <- suppressWarnings(system2(rscript, c("--vanilla", shQuote(script)), stdout = TRUE, stderr = TRUE))
  works <- is.null(attr(output, "status"))
  if (!works) {
    writeLines(output)
  }
  structure(works, printed = any(!grepl("^([>+] |$)", output)))
}

# Checks files in parallel: `is_good` runs a script that is made for each. Counts the files and prints the bad ones.
check_files <- function(what, files, make_script, is_good) {
  check <- function(path) {
    script <- tempfile(fileext = ".R")
    make_script(path, script)
    is_good(script)
  }
  works <- vapply(parallel::mclapply(files, check, mc.cores = test_sessions(), mc.preschedule = FALSE), isTRUE, NA)
  cat(sprintf("FAILED %s %s\n", what, files[!works]), sep = "")
  count(sum(works), sum(!works))
}

run_examples <- function() {
  make_script <- function(page, script) {
    tools::Rd2ex(page, script, commentDonttest = FALSE)
    writeLines(c("library(pjrt)", readLines(script)), script)
  }
  # an example that prints nothing shows nothing
  is_good <- function(script) {
    ended <- script_works(script)
    ended && attr(ended, "printed")
  }
  check_files("example of", list.files("man", "\\.Rd$", full.names = TRUE), make_script, is_good)
}

run_vignettes <- function() {
  if (is_missing("knitr")) {
    cat("vignettes not run: this R has no knitr\n")
    return(invisible())
  }
  make_script <- function(vignette, script) {
    writeLines(deparse(vignette_code(vignette, tempfile("vignette"))), script)
  }
  files <- list.files("vignettes", "\\.Rmd$", full.names = TRUE, recursive = TRUE)
  check_files("vignette", files, make_script, function(script) isTRUE(as.vector(script_works(script))))
}

# Code that renders a vignette or, without rmarkdown, only runs its code.
vignette_code <- function(vignette, folder) {
  if (is_missing("rmarkdown")) {
    bquote({
      dir.create(.(folder))
      knitr::opts_chunk$set(error = FALSE, dev = "pdf", fig.path = .(file.path(folder, "")))
      knitr::knit(.(vignette), .(file.path(folder, "page.md")), quiet = TRUE)
    })
  } else {
    bquote(rmarkdown::render(.(vignette), output_dir = .(folder), intermediates_dir = .(folder), quiet = TRUE))
  }
}

arguments <- commandArgs(trailingOnly = TRUE)
if (arguments[[1L]] == "session") {
  run_session(arguments[[2L]], arguments[[3L]], arguments[-(1:3)])
} else {
  counts <- arguments[[2L]]
  switch(arguments[[1L]],
    tests = , quick = , soak = run_tests(arguments[[1L]]), examples = run_examples(), vignettes = run_vignettes()
  )
}
