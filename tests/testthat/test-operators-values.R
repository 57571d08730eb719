# Slow: compiles many programs. Values of operators and functions of buffers, against R's own in double precision.

# The values of a buffer as R's numbers, with its dimensions.
read <- function(x) {
  array <- as_array(x)
  if (!inherits(array, "integer64")) array else if (is.null(dim(array))) as.double(array) else array(
    as.double(array), dim(array)
  )
}

# Expects a buffer with R's values: each the same, but for a relative error, or an absolute one where that is larger.
expect_numbers <- function(x, expected, relative = 0, absolute = 0) {
  expect_s3_class(x, "PJRTBuffer")
  found <- read(x)
  if (!is.null(dim(expected))) expect_identical(dim(found), dim(expected))
  expect_length(found, length(expected))
  found <- as.vector(found)
  expected <- as.vector(expected)
  same <- found == expected | abs(found - expected) <= pmax(relative * abs(expected), absolute)
  same <- ifelse(is.nan(expected), is.nan(found), !is.na(same) & same)
  worst <- which(!same)
  shown <- sprintf(
    "element %d is %s, not %s", worst, format(found[worst], digits = 17), format(expected[worst], digits = 17)
  )
  expect(all(same), paste(utils::head(shown, 5L), collapse = "\n"))
}

f64 <- function(x) pjrt_buffer(x, "f64")
if (getRversion() < "4.3.0") `%*%` <- get("%*%", "package:pjrt")

set.seed(1)
special <- c(0, -0, 1, -1, 0.5, -0.5, 2, -2, 1e10, 1e300, -1e300, 1e-300, Inf, -Inf, NaN)
cube <- array(as.double(sample(24)), c(2, 3, 4))

test_that("arithmetic and comparisons of doubles are R's, with infinities and NaN", {
  pairs <- expand.grid(special, special)
  a <- pairs[[1L]]
  b <- pairs[[2L]]
  for (name in c("+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=")) {
    operator <- match.fun(name)
    expected <- operator(a, b)
    # comparisons with NaN are NA in R only
    if (is.logical(expected)) expected[is.na(expected)] <- name == "!="
    # the device's smallest number is larger than R's
    expect_numbers(operator(f64(a), f64(b)), expected, 0, 3e-308)
  }
  expect_numbers(f64(a)^f64(b), suppressWarnings(a^b), 4e-16, 1e-300)
  # scalars are not turned into their reciprocals
  a <- runif(1000, -100, 100)
  for (b in c(3, 10, 49)) expect_numbers(f64(a) / b, a / b)
  expect_numbers(f64(a)^2, a^2)
})

test_that("%% and %/% of doubles are R's", {
  a <- c(runif(500, -100, 100), 5.5, -5.5, 5.5, -5.5, 7, -7, 0, 1, -1, 3, -3, Inf, 5, 0)
  b <- c(runif(500, -10, 10), 2, 2, -2, -2, Inf, Inf, 3, 0, 0, -Inf, -Inf, 2, NaN, 0)
  expect_numbers(f64(a) %/% f64(b), a %/% b)
  expect_numbers(f64(a) %% f64(b), a %% b, 1e-12, 1e-13)
})

test_that("functions are as exact in f64 as R's", {
  a <- c(
    runif(500, -1, 1), runif(500, -30, 30), runif(200, -700, 700), runif(200, -1, 1) * 10^runif(200, -12, 5), special
  )
  names <- c(
    "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "cos", "sin", "tan", "acos", "asin", "atan", "cosh",
    "sinh", "tanh", "acosh", "asinh", "atanh", "abs", "sign", "floor", "ceiling", "trunc"
  )
  for (name in names) {
    f <- match.fun(name)
    expect_numbers(f(f64(a)), suppressWarnings(f(a)), 2e-15)
  }
  b <- c(runif(500, -30, 30), seq(-10, 10, 0.25))
  for (name in c("cospi", "sinpi", "tanpi")) {
    f <- match.fun(name)
    expect_numbers(f(f64(b)), suppressWarnings(f(b)), 1e-12, 1e-15)
  }
  powers <- 10^(-20:22)
  expect_identical(read(log10(f64(powers))), array(as.double(-20:22)))
  expect_identical(read(log(f64(3^(0:30)), 3)), array(as.double(0:30)))
})

