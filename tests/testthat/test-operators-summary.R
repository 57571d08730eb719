# Slow: compiles many programs.

m <- matrix(c(1.5, 2, -3, 4, 0.25, 6), 2)

test_that("summaries are R's, in the dtype that the help page says", {
  dtype_of <- function(x) as.character(elt_type(x))
  x <- pjrt_buffer(m, "f64")
  for (name in c("sum", "prod", "max", "min", "mean")) {
    f <- get(name)
    expect_equal(as_array(f(x)), f(m), tolerance = 1e-15)
    expect_identical(dtype_of(f(x)), "f64")
  }
  expect_identical(as_array(range(x)), array(range(m)))
  i <- pjrt_buffer(c(5L, -2L, 7L))
  expect_identical(
    vapply(list(sum(i), prod(i), max(i), range(i), mean(i)), dtype_of, ""), c("i64", "i64", "i32", "i32", "f32")
  )
  expect_identical(as.double(as_array(sum(i))), 10)
  expect_identical(dtype_of(sum(pjrt_buffer(1:3, "ui8"))), "ui64")
  p <- pjrt_buffer(m > 1)
  expect_identical(list(dtype_of(sum(p)), as_array(sum(p))), list("i32", 4L))
  expect_identical(list(any(p), all(p), any(x > 100)), list(TRUE, FALSE, FALSE))
  expect_true(isTRUE(all(x > -100)) && if (any(p)) TRUE)
  expect_equal(as_array(mean(p)), mean(m > 1), tolerance = 1e-6)
  withr::local_options(pjrt.default_float = "f64")
  expect_equal(as_array(mean(i)), mean(c(5, -2, 7)), tolerance = 1e-15)
  # as sums, cumulative sums do not wrap around
  expect_identical(
    vapply(list(cumsum(i), cumsum(p), cummax(i), cumprod(i)), dtype_of, ""), c("i64", "i32", "i32", "f64")
  )
  expect_identical(as.double(as_array(cumsum(i))), c(5, 3, 10))
  expect_identical(as.double(as_array(cumsum(pjrt_buffer(c(100L, 100L, 100L), "i8")))), c(100, 200, 300))
  expect_identical(dtype_of(cumsum(pjrt_buffer(1:3, "ui8"))), "ui64")
})

test_that("summaries take several arguments", {
  x <- pjrt_buffer(m, "f64")
  y <- pjrt_buffer(c(10, -10), "f64")
  for (name in c("sum", "prod", "max", "min")) {
    f <- get(name)
    expect_equal(as_array(f(x, y)), f(m, c(10, -10)), tolerance = 1e-14)
    expect_equal(as_array(f(x, 2, c(3, 4))), f(m, 2, c(3, 4)), tolerance = 1e-14)
  }
  expect_identical(as_array(range(x, y)), array(c(-10, 10)))
  expect_identical(any(x > 100, TRUE), TRUE)
  expect_identical(all(x > -100, x > 0), FALSE)
})

test_that("summaries propagate NaN, and leave them out with na.rm = TRUE", {
  values <- c(1, NaN, 3, NA)
  x <- pjrt_buffer(values, "f64")
  for (f in list(sum, max, min, mean)) expect_true(is.na(as_array(f(x))))
  for (f in list(sum, prod, max, min, mean)) {
    expect_identical(as_array(f(x, na.rm = TRUE)), f(values, na.rm = TRUE))
    expect_identical(elt_type(f(x, na.rm = TRUE)), elt_type(x))
    expect_refused(f(x, na.rm = NA), "invalid_type", "`na.rm` must be TRUE or FALSE")
  }
  expect_identical(as_array(range(x, na.rm = TRUE), drop = TRUE), c(1, 3))
  expect_identical(any(x > 2, na.rm = TRUE), TRUE)
  expect_identical(all(x, na.rm = TRUE), TRUE)
  # beside R's numbers, in narrow types, and where nothing is left
  expect_identical(as_array(max(x, 5, NA, na.rm = TRUE)), 5)
  expect_identical(as_array(sum(x, c(1, NA), na.rm = TRUE)), 5)
  for (dtype in c("f32", "f16", "bf16", "f8e5m2")) {
    y <- pjrt_buffer(values, dtype)
    expect_identical(as_array(mean(y, na.rm = TRUE)), 2, info = dtype)
    expect_identical(as.character(elt_type(sum(y, na.rm = TRUE))), dtype)
  }
  expect_identical(as_array(sum(pjrt_buffer(complex(real = values, imaginary = 1)), na.rm = TRUE)), 4 + 2i)
  expect_identical(as_array(sum(pjrt_buffer(1:3), na.rm = TRUE), int64 = "double"), 6)
  # what as_array() reads as NA in integers
  for (dtype in c("i32", "i64")) {
    integers <- if (dtype == "i64") bit64::as.integer64 else as.integer
    gaps <- suppressWarnings(pjrt_buffer(integers(c(5, NA, -3))))
    none <- suppressWarnings(pjrt_buffer(integers(c(NA, NA))))
    found <- function(f, x = gaps) as.double(as_array(f(x, na.rm = TRUE)))
    expect_identical(c(found(sum), found(prod), found(max), found(min), found(mean)), c(2, -15, 5, -3, 1))
    expect_identical(found(range), c(-3, 5))
    expect_identical(c(found(sum, none), found(prod, none), found(max, none), found(min, none)), c(0, 1, NA, NA))
    expect_identical(found(mean, none), NaN)
    expect_true(elt_type(max(gaps, na.rm = TRUE)) == dtype)
    wide <- suppressWarnings(pjrt_buffer(integers(c(5, NA, -3, 2)), shape = c(2, 2)))
    expect_identical(c(found(colSums, wide), found(rowMeans, wide)), c(5, -1, 1, 2))
  }
  none <- pjrt_buffer(c(NaN, NaN), "f64")
  expect_identical(as_array(max(none, na.rm = TRUE)), -Inf)
  expect_identical(as_array(mean(none, na.rm = TRUE)), NaN)
  expect_identical(conditionCall(tryCatch(sum(x, na.rm = NA), error = identity)), quote(sum(..., na.rm = NA)))
  expect_refused(mean(x, trim = 0.1), "operator", "`trim` must be 0.")
  error <- expect_refused(sum(x, "a"), "operator", "`sum` takes buffers, and numbers of R, not \"a\".")
  expect_identical(conditionCall(error)[[1L]], quote(sum))
  expect_refused(max(x, numeric()), "operator", "`max` needs at least one number of R.")
  expect_refused(any(x > 1, NA), "operator", "`any` cannot take NA")
  expect_refused(max(pjrt_buffer(1i)), "operator", "complex")
})

