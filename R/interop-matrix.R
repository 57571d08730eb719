# Package Matrix has S4 generics for functions of base, which get methods for buffers. Its methods for operators take
# its matrices and anything else; ours are more specific: they refuse the matrix, with the error that says how to go on.

share_with_matrix <- function(...) {
  refuse <- function(e1, e2) .Call(ffi_operator_2, .Generic, e1, e2)
  refuse_product <- function(x, y) product("%*%", x, y)
  the$matrix_methods <- new.env(parent = topenv())
  for (class in c("Matrix", "sparseVector")) {
    methods::setMethod("Ops", c("PJRTBuffer", class), refuse, where = the$matrix_methods)
    methods::setMethod("Ops", c(class, "PJRTBuffer"), refuse, where = the$matrix_methods)
    methods::setMethod("%*%", c("PJRTBuffer", class), refuse_product, where = the$matrix_methods)
    methods::setMethod("%*%", c(class, "PJRTBuffer"), refuse_product, where = the$matrix_methods)
  }
  give_method <- function(name, ...) {
    # a name would be that of our function here
    methods::setMethod(shared_generic(name), c(...), get(name, topenv()), where = the$matrix_methods)
  }
  for (name in setdiff(matrix_functions, product_functions)) {
    give_method(name, "PJRTBuffer")
  }
  for (name in product_functions) {
    give_method(name, "PJRTBuffer", "ANY")
    give_method(name, "ANY", "PJRTBuffer")
    give_method(name, "PJRTBuffer", "PJRTBuffer")
  }
}
