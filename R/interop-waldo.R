# Lets testthat's expect_equal() and expect_identical(), which use waldo, compare buffers by content.

#' @exportS3Method waldo::compare_proxy
compare_proxy.PJRTBuffer <- function(x, path = "x") {
  # dimensions are compared separately: waldo fails on arrays whose dimensions differ
  values <- comparable_values(x)
  # names of columns are for print(), and not on the device
  attributes <- attributes(x)[names(attributes(x)) != "column_names"]
  proxy <- list(x = values, dim = shape(x), dtype = as.character(elt_type(x)), attr = attributes)
  list(object = proxy, path = paste0("pjrt_proxy(", path, ")"))
}

#' @exportS3Method waldo::compare_proxy
compare_proxy.PJRTArrayPromise <- function(x, path = "x") {
  values <- value(x)
  if (inherits(values, "integer64")) {
    values <- list(x = comparable_values(values), dim = dim(values), class = "integer64")
  }
  list(object = values, path = paste0("value(", path, ")"))
}

# Values that waldo compares rightly: it would take integer64 for the doubles of the same bits.
comparable_values <- function(x) {
  values <- exact_values(x)
  if (inherits(values, "integer64")) exact_text(x) else as.vector(values)
}
