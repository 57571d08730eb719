test_that("the dtype determines the R type", {
  read <- function(dtype) as_array(pjrt_empty(dtype, 2L))
  expect_identical(read("pred"), array(c(FALSE, FALSE)))
  for (dtype in c("i8", "i16", "i32", "ui8", "ui16", "i2", "i4", "ui2", "ui4")) {
    expect_identical(read(dtype), array(c(0L, 0L)))
  }
  for (dtype in c("i64", "ui64", "ui32")) expect_bits(read(dtype), int64(c(0, 0)))
  for (dtype in c("f16", "bf16", "f32", "f64")) expect_identical(read(dtype), array(c(0, 0)))
})

test_that("a scalar is read as a bare value and everything else as an array", {
  expect_null(attributes(as_array(pjrt_scalar(1))))
  expect_null(attributes(as_array(pjrt_scalar(TRUE))))
  expect_identical(attributes(as_array(pjrt_scalar(bit64::as.integer64(1)))), list(class = "integer64"))
  expect_identical(attributes(as_array(pjrt_buffer(1))), list(dim = 1L))
  expect_identical(attributes(as_array(pjrt_buffer(1:3))), list(dim = 3L))
  expect_setequal(names(attributes(as_array(pjrt_buffer(bit64::as.integer64(1:2))))), c("dim", "class"))
})

test_that("narrow types are read with their sign", {
  raw_buffer <- function(bytes, dtype) {
    pjrt_buffer(as.raw(bytes), dtype = dtype, shape = length(bytes), row_major = TRUE)
  }
  # bitwise, because waldo cannot show differences of one-dimensional arrays
  expect_bits(as_array(raw_buffer(c(255, 128, 127), "i8")), array(c(-1L, -128L, 127L)))
  expect_bits(as_array(raw_buffer(c(255, 128, 127), "ui8")), array(c(255L, 128L, 127L)))
  expect_bits(as_array(raw_buffer(c(255, 248, 7), "i4")), array(c(-1L, -8L, 7L)))
  expect_bits(as_array(raw_buffer(c(15, 8, 7), "ui4")), array(c(15L, 8L, 7L)))
  expect_bits(as_array(raw_buffer(c(255, 254, 1), "i2")), array(c(-1L, -2L, 1L)))
  expect_bits(as_array(raw_buffer(c(3, 2, 0), "ui2")), array(c(3L, 2L, 0L)))
})

test_that("unsigned 32-bit values are read as positive numbers", {
  x <- pjrt_buffer(as.raw(rep(255, 4)), dtype = "ui32", shape = 1, row_major = TRUE)
  expect_bits(as_array(x), int64(4294967295))
})

test_that("complex numbers and small floats are read by value", {
  complex <- bytes(c(1 + 2i, -3i))
  x <- pjrt_buffer(complex, dtype = "c128", shape = 2, row_major = TRUE)
  expect_identical(as_raw(x), complex)
  expect_identical(as_array(x), array(c(1 + 2i, -3i)))
  expect_identical(value(as_array_async(x)), array(c(1 + 2i, -3i)))
  eight <- as.raw(c(0x3c, 0xbc, 0x7c))
  x <- pjrt_buffer(eight, dtype = "f8e5m2", shape = 3, row_major = FALSE)
  expect_identical(as_raw(x, row_major = FALSE), eight)
  expect_identical(as_array(x), array(c(1, -1, Inf)))
  for (dtype in c("f8e4m3", "f8e4m3fn", "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e3m4", "f4e2m1fn")) {
    expect_identical(as_array(pjrt_buffer(c(0, 1, -1.5, 2), dtype)), array(c(0, 1, -1.5, 2)))
  }
  expect_identical(as_array(pjrt_buffer(c(0.5, 1, 3), "f8e8m0fnu")), array(c(0.5, 1, 4)))
})

test_that("64-bit integers are read as doubles or integers on request", {
  x <- bit64::as.integer64(c("1", "-5", "9007199254740992"))
  expect_bits(as_array(pjrt_buffer(x), int64 = "double"), array(c(1, -5, 2^53)))
  expect_bits(as_array(pjrt_buffer(x[1:2]), int64 = "integer"), array(c(1L, -5L)))
  expect_bits(as_array(pjrt_buffer(c(7, 2^32 - 1), "ui32"), int64 = "double"), array(c(7, 2^32 - 1)))
  expect_bits(as_array(pjrt_scalar(2^63, "ui64"), int64 = "double"), 2^63)
  expect_bits(value(as_array_async(pjrt_buffer(x), int64 = "double")), array(c(1, -5, 2^53)))
  expect_bits(as_array(pjrt_buffer(1:2), int64 = "double"), array(1:2))
})