test_that("functions of f32 and bf16 are exact to their last digits", {
  a <- as.vector(as_array(pjrt_buffer(runif(500, 0.1, 20), "bf16")))
  for (
    name in c("sqrt", "exp", "log", "log1p", "cos", "tanh", "sinh", "asinh", "gamma", "lgamma", "digamma", "trigamma")
  ) {
    f <- match.fun(name)
    expect_numbers(f(pjrt_buffer(a, "f32")), f(a), 4e-6, 2e-6)
    expect_numbers(f(pjrt_buffer(a, "bf16")), f(a), 0.004, 0.004)
  }
})

test_that("the gamma family is R's, and factorials are exact", {
  a <- c(runif(500, -20, 20), runif(200, 0, 171), 1:30, 0.5, -0.5)
  expect_numbers(gamma(f64(a)), gamma(a), 1e-12)
  expect_numbers(lgamma(f64(a)), lgamma(a), 1e-14, 1e-13)
  expect_numbers(digamma(f64(a)), digamma(a), 1e-12, 1e-12)
  expect_numbers(trigamma(f64(a)), trigamma(a), 1e-11)
  expect_identical(read(gamma(f64(1:22))), array(factorial(0:21)))
  poles <- c(0, -1, -2, Inf, NaN, 1000)
  expect_numbers(gamma(f64(poles)), suppressWarnings(gamma(poles)))
  expect_numbers(lgamma(f64(poles)), suppressWarnings(lgamma(poles)), 1e-15)
  expect_numbers(digamma(f64(poles)), suppressWarnings(digamma(poles)), 1e-15)
  expect_numbers(trigamma(f64(poles)), suppressWarnings(trigamma(poles)), 1e-15)
})

test_that("round() and signif() are R's, digit by digit", {
  halves <- c(0.5, 1.5, 2.5, -0.5, 0.15, 0.25, 0.35, 2.675, 1.005, 5.015, 0.285, 1234567.891, 150, 250)
  a <- c(runif(500, -1000, 1000), halves, Inf, -Inf, NaN, 0)
  for (digits in c(0, 1, 2, 3, 5, 10, 15, -1, -2, 300)) expect_numbers(round(f64(a), digits), round(a, digits))
  for (digits in c(1, 2, 3, 6, 10)) expect_numbers(signif(f64(a), digits), signif(a, digits))
  expect_numbers(round(pjrt_buffer(c(150L, 250L, -150L)), -2), c(200, 200, -200))
})

test_that("complex numbers are R's", {
  a <- c(1 + 2i, -1 - 2i, 0.5i, -2 + 1i)
  z <- pjrt_buffer(a, "c128")
  for (
    name in c(
      "sqrt", "exp", "log", "cos", "sin", "tan", "acos", "asin", "atan", "cosh", "sinh", "tanh", "asinh", "atanh"
    )
  ) {
    f <- match.fun(name)
    expect_numbers(f(z), f(a), 1e-14)
  }
  for (name in c("Re", "Im", "Mod", "Arg", "Conj")) {
    f <- match.fun(name)
    expect_numbers(f(z), f(a), 1e-15)
    expect_numbers(f(f64(c(-1, 2))), f(c(-1, 2)))
  }
  for (name in c("+", "-", "*", "/", "^")) {
    operator <- match.fun(name)
    expect_numbers(operator(z, pjrt_buffer(rev(a), "c128")), operator(a, rev(a)), 1e-14)
  }
  expect_numbers(z == z, rep(TRUE, 4L))
  expect_numbers(sum(z), sum(a), 1e-15)
  expect_numbers(z %*% z, matrix(sum(a * a)), 1e-15)
})

