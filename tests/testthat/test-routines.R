# Every registered routine of the library, with the examples from helper-routines.R.
# Slow: collects garbage at every allocation.

test_that("every registered routine has an example use", {
  expect_setequal(names(routine_uses()), routine_names())
})

test_that("every example use calls its routine", {
  expect_clean(run_child(
    quote(writeLines(c("all but", missing_their_routine()))), lone_session(), helpers = routine_helpers
  ), "all but")
})

test_that("every routine returns the same under gctorture()", {
  expect_clean(run_child(
    quote(writeLines(c("all but", changed_by_torture(step = times(61L, 1L))))), lone_session(), timeout = 900,
    helpers = routine_helpers
  ), "all but")
})
