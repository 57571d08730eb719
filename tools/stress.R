# Stress test: runs uploads, executions, donations, downloads, compilations, failures, forks, garbage collections and
# interrupts at random, and compares each result with R's own.
#
#   Rscript tools/stress.R [SECONDS [SEED]]
#
# Run it in the top folder of a checkout, with the package installed. The tests do the same for some seconds.

arguments <- commandArgs(trailingOnly = TRUE)
given <- c("600", "1")
given[seq_along(arguments)] <- arguments
Sys.setenv(PJRT_CPU_DEVICE_COUNT = "2")
status <- system2(
  file.path(R.home("bin"), "Rscript"),
  c("--vanilla", "tests/testthat/fixtures/stress.R", given, "tests/testthat/helper-programs.R")
)
quit("no", status = status)