test_that("summaries are R's, for floats, integers and pred", {
  for (name in c("sum", "prod", "mean", "max", "min", "range")) {
    f <- match.fun(name)
    expect_numbers(f(f64(cube / 7)), f(cube / 7), 1e-14)
    expect_numbers(f(pjrt_buffer(array(1:8, c(2, 2, 2)))), f(1:8))
    expect_numbers(f(pjrt_buffer(c(TRUE, FALSE, TRUE))), f(c(TRUE, FALSE, TRUE)), 1e-7)
    if (name != "range") expect_numbers(f(f64(numeric())), suppressWarnings(f(numeric())))
    expect_numbers(f(f64(c(1, NaN, 3))), f(c(1, NaN, 3)))
  }
  for (name in c("any", "all")) {
    f <- match.fun(name)
    for (a in list(c(TRUE, FALSE), TRUE, FALSE, logical())) expect_identical(f(pjrt_buffer(a, "pred")), f(a))
  }
  expect_numbers(sum(pjrt_buffer(rep(.Machine$integer.max, 3))), 3 * .Machine$integer.max)
})

test_that("a NaN among many elements is their maximum and minimum", {
  # newer compilers lose it in reductions of their own maximum
  x <- replace(rep(c(1, -1), length.out = 100003L), 17L, NaN)
  for (type in c("f64", "f32", "f16", "bf16")) {
    buffer <- pjrt_buffer(x, type)
    values <- lapply(list(max(buffer), min(buffer), range(buffer), max(buffer, na.rm = TRUE)), as_array)
    expect_identical(unlist(values), c(rep(NaN, 4L), 1), label = type)
  }
})

test_that("sums along rows and columns are R's", {
  for (name in c("rowSums", "colSums", "rowMeans", "colMeans")) {
    f <- get(name)
    base <- get(name, baseenv())
    expect_numbers(f(f64(cube[, , 1L])), array(base(cube[, , 1L])), 1e-15)
    for (dims in 1:2) expect_numbers(f(f64(cube), dims = dims), as.array(base(cube, dims = dims)), 1e-15)
    expect_numbers(f(f64(matrix(0, 0, 3))), base(matrix(0, 0, 3)))
  }
})

test_that("cumulative functions go through an array in R's order", {
  for (name in c("cumsum", "cumprod", "cummax", "cummin")) {
    f <- match.fun(name)
    expect_numbers(f(f64(cube / 10)), array(f(cube / 10)), 1e-14)
    expect_numbers(f(pjrt_buffer(matrix(c(3L, 1L, 2L, -4L), 2))), array(f(c(3L, 1L, 2L, -4L))))
    expect_numbers(f(f64(numeric())), array(numeric()))
    expect_numbers(f(f64(c(1, NaN, 2))), f(c(1, NaN, 2)))
  }
  a <- runif(1e5)
  expect_numbers(cumsum(f64(a)), cumsum(a), 1e-13)
})

test_that("elements keep R's order when their shape changes", {
  x <- f64(cube)
  expect_numbers(aperm(x), aperm(cube))
  expect_numbers(aperm(x, c(2, 3, 1)), aperm(cube, c(2, 3, 1)))
  expect_numbers(t(f64(cube[, , 2L])), t(cube[, , 2L]))
  expect_numbers(t(f64(1:3)), t(1:3))
  y <- x
  dim(y) <- c(4, 6)
  expect_numbers(y, matrix(cube, 4))
  dim(y) <- 24
  expect_numbers(y, array(cube, 24))
  expect_numbers(rev(x), array(rev(cube)))
  expect_numbers(sort(x), array(sort(cube)))
  a <- c(3, 1, NaN, 2, 1, -Inf, Inf)
  expect_numbers(sort(f64(a)), sort(a, na.last = TRUE))
  expect_numbers(sort(f64(a), decreasing = TRUE), sort(a, decreasing = TRUE, na.last = TRUE))
})

