test_that("R types have a default dtype", {
  type <- function(x) as.character(elt_type(x))
  expect_identical(type(pjrt_buffer(TRUE)), "pred")
  expect_identical(type(pjrt_buffer(1L)), "i32")
  expect_identical(type(pjrt_buffer(1)), "f32")
  expect_identical(type(pjrt_buffer(bit64::as.integer64(1))), "i64")
  expect_identical(type(pjrt_buffer(1i)), "c64")
  expect_identical(type(pjrt_scalar(TRUE)), "pred")
  expect_identical(type(pjrt_scalar(1L)), "i32")
  expect_identical(type(pjrt_scalar(1)), "f32")
  expect_identical(type(pjrt_scalar(bit64::as.integer64(1))), "i64")
})

test_that("a buffer is an external pointer with only a class attribute", {
  x <- pjrt_buffer(c(a = 1, b = 2))
  expect_identical(typeof(x), "externalptr")
  expect_identical(attributes(x), list(class = "PJRTBuffer"))
  y <- pjrt_execute(compile(unary_program("2xf32")), x)
  expect_identical(attributes(y), list(class = "PJRTBuffer"))
})

test_that("integers convert to every number type and wrap in narrower ones", {
  x <- c(0L, 1L, -1L, 127L, 128L, -129L, 300L, 65536L + 7L)
  wrapped <- function(bits, signed) {
    y <- as.double(x) %% 2^bits
    array(if (signed) ifelse(y >= 2^(bits - 1), y - 2^bits, y) else y)
  }
  back <- function(dtype) as_array(pjrt_buffer(x, dtype))
  as_int <- function(y) array(as.integer(y))
  expect_identical(back("i8"), as_int(wrapped(8, TRUE)))
  expect_identical(back("i16"), as_int(wrapped(16, TRUE)))
  expect_identical(back("i32"), array(x))
  expect_bits(back("i64"), int64(x))
  expect_identical(back("ui8"), as_int(wrapped(8, FALSE)))
  expect_identical(back("ui16"), as_int(wrapped(16, FALSE)))
  expect_bits(back("ui32"), int64(wrapped(32, FALSE)))
  expect_bits(back("ui64"), int64(x))
  expect_identical(back("f32"), array(as.double(x)))
  expect_identical(back("f64"), array(as.double(x)))
  expect_identical(back("f16"), array(c(0, 1, -1, 127, 128, -129, 300, Inf)))
  expect_identical(back("bf16"), array(c(0, 1, -1, 127, 128, -129, 300, 65536)))
})

test_that("NA_integer_ is the smallest 32-bit integer in integer types, with a warning", {
  back <- function(dtype) expect_na_warning(as_array(pjrt_buffer(c(1L, NA), dtype)), dtype, 1, 2)
  expect_identical(back("i32"), array(c(1L, NA)))
  expect_bits(back("i64"), int64(c(1, -2^31)))
  expect_identical(back("i8"), array(1:0))
})

test_that("integer, integer64 and logical NA are NaN in every float type, without a warning", {
  floats <- setdiff(names(float_types), "f4e2m1fn")
  for (x in list(c(1L, NA, 2L), bit64::as.integer64(c(1, NA, 2)), c(TRUE, NA, TRUE))) {
    for (dtype in c("f64", floats)) {
      y <- expect_silent(as_array(pjrt_buffer(x, dtype)))
      expect_identical(is.na(c(y)), c(FALSE, TRUE, FALSE), label = dtype)
      expect_identical(c(y)[1L], 1, label = dtype)
    }
    # R's own missing value
    expect_bits(as_array(pjrt_buffer(x[2L], "f64")), array(NA_real_))
  }
  expect_identical(as_array(pjrt_buffer(c(TRUE, NA), "c128")), array(c(1 + 0i, NA)))
  expect_equal(mean(as_array(pjrt_buffer(airquality$Ozone, "f64")), na.rm = TRUE), mean(airquality$Ozone, na.rm = TRUE))
})

test_that("NA in a type without NaN warns once a call, with count and place", {
  expect_na_warning(pjrt_buffer(c(TRUE, FALSE, NA)), "pred", 1, 3)
  expect_na_warning(pjrt_buffer(c(0, NA, NaN), "pred"), "pred", 2, 2)
  expect_na_warning(pjrt_buffer(c(NA, 1, NA), "ui8"), "ui8", 2, 1)
  expect_na_warning(pjrt_scalar(NA_integer_), "i32", 1, 1)
  expect_na_warning(pjrt_buffer(bit64::as.integer64(c(1, NA))), "i64", 1, 2)
  expect_na_warning(pjrt_buffer(c(TRUE, NA), "i16"), "i16", 1, 2)
  # arrays that the device uses in place, and others that are converted
  x <- rep(5L, 10000L)
  expect_silent(pjrt_buffer(x))
  x[c(4000L, 7000L)] <- NA
  expect_na_warning(pjrt_buffer(x), "i32", 2, 4000)
  expect_na_warning(pjrt_buffer(matrix(as.double(x), 100), "i32"), "i32", 2, 4000)
  expect_error(withr::with_options(list(warn = 2), pjrt_buffer(x)), "converted from warning")
  # numbers that are too large are not missing
  expect_silent(pjrt_buffer(c(300L, -1L), "ui8"))
})

