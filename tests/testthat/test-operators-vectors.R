# Functions of vectors: of base R and stats, and what they return for buffers.

values <- c(3, 1, 2, 3)
f64 <- function(x) pjrt_buffer(x, "f64")
# as users find them, when the package is attached
attached <- function(name) get(name, "package:pjrt")

test_that("positions, repetitions and extremes are computed on the device", {
  x <- f64(values)
  expect_identical(as_array(attached("which.max")(x)), 1L)
  expect_identical(as_array(attached("which.min")(x)), 2L)
  expect_identical(as_array(rep(x, 2)), array(rep(values, 2)))
  expect_identical(as_array(rep(x, each = 2, length.out = 5)), array(rep(values, each = 2, length.out = 5)))
  expect_identical(as_array(rep(pjrt_scalar(2L), 3)), array(rep(2L, 3)))
  expect_identical(as_array(attached("pmax")(x, 2)), array(pmax(values, 2)))
  expect_identical(as_array(attached("pmin")(2, x, f64(c(0, 5, 5, 5)))), array(pmin(2, values, c(0, 5, 5, 5))))
  expect_refused(attached("pmax")(x, 2, na.rm = TRUE), "operator", "`pmax()` of buffers needs `na.rm = FALSE`")
  expect_refused(rep(x, -1), "operator", "invalid 'times' argument")
  expect_refused(rep(pjrt_empty("f32", 0), length.out = 3), "operator", "without elements")
})

test_that("variances, covariances and correlations are R's", {
  m <- matrix(c(1, 4, 2, 8, 5, 7, 1, 0, 3, 3, 9, 1), 4)
  y <- c(2, 7, 1, 8)
  expect_like <- function(x, want) {
    expect_s3_class(x, "PJRTBuffer")
    expect_equal(as_array(x), unname(want), tolerance = 1e-14)
  }
  expect_like(attached("var")(f64(values)), var(values))
  expect_like(attached("var")(f64(m)), var(m))
  expect_like(attached("cov")(f64(values), y), cov(values, y))
  expect_like(attached("cov")(f64(m), f64(y)), cov(m, y))
  expect_like(attached("cor")(values, f64(y)), cor(values, y))
  expect_like(attached("cor")(f64(m)), cor(m))
  expect_equal(sd(f64(values)), sd(values))
  expect_refused(attached("var")(f64(array(1, c(1, 1, 1)))), "operator", "`var()` takes vectors and matrices")
  defaults <- "of buffers takes only the defaults of `na.rm`, `use` and `method`."
  for (class in c("invalid_input", "operator")) {
    expect_refused(attached("cor")(f64(values), f64(y), method = "spearman"), class, paste("`cor()`", defaults))
    expect_refused(attached("var")(f64(values), na.rm = TRUE), class, paste("`var()`", defaults))
  }
  expect_like(attached("var")(f64(values), na.rm = FALSE), var(values))
  expect_like(attached("cor")(f64(values), y, use = "everything", method = "pearson"), cor(values, y))
})

