# Files with these bytes, and matrices in Python's order.
file_of <- function(bytes, env = parent.frame()) {
  path <- withr::local_tempfile(.local_envir = env)
  writeBin(bytes, path)
  path
}

row_major <- function(x) c(t(x))

test_that("plain numbers of every type, order and offset become arrays", {
  x <- matrix(1:12 / 2, 4)
  path <- file_of(row_major(x))
  expect_identical(as_array(pjrt_map_file(path, "f64", c(4, 3))), x)
  expect_identical(as_array(pjrt_map_file(path, "f64", c(2, 3), offset = 2 * 3 * 8)), x[3:4, ])
  expect_identical(as_array(pjrt_map_file(path, "f64", c(NA, 3), offset = 24L)), x[-1, ])
  expect_identical(as_array(pjrt_map_file(path, "f64", c(2, NA))), matrix(row_major(x), 2, byrow = TRUE))
  expect_identical(as.vector(as_array(pjrt_map_file(path, "f64", NA))), row_major(x))
  expect_identical(as_array(pjrt_map_file(path, "f64", integer(), offset = 88)), 6)
  expect_identical(shape(pjrt_map_file(path, "f64", c(0, 3))), c(0L, 3L))
  expect_identical(shape(pjrt_map_file(path, "f64", c(NA, 3), offset = 96)), c(0L, 3L))
  expect_identical(as_array(pjrt_map_file(file_of(c(x)), "f64", c(4, 3), row_major = FALSE)), x)
  expect_identical(as_array(pjrt_map_file(file_of(c(x)), "f64", c(3, 4))), t(x))
  bytes <- as.raw(0:63)
  path <- file_of(bytes)
  for (dtype in c("ui8", "i16", "f32", "bf16", "f8e4m3fn", "c128", "i64")) {
    buffer <- pjrt_map_file(path, dtype, NA)
    expect_identical(as_raw(buffer, row_major = TRUE), bytes, info = dtype)
    expect_identical(format(elt_type(buffer)), dtype)
  }
  # an offset within an element is allowed
  expect_identical(as_raw(pjrt_map_file(path, "i32", 2, offset = 3)), bytes[4:11])
  i4 <- pjrt_map_file(file_of(as.raw(0:7)), "i4", 8)
  expect_identical(as.vector(as_array(i4)), 0:7)
})

test_that("large arrays are used in place where they are aligned, and never modified", {
  skip_if_not(file.exists("/proc/self/maps"), "this system does not tell")
  is_mapped <- function(path) {
    gc()
    any(grepl(basename(path), readLines("/proc/self/maps"), fixed = TRUE))
  }
  x <- matrix(runif(20000), 100)
  path <- file_of(c(row_major(x), 0))
  before <- tools::md5sum(path)
  buffer <- pjrt_map_file(path, "f64", dim(x))
  expect_true(is_mapped(path))
  expect_identical(as_array(buffer), x)
  donate <- compile("func.func @main(%x: tensor<100x200xf64> {tf.aliasing_output = 0 : i32}) -> tensor<100x200xf64> {
    %0 = stablehlo.add %x, %x : tensor<100x200xf64>
    return %0 : tensor<100x200xf64>
  }")
  expect_identical(as_array(pjrt_execute(donate, buffer)), 2 * x)
  expect_identical(tools::md5sum(path), before)
  rm(buffer)
  expect_false(is_mapped(path))
  # what is not aligned or in another order is copied
  buffers <- list(
    pjrt_map_file(path, "f64", dim(x), offset = 8), pjrt_map_file(path, "f64", rev(dim(x)), row_major = FALSE),
    pjrt_map_file(path, "f64", 10)
  )
  expect_false(is_mapped(path))
  expect_identical(as_array(buffers[[2L]]), t(x))
  # a matrix of one column has the same elements in both orders
  buffer <- pjrt_map_file(path, "f64", c(20000, 1), row_major = FALSE)
  expect_true(is_mapped(path))
  expect_identical(as.vector(as_array(buffer)), row_major(x))
})