test_that("missing values in large arrays are told of by a later call", {
  x <- rep(1L, 1e6)
  x[[5e5]] <- NA
  told_later <- function(make) {
    told <- NULL
    note <- function(w) {
      told <<- conditionMessage(w)
      invokeRestart("muffleWarning")
    }
    withCallingHandlers(
      {
        buffer <- make()
        limit <- Sys.time() + 60
        while (is.null(told) && Sys.time() < limit) shape(buffer)
      },
      pjrt_warning_na = note
    )
    told
  }
  expect_match(told_later(function() pjrt_buffer(x)), "a missing value (element 500000)", fixed = TRUE)
  expect_match(told_later(function() pjrt_buffer(as.double(rep(x, 3)), "i32")), "3 missing values")
})

test_that("options set the default of checks and types", {
  withr::local_options(pjrt.check = TRUE)
  expect_refused(pjrt_buffer(c(1L, NA)), "invalid_input", "1 NA value")
  expect_refused(pjrt_scalar(NA), "invalid_input", "1 NA value")
  expect_refused(as_array(without_na_warning(pjrt_buffer(NA_integer_, check = FALSE))), "invalid_input", "NA")
  expect_identical(
    as_array(without_na_warning(pjrt_buffer(NA_integer_, check = FALSE)), check = FALSE), array(NA_integer_)
  )
  for (bad in list(NA, "yes", 1L)) {
    withr::local_options(pjrt.check = bad)
    expect_refused(pjrt_buffer(NA_real_), "invalid_input", "`options(pjrt.check = )` must be TRUE or FALSE")
  }
  withr::local_options(pjrt.check = NULL, pjrt.default_float = "double", pjrt.default_int = "i64")
  expect_true(elt_type(pjrt_buffer(1)) == "f64")
  expect_true(elt_type(pjrt_scalar(1L)) == "i64")
  expect_true(elt_type(pjrt_buffer(1, "f32")) == "f32")
  expect_true(elt_type(pjrt_buffer(TRUE)) == "pred")
  for (bad in list("i32", "word", 1, NA_character_)) {
    withr::local_options(pjrt.default_float = bad)
    expect_refused(
      pjrt_buffer(1), "invalid_input", "`options(pjrt.default_float = )` must be a float dtype, such as \"f32\""
    )
  }
  withr::local_options(pjrt.default_int = "pred")
  expect_refused(pjrt_buffer(1L), "invalid_input", "`options(pjrt.default_int = )` must be an integer dtype")
})

test_that("doubles are truncated towards zero and saturate in integer types", {
  x <- c(2.9, -2.9, 1e300, -1e300, Inf, -Inf)
  back <- function(dtype) as_array(pjrt_buffer(x, dtype))
  expect_identical(back("i8"), array(c(2L, -2L, 127L, -128L, 127L, -128L)))
  expect_identical(back("i16"), array(c(2L, -2L, 32767L, -32768L, 32767L, -32768L)))
  expect_identical(back("i32"), array(c(2L, -2L, .Machine$integer.max, NA, .Machine$integer.max, NA)))
  expect_identical(back("ui8"), array(c(2L, 0L, 255L, 0L, 255L, 0L)))
  expect_identical(back("ui16"), array(c(2L, 0L, 65535L, 0L, 65535L, 0L)))
  expect_bits(back("ui32"), int64(c(2, 0, 2^32 - 1, 0, 2^32 - 1, 0)))
  largest <- bit64::as.integer64("9223372036854775807")
  expect_bits(c(back("i64"))[c(1, 2, 3, 5)], c(bit64::as.integer64(c(2, -2)), largest, largest))
  expect_true(all(is.na(back("i64")[c(4, 6)])))
  expect_identical(format_buffer(pjrt_buffer(x, "ui64")), array(c("2", "0", rep(c("18446744073709551615", "0"), 2))))
})

test_that("doubles convert to 64-bit integers beyond the range of R's integers", {
  x <- c(3e9, -3e9, 2^53, -2^53, 2^62)
  expect_bits(as_array(pjrt_buffer(x, "i64")), int64(x))
  expect_identical(format_buffer(pjrt_buffer(2^63, "ui64")), array("9223372036854775808"))
  expect_bits(as_array(pjrt_buffer(c(3e9, 2^32 - 1), "ui32")), int64(c(3e9, 2^32 - 1)))
})

test_that("missing doubles become the smallest signed integer, or 0 in unsigned types", {
  back <- function(dtype) expect_na_warning(as_array(pjrt_buffer(c(NA, NaN), dtype)), dtype, 2, 1)
  expect_identical(back("i8"), array(c(-128L, -128L)))
  expect_identical(back("i32"), array(c(NA_integer_, NA_integer_)))
  expect_bits(back("i64"), int64(c(NA, NA)))
  expect_identical(back("ui8"), array(c(0L, 0L)))
  expect_bits(back("ui64"), int64(c(0, 0)))
})

test_that("doubles convert to pred like as.logical()", {
  expect_identical(as_array(pjrt_buffer(c(0, 1, 0.5, -1, -0), "pred")), array(c(FALSE, TRUE, TRUE, TRUE, FALSE)))
  expect_identical(expect_na_warning(as_array(pjrt_buffer(c(NA, NaN), "pred")), "pred", 2, 1), array(c(TRUE, TRUE)))
})

