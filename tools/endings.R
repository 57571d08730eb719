# Ends sessions with pending work in every way that a session can end, and lists those that did not end correctly:
#
#   Rscript tools/endings.R [COUNT [SEED]]
#
# Run it in the top folder of a checkout, with the package installed. The tests do the same with fewer sessions.

arguments <- as.integer(commandArgs(trailingOnly = TRUE))
count <- if (length(arguments) > 0L) arguments[[1L]] else 1000L
seed <- if (length(arguments) > 1L) arguments[[2L]] else 1L

library(testthat, warn.conflicts = FALSE)
setwd("tests/testthat")
env <- new.env(parent = asNamespace("pjrt"))
for (helper in c("helper-plugins.R", "helper-terminal.R", "helper-endings.R")) {
  sys.source(helper, env)
}
assign("test_path", file.path, env)
bad <- env$bad_endings(count, seed)
cat(bad, sep = "\n")
cat(count, "sessions ended,", length(bad), "of them incorrectly\n")
quit("no", status = length(bad) > 0L)
