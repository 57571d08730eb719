# Lets testthat's expect_equal() and expect_identical(), which use waldo, compare buffers by content.

#' @exportS3Method waldo::compare_proxy
compare_proxy.PJRTBuffer <- function(x, path = "x") {
  values <- as_array(x)
  # dimensions are compared separately: waldo fails on arrays whose dimensions differ
  dim(values) <- NULL
  proxy <- list(x = values, dim = shape(x), dtype = as.character(elt_type(x)), attr = attributes(x))
  list(object = proxy, path = paste0("pjrt_proxy(", path, ")"))
}

#' @exportS3Method waldo::compare_proxy
compare_proxy.PJRTArrayPromise <- function(x, path = "x") {
  list(object = value(x), path = paste0("value(", path, ")"))
}
