test_that("integer64 is an operand on either side, and bit64 keeps its own operators", {
  skip_if_not_installed("bit64")
  x <- pjrt_buffer(c(1, 2), "i64")
  two <- bit64::as.integer64(2)
  expect_identical(as.character(as_array(x + two)), c("3", "4"))
  expect_identical(as.character(as_array(two * x)), c("2", "4"))
  expect_identical(as.character(two + two), "4")
  expect_true(bit64::is.integer64(two + 1L))
})

test_that("as.integer64() and c() of integer64 take buffers", {
  large <- pjrt_buffer(bit64::as.integer64(c("1099511627777", "3")), shape = c(1, 2))
  expect_identical(bit64::as.integer64(large), bit64::as.integer64(c("1099511627777", "3")))
  expect_identical(c(bit64::as.integer64(7), large), bit64::as.integer64(c("7", "1099511627777", "3")))
  expect_identical(bit64::as.integer64(pjrt_buffer(c(TRUE, FALSE))), bit64::as.integer64(1:0))
  expect_identical(bit64::as.integer64(pjrt_buffer(c(1.5, -2))), bit64::as.integer64(c(1, -2)))
})

test_that("all.equal() knows unsigned numbers beyond the range of integer64", {
  most <- pjrt_buffer(as.raw(rep(255, 8)), dtype = "ui64", shape = 1L, row_major = TRUE)
  expect_identical(all.equal(most, bit64::as.integer64(-1)), "1 string mismatch")
  expect_identical(all.equal(most, -1), "Mean relative difference: 1")
  expect_true(all.equal(most, 2^64))
})