test_that("parts of complex numbers are R's", {
  z <- c(3 + 4i, -1i, 2)
  x <- pjrt_buffer(z, "c128")
  for (name in c("Re", "Im", "Mod", "Arg")) {
    f <- get(name)
    expect_equal(as_array(f(x)), array(f(z)), tolerance = 1e-15)
    expect_identical(as.character(elt_type(f(x))), "f64")
  }
  expect_identical(as_array(Conj(x)), array(Conj(z)))
  expect_identical(as_array(Re(pjrt_buffer(c(1, 2)))), array(c(1, 2)))
})

test_that("range() leaves out infinite numbers, and names itself in errors", {
  x <- pjrt_buffer(c(5, NaN, Inf, -2), "f64")
  expect_identical(as_array(range(x, finite = TRUE)), array(c(-2, 5)))
  expect_identical(as_array(range(x, c(7, -Inf), finite = TRUE)), array(c(-2, 7)))
  expect_identical(as_array(range(pjrt_buffer(5:6), finite = TRUE)), array(5:6))
  expect_identical(as_array(range(pjrt_buffer(5:6), finite = FALSE)), array(5:6))
  expect_refused(range(x, finite = 1), "invalid_type", "`finite` must be TRUE or FALSE")
  expect_refused(range(x, 1i), "operator", "`range` cannot take complex numbers")
  expect_refused(range(pjrt_buffer(integer()), 1L), "operator", "`range` of integers without elements is not defined")
})

test_that("summaries take 64-bit integers of R, and refuse complex numbers where R does", {
  x <- pjrt_buffer(1:4)
  expect_identical(as.character(as_array(max(x, bit64::as.integer64(7)))), "7")
  expect_identical(as.character(as_array(sum(x, bit64::as.integer64(3)))), "13")
  expect_refused(max(x, 1i), "operator", "`max` cannot take complex numbers")
  client <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 1L))
  withr::defer(close(client))
  elsewhere <- pjrt_buffer(1:2, device = devices(client)[[1L]])
  expect_refused(max(x, elsewhere), "device_mismatch", "`max` takes buffers on one device")
})

test_that("means of 64-bit integers do not overflow, and stay exact where sums fit", {
  mean_of <- function(x, ...) as_array(mean(x, ...))
  withr::local_options(pjrt.default_float = "f64")
  times <- 1.7e18 + (1:10) * 1e15
  x <- pjrt_buffer(cbind(times, -times), "i64")
  expect_equal(as_array(colMeans(x)), array(c(mean(times), -mean(times))), tolerance = 1e-14)
  expect_equal(as_array(rowMeans(x)), array(rep(0, 10)))
  expect_equal(mean_of(pjrt_buffer(rep(1.8e19, 2), "ui64")), 1.8e19)
  expect_identical(mean_of(pjrt_buffer(c(-1, -3, 7), "i64")), 1)
  expect_identical(mean_of(pjrt_buffer(c(-1, -2^40), "i64")), (-1 - 2^40) / 2)
  missing <- without_na_warning(pjrt_buffer(bit64::as.integer64(c(1, NA, 6))))
  expect_identical(mean_of(missing, na.rm = TRUE), 3.5)
  array <- array(1:24, c(2, 3, 4))
  y <- pjrt_buffer(array, "i64")
  expect_equal(as_array(rowMeans(y, dims = 2)), rowMeans(array, dims = 2))
  expect_equal(as_array(colMeans(y, dims = 2)), array(colMeans(array, dims = 2)))
  withr::local_options(pjrt.default_float = "f32")
  expect_identical(as.character(elt_type(mean(y))), "f32")
  expect_identical(mean_of(pjrt_buffer(c(-1, -2), "i64")), -1.5)
})
