# Package Matrix has methods for operators on its matrices and anything else. Ours are more specific: they refuse the
# matrix, with the error that says how to go on.

refuse_matrices <- function(...) {
  refuse <- function(e1, e2) .Call(ffi_operator_2, .Generic, e1, e2)
  refuse_product <- function(x, y) product("%*%", x, y)
  the$matrix_methods <- new.env(parent = topenv())
  for (class in c("Matrix", "sparseVector")) {
    methods::setMethod("Ops", c("PJRTBuffer", class), refuse, where = the$matrix_methods)
    methods::setMethod("Ops", c(class, "PJRTBuffer"), refuse, where = the$matrix_methods)
    methods::setMethod("%*%", c("PJRTBuffer", class), refuse_product, where = the$matrix_methods)
    methods::setMethod("%*%", c(class, "PJRTBuffer"), refuse_product, where = the$matrix_methods)
  }
}