test_that("doubles keep every bit in f64, including NaN and infinities", {
  x <- c(NA, NaN, Inf, -Inf, -0, 0, 1 / 3, 5e-324, .Machine$double.xmax)
  expect_bits(as_array(pjrt_buffer(x, "f64")), array(x))
  expect_bits(as_array(pjrt_scalar(NA_real_, "f64")), NA_real_)
})

test_that("doubles are rounded in narrower floats, and NaN and infinities are kept", {
  x <- c(NA, NaN, Inf, -Inf, -0, 1 / 3, 1e300)
  y <- as_array(pjrt_buffer(x, "f32"))
  expect_true(all(is.nan(y[1:2])))
  nearest <- readBin(bytes(1 / 3, 4L), "double", size = 4L)
  expect_bits(as.vector(y)[3:7], c(Inf, -Inf, -0, nearest, Inf))
  half <- as_array(pjrt_buffer(c(NaN, 1 / 3, 65504, 65520, 2^-24), "f16"))
  expect_bits(half, array(c(NaN, 0.333251953125, 65504, Inf, 2^-24)))
  brain <- as_array(pjrt_buffer(c(1 / 3, 1e38, 1 + 2^-8, 1 + 3 * 2^-8), "bf16"))
  expect_bits(as.vector(brain)[c(1, 3, 4)], c(0.333984375, 1, 1 + 2^-6))
})

test_that("integer64 values keep all their bits", {
  x <- bit64::as.integer64(c("9007199254740993", "-9007199254740993", "9223372036854775807", "-1", NA))
  expect_bits(expect_na_warning(as_array(pjrt_buffer(x)), "i64", 1, 5), int64(x))
  unsigned <- expect_na_warning(pjrt_buffer(x, "ui64"), "ui64", 1, 5)
  expect_bits(as_array(unsigned), int64(x))
  expect_identical(as.vector(format_buffer(unsigned))[4:5], c("18446744073709551615", "9223372036854775808"))
  expect_bits(as_array(pjrt_scalar(x[[1L]])), x[[1L]])
  m <- int64(x[1:4], c(2, 2))
  expect_bits(as_array(pjrt_buffer(m)), m)
  expect_identical(format_buffer(pjrt_buffer(m))[1, 2], "9223372036854775807")
})

test_that("integer64 values wrap into 32 bits", {
  x <- bit64::as.integer64(c("1", "4294967295", "4294967297", "-1"))
  expect_bits(as_array(pjrt_buffer(x, "ui32")), int64(c(1, 4294967295, 1, 4294967295)))
})

test_that("complex numbers keep both parts, rounded in c64", {
  x <- complex(real = c(1, NA, Inf, -0), imaginary = c(1 / 3, 2, NaN, 0))
  expect_bits(as_array(pjrt_buffer(x, "c128")), array(x))
  y <- as_array(pjrt_buffer(c(1 / 3 + 2i, 1e300 - 1i)))
  nearest <- readBin(bytes(1 / 3, 4L), "double", size = 4L)
  expect_identical(y, array(complex(real = c(nearest, Inf), imaginary = c(2, -1))))
  m <- matrix(1:6 + 6:1 * 1i, 2)
  expect_identical(as_array(pjrt_buffer(m)), m)
  expect_identical(as_array(pjrt_scalar(2i)), 2i)
})

test_that("in integer types narrower than a byte, doubles saturate and integers wrap", {
  expect_identical(without_na_warning(as_array(pjrt_buffer(c(-9, 9, NaN, 2.7), "i4"))), array(c(-8L, 7L, -8L, 2L)))
  expect_identical(without_na_warning(as_array(pjrt_buffer(c(-9, 9, NaN, 2.7), "ui2"))), array(c(0L, 3L, 0L, 2L)))
  expect_identical(as_array(pjrt_buffer(c(9L, 16L, -1L), "i4")), array(c(-7L, 0L, -1L)))
  expect_identical(as_array(pjrt_buffer(c(5L, -1L), "ui2")), array(c(1L, 3L)))
})

test_that("an error names the dtype that the data cannot be converted to", {
  expect_refused(pjrt_buffer(1L, "pred"), "unsupported_dtype", "Unsupported type: pred")
  x <- bit64::as.integer64(1)
  expect_refused(pjrt_buffer(1i, "f64"), "unsupported_dtype", "Unsupported type: f64")
  for (dtype in c("i32", "i8", "c64", "pred")) {
    message <- paste("input only supports i64 or ui64 dtype, got", dtype)
    expect_refused(pjrt_buffer(x, dtype), "unsupported_dtype", message)
    expect_refused(pjrt_scalar(x, dtype), "unsupported_dtype", message)
  }
})

test_that("a missing logical becomes TRUE in pred", {
  expect_identical(as_array(without_na_warning(pjrt_buffer(c(TRUE, FALSE, NA)))), array(c(TRUE, FALSE, TRUE)))
})

test_that("logical values convert to every number type", {
  for (dtype in setdiff(names(mlir_types), c("pred", "f8e8m0fnu"))) {
    expect_equal(as.double(as_array(pjrt_buffer(c(TRUE, FALSE), dtype))), c(1, 0), label = dtype)
  }
  expect_identical(as_array(pjrt_scalar(TRUE, "f64")), 1)
})

test_that("real numbers become complex ones without imaginary part", {
  expect_identical(as_array(pjrt_buffer(c(1.5, -2), "c64")), array(c(1.5 + 0i, -2 + 0i)))
  expect_identical(as_array(pjrt_buffer(1:2, "c128")), array(c(1 + 0i, 2 + 0i)))
})