test_that("variances and correlations of very large, small and narrow numbers are right, and others are refused", {
  var <- attached("var")
  cov <- attached("cov")
  cor <- attached("cor")
  a <- c(1, 2, 3, 4)
  b <- c(1, 2, 3, 5)
  for (scale in c(1e-25, 1, 1e20)) {
    expect_equal(as_array(cor(pjrt_buffer(a * scale), pjrt_buffer(b * scale))), stats::cor(a, b), tolerance = 1e-6)
    m <- cbind(a, b) * scale
    expect_equal(as_array(cor(pjrt_buffer(m))), unname(stats::cor(m)), tolerance = 1e-6)
  }
  narrow <- lapply(list(a, b), function(x) pjrt_buffer(x * 1000, "f16"))
  expect_equal(as_array(cor(narrow[[1]], narrow[[2]])), stats::cor(a, b), tolerance = 1e-6)
  wide <- rep(c(0, 200), 20)
  expect_equal(as_array(var(pjrt_buffer(wide, "f16"))), stats::var(wide), tolerance = 1e-6)
  expect_equal(as_array(var(pjrt_buffer(rep(c(0, 2), 5e4), "f16"))), 1, tolerance = 1e-4)
  set.seed(1)
  for (i in 1:20) {
    x <- pjrt_buffer(rnorm(300))
    expect_lte(as_array(cor(x, 2 * x)), 1)
    expect_gte(as_array(cor(x, -2 * x)), -1)
  }
  # R has NA
  expect_identical(as_array(var(f64(numeric()))), NaN)
  expect_identical(as_array(var(f64(1))), NaN)
  expect_identical(as_array(cor(f64(c(2, 2, 2)), 1:3)), NaN)
  expect_refused(cov(f64(1:3), 5), "shape_mismatch", "with as many rows: got 3, 1")
  expect_refused(var(pjrt_buffer(c(1i, 2i))), "operator", "arrays of real numbers, not c64")
  for (bad in list(letters[1:3], factor(1:3), list(1, 2, 3), Sys.Date() + 0:2)) {
    expect_refused(cov(f64(1:3), bad), "invalid_type", "takes buffers and arrays of real numbers")
  }
})

test_that("variances and correlations use all digits of integers, and constants have none", {
  var <- attached("var")
  cov <- attached("cov")
  cor <- attached("cor")
  times <- 1700000000L + c(0L, 1L, 2L, 3L, 10L)
  y <- c(1, 2, 3, 4, 5)
  for (dtype in c("i32", "i64", "ui32", "ui64")) {
    x <- pjrt_buffer(times, dtype)
    expect_equal(as_array(var(x)), stats::var(times), tolerance = 1e-6)
    expect_equal(as_array(cor(x, y)), stats::cor(times, y), tolerance = 1e-6)
    m <- pjrt_buffer(cbind(times, rev(times)), dtype)
    expect_equal(as_array(cov(m, y)), unname(stats::cov(cbind(times, rev(times)), y)), tolerance = 1e-6)
  }
  expect_equal(as_array(var(pjrt_buffer(2^60 + c(0, 512), "i64"))), 512^2 / 2)
  ends <- bit64::as.integer64(c("-9223372036854775807", "0", "9223372036854775807"))
  expect_equal(as_array(var(pjrt_buffer(ends))), 2^126)
  expect_equal(as_array(var(pjrt_buffer(c(0, 2^63), "ui64"))), 2^125)
  expect_equal(as_array(var(pjrt_buffer(c(TRUE, FALSE, TRUE)))), 1 / 3, tolerance = 1e-6)
  constant <- list(rep(0.1, 3), rep(0.7, 3), rep(1 / 3, 3))
  for (x in constant) {
    expect_identical(as_array(var(f64(x))), 0)
    expect_identical(as_array(cor(f64(x), c(1, 2, 4))), NaN)
    expect_identical(as_array(cor(f64(constant[[1L]]), f64(x))), NaN)
  }
  m <- cbind(constant[[1L]], c(1, 2, 4), constant[[2L]])
  expect_identical(which(!is.nan(as_array(cor(f64(m))))), 5L)
  expect_identical(as_array(cov(f64(m)))[-5L], rep(0, 8))
  expect_identical(as_array(cov(pjrt_buffer(matrix(0, 0, 2)))), matrix(NaN, 2, 2))
})

test_that("weighted means are R's", {
  bytes <- c(200L, 100L, 3L)
  expect_equal(weighted.mean(pjrt_buffer(bytes, "ui8"), c(2, 2, 2)), 101)
  times <- 1700000000L + 0:2
  expect_equal(weighted.mean(pjrt_buffer(times), pjrt_buffer(c(1, 1, 2))), weighted.mean(times, c(1, 1, 2)))
  expect_equal(weighted.mean(f64(c(1, NaN, 3)), c(1, 1, 3), na.rm = TRUE), 2.5)
  expect_identical(as_array(weighted.mean(f64(c(1, 2)))), 1.5)
  expect_error(weighted.mean(f64(c(1, 2)), 1), "same length")
})

