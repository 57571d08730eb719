# Slow: compiles many programs.

# Expects a buffer of this dtype with the values and dimensions of an array.
expect_array <- function(x, expected, dtype = "f64", tolerance = 1e-14) {
  expect_s3_class(x, "PJRTBuffer")
  expect_identical(as.character(elt_type(x)), dtype)
  expect_equal(as_array(x), expected, tolerance = tolerance)
  expect_identical(dim(x), dim(expected))
}

# before R 4.3, users find this one when the package is attached
if (getRversion() < "4.3.0") `%*%` <- get("%*%", "package:pjrt")

m <- matrix(c(1.5, 2, -3, 4, 0.25, 6), 2)

test_that("t(), aperm() and dim<- move elements as R does", {
  x <- pjrt_buffer(m, "f64")
  expect_array(t(x), t(m))
  expect_array(t(pjrt_buffer(1:3)), t(1:3), "i32")
  a <- array(1:24, c(2, 3, 4))
  b <- pjrt_buffer(a)
  for (perm in list(NULL, 3:1, c(2, 1, 3), c(3, 1, 2))) {
    expect_array(aperm(b, perm), aperm(a, perm), "i32")
  }
  for (dims in list(24L, c(4, 6), c(2, 2, 2, 3), c(24, 1))) {
    c <- b
    dim(c) <- dims
    expect_array(c, array(a, dims), "i32")
  }
  expect_identical(dim(b), c(2L, 3L, 4L))
  dim(b) <- NULL
  expect_array(b, array(1:24), "i32")
  one <- pjrt_scalar(2)
  dim(one) <- c(1, 1)
  expect_array(one, matrix(2), "f32")
  expect_refused(dim(x) <- 5, "operator", "f64[2x3] has 6 elements")
  expect_refused(dim(x) <- c(-2, 6), "invalid_type", "The dimensions must be whole numbers")
  expect_refused(dim(x) <- "a", "invalid_type", "The dimensions must be whole numbers")
  expect_refused(
    aperm(x, c(1, 1)), "invalid_input", "`perm` must be a permutation of the dimensions of `a`, which has 2."
  )
  expect_refused(aperm(x, resize = FALSE), "invalid_input", "`resize` must be TRUE")
  expect_refused(t(b <- pjrt_buffer(a)), "operator", "`t` needs a matrix or a vector")
})

test_that("%*%, crossprod() and tcrossprod() are R's, with vectors as rows or columns", {
  x <- pjrt_buffer(m, "f64")
  expect_array(x %*% t(m), m %*% t(m))
  expect_array(m %*% t(x), m %*% t(m))
  expect_array(x %*% c(1, 2, 3), m %*% c(1, 2, 3))
  expect_array(c(1, 2) %*% x, c(1, 2) %*% m)
  v <- pjrt_buffer(c(1, 2, 3), "f64")
  expect_array(v %*% v, matrix(14))
  expect_array(x %*% v, m %*% 1:3)
  for (f in list(crossprod, tcrossprod)) {
    expect_array(f(x), f(m))
    expect_array(f(x, x), f(m, m))
    expect_array(f(x, m), f(m, m))
    expect_array(f(m, x), f(m, m))
  }
  expect_array(crossprod(x, c(1, 2)), crossprod(m, c(1, 2)))
  expect_array(pjrt_buffer(matrix(1:4, 2)) %*% c(1L, 2L), matrix(1:4, 2) %*% 1:2, "f32")
  # of R's matrices as before
  expect_identical(m %*% t(m), base::`%*%`(m, t(m)))
  expect_identical(crossprod(m), base::crossprod(m))
  expect_refused(x %*% x, "operator", "`%*%` needs matrices that fit: got f64[2x3] and f64[2x3].")
  expect_refused(x %*% "a", "invalid_type", "`%*%` takes buffers, and numbers of R")
  expect_refused(crossprod(x, pjrt_buffer(m, "f64", device = "cpu:1")), "device_mismatch", "`crossprod`")
})