test_that("a value that the requested type cannot hold raises an error", {
  large <- pjrt_buffer(bit64::as.integer64(c("1", "9007199254740993")))
  expect_refused(as_array(large, int64 = "double"), "invalid_input", "1 value that a double cannot hold")
  expect_refused(as_array(large, int64 = "integer"), "invalid_input", "1 value that an R integer cannot hold")
  expect_refused(value(as_array_async(large, int64 = "integer")), "invalid_input", "an R integer cannot hold")
  expect_refused(as_array(pjrt_scalar(-2^31, "i64"), int64 = "integer"), "invalid_input", "cannot hold")
  for (bad in list("int", NA_character_, 1, NULL, c("double", "integer"))) {
    expect_refused(as_array(large, int64 = bad), "invalid_input", "`int64` must be")
  }
})

# The element that R reads as NA.
planted <- function(dtype, size) {
  pjrt_buffer(as.raw(c(rep(0, size - 1), 0x80)), dtype = dtype, shape = 1, row_major = TRUE)
}

test_that("check = TRUE refuses values that R would misread", {
  expect_refused(as_array(planted("i32", 4), check = TRUE), "invalid_input", "cannot distinguish from NA")
  expect_refused(as_array(planted("i64", 8), check = TRUE), "invalid_input", "cannot distinguish from NA")
  wrapped <- "wrapped through R's signed integer64"
  expect_refused(as_array(planted("ui64", 8), check = TRUE), "invalid_input", wrapped)
  ones <- pjrt_buffer(as.raw(rep(255, 8)), dtype = "ui64", shape = 1, row_major = TRUE)
  expect_refused(as_array(ones, check = TRUE), "invalid_input", wrapped)
  expect_identical(as_array(planted("i32", 4)), array(NA_integer_))
  expect_bits(as_array(planted("i64", 8)), int64(NA))
})

test_that("check = TRUE does not change the result", {
  expect_identical(as_array(pjrt_buffer(1:3), check = TRUE), array(1:3))
  expect_bits(as_array(pjrt_buffer(bit64::as.integer64(1:3)), check = TRUE), int64(1:3))
  expect_identical(as_array(pjrt_buffer(c(NaN, 1)), check = TRUE), array(c(NaN, 1)))
  expect_identical(as_array(planted("i8", 1), check = TRUE), array(-128L))
  expect_identical(as_array(planted("i16", 2), check = TRUE), array(-32768L))
  expect_bits(as_array(planted("ui32", 4), check = TRUE), int64(2^31))
  expect_refused(as_array(pjrt_scalar(1), check = NA), "invalid_input", "`check` must be TRUE or FALSE")
})

test_that("as_raw() returns bytes in the requested order, which restore the array", {
  for (dims in list(c(2L, 3L), c(2L, 3L, 4L))) {
    x <- array(seq_len(prod(dims)), dims)
    for (case in list(
      list(dtype = "i32", data = x, size = 4L), list(dtype = "f32", data = x + 0.5, size = 4L),
      list(dtype = "f64", data = x / 3, size = 8L), list(dtype = "i8", data = x, size = 1L)
    )) {
      buffer <- pjrt_buffer(case$data, case$dtype)
      by_column <- bytes(as.vector(case$data), case$size)
      by_row <- bytes(as.vector(aperm(case$data)), case$size)
      expect_identical(as_raw(buffer, row_major = FALSE), by_column)
      expect_identical(as_raw(buffer, row_major = TRUE), by_row)
      for (row_major in c(TRUE, FALSE)) {
        again <- pjrt_buffer(as_raw(buffer, row_major), dtype = case$dtype, shape = dims, row_major = row_major)
        expect_equal(again, buffer)
      }
    }
  }
})

test_that("as_raw() works for scalars, logical values and empty arrays", {
  expect_identical(as_raw(pjrt_scalar(258L), row_major = TRUE), as.raw(c(2, 1, 0, 0)))
  expect_identical(as_raw(pjrt_buffer(c(TRUE, FALSE)), row_major = FALSE), as.raw(c(1, 0)))
  expect_identical(as_raw(pjrt_empty("f32", c(0, 3)), row_major = TRUE), raw())
})

