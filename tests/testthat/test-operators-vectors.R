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
  expect_refused(attached("cor")(f64(values), f64(y), method = "spearman"), "invalid_input", "Unused arguments: method")
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
