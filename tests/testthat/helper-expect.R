# An error of this package: its class, a piece of its message, and that it is one of ours at all.
expect_refused <- function(object, kind, message = NULL) {
  class <- paste0("pjrt_error_", kind)
  error <- if (is.null(message)) {
    testthat::expect_error(object, class = class)
  } else {
    testthat::expect_error(object, literally(message), class = class)
  }
  testthat::expect_s3_class(error, "pjrt_error")
  invisible(error)
}

# A pattern that matches this text and nothing else.
literally <- function(text) gsub("([][{}()+*^$|\\\\?.])", "\\\\\\1", text)

# Equal to the last bit: tells NA from NaN, 0 from -0, and integer64 values apart, which identical() alone does not.
expect_bits <- function(object, expected) {
  same <- identical(object, expected, num.eq = FALSE, single.NA = FALSE)
  difference <- if (!same) c(utils::capture.output(dput(object)), "instead of", utils::capture.output(dput(expected)))
  testthat::expect(same, paste(difference, collapse = "\n"))
  invisible(object)
}

# An integer64 array of these dimensions.
int64 <- function(x, dim = length(x)) {
  x <- bit64::as.integer64(x)
  dim(x) <- dim
  x
}

# The bytes of numbers, as R writes them.
bytes <- function(x, size = NA_integer_) writeBin(x, raw(), size = size)
