#' Skip a test without a plugin
#'
#' `skip_if_no_pjrt()` skips a testthat test if the machine cannot run programs on a platform: it has no plugin for it,
#' or no client can be created, such as on a machine without a GPU. It downloads nothing, unless `PJRT_INSTALL=1` allows
#' downloads.
#'
#' @param platform A string: the platform that the test needs.
#' @return `NULL`, invisibly, if the test can run.
#' @section Errors:
#' `pjrt_error_invalid_input` if `platform` is not a platform's name, or if testthat is not installed.
#' @seealso [plugins_downloaded()]; `vignette("using-pjrt")` about tests of packages that use this one
#' @examplesIf requireNamespace("testthat", quietly = TRUE)
#' testthat::test_that("sums are computed on the device", {
#'   skip_if_no_pjrt("cpu")
#'   x <- pjrt_buffer(c(1, 2))
#'   testthat::expect_equal(sum(as_array(x)), 3)
#' })
#' @export
skip_if_no_pjrt <- function(platform = "cpu") {
  check_platform(platform)
  if (!requireNamespace("testthat", quietly = TRUE)) {
    abort_input(
      "skip_if_no_pjrt() requires the package testthat.", hints = "install.packages(\"testthat\") installs it."
    )
  }
  if (!plugins_downloaded(platform) && Sys.getenv("PJRT_INSTALL") != "1") {
    testthat::skip(sprintf("There is no plugin for platform \"%s\".", platform))
  }
  tryCatch(pjrt_client(platform), pjrt_error = function(e) {
    testthat::skip(
      sprintf("No client for platform \"%s\": %s", platform, strsplit(conditionMessage(e), "\n")[[1L]][[1L]])
    )
  })
  invisible()
}
