# Slow: starts many sessions.

test_that("matrices of package Matrix are refused in every operator, whichever package came first", {
  skip_if_not_installed("Matrix")
  for (first in list(quote(NULL), quote(loadNamespace("Matrix")))) {
    child <- run_child(bquote({
      .(first)
      library(pjrt)
      m <- Matrix::Matrix(diag(2))
      v <- Matrix::sparseVector(1, 1L, 4L)
      x <- pjrt_buffer(diag(2))
      refused <- function(code) tryCatch({
        code
        FALSE
      }, pjrt_error_operator = function(e) {
        grepl("takes buffers, and numbers of R", conditionMessage(e)) &&
          grepl("as_array()", conditionMessage(e), fixed = TRUE)
      })
      stopifnot(
        refused(x + m), refused(m + x), refused(x > m), refused(m == x), refused(x & m), refused(m %*% x),
        refused(x %*% m),
        refused(crossprod(m, x)), refused(v * x), refused(x - v)
      )
      stopifnot(identical(as_array(x + x), 2 * diag(2)), identical(as.matrix(m + m), 2 * diag(2)))
    }))
    expect_clean(child)
  }
})
