# Expects an error of this package, of this kind and with `message` in its message.
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

# Escapes a text for use in a regular expression.
literally <- function(text) gsub("([][{}()+*^$|\\\\?.])", "\\\\\\1", text)

# Expects bitwise equality. Distinguishes NA from NaN, 0 from -0, and integer64 values, unlike identical().
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
