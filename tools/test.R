# The parts of tools/test.sh that run in R, on the installed package:
#
#   Rscript tools/test.R tests|examples|vignettes COUNTS
#
# Each appends a line "passed failed skipped" to the file COUNTS and prints what failed.

# Tests may be skipped for want of these: packages that Debian lacks, hardware that the machine lacks, and terminals that a
# container lacks.
excused <- "tengen|safetensors.? (cannot be loaded|is not installed)|GPU|CUDA|pseudo-terminal|too little memory"

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
  state <- vapply(results, test_state, "")
  for (test in results[state %in% c("skipped", "excused")]) {
    cat(sprintf("SKIPPED %s: %s: %s\n", test$file, test$test, skip_reason(test)))
  }
  count(sum(state == "passed"), sum(state == "failed"), sum(state == "skipped"))
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

# Runs a script in a session of its own and says whether that went well; prints its output when not.
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
    # pages without examples make no file
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
  for (vignette in list.files("vignettes", "\\.Rmd$", full.names = TRUE, recursive = TRUE)) {
    folder <- tempfile("vignette")
    script <- tempfile(fileext = ".R")
    writeLines(
      sprintf("rmarkdown::render('%s', output_dir = '%s', intermediates_dir = '%s', quiet = TRUE)", vignette, folder, folder),
      script
    )
    works[[vignette]] <- script_works(script)
    if (!works[[vignette]]) {
      cat("FAILED", vignette, "\n")
    }
  }
  count(sum(works), sum(!works))
}

arguments <- commandArgs(trailingOnly = TRUE)
counts <- arguments[[2L]]
switch(arguments[[1L]], tests = run_tests(), examples = run_examples(), vignettes = run_vignettes())
