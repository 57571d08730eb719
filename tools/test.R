# The parts of tools/test.sh that run in R, on the installed package:
#
#   Rscript tools/test.R tests|examples|vignettes COUNTS TESTS
#
# Each part appends a line "passed failed skipped" to the file COUNTS and prints the failures. The tests also append a summary to
# the file TESTS.

# Accepted reasons for skipping a test: hardware that the machine lacks, terminals that a container lacks, and packages that
# Debian lacks, unless tools/setup.sh has installed them.
is_missing <- function(package) !nzchar(system.file(package = package))
friends <- Filter(is_missing, c("tengen", "safetensors"))
excused <- paste(c("GPU", "CUDA", "pseudo-terminal", "too little memory", friends), collapse = "|")

count <- function(passed, failed, skipped = 0L) {
  cat(passed, failed, skipped, "\n", file = counts, append = TRUE)
}

run_tests <- function() {
  Sys.setenv(NOT_CRAN = "true", PJRT_TEST = "1")
  results <- testthat::test_dir(
    "tests/testthat",
    package = "pjrt",
    load_package = "installed",
    reporter = "check",
    stop_on_failure = FALSE
  )
  show_slowest(results)
  state <- vapply(results, test_state, "")
  for (test in results[state %in% c("skipped", "excused")]) {
    cat(sprintf("SKIPPED %s: %s: %s\n", test$file, test$test, skip_reason(test)))
  }
  count(sum(state == "passed"), sum(state == "failed"), sum(state == "skipped"))
  numbers <- table(factor(state, c("passed", "failed", "skipped", "excused")))
  cat(
    sprintf("R %s: %d tests, %s\n", getRversion(), length(state), toString(paste(numbers, names(numbers)))),
    file = tests, append = TRUE
  )
}

# Prints the total time and the test files that take more than ten seconds.
show_slowest <- function(results) {
  seconds <- sort(tapply(vapply(results, `[[`, 0, "real"), vapply(results, `[[`, "", "file"), sum), decreasing = TRUE)
  slow <- seconds[seconds > 10]
  cat(sprintf("%.0f s in total; %s\n", sum(seconds), toString(sprintf("%s %.0f", names(slow), slow))))
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
  works
}

run_examples <- function() {
  works <- logical()
  for (page in list.files("man", "\\.Rd$", full.names = TRUE)) {
    script <- tempfile(fileext = ".R")
    tools::Rd2ex(page, script, commentDonttest = FALSE)
    # Rd2ex() writes no file for pages without examples
    if (!file.exists(script)) {
      next
    }
    writeLines(c("library(pjrt)", readLines(script)), script)
    works[[page]] <- script_works(script)
    if (!works[[page]]) {
      cat("FAILED example of", page, "\n")
    }
  }
  count(sum(works), sum(!works))
}

run_vignettes <- function() {
  works <- logical()
  if (is_missing("knitr")) {
    cat("vignettes not run: this R has no knitr\n")
    return(invisible())
  }
  for (vignette in list.files("vignettes", "\\.Rmd$", full.names = TRUE, recursive = TRUE)) {
    script <- tempfile(fileext = ".R")
    writeLines(deparse(vignette_code(vignette, tempfile("vignette"))), script)
    works[[vignette]] <- script_works(script)
    if (!works[[vignette]]) {
      cat("FAILED", vignette, "\n")
    }
  }
  count(sum(works), sum(!works))
}

# The code that renders a vignette or, without rmarkdown, only runs its code.
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
counts <- arguments[[2L]]
tests <- arguments[[3L]]
switch(arguments[[1L]], tests = run_tests(), examples = run_examples(), vignettes = run_vignettes())