test_that("matrices are joined and taken apart as in R", {
  m <- cube[, , 1L]
  x <- f64(m)
  expect_numbers(cbind(x, 1:2, 9), cbind(m, 1:2, 9))
  expect_numbers(rbind(x, 1:3, 9), rbind(m, 1:3, 9))
  expect_numbers(cbind(x, x), cbind(m, m))
  expect_numbers(rbind(f64(1:3), f64(4:6)), rbind(1:3, 4:6))
  expect_numbers(diag(x), array(base::diag(m)))
  expect_numbers(diag(f64(c(2, 3))), base::diag(c(2, 3)))
  expect_numbers(diag(f64(c(2, 3)), 2, 3), base::diag(c(2, 3), 2, 3))
})

test_that("products of matrices and vectors are R's", {
  a <- matrix(rnorm(6), 2)
  b <- matrix(rnorm(12), 3)
  both <- function(x, y) expect_numbers(f64(x) %*% f64(y), base::`%*%`(x, y), 1e-14, 1e-14)
  both(a, b)
  both(a, 1:3)
  both(1:2, a)
  both(1:3, 4:6)
  both(matrix(1:3, 3), 1:2)
  both(1:3, matrix(1:3, 1))
  both(matrix(0, 2, 0), matrix(0, 0, 3))
  expect_numbers(crossprod(f64(a)), base::crossprod(a), 1e-14)
  expect_numbers(crossprod(f64(a), f64(1:2)), base::crossprod(a, 1:2), 1e-14)
  expect_numbers(tcrossprod(f64(a)), base::tcrossprod(a), 1e-14)
  expect_numbers(tcrossprod(f64(1:3), f64(1:2)), base::tcrossprod(1:3, 1:2))
  expect_numbers(pjrt_buffer(a, "f32") %*% pjrt_buffer(b, "f32"), base::`%*%`(a, b), 1e-5, 1e-6)
  expect_numbers(pjrt_buffer(matrix(1:4, 2)) %*% 1:2, matrix(c(7, 10)))
})

test_that("round() and signif() are right where powers of ten are beyond the range", {
  x <- c(1, -2, 1e38, Inf, NaN)
  for (digits in c(-39, -45, -400)) {
    expect_equal(as.vector(as_array(round(pjrt_buffer(x), digits))), c(0, 0, 0, Inf, NaN))
  }
  expect_equal(as.vector(as_array(round(pjrt_buffer(3.4e38), -38))), 3e38, tolerance = 1e-6)
  for (digits in c(-309, -400)) expect_identical(as.vector(as_array(round(pjrt_buffer(1.7e308, "f64"), digits))), 0)
  # numbers below the normal ones stay as they are
  small <- c(5e-324, 1e-310, 1.23456)
  expect_identical(as.vector(as_array(signif(pjrt_buffer(small, "f64"), 3))), c(5e-324, 1e-310, 1.23))
  narrow <- pjrt_buffer(c(1e-45, 1e-39))
  expect_identical(as_array(signif(narrow, 3)), as_array(narrow))
})