test_that("the largest of one buffer is another buffer", {
  x <- f64(c(1, 2))
  y <- attached("pmax")(x)
  pjrt_delete(x)
  expect_identical(as_array(y), array(c(1, 2)))
})

test_that("unsigned numbers beyond R's integers keep their order", {
  u <- pjrt_buffer(bit64::as.integer64(c("1", "2", "-1")), "ui64")
  expect_identical(median(u), 2)
  expect_identical(unname(quantile(u, c(0, 1))), c(1, 2^64))
  expect_identical(c(unclass(summary(u)))[["Max."]], 2^64)
  expect_identical(diff(u), c(1, 2^64 - 2))
  long <- function(...) pjrt_buffer(1:24, "i64", ...)
  expect_identical(diff(long(shape = c(2, 3, 4))), bit64::as.integer64(rep(1, 23)))
  expect_identical(diff(long(), lag = 25), bit64::integer64())
  expect_identical(diff(pjrt_empty("i64", 0)), bit64::integer64())
  expect_identical(as.integer(diff(long(shape = c(4, 6)), differences = 2)), rep(0L, 12))
  expect_identical(dim(diff(long(shape = c(4, 6)), lag = 3)), c(1L, 6L))
  expect_identical(dim(diff(pjrt_empty("i64", c(2, 0)))), 1:0)
  expect_identical(dim(as.data.frame(pjrt_empty("i64", c(3, 0)))), c(3L, 0L))
  expect_identical(median(pjrt_buffer(c(3L, 1L), "ui32")), 2)
  expect_identical(unname(quantile(pjrt_buffer(c(1, 2, 4, 10), "i64"))), c(1, 1.75, 3, 5.5, 10))
})

test_that("long integers are looked up among values of every type", {
  w <- pjrt_buffer(bit64::as.integer64("9007199254740993"))
  for (other in list(NULL, "a", as.raw(1), factor("a"), 1i, list(1), 9007199254740992, TRUE)) {
    expect_false(attached("%in%")(w, other))
  }
  expect_true(attached("%in%")(w, "9007199254740993"))
  expect_identical(attached("match")("a", w), NA_integer_)
})

test_that("other functions of vectors read the buffer", {
  x <- f64(values)
  i <- pjrt_buffer(c(2L, 1L, 2L))
  expect_identical(order(x), order(values))
  expect_identical(order(i, decreasing = TRUE), c(1L, 3L, 2L))
  expect_identical(unique(x), unique(values))
  expect_identical(duplicated(x), duplicated(values))
  expect_identical(c(unname(table(i))), c(1L, 2L))
  expect_identical(names(table(i)), c("1", "2"))
  expect_identical(median(x), median(values))
  expect_identical(quantile(x), quantile(values))
  expect_identical(diff(x, lag = 2), diff(values, lag = 2))
  square <- matrix(c(2, 1, 1, 3), 2)
  expect_identical(diff(f64(square)), diff(square))
  expect_identical(det(f64(square)), det(square))
  expect_identical(cut(x, 2), cut(values, 2))
  expect_identical(attached("which")(x > 2), c(1L, 4L))
  `%in%` <- attached("%in%")
  match <- attached("match")
  expect_identical(x %in% c(3, 5), values %in% c(3, 5))
  expect_identical(3 %in% x, TRUE)
  expect_identical(match(2, x), 3L)
})