test_that("sums and means of rows and columns are R's, of matrices and arrays", {
  x <- pjrt_buffer(m, "f64")
  a <- array(as.double(1:24), c(2, 3, 4))
  b <- pjrt_buffer(a, "f64")
  for (f in list(rowSums, colSums, rowMeans, colMeans)) {
    expect_array(f(x), array(f(m)))
    expect_array(f(b, dims = 2), as.array(f(a, dims = 2)))
    expect_array(f(b), as.array(f(a)))
    expect_identical(f(m), f(unclass(m)))
    missing <- replace(m, 2, NA)
    expect_array(f(pjrt_buffer(missing, "f64"), na.rm = TRUE), array(f(missing, na.rm = TRUE)))
    expect_refused(f(pjrt_buffer(1:3)), "operator", "needs an array of two dimensions or more")
    expect_refused(f(x, dims = 2), "operator", "of 2 dimensions takes `dims` from 1 to 1, not 2.")
  }
  expect_array(rowSums(pjrt_buffer(m > 0)), array(rowSums(m > 0)), "i32")
})

test_that("diag() extracts and builds diagonals", {
  x <- pjrt_buffer(m, "f64")
  expect_array(diag(x), array(diag(m)))
  expect_array(diag(pjrt_buffer(c(2, 3), "f64")), diag(c(2, 3)))
  expect_array(diag(pjrt_scalar(3, "f64"), 2), diag(3, 2))
  expect_array(diag(pjrt_scalar(3, "f64"), 2, 3), diag(3, 2, 3))
  expect_identical(diag(2), base::diag(2))
  expect_refused(diag(x, -1), "invalid_type", "`nrow` must be a whole number")
  expect_refused(diag(x, 2), "operator", "`diag` needs a matrix, a vector, or a scalar")
})

test_that("cbind() and rbind() join buffers and R's numbers", {
  x <- pjrt_buffer(m, "f64")
  expect_array(cbind(x, x), cbind(m, m))
  expect_array(cbind(1, x, c(7, 8)), cbind(1, m, c(7, 8)))
  expect_array(rbind(x, 7:9, m), rbind(m, 7:9, m))
  expect_array(rbind(a = 1:3, b = pjrt_buffer(4:6)), unname(rbind(1:3, 4:6)), "i32")
  expect_array(cbind(x, NULL), m)
  expect_refused(cbind(x, 1:3), "operator", "`cbind` cannot join")
  expect_refused(rbind(x, "a"), "invalid_type", "`rbind` takes buffers, and numbers of R")
})

test_that("rev() and sort() give one dimension, with NaN last", {
  x <- pjrt_buffer(m, "f64")
  expect_array(rev(x), array(rev(m)))
  expect_array(sort(x), array(sort(m)))
  expect_array(sort(x, decreasing = TRUE), array(sort(m, decreasing = TRUE)))
  expect_array(sort(pjrt_buffer(c(2, NaN, 1), "f64")), array(c(1, 2, NaN)))
  expect_refused(sort(x, na.last = FALSE), "operator", "keeps NaN at the end")
  expect_refused(sort(pjrt_buffer(1i)), "operator", "complex")
})

test_that("functions of matrices are base's for everything else", {
  number <- methods::setClass("TestNumber", contains = "numeric", where = environment())
  withr::defer(methods::removeClass("TestNumber", where = environment(number)))
  named <- c(a = 1, b = 2)
  calls <- alist(
    diag(3), diag(2.7), diag(nrow = 3), diag(3, 2), diag(c(1, 2), 2, 3), diag(5, ncol = 3, nrow = 2), diag(named),
    diag(named, names = FALSE), diag(matrix(1:6, 2, dimnames = list(c("a", "b"), c("a", "b", "c")))), diag(),
    diag(ncol = 2), diag("a"), diag(array(1, c(1, 1, 1))), diag(number(3)), diag(number(3), 2), diag(TRUE), diag(1i),
    rowSums(data.frame(a = 1:2, b = 3:4)), rowSums(cbind(c(1, NA), 2), TRUE), colSums(cbind(c(1, NA), 2), na.rm = TRUE),
    rowMeans(array(1:24, 2:4), dims = 2), colMeans(array(1:24, 2:4), FALSE, 2), rowSums("a"), colMeans(1:3),
    rowSums(matrix(1:4, 2), nonsense = 1), colSums(), crossprod(1:3), crossprod(1:3, 4:6), tcrossprod(1:3, y = 4:6),
    crossprod(number(1:3)), crossprod(1:2, number(1:2)), tcrossprod(matrix(1:4, 2, dimnames = list(c("a", "b"), NULL))),
    crossprod("a"), crossprod(1:2, 1:3)
  )
  for (call in calls) {
    outcome <- function(code) suppressWarnings(tryCatch(code, error = conditionMessage))
    base <- call
    base[[1L]] <- call("::", quote(base), call[[1L]])
    expect_identical(outcome(eval(call)), outcome(eval(base)), info = deparse(call))
  }
})