test_that("parts of .npy files are found by their header", {
  x <- matrix(as.double(1:24), 6)
  path <- file_of(npy_bytes("<f8", dim(x), writeBin(row_major(x), raw())))
  expect_identical(as_array(pjrt_map_file(path)), x)
  expect_identical(as_array(pjrt_map_file(path, shape = c(2, 4), offset = 4 * 8)), x[2:3, ])
  expect_identical(as_array(pjrt_map_file(path, shape = c(NA, 4), offset = 4 * 4 * 8)), x[5:6, ])
  # with a type, the header is not special
  expect_identical(as_array(pjrt_map_file(path, "f64", c(NA, 4), offset = 128)), x)
  path <- file_of(npy_bytes("<f8", dim(x), writeBin(c(x), raw()), fortran = TRUE))
  expect_identical(as_array(pjrt_map_file(path)), x)
  # columns 2 and 3
  expect_identical(as_array(pjrt_map_file(path, shape = c(6, 2), offset = 6 * 8)), x[, 2:3])
  path <- file_of(npy_bytes(">f8", dim(x), writeBin(row_major(x), raw(), endian = "big")))
  expect_identical(as_array(pjrt_map_file(path)), x)
  error <- expect_refused(pjrt_map_file(path, shape = c(2, 4)), "npy_invalid", "are big-endian")
  expect_match(conditionMessage(error), "pjrt_load_npy()", fixed = TRUE)
  error <- expect_refused(pjrt_map_file(file_of(1:3)), "npy_invalid", "does not begin as one")
  expect_match(conditionMessage(error), "pass `dtype` and `shape`", fixed = TRUE)
  expect_refused(pjrt_map_file(file_of(as.raw(c(0x50, 0x4b, 5, 6, rep(0, 18))))), "npy_invalid", "is an archive")
})

test_that("files that are too short or change raise errors", {
  path <- file_of(as.double(1:12))
  expect_refused(pjrt_map_file(path, "f64", c(5, 3)), "shape_mismatch", "An array f64[5x3] has 120 bytes, but ")
  expect_refused(pjrt_map_file(path, "f64", 12, offset = 1), "shape_mismatch", "has 95 bytes of data from offset 1 on")
  expect_refused(
    pjrt_map_file(path, "f64", c(NA, 5)), "shape_mismatch", "do not make whole arrays f64[1x5] of 40 bytes"
  )
  expect_refused(pjrt_map_file(path, "f64", c(NA, 0)), "shape_mismatch", "do not make whole arrays")
  expect_refused(pjrt_map_file(path, "f64", 0, offset = 97), "shape_mismatch", "is beyond the 96 bytes of data")
  expect_refused(pjrt_map_file(path, "f64", c(NA, 2^52, 2^52)), "invalid_input", "too large for any memory")
  expect_refused(pjrt_map_file(path, "f64"), "invalid_input", "`shape` must be given with `dtype`")
  expect_refused(pjrt_map_file(path, offset = 8), "invalid_input", "`shape` must be given with `offset`")
  expect_refused(pjrt_map_file(path, "f64", c(NA, NA)), "invalid_type", "at most one NA")
  expect_refused(pjrt_map_file(path, "f64", NaN), "invalid_type", "at most one NA")
  expect_refused(pjrt_map_file(path, "f64", 1.5), "invalid_type", "whole numbers")
  expect_refused(pjrt_map_file(path, "f64", 1, offset = 0.5), "invalid_type", "`offset` must be a whole number")
  expect_refused(pjrt_map_file(tempfile(), "f64", 1), "io", "Cannot read")
  path <- file_of(runif(20000))
  buffer <- pjrt_map_file(path, "f64", NA)
  con <- file(path, "r+b")
  seek(con, 5000, rw = "write")
  truncate(con)
  close(con)
  expect_refused(as_array(buffer), "file_changed", "was changed after it was opened")
})

test_that("-1 stands for the rest of the file, as NA does", {
  path <- withr::local_tempfile()
  writeBin(as.double(1:12), path)
  expect_identical(shape(pjrt_map_file(path, "f64", c(-1, 3))), c(4L, 3L))
  expect_identical(shape(pjrt_map_file(path, "f64", bit64::as.integer64(c(4, 3)))), c(4L, 3L))
  expect_refused(pjrt_map_file(path, "f64", c(-1, NA)), "invalid_type", "with at most one NA")
})

test_that("the header of a .npy file is not taken for numbers", {
  path <- file_of(npy_bytes("|V2", 3L, as.raw(1:6)))
  error <- expect_refused(pjrt_map_file(path), "unsupported_dtype", "does not contain the type of its elements")
  expect_match(conditionMessage(error), "pjrt_load_npy() in `dtype`", fixed = TRUE)
  expect_refused(pjrt_map_file(path, "bf16", 3), "invalid_input", "is a .npy file, which begins with a header")
  expect_identical(as_raw(pjrt_load_npy(path, dtype = "bf16"), row_major = TRUE), as.raw(1:6))
  expect_identical(as_raw(pjrt_map_file(path, "bf16", 3, offset = file.size(path) - 6), row_major = TRUE), as.raw(1:6))
})