test_that("ifelse(), sprintf() and sums of margins read buffers of every type", {
  ifelse <- attached("ifelse")
  sprintf <- attached("sprintf")
  m <- matrix(c(1, 3, 2, 4), 2)
  for (dtype in c("f64", "i32", "i64", "ui64", "ui32")) {
    x <- pjrt_buffer(m, dtype)
    expect_equal(ifelse(x > 2, x, 0), base::ifelse(m > 2, m, 0))
    expect_equal(ifelse(m > 2, 0, x), base::ifelse(m > 2, 0, m))
    expect_equal(ifelse(x[1, , as = "buffer"] > 1, "a", "b"), c("b", "a"))
    expect_identical(sprintf("%s: %d", "n", x), base::sprintf("%s: %d", "n", m))
    expect_identical(sprintf("%d", sum(x)), "10")
    for (name in c("marginSums", "margin.table", "proportions", "prop.table")) {
      expect_equal(attached(name)(x, 2), get(name, baseenv())(m, 2), label = name)
    }
    expect_s3_class(attached("proportions")(x), "PJRTBuffer")
  }
  expect_identical(sprintf("%.1f", f64(values)), c("3.0", "1.0", "2.0", "3.0"))
  # as base's, for other values
  expect_identical(ifelse(TRUE, 1, stop("never evaluated")), 1)
  expect_identical(sprintf(fmt = "%2$s %1$s", "a", "b"), "b a")
  expect_error(sprintf("%d", "a"), "invalid format")
  expect_identical(attached("proportions")(m), proportions(m))
})

test_that("rows of matrices are compared, as in R", {
  m <- matrix(c(1, 1, 2, 3, 3, 4), 3)
  a <- array(c(1, 2, 1, 3, 4, 3), c(3, 1, 2))
  for (dtype in c("f64", "i8", "i64", "ui64")) {
    x <- pjrt_buffer(m, dtype)
    y <- pjrt_buffer(a, dtype)
    read <- function(part) array(as.double(part), dim(part))
    expect_identical(read(unique(x)), unique(m))
    expect_identical(read(unique(t(x), MARGIN = 2)), unique(t(m), MARGIN = 2))
    expect_identical(read(unique(y, fromLast = TRUE)), unique(a, fromLast = TRUE))
    expect_identical(duplicated(x), duplicated(m))
    expect_identical(as.vector(duplicated(y)), as.vector(duplicated(a)))
    expect_identical(c(anyDuplicated(x), anyDuplicated(y), anyDuplicated(t(x))), c(2L, 3L, 0L))
    expect_identical(anyDuplicated(pjrt_buffer(c(3, 1, 3), dtype)), 3L)
  }
  large <- bit64::as.integer64(c("9007199254740993", "9007199254740992"))
  expect_bits(unique(pjrt_buffer(large, shape = c(2, 1))), int64(large, c(2, 1)))
})

test_that("functions in front of R's do as R's for all other objects, and R reports no conflict", {
  child <- run_child(quote({
    stopifnot(
      identical(which.max(c(1, 3)), 2L), identical(which(c(a = TRUE)), c(a = 1L)), identical(pmax(1:2, 2L), c(2L, 2L)),
      identical(pmin(c(1, NA), 0, na.rm = TRUE), c(0, 0)), identical(var(1:3), 1), identical(cor(1:3, c(2, 4, 6)), 1),
      identical(var(c(1, 2, NA), na.rm = TRUE), 0.5), identical(cor(mtcars)["mpg", "mpg"], 1),
      identical(cor(1:3, c(1, 3, 2), method = "kendall"), stats::cor(1:3, c(1, 3, 2), method = "kendall")),
      identical(match("b", letters), 2L), "a" %in% letters, !inherits(try(cov(1:2, 2:1)), "try-error")
    )
    cat("done\n")
  }))
  expect_clean(child, "done")
})

