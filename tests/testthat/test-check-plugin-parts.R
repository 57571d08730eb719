test_that("differences are counted, and the first is shown", {
  expect_true(check_same(c(1, 2), c(1, 2)))
  expect_true(check_same(c(1, 2), c(1, 2 + 1e-8), tolerance = 1e-5))
  expect_identical(check_same(c(1, 2, 4), c(1, 2, 3)), "1 of 3 elements differ, such as element 3: 4 instead of 3")
  expect_identical(check_same("a", c("a", "b")), "a instead of a b")
})

test_that("a check passes, fails, is skipped or is not supported", {
  outcome <- function(check) unlist(plugin_outcome(check))
  expect_identical(outcome(function() TRUE), c(result = "pass", detail = ""))
  expect_identical(outcome(function() "it is wrong"), c(result = "fail", detail = "it is wrong"))
  expect_identical(outcome(function() stop("one\ntwo")), c(result = "fail", detail = "one"))
  one <- "there is one device"
  expect_identical(outcome(function() skipped(one)), c(result = "skipped", detail = one))
  lacks <- function() pjrt_abort("it lacks a call", "unsupported_call")
  expect_identical(outcome(lacks), c(result = "unsupported", detail = "it lacks a call"))
})

test_that("the plugin of the tests has the functions that are needed", {
  functions <- call_native(ffi_plugin_functions, pjrt_plugin("cpu"))
  expect_identical(setdiff(needed_functions, functions$name[functions$present]), character())
  expect_gte(length(functions$name), 120L)
})