test_that("check = TRUE refuses integers that a float cannot hold exactly", {
  expect_refused(
    pjrt_buffer(c(1L, 16777217L), "f32", check = TRUE), "invalid_input", "f32 cannot hold; the first is element 2"
  )
  expect_refused(pjrt_buffer(2049L, "f16", check = TRUE), "invalid_input", "f16 cannot hold")
  big <- bit64::as.integer64("9007199254740993")
  expect_refused(pjrt_buffer(big, "f64", check = TRUE), "invalid_input", "f64 cannot hold")
  expect_identical(as_array(pjrt_buffer(16777217L, "f64", check = TRUE)), array(16777217))
  expect_identical(as_array(pjrt_buffer(16777217L, "f32")), array(16777216))
})

test_that("check = TRUE counts the values that the dtype cannot hold", {
  for (x in list(c(1L, NA), c(1, NA), c(TRUE, NA), c(1i, NA), bit64::as.integer64(c(1, NA)))) {
    error <- expect_refused(pjrt_buffer(x, check = TRUE), "invalid_input", "no representation at the XLA level")
    expect_match(conditionMessage(error), "1 NA.*element 2")
    expect_refused(pjrt_scalar(x[2L], check = TRUE), "invalid_input", "no representation at the XLA level")
  }
  error <- expect_refused(pjrt_buffer(c(NA, 1, NaN, NA), "f64", check = TRUE), "invalid_input")
  expect_match(conditionMessage(error), "2 NA.*element 1")
  expect_refused(pjrt_buffer(c(1, NaN), "i32", check = TRUE), "invalid_input", "no representation at the XLA level")
  expect_refused(pjrt_buffer(c(1, 128), "i8", check = TRUE), "invalid_input", "1 value that i8 cannot hold")
  expect_refused(pjrt_buffer(c(1L, -1L), "ui8", check = TRUE), "invalid_input", "element 2")
  expect_refused(pjrt_buffer(2^63, "i64", check = TRUE), "invalid_input", "i64 cannot hold")
  expect_refused(pjrt_buffer(c(1, 1e300), check = TRUE), "invalid_input", "1 value that f32 cannot hold")
  expect_refused(pjrt_buffer(70000L, "f16", check = TRUE), "invalid_input", "f16 cannot hold")
  expect_refused(pjrt_buffer(c(1, Inf), "f8e4m3fn", check = TRUE), "invalid_input", "element 2")
})

test_that("check = TRUE accepts all other values", {
  expect_identical(as_array(pjrt_buffer(c(1, Inf, -Inf), check = TRUE)), array(c(1, Inf, -Inf)))
  # NaN is a float like others, other than NA
  expect_identical(as_array(pjrt_buffer(c(1, NaN), check = TRUE)), array(c(1, NaN)))
  expect_identical(as_array(pjrt_buffer(1:3 + 1i, check = TRUE)), array(1:3 + 1i))
  expect_identical(as_array(pjrt_buffer(c(127.9, -128.9), "i8", check = TRUE)), array(c(127L, -128L)))
  expect_identical(as_array(pjrt_buffer(c(TRUE, FALSE), check = TRUE)), array(c(TRUE, FALSE)))
  expect_identical(as_array(pjrt_scalar(5L, check = TRUE)), 5L)
})

test_that("check must be a flag", {
  for (bad in list(NA, 1, "yes", c(TRUE, TRUE))) {
    expect_refused(pjrt_buffer(1, check = bad), "invalid_input", "`check` must be TRUE or FALSE")
  }
})

test_that("the shape defaults to that of the data", {
  expect_identical(shape(pjrt_buffer(1:3)), 3L)
  expect_identical(shape(pjrt_buffer(1L)), 1L)
  expect_identical(shape(pjrt_buffer(matrix(1:6, 2))), c(2L, 3L))
  expect_identical(shape(pjrt_buffer(array(1:3))), 3L)
  expect_identical(shape(pjrt_buffer(1:6, shape = c(2, 3))), c(2L, 3L))
  expect_identical(shape(pjrt_buffer(matrix(1:6, 2), shape = 6L)), 6L)
  expect_identical(shape(pjrt_buffer(1L, shape = integer())), integer())
  expect_identical(shape(pjrt_scalar(1L)), integer())
  expect_identical(shape(pjrt_scalar(array(1L, c(1, 1)))), integer())
})

test_that("arrays of rank 0 to 7 of every type are read back unchanged", {
  for (rank in 0:7) {
    dims <- c(2L, 3L, 1L, 2L, 1L, 3L, 2L)[seq_len(rank)]
    n <- prod(dims)
    same <- function(values, dtype = NULL) {
      x <- if (rank == 0L) values else array(values, dims)
      y <- pjrt_buffer(x, dtype, shape = dims)
      expect_identical(shape(y), dims)
      expect_bits(as_array(y), x)
    }
    same(seq_len(n) %% 3L == 0L)
    same(seq_len(n) - 5L)
    same(seq_len(n) - 5L, "i16")
    same(seq_len(n) / 2)
    same(seq_len(n) / 3, "f64")
    x <- bit64::as.integer64(seq_len(n)) * bit64::as.integer64("100000000001")
    if (rank > 0L) dim(x) <- dims
    expect_bits(as_array(pjrt_buffer(x, shape = dims)), x)
  }
})

