test_that("buffers with the same content are equal", {
  expect_equal(pjrt_buffer(1:3), pjrt_buffer(1:3))
  expect_identical(pjrt_buffer(c(1, NaN)), pjrt_buffer(c(1, NaN)))
  expect_equal(pjrt_execute(compile(unary_program("f32")), pjrt_scalar(1)), pjrt_scalar(2))
  expect_equal(pjrt_empty("f32", c(0, 2)), pjrt_empty("f32", c(0, 2)))
})

test_that("names of columns, which the device does not have, make no difference", {
  named <- matrix(1:6, 2, dimnames = list(NULL, c("a", "b", "c")))
  expect_identical(pjrt_buffer(named), pjrt_buffer(unname(named)))
  expect_equal(pjrt_buffer(named) * 1L, pjrt_buffer(named))
  expect_failure(expect_equal(pjrt_buffer(named), pjrt_buffer(named + 1L)))
})

test_that("buffers that differ in values, shape or dtype are not", {
  x <- pjrt_buffer(1:4)
  expect_failure(expect_equal(pjrt_buffer(matrix(1:4, 2)), pjrt_buffer(matrix(c(1L, 2L, 3L, 5L), 2))))
  expect_failure(expect_equal(x, pjrt_buffer(c(1:3, 5L))))
  expect_failure(expect_equal(x, pjrt_buffer(1:5)))
  expect_failure(expect_equal(x, pjrt_buffer(matrix(1:4, 2))))
  expect_failure(expect_equal(x, pjrt_buffer(1:4, "i8")))
  expect_failure(expect_equal(pjrt_scalar(1L), pjrt_buffer(1L)))
  expect_failure(expect_equal(pjrt_scalar(1), pjrt_scalar(1, "f64")))
  expect_failure(expect_equal(x, array(1:4)))
})

test_that("floats may differ only by the tolerance", {
  expect_equal(pjrt_scalar(1, "f64"), pjrt_scalar(1 + 1e-9, "f64"))
  expect_failure(expect_identical(pjrt_scalar(1, "f64"), pjrt_scalar(1 + 1e-9, "f64")))
  expect_failure(expect_equal(pjrt_scalar(1), pjrt_scalar(1.01)))
})

test_that("buffers with different attributes are not equal", {
  x <- pjrt_scalar(1)
  y <- pjrt_scalar(1)
  attr(y, "note") <- "mine"
  expect_failure(expect_equal(x, y))
})

test_that("the proxy holds value, shape, dtype and attributes", {
  proxy <- compare_proxy.PJRTBuffer(pjrt_buffer(c(TRUE, FALSE)), "x")
  expect_identical(proxy$object, list(
    x = c(TRUE, FALSE), dim = 2L, dtype = "pred", attr = list(class = "PJRTBuffer")
  ))
})

test_that("promises compare by value", {
  expect_equal(as_array_async(pjrt_buffer(1:3)), as_array_async(pjrt_buffer(1:3)))
  expect_failure(expect_equal(
    as_array_async(pjrt_buffer(matrix(1:4, 2))), as_array_async(pjrt_buffer(matrix(c(1:3, 5L), 2)))
  ))
})

test_that("64-bit integers are compared as numbers, with a tolerance too", {
  for (dtype in c("i64", "ui64", "ui32")) {
    expect_failure(expect_equal(pjrt_buffer(c(1, 2), dtype), pjrt_buffer(c(1, 3000), dtype)))
    expect_equal(pjrt_buffer(c(1, 2), dtype), pjrt_buffer(c(1, 2), dtype))
  }
  expect_failure(expect_equal(sum(pjrt_buffer(1:3)), sum(pjrt_buffer(1:300))))
  large <- function(...) pjrt_buffer(bit64::as.integer64(c(...)))
  expect_failure(expect_equal(large("9007199254740993"), large("9007199254740992")))
  expect_equal(large("9007199254740993"), large("9007199254740993"))
  expect_failure(expect_equal(pjrt_buffer(2^63, "ui64"), pjrt_buffer(2^63 + 2048, "ui64")))
  expect_failure(expect_equal(as_array_async(large("1")), as_array_async(large("3000"))))
  expect_equal(as_array_async(large("3")), as_array_async(large("3")))
})
