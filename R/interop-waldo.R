# For testthat's expect_equal() and expect_identical(), which compare through waldo: buffers by what they hold.

#' @exportS3Method waldo::compare_proxy
compare_proxy.PJRTBuffer <- function(x, path = "x") {
  values <- as_array(x)
  # dimensions are compared on their own: waldo fails on arrays whose dimensions differ
  dim(values) <- NULL
  proxy <- list(x = values, dim = shape(x), dtype = as.character(elt_type(x)), attr = attributes(x))
  list(object = proxy, path = paste0("pjrt_proxy(", path, ")"))
}

#' @exportS3Method waldo::compare_proxy
compare_proxy.PJRTArrayPromise <- function(x, path = "x") {
  list(object = value(x), path = paste0("value(", path, ")"))
}