test_that("a program indexes an array as R does", {
  pick <- compile("func.func @main(%x: tensor<2x3x4xi32>) -> tensor<1x1x1xi32> {
    %0 = stablehlo.slice %x [1:2, 0:1, 2:3] : (tensor<2x3x4xi32>) -> tensor<1x1x1xi32>
    return %0 : tensor<1x1x1xi32>
  }")
  x <- array(1:24, c(2, 3, 4))
  expect_identical(as_array(pjrt_execute(pick, pjrt_buffer(x))), array(x[2, 1, 3], c(1, 1, 1)))
})

test_that("a single value is repeated to fill any shape", {
  expect_identical(as_array(pjrt_buffer(7, shape = c(2, 3))), matrix(7, 2, 3))
  expect_identical(as_array(pjrt_buffer(TRUE, shape = c(2, 1, 2))), array(TRUE, c(2, 1, 2)))
  expect_bits(as_array(pjrt_buffer(bit64::as.integer64(5), shape = 3)), int64(c(5, 5, 5)))
  expect_identical(as_array(pjrt_buffer(matrix(7L), "i8", shape = c(2, 2))), matrix(7L, 2, 2))
})

test_that("data whose length does not match the shape is refused", {
  message <- "Data has length 2, but specified shape is 1x4"
  expect_refused(pjrt_buffer(c(1, 2), shape = c(1, 4)), "shape_mismatch", message)
  expect_refused(pjrt_buffer(1:2, shape = c(1, 4)), "shape_mismatch", message)
  expect_refused(pjrt_buffer(c(TRUE, NA), shape = c(1, 4)), "shape_mismatch", message)
  expect_refused(pjrt_buffer(bit64::as.integer64(1:2), shape = c(1, 4)), "shape_mismatch", message)
  expect_refused(pjrt_buffer(1:2, shape = integer()), "shape_mismatch", "but specified shape is")
  expect_refused(pjrt_buffer(1:2, shape = 0), "shape_mismatch", "but specified shape is")
})

test_that("arrays without elements need a dimension of 0", {
  message <- "Empty buffers must have at least one dimension equal to 0"
  for (x in list(integer(), double(), logical(), bit64::integer64())) {
    expect_identical(shape(pjrt_buffer(x)), 0L)
    expect_refused(pjrt_buffer(x, shape = integer()), "invalid_input", message)
    error <- expect_refused(pjrt_buffer(x, shape = c(3, 2)), "invalid_input", message)
    expect_match(conditionMessage(error), "Data has length 0, but specified shape is 3x2.", fixed = TRUE)
    expect_identical(shape(pjrt_buffer(x, shape = 0)), 0L)
    expect_identical(dim(as_array(pjrt_buffer(x, shape = c(2, 0, 3)))), c(2L, 0L, 3L))
  }
  expect_identical(as_array(pjrt_buffer(integer(), shape = 0)), array(integer(), 0L))
  expect_identical(as_array(pjrt_buffer(array(double(), c(0, 2)))), matrix(double(), 0, 2))
  expect_bits(as_array(pjrt_buffer(bit64::integer64(), shape = c(0, 2))), int64(integer(), c(0, 2)))
  expect_identical(as_array(pjrt_buffer(1L, shape = c(3, 0))), matrix(integer(), 3, 0))
})

test_that("a shape must be non-negative whole numbers", {
  for (bad in list(-2L, NA_integer_, 1.5, "2", TRUE, list(2L), NaN, Inf, factor(2))) {
    expect_refused(pjrt_buffer(1, shape = bad), "invalid_input", "`shape` must be a vector of whole numbers")
    expect_refused(pjrt_empty("f32", bad), "invalid_input", "`shape` must be a vector of whole numbers")
  }
  expect_refused(pjrt_empty("f32", NULL), "invalid_input", "`shape`")
})

test_that("an impossibly large size raises an error and leaves the session usable", {
  too_much <- function(object) {
    error <- expect_error(object, class = "pjrt_error")
    expect_true(inherits(error, c("pjrt_error_resource_exhausted", "pjrt_error_invalid_input")))
  }
  too_much(pjrt_empty("f64", 1e15))
  too_much(pjrt_empty("f64", 2^45))
  too_much(pjrt_empty("pred", c(2^50, 8)))
  too_much(pjrt_buffer(1, shape = c(2^40, 2^40)))
  too_much(pjrt_buffer(0, "f64", shape = 1e15))
  expect_identical(as_array(pjrt_scalar(1)), 1)
})

test_that("pjrt_scalar() accepts exactly one value", {
  for (bad in list(1:2, integer(), c(TRUE, FALSE), c(1, 2), bit64::as.integer64(1:2))) {
    expect_refused(pjrt_scalar(bad), "invalid_input", "data must have length 1")
  }
  expect_identical(as_array(pjrt_scalar(-10.125)), -10.125)
  expect_identical(as_array(pjrt_scalar(5, "i64")), bit64::as.integer64(5))
})

test_that("unknown arguments are refused", {
  message <- "Unused arguments"
  for (x in list(TRUE, 1L, 1, bit64::as.integer64(1), pjrt_scalar(1))) {
    expect_refused(pjrt_buffer(x, nonsense = 1), "invalid_input", message)
    expect_refused(pjrt_scalar(x, nonsense = 1), "invalid_input", message)
    expect_refused(pjrt_buffer(x, NULL, NULL, NULL, FALSE, 1), "invalid_input", message)
  }
  expect_refused(
    pjrt_buffer(raw(4), dtype = "f32", shape = 1L, row_major = TRUE, nonsense = 1), "invalid_input", message
  )
  expect_refused(pjrt_buffer(raw(4), "f32", shape = 1L, row_major = TRUE), "invalid_input", message)
  expect_refused(pjrt_scalar(raw(4), dtype = "f32", nonsense = 1), "invalid_input", message)
})

