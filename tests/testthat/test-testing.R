skips <- function(code) tryCatch({
  code
  "runs"
}, skip = function(s) conditionMessage(s))

test_that("tests run if there is a plugin", {
  expect_identical(skips(skip_if_no_pjrt()), "runs")
  expect_identical(withVisible(skip_if_no_pjrt("cpu")), list(value = NULL, visible = FALSE))
})

test_that("tests are skipped without a plugin or a device, and nothing is downloaded", {
  withr::local_envvar(PJRT_INSTALL = NA)
  expect_match(skips(skip_if_no_pjrt("nothing")), "There is no plugin for platform \"nothing\".", fixed = TRUE)
  broken <- withr::local_tempfile(lines = "not a library")
  withr::local_envvar(PJRT_PLUGIN_PATH_BROKEN = broken)
  expect_match(skips(skip_if_no_pjrt("broken")), "No client for platform \"broken\": ", fixed = TRUE)
})

test_that("a platform that is not a name is an error, not a skip", {
  for (bad in list(NULL, 1, NA_character_, c("cpu", "cuda"))) expect_refused(skip_if_no_pjrt(bad), "invalid_type")
  expect_refused(skip_if_no_pjrt("a/b"), "invalid_value")
})