test_that("64-bit integers are matched, cut and sorted as numbers", {
  `%in%` <- attached("%in%")
  match <- attached("match")
  sums <- rowSums(pjrt_buffer(matrix(1:4, 2)))
  expect_identical(sums %in% c(4, 6), c(TRUE, TRUE))
  expect_identical(match(6, sums), 2L)
  expect_identical(match(6L, sums), 2L)
  expect_identical(match("6", sums), 2L)
  expect_identical(attached("is.element")(6, sums), TRUE)
  expect_identical(attached("setdiff")(sums, 6), 4)
  expect_identical(attached("intersect")(1:5, sums), 4L)
  for (dtype in c("i64", "ui64", "ui32")) {
    x <- pjrt_buffer(c(1, 3, 2), dtype)
    expect_identical(cut(x, c(0, 1, 3)), cut(c(1, 3, 2), c(0, 1, 3)))
    expect_identical(order(x), c(1L, 3L, 2L))
    m <- matrix(c(1, 3, 6, 2, 5, 11), 3)
    expect_identical(array(as.double(diff(pjrt_buffer(m, dtype))), c(2, 2)), diff(m))
    expect_identical(as.double(diff(x)), c(2, -1))
    square <- matrix(c(2, 1, 1, 3), 2)
    expect_identical(det(pjrt_buffer(square, dtype)), det(square))
  }
  expect_identical(order(pjrt_buffer(c(3, -5, 2, -7), "i64")), c(4L, 2L, 3L, 1L))
})

test_that("64-bit integers beyond those in doubles are compared exactly", {
  `%in%` <- attached("%in%")
  match <- attached("match")
  text <- c("9007199254740993", "9007199254740994", "-9007199254740993", "5")
  large <- pjrt_buffer(bit64::as.integer64(text))
  expect_identical(large %in% 2^53, rep(FALSE, 4L))
  expect_identical(match(c(2^53 + 2, 5), large), c(2L, 4L))
  expect_identical(match(bit64::as.integer64(text), large), 1:4)
  expect_identical(order(large), c(3L, 4L, 1L, 2L))
  expect_identical(pjrt_buffer(1.8e19, "ui64") %in% 1.8e19, TRUE)
  expect_identical(order(pjrt_buffer(c(1.8e19, 2, 2^63), "ui64")), c(2L, 3L, 1L))
})

test_that("na.omit() leaves out what is missing, as in R", {
  expect_identical(c(na.omit(f64(c(1, NaN, 3)))), c(1, 3))
  m <- matrix(c(1, NA, 3, 4), 2)
  expect_identical(na.omit(f64(m)), na.omit(m))
})

test_that("variances and correlations of 64-bit integers do not overflow", {
  withr::local_options(pjrt.default_float = "f64")
  times <- 1.7e18 + (1:10) * 1e15
  x <- pjrt_buffer(times, "i64")
  expect_equal(as_array(attached("var")(x)), var(times), tolerance = 1e-10)
  expect_equal(as_array(attached("cor")(x, pjrt_buffer(1:10))), 1, tolerance = 1e-10)
})

test_that("systems of equations are solved with a buffer on the right, too", {
  a <- matrix(c(2, 1, 1, 3), 2)
  b <- c(1, 2)
  for (right in list(b, pjrt_buffer(b, "f64"))) expect_equal(solve(pjrt_buffer(a, "f64"), right), solve(a, b))
  expect_equal(solve(pjrt_buffer(a, "i64"), pjrt_buffer(b, "i64"), tol = 1e-9), solve(a, b))
  expect_equal(solve(pjrt_buffer(a, "f64")), solve(a))
  # what only has the class does not call the methods again and again
  forged <- structure(1, class = "PJRTBuffer")
  expect_refused(solve(forged), "invalid_pointer")
  expect_refused(determinant(forged), "invalid_pointer")
})

test_that("functions of stats and graphics that take elements of 64-bit integers get numbers", {
  x <- cumsum(pjrt_buffer(1:9))
  values <- array(as.double(cumsum(1:9)))
  expect_identical(fivenum(x), fivenum(values))
  expect_identical(grDevices::boxplot.stats(x), grDevices::boxplot.stats(values))
  expect_identical(graphics::hist(x, plot = FALSE)$counts, graphics::hist(values, plot = FALSE)$counts)
  expect_equal(t.test(x)$statistic, t.test(values)$statistic)
  # users get what they asked for
  for (part in list(x[2:3], utils::head(x[], 2), lapply(1, function(i) x[[i]])[[1]])) expect_s3_class(part, "integer64")
})