test_that("data that is not a numeric vector is refused with advice", {
  bad <- list("1", list(1), NULL, factor("a"), data.frame(x = "a"), data.frame(), Sys.Date(), quote(x), sum)
  for (x in bad) {
    expect_refused(pjrt_buffer(x), "invalid_input", "`data` must be")
    expect_refused(pjrt_scalar(x), "invalid_input", "`data` must be")
  }
  expect_refused(pjrt_buffer(factor("a")), "invalid_input", "as.integer(x)")
  error <- expect_refused(pjrt_buffer(iris), "invalid_input", "Column \"Species\" is an object of class <factor>")
  expect_match(conditionMessage(error), "as.integer(x[[\"Species\"]]) gives a factor's codes", fixed = TRUE)
  expect_identical(shape(pjrt_buffer(iris[setdiff(names(iris), "Species")])), c(150L, 4L))
  expect_refused(pjrt_buffer(data.frame()), "invalid_input", "has no columns")
  expect_refused(pjrt_buffer(data.frame(a = 1, b = Sys.Date())), "invalid_input", "x[[\"b\"]]) gives the days")
  expect_refused(pjrt_buffer(Sys.Date()), "invalid_input", "as.numeric(x) gives the days")
  expect_refused(pjrt_buffer(Sys.time()), "invalid_input", "dtype = \"f64\"")
  expect_refused(pjrt_buffer(as.POSIXlt(Sys.time())), "invalid_input", "as.numeric(as.POSIXct(x))")
  expect_refused(pjrt_buffer(as.difftime(3, units = "mins")), "invalid_input", "as.numeric(x, units = \"secs\")")
  expect_refused(pjrt_buffer(list(1, 2)), "invalid_input", "unlist(x)")
  expect_refused(pjrt_buffer("1"), "invalid_input", "as.integer(factor(x))")
  thing <- methods::setClass("PjrtTestThing", representation(x = "numeric"), where = environment())
  expect_refused(pjrt_buffer(thing(x = 1)), "invalid_input", "PjrtTestThing")
  # S4 objects that extend numeric are accepted
  number <- methods::setClass("PjrtTestNumber", contains = "numeric", where = environment())
  expect_identical(as_array(pjrt_buffer(number(c(1, 2)))), array(c(1, 2)))
})

test_that("time series, tables and data frames of numbers are arrays", {
  expect_identical(as_array(pjrt_buffer(ts(c(1, 2), start = 2000), "f64")), array(c(1, 2)))
  expect_identical(as_array(pjrt_buffer(ts(matrix(1:4, 2)))), matrix(1:4, 2))
  expect_identical(as_array(pjrt_buffer(table(c("a", "b", "b")))), array(1:2))
  expect_identical(
    as_array(pjrt_buffer(table(mtcars$cyl, mtcars$gear))), unname(unclass(table(mtcars$cyl, mtcars$gear)))[, ]
  )
  expect_identical(as_array(pjrt_buffer(data.frame(a = 1:2, b = c(0.5, 2)), "f64")), matrix(c(1, 2, 0.5, 2), 2))
  expect_identical(as_array(pjrt_buffer(data.frame(a = c(TRUE, FALSE)))), matrix(c(TRUE, FALSE)))
  expect_identical(as_array(pjrt_scalar(I(3))), 3)
  # the columns get one type, also without rows
  long <- bit64::as.integer64(c("9007199254740993", "-1"))
  frame <- data.frame(a = 1:2)
  frame$b <- long
  both <- pjrt_buffer(frame)
  expect_true(elt_type(both) == "i64")
  expect_identical(as_array(both)[, 2][[1L]], long[[1L]])
  expect_identical(as.integer(as_array(both)[, 1]), 1:2)
  expect_true(elt_type(pjrt_buffer(frame[0L, ])) == "i64")
  frame$b <- bit64::as.integer64(3:4)
  frame$c <- c(0.5, 2)
  expect_identical(as_array(pjrt_buffer(frame, "f64")), cbind(c(1, 2), c(3, 4), c(0.5, 2)))
  expect_identical(as_array(pjrt_buffer(data.frame(a = 1:2, b = c(TRUE, FALSE)))), cbind(1:2, 1:0))
  expect_true(elt_type(pjrt_buffer(data.frame(a = 1:2)[0L, , drop = FALSE])) == "i32")
  expect_identical(shape(pjrt_buffer(data.frame(a = 1, b = 2)[0L, ], "f64")), c(0L, 2L))
  expect_refused(pjrt_buffer(ts(c(1, NA)), check = TRUE), "invalid_input", "1 NA value")
})

test_that("raw data needs a dtype, a shape and an order", {
  expect_refused(pjrt_buffer(raw(4), dtype = "f32", row_major = TRUE), "invalid_input", "shape must be provided")
  expect_refused(pjrt_buffer(raw(4), shape = 1L, row_major = TRUE), "invalid_input", "dtype must be provided")
  expect_refused(pjrt_buffer(raw(4), dtype = "f32", shape = 1L), "invalid_input", "row_major")
  expect_refused(pjrt_scalar(raw(4)), "invalid_input", "dtype must be provided")
  for (bad in list(NA, 1, NULL, c(TRUE, FALSE))) {
    expect_refused(
      pjrt_buffer(raw(4), dtype = "f32", shape = 1L, row_major = bad), "invalid_input",
      "`row_major` must be TRUE or FALSE"
    )
  }
})

