test_that("integer64 is an operand on either side, and bit64 keeps its own operators", {
  skip_if_not_installed("bit64")
  x <- pjrt_buffer(c(1, 2), "i64")
  two <- bit64::as.integer64(2)
  expect_identical(as.character(as_array(x + two)), c("3", "4"))
  expect_identical(as.character(as_array(two * x)), c("2", "4"))
  expect_identical(as.character(two + two), "4")
  expect_true(bit64::is.integer64(two + 1L))
})
