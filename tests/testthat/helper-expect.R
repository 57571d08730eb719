# Like testthat's, which compares with waldo first, even values that are identical, and takes most of a test's time.
expect_identical <- function(object, expected, info = NULL, label = NULL, ...) {
  if (identical(object, expected)) {
    testthat::expect(TRUE, "")
    return(invisible(object))
  }
  if (is.null(label)) label <- deparse1(substitute(object))
  testthat::expect_identical(object, expected, info, label, deparse1(substitute(expected)), ...)
}

# Expects an error of this package, of this kind and with `message` in its message.
expect_refused <- function(object, kind, message = NULL) {
  error <- tryCatch(
    {
      object
      NULL
    },
    error = identity
  )
  is_right <- inherits(error, "pjrt_error") && inherits(error, paste0("pjrt_error_", kind)) &&
    (is.null(message) || grepl(message, conditionMessage(error), fixed = TRUE))
  got <- if (is.null(error)) "no error" else paste0(class(error)[[1L]], ": ", conditionMessage(error))
  testthat::expect(is_right, sprintf("Expected pjrt_error_%s: %s\nGot %s", kind, toString(message), got))
  invisible(error)
}

# A copy of an object as R's old format keeps it: handles become null pointers without content.
without_content <- function(x) unserialize(serialize(x, NULL, version = 2))

# Escapes a text for use in a regular expression.
literally <- function(text) gsub("([][{}()+*^$|\\\\?.])", "\\\\\\1", text)

# Expects bitwise equality. Distinguishes NA from NaN, 0 from -0, and integer64 values, unlike identical().
expect_bits <- function(object, expected) {
  same <- identical(object, expected, num.eq = FALSE, single.NA = FALSE)
  difference <- if (!same) c(utils::capture.output(dput(object)), "instead of", utils::capture.output(dput(expected)))
  testthat::expect(same, paste(difference, collapse = "\n"))
  invisible(object)
}

# Evaluates an expression without the warning of missing values.
without_na_warning <- function(expr) suppressWarnings(expr, classes = "pjrt_warning_na")

# Expects one warning of missing values: how many, and which is the first. Returns the value of the expression.
expect_na_warning <- function(object, dtype, count, first) {
  warnings <- character()
  value <- withCallingHandlers(object, pjrt_warning_na = function(w) {
    warnings <<- c(warnings, conditionMessage(w))
    invokeRestart("muffleWarning")
  })
  found <- if (count == 1) {
    sprintf("a missing value (element %.0f)", first)
  } else {
    sprintf("%.0f missing values (the first is element %.0f)", count, first)
  }
  testthat::expect_length(warnings, 1L)
  treated <- if (count == 1) "it as a number" else "them as numbers"
  told <- paste0(found, ". ", dtype, " has no missing values: programs treat ", treated, ".")
  testthat::expect_match(warnings[1L], told, fixed = TRUE)
  invisible(value)
}

# An integer64 array of these dimensions.
int64 <- function(x, dim = length(x)) {
  x <- bit64::as.integer64(x)
  dim(x) <- dim
  x
}

# The bytes of numbers, as R writes them.
bytes <- function(x, size = NA_integer_) writeBin(x, raw(), size = size)