test_that("raw data must have the size that dtype and shape require", {
  expect_refused(
    pjrt_buffer(raw(10), dtype = "f32", shape = c(2, 3), row_major = FALSE), "invalid_input",
    "Raw data has 10 bytes, but dtype \"f32\" with shape (2, 3) requires 24 bytes."
  )
  expect_refused(pjrt_buffer(raw(), dtype = "f32", shape = 1, row_major = FALSE), "invalid_input", "requires 4 bytes")
  expect_refused(pjrt_scalar(raw(3), dtype = "f32"), "invalid_input", "requires 4 bytes")
})

test_that("raw data may be in row-major or column-major order", {
  x <- matrix(1:6, 2)
  for (dtype in c("i32", "f32", "f64", "i16")) {
    size <- c(i32 = 4L, f32 = 4L, f64 = 8L, i16 = 2L)[[dtype]]
    values <- if (dtype %in% c("f32", "f64")) x + 0 else x
    expected <- as_array(pjrt_buffer(values, dtype))
    by_column <- pjrt_buffer(bytes(as.vector(values), size), dtype = dtype, shape = c(2, 3), row_major = FALSE)
    by_row <- pjrt_buffer(bytes(as.vector(t(values)), size), dtype = dtype, shape = c(2, 3), row_major = TRUE)
    expect_identical(as_array(by_column), expected)
    expect_identical(as_array(by_row), expected)
  }
  expect_identical(as_array(pjrt_scalar(bytes(2.5, 8L), dtype = "f64")), 2.5)
  flags <- pjrt_buffer(as.raw(c(0, 1)), dtype = "pred", shape = 2, row_major = TRUE)
  expect_identical(as_array(flags), array(c(FALSE, TRUE)))
  expect_identical(dim(as_array(pjrt_buffer(raw(), dtype = "f32", shape = c(0, 2), row_major = TRUE))), c(0L, 2L))
})

test_that("pjrt_empty() creates zeros of every type", {
  expect_identical(as_array(pjrt_empty("f32", c(2, 3))), matrix(0, 2, 3))
  expect_identical(as_array(pjrt_empty("i32", 2L)), array(c(0L, 0L)))
  expect_identical(as_array(pjrt_empty("pred", 2L)), array(c(FALSE, FALSE)))
  expect_bits(as_array(pjrt_empty("ui64", 1L)), int64(0))
  expect_identical(as_array(pjrt_empty("f64", integer())), 0)
  expect_identical(as_array(pjrt_empty("f64", c(0, 3))), matrix(double(), 0, 3))
  expect_identical(device(pjrt_empty("f32", 1L, "cpu:1")), devices("cpu")[[2L]])
})

test_that("pjrt_buffer() returns an existing buffer unchanged", {
  x <- pjrt_buffer(matrix(1:6, 2))
  expect_identical(pjrt_buffer(x), x)
  expect_identical(pjrt_buffer(x, "i32", "cpu:0", c(2L, 3L)), x)
  expect_identical(pjrt_buffer(x, "int32"), x)
  expect_refused(pjrt_buffer(x, "f32"), "invalid_input", "Must use the same data type")
  expect_refused(pjrt_buffer(x, device = "cpu:1"), "invalid_input", "Must use the same device")
  expect_refused(pjrt_buffer(x, shape = c(3L, 2L)), "invalid_input", "Must use the same shape")
  expect_refused(pjrt_buffer(x, shape = 6L), "invalid_input", "Must use the same shape")
  expect_refused(pjrt_buffer(x, "f99"), "unsupported_dtype", "Unsupported type: f99")
  expect_refused(pjrt_buffer(x, strrep("x", 5000)), "unsupported_dtype", paste0("type: ", strrep("x", 100), "...\n"))
  scalar <- pjrt_scalar(1)
  expect_identical(pjrt_scalar(scalar), scalar)
  expect_identical(pjrt_scalar(scalar, "f32", "cpu"), scalar)
  expect_refused(pjrt_scalar(scalar, "f64"), "invalid_input", "Must use the same data type")
  expect_refused(pjrt_scalar(x), "invalid_input", "Must use the same shape")
})

test_that("a buffer is created on the requested device", {
  second <- devices("cpu")[[2L]]
  for (x in list(
    pjrt_buffer(1:3, device = "cpu:1"), pjrt_buffer(1, device = second), pjrt_scalar(TRUE, device = "cpu:1"),
    pjrt_buffer(as.raw(1), dtype = "ui8", shape = 1, row_major = TRUE, device = "cpu:1"),
    pjrt_scalar(as.raw(1), dtype = "ui8", device = second)
  )) {
    expect_identical(device(x), second)
    expect_identical(platform(x), "cpu")
  }
  expect_identical(device(pjrt_buffer(1)), devices("cpu")[[1L]])
  expect_refused(pjrt_buffer(1, device = "cpu:9"), "invalid_input", "out of range")
  expect_refused(pjrt_buffer(1, device = 1), "invalid_input", "Must be a PJRTDevice")
})