test_that("matrices of package Matrix are refused, and work as before", {
  skip_if_not_installed("Matrix")
  child <- run_child(env = c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CACHE = "0"), quote({
    suppressMessages(library(Matrix))
    x <- pjrt_buffer(matrix(1:4, 2), "f64")
    s <- Matrix(c(1, 0, 0, 2), 2, sparse = TRUE)
    kind <- function(code) cat(class(tryCatch(code, error = identity))[[1L]], "")
    kind(s %*% x)
    kind(x %*% s)
    kind(crossprod(s, x))
    cat(as.vector(as_array(rowSums(x))), rowSums(s), as.vector(crossprod(s, diag(2))), "\n")
  }))
  expect_clean(child, "pjrt_error_operator pjrt_error_operator pjrt_error_operator 4 6 1 2 1 0 0 2 ")
})

test_that("functions of matrices give Matrix's results for its matrices", {
  skip_if_not_installed("Matrix")
  child <- run_child(env = c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CACHE = "0"), quote({
    suppressMessages(library(Matrix))
    matrices <- list(
      sparseMatrix(c(1, 2), c(1, 1), x = c(1, 2), dims = c(2, 3)), Matrix(c(1, 0, 0, 2), 2), Diagonal(3),
      Matrix(1:6, 2), Matrix(c(2, 1, 1, 2), 2), as(3:1, "pMatrix"), sparseVector(1, 1L, 4L)
    )
    calls <- alist(
      rowSums(s), rowSums(s, TRUE), rowSums(s, sparseResult = TRUE), colSums(s), colSums(s, dims = 1), rowMeans(s),
      colMeans(s, na.rm = TRUE), diag(s), diag(s, 2), diag(s, names = FALSE), crossprod(s), crossprod(s, s),
      crossprod(s, seq_len(NROW(s))), crossprod(seq_len(NROW(s)), s), tcrossprod(s), tcrossprod(s, s),
      tcrossprod(x = s), crossprod(s, boolArith = TRUE), tcrossprod(s, boolArith = TRUE)
    )
    outcome <- function(code) tryCatch(code, error = function(e) "refused")
    count <- 0
    for (s in matrices) for (call in calls) {
      matrix <- ours <- call
      ours[[1L]] <- call("::", quote(pjrt), call[[1L]])
      matrix[[1L]] <- call("::", quote(Matrix), call[[1L]])
      if (!identical(outcome(eval(ours)), outcome(eval(matrix)))) print(list(class(s), call))
      count <- count + !identical(outcome(eval(ours)), "refused")
    }
    cat(count > 80, "\n")
  }))
  expect_clean(child, "TRUE ")
})

test_that("functions of matrices are shared with package Matrix in any order, and after the package was unloaded", {
  skip_if_not_installed("Matrix")
  library_pjrt <- quote(library(pjrt))
  library_matrix <- quote(suppressPackageStartupMessages(library(Matrix)))
  for (order in list(list(library_pjrt, library_matrix), list(library_matrix, library_pjrt))) {
    child <- run_child(env = c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CACHE = "0"), bquote({
      if ("pjrt" %in% loadedNamespaces()) unloadNamespace("pjrt")
      .(order[[1L]])
      .(order[[2L]])
      s <- Matrix(c(1, 0, 0, 2), 2, sparse = TRUE)
      show <- function() {
        x <- pjrt_buffer(matrix(1:4, 2), "f64")
        sums <- list(rowSums(x), pjrt::rowSums(x), Matrix::rowSums(x), base::diag(1), crossprod(x)[1, 1], diag(x))
        refused <- tryCatch(s %*% x, error = identity)
        cat(unlist(lapply(sums, as.vector)), rowSums(s), pjrt::rowSums(s), rowSums(diag(2)), class(refused)[[1L]], "\n")
      }
      show()
      unloadNamespace("pjrt")
      cat(rowSums(s), rowSums(diag(2)), "")
      library(pjrt)
      show()
    }))
    line <- "4 6 4 6 4 6 1 5 1 4 1 2 1 2 1 1 pjrt_error_operator "
    expect_clean(child, c(line, paste("1 2 1 1", line)))
  }
})

test_that("neither attaching the package nor a first product prints a message", {
  child <- run_child(env = c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CACHE = "0"), quote({
    x <- pjrt_buffer(diag(2))
    invisible(list(x %*% x, crossprod(x, x), tcrossprod(x, x), crossprod(x, diag(2)), rowSums(x)))
  }))
  expect_clean(child, character())
})
