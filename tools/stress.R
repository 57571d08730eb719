# Puts the package under stress: uploads, executions, donations, downloads, compiles, failures, forks, garbage collections and
# interrupts at random, each result compared with what R computes.
#
#   Rscript tools/stress.R [SECONDS [SEED]]
#
# From the top folder of a checkout, with the package installed. The tests do the same for some seconds.

arguments <- commandArgs(trailingOnly = TRUE)
given <- c("600", "1")
given[seq_along(arguments)] <- arguments
Sys.setenv(PJRT_CPU_DEVICE_COUNT = "2")
status <- system2(
  file.path(R.home("bin"), "Rscript"),
  c("--vanilla", "tests/testthat/fixtures/stress.R", given, "tests/testthat/helper-programs.R")
)
quit("no", status = status)
