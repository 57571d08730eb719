# Everything that R can call in the library, see helper-routines.R.

test_that("every routine that the library registers has a use that the tests of memory go through", {
  expect_setequal(names(routine_uses()), routine_names())
})

test_that("every use comes to its routine", {
  expect_clean(run_child(
    quote(writeLines(c("all but", missing_their_routine()))), lone_session(), helpers = routine_helpers
  ), "all but")
})

test_that("every routine gives the same while R collects garbage at every allocation", {
  expect_clean(run_child(
    quote(writeLines(c("all but", changed_by_torture()))), lone_session(), timeout = 300, helpers = routine_helpers
  ), "all but")
})