test_that("changing the R object afterwards does not change the buffer", {
  x <- c(1, 2, 3)
  long <- as.double(1:1e5)
  buffers <- list(pjrt_buffer(x, "f64"), pjrt_buffer(x), pjrt_buffer(long, "f64"))
  x[[1L]] <- 100
  long[[1L]] <- 100
  expect_identical(as_array(buffers[[1L]]), array(c(1, 2, 3)))
  expect_identical(as_array(buffers[[2L]]), array(c(1, 2, 3)))
  expect_identical(as_array(buffers[[3L]])[[1L]], 1)
  m <- matrix(1:4, 2)
  y <- pjrt_buffer(m)
  m[1, 2] <- 0L
  expect_identical(as_array(y), matrix(1:4, 2))
})

test_that("changing an array that was read does not change the buffer", {
  x <- pjrt_buffer(c(1, 2, 3), "f64")
  y <- as_array(x)
  y[[1L]] <- 100
  expect_identical(as_array(x), array(c(1, 2, 3)))
})

test_that("names and dimnames are not kept", {
  expect_identical(as_array(pjrt_buffer(c(a = 1, b = 2))), array(c(1, 2)))
  named <- matrix(1:4, 2, dimnames = list(c("a", "b"), NULL))
  expect_identical(as_array(pjrt_buffer(named)), matrix(1:4, 2))
})

test_that("a million elements are uploaded in the right order", {
  x <- matrix(as.double(seq_len(1e6)), 1000)
  expect_identical(as_array(pjrt_buffer(x)), x)
  expect_identical(as_array(pjrt_buffer(x, "f64")), x)
  integers <- array(seq_len(1e6), c(10, 100, 1000))
  expect_identical(as_array(pjrt_buffer(integers)), integers)
  expect_identical(as_array(pjrt_buffer(integers > 5e5)), integers > 5e5)
  # a compact sequence, which R does not expand in memory
  expect_identical(as_array(pjrt_buffer(1:1e6)), array(1:1e6))
})

test_that("a buffer has a shape and a platform", {
  expect_identical(platform(pjrt_scalar(1)), "cpu")
  expect_identical(shape(pjrt_empty("f32", c(1, 0, 2))), c(1L, 0L, 2L))
  expect_refused(shape(1), "invalid_input", "`x` must be a `PJRTBuffer`")
})

test_that("one dimension of a shape may be -1, and shapes may be integer64", {
  expect_identical(as_array(pjrt_buffer(1:6, shape = c(-1, 2))), matrix(1:6, 3))
  expect_identical(shape(pjrt_buffer(1:6, shape = -1)), 6L)
  expect_identical(shape(pjrt_buffer(numeric(), shape = c(-1, 3))), c(0L, 3L))
  expect_identical(shape(pjrt_buffer(raw(24), dtype = "f32", shape = c(2, -1), row_major = TRUE)), 2:3)
  expect_identical(shape(pjrt_buffer(1:6, shape = bit64::as.integer64(c(3, 2)))), c(3L, 2L))
  expect_identical(shape(pjrt_empty("f32", bit64::as.integer64(4))), 4L)
  x <- pjrt_buffer(1:6)
  expect_identical(pjrt_buffer(x, shape = -1), x)
  dim(x) <- c(2, -1)
  expect_identical(as_array(x), matrix(1:6, 2))
  dim(x) <- bit64::as.integer64(c(3, 2))
  expect_identical(as_array(x), matrix(1:6, 3))
  expect_refused(pjrt_buffer(1:6, shape = c(-1, 4)), "shape_mismatch", "specified shape is -1x4: no number fits for -1")
  expect_refused(pjrt_buffer(1:6, shape = c(-1, 0)), "shape_mismatch", "no number fits for -1")
  for (bad in list(c(-1, -1), -2, NA, bit64::as.integer64(NA))) {
    expect_refused(pjrt_buffer(1:6, shape = bad), "invalid_type", "`shape` must be")
  }
  expect_refused(pjrt_buffer(1:6, shape = c(-1, -1)), "invalid_type", "with one -1 at most, not 2")
  expect_refused(pjrt_empty("f32", c(-1, 2)), "invalid_type", "`shape` must be")
  expect_refused(dim(x) <- c(-1, 4), "invalid_input", "no number fits for -1")
  expect_refused(dim(x) <- c(-1, -1), "invalid_type", "one of them -1 at most")
})

test_that("a raw matrix has its own shape, and raw data say what they lack", {
  bytes <- matrix(as.raw(1:6), 2)
  expect_identical(as_array(pjrt_buffer(bytes, dtype = "ui8")), matrix(1:6, 2))
  expect_identical(as_array(pjrt_buffer(bytes, dtype = "ui8", row_major = TRUE)), matrix(1:6, 2, byrow = TRUE))
  expect_refused(pjrt_buffer(bytes, dtype = "f32"), "invalid_input", "Raw data has 6 bytes")
  error <- expect_refused(pjrt_buffer(as.raw(1:4), "ui8"), "invalid_input", "Unused arguments")
  expect_match(conditionMessage(error), "Missing: `dtype`, `shape`, `row_major`.", fixed = TRUE)
  expect_match(conditionMessage(error), "dtype = \"f32\", shape = c(2, 3), row_major = TRUE", fixed = TRUE)
  expect_refused(pjrt_buffer(as.raw(1:4)), "invalid_input", "shape must be provided for raw data")
})
