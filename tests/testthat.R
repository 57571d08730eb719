library(testthat)
library(pjrt)

# Everything here runs on the real CPU plugin. Where it is absent and must not be fetched, as on CRAN, nothing can be
# tested.
if (plugins_downloaded("cpu") || nzchar(Sys.getenv("NOT_CRAN"))) {
  test_check("pjrt")
}