test_that("round() and signif() of integers return integers, exactly", {
  values <- c(0L, 5L, 15L, 25L, -15L, -25L, 4L, 123456789L, -987654321L, 1000000000L)
  x <- pjrt_buffer(values)
  for (digits in c(-1, -2, -8, -9, -10, -30)) {
    expect_identical(as_array(round(x, digits)), array(as.integer(round(round(values, digits)))))
  }
  for (digits in c(0, 1, 2, 6, 8, 9, 10, 12)) {
    expect_identical(as_array(signif(x, digits)), array(as.integer(round(signif(values, digits)))))
  }
  expect_identical(as_array(signif(x)), array(as.integer(signif(values))))
  long <- pjrt_buffer(bit64::as.integer64(c("1234567890123456785", "-1234567890123456775")))
  expect_identical(as.character(as_array(round(long, -1))), c("1234567890123456780", "-1234567890123456780"))
  expect_identical(as.character(as_array(signif(long, 3))), c("1230000000000000000", "-1230000000000000000"))
  for (dtype in c("i8", "ui8", "i16", "ui16", "ui32", "i64", "ui64")) {
    small <- pjrt_buffer(c(15, 25, 104, 0), dtype)
    for (f in list(function(x) round(x, -1), function(x) signif(x, 2), function(x) round(x, -2))) {
      expect_identical(elt_type(f(small)), elt_type(small))
      expect_identical(as.double(f(small)), f(c(15, 25, 104, 0)))
    }
  }
  expect_refused(round(long, -19), "operator", "its numbers would not fit")
  # what does not fit is rounded towards zero
  most <- .Machine$integer.max
  expect_identical(as_array(round(pjrt_buffer(c(most, -most)), -1)), array(c(2147483640L, -2147483640L)))
  expect_identical(as_array(signif(pjrt_buffer(c(most, -most)), 3)), array(c(2140000000L, -2140000000L)))
  expect_identical(as.integer(signif(pjrt_buffer(c(255L, 249L), "ui8"), 1)), c(200L, 200L))
  expect_identical(as.integer(round(pjrt_buffer(c(-128L, 127L, -125L), "i8"), -1)), c(-120L, 120L, -120L))
  expect_identical(as.integer(round(pjrt_buffer(-128L, "i8"), 0)), -128L)
})

test_that("missing values stay beside integers and truth values", {
  x <- c(NA, NaN, Inf, 5)
  i <- c(1L, 1L, 0L, 7L)
  pmin <- get("pmin", "package:pjrt")
  pmax <- get("pmax", "package:pjrt")
  for (dtype in c("f64", "f32")) {
    floats <- suppressWarnings(pjrt_buffer(x, dtype))
    for (other in list(pjrt_buffer(i), pjrt_buffer(i, "ui8"), pjrt_buffer(bit64::as.integer64(i)))) {
      expect_equal(as.double(pmin(floats, other)), pmin(x, i))
      expect_equal(as.double(pmax(other, floats)), pmax(i, x))
      expect_true(is.na(as_array(max(floats, other))))
      expect_true(all(is.na(as_array(range(other, floats)))))
    }
    expect_equal(as.double(floats * pjrt_buffer(i > 0)), x * (i > 0))
    expect_equal(as.double(pjrt_buffer(i > 0) * floats), x * (i > 0))
  }
})

test_that("a power of 0, and each power of 1, is 1", {
  x <- c(NA, NaN, Inf, -2, 0, 1)
  for (dtype in c("f64", "f32", "f16")) {
    buffer <- suppressWarnings(pjrt_buffer(x, dtype))
    expect_identical(as.double(buffer^0), x^0)
    expect_identical(as.double(1^buffer), 1^x)
  }
})

test_that("digits are rounded, as in R", {
  expect_identical(as_array(zapsmall(pjrt_buffer(c(1, 2), "f64"))), array(c(1, 2)))
  expect_identical(as_array(round(pjrt_buffer(1.26, "f64"), 1.4)), array(1.3))
  expect_refused(round(pjrt_buffer(1), Inf), "invalid_type", "`digits` must be a whole number")
})

test_that("matrices of integers narrower than a byte become floats exactly", {
  for (dtype in c("i4", "ui4", "i2", "ui2")) {
    for (dims in list(c(4, 4), c(8, 4), c(4, 8), c(4, 4, 4))) {
      x <- array(rep_len(if (grepl("2", dtype)) c(0, 1, 1, 0, 1) else c(0, 7, 1, 3, 4, 5, 2, 6, 5), prod(dims)), dims)
      buffer <- pjrt_buffer(x, dtype)
      expect_numbers(buffer * pjrt_scalar(0.5, "f64"), x / 2)
      withr::with_options(list(pjrt.default_float = "f64"), expect_numbers(sqrt(buffer), sqrt(x), 1e-15))
      expect_numbers(sqrt(buffer), sqrt(x), 1e-6)
    }
  }
})