test_that("as_raw() returns row-major bytes by default", {
  x <- pjrt_buffer(matrix(1:6, 2))
  expect_identical(as_raw(x), bytes(c(1L, 3L, 5L, 2L, 4L, 6L)))
  expect_identical(as_raw(x, row_major = FALSE), bytes(1:6))
  for (bad in list(NA, 1, NULL, c(TRUE, TRUE))) {
    expect_refused(as_raw(x, row_major = bad), "invalid_input", "`row_major` must be TRUE or FALSE")
  }
})

test_that("as_array() and as_raw() accept only buffers", {
  expect_refused(as_array(1), "invalid_input", "`x` must be a `PJRTBuffer`")
  expect_refused(as_raw(1, TRUE), "invalid_input", "`x` must be a `PJRTBuffer`")
})

test_that("copying a buffer to its own device returns the buffer", {
  x <- pjrt_buffer(1:3)
  expect_identical(copy_buffer(x, "cpu:0"), x)
  expect_identical(copy_buffer(x, device(x)), x)
})

test_that("a copy is on the other device and outlives its source", {
  x <- pjrt_buffer(matrix(1:6, 2))
  copy <- copy_buffer(x, "cpu:1")
  expect_false(identical(copy, x))
  expect_identical(device(copy), devices("cpu")[[2L]])
  rm(x)
  gc()
  expect_identical(as_array(copy), matrix(1:6, 2))
  expect_identical(as.character(elt_type(copy)), "i32")
  back <- copy_buffer(copy, devices("cpu")[[1L]])
  expect_identical(device(back), devices("cpu")[[1L]])
  expect_identical(as_array(back), matrix(1:6, 2))
})

test_that("a buffer can be copied to another client", {
  other <- devices(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 1L)))[[1L]]
  x <- pjrt_buffer(matrix(1:6, 2))
  copy <- copy_buffer(x, other)
  expect_identical(device(copy), other)
  expect_identical(as_array(copy), matrix(1:6, 2))
  expect_identical(as_array(copy_buffer(copy, "cpu:0")), matrix(1:6, 2))
})

test_that("copying a pending buffer waits for its content", {
  x <- pjrt_execute(compile(loop_program(2e6)), pjrt_scalar(1, "f64"))
  copy <- copy_buffer(x, "cpu:1")
  expect_identical(as_array(copy), 2)
})

test_that("copy_buffer() accepts only buffers and devices", {
  expect_refused(copy_buffer(1, "cpu:1"), "invalid_pointer", "`buffer` must be a `PJRTBuffer`")
  expect_refused(copy_buffer(pjrt_scalar(1), "cpu:7"), "invalid_input", "out of range")
  expect_refused(copy_buffer(pjrt_scalar(1), 1), "invalid_input", "Must be a PJRTDevice")
})

test_that("drop = TRUE drops dimensions of size 1, also the only one", {
  expect_identical(as_array(pjrt_buffer(c(1, 2)), drop = TRUE), c(1, 2))
  expect_identical(as_array(pjrt_buffer(5), drop = TRUE), 5)
  expect_identical(as_array(pjrt_scalar(5), drop = TRUE), 5)
  expect_identical(as_array(pjrt_buffer(array(1:6, c(1, 2, 1, 3))), drop = TRUE), matrix(1:6, 2))
  expect_bits(as_array(pjrt_buffer(bit64::as.integer64(1:2)), drop = TRUE), bit64::as.integer64(1:2))
  expect_identical(as_array(as_array_async(pjrt_buffer(c(1, 2))), drop = TRUE), c(1, 2))
  expect_identical(as_array(pjrt_buffer(c(1, 2)), drop = FALSE), array(c(1, 2)))
  expect_identical(as_array(pjrt_buffer(c(10, 20)), drop = TRUE) + 1:4, c(11, 22, 13, 24))
  expect_refused(as_array(pjrt_buffer(1), drop = NA), "invalid_input", "`drop` must be TRUE or FALSE")
})

test_that("value() of a buffer is its array", {
  expect_identical(value(pjrt_buffer(c(1, 2))), array(c(1, 2)))
})
