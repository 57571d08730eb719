#' Compute summaries
#'
#' `sum(x)`, `mean(x)`, `range(x)` and so on compute on the device, as [operators] do. They return buffers, which
#' [as_array()] reads. Only `any()` and `all()` wait and return R logicals, so that `if (any(x > 0))` and
#' `stopifnot(all(x > 0))` work.
#'
#' `sum()`, `prod()` and `cumsum()` return `i64` for signed integers, `ui64` for unsigned ones, and `i32` for
#' `pred`, or `i64` if it has 2^31 elements or more.
#' `mean()` of integers and `pred` returns the default float, `options(pjrt.default_float = )`. `max()`, `min()` and
#' `range()` have the dtype of `x`. A float sum is as exact as its dtype: for `f32` about seven digits, where R sums in
#' double precision.
#'
#' `mean()` divides the sum, and is infinite where the sum is.
#'
#' Missing values are NaN on a device, and numbers in integers. `na.rm = TRUE` leaves out what [as_array()] reads as
#' `NA` or NaN: NaN, and the smallest number of `i32` and `i64`. With several arguments, the first must be a buffer.
#' `range(x, finite = TRUE)` also leaves out infinite numbers.
#'
#' @param x A `PJRTBuffer`.
#' @param ... Buffers, followed by R numbers. Not used by `mean()`.
#' @param na.rm A flag: whether to leave out what is missing. If nothing is left, the results are R's for no
#'   numbers, except `max()`, `min()` and `range()` of integers, which stay missing.
#' @param trim Must be 0.
#' @return A `PJRTBuffer` without dimensions; of two elements for `range()`. `any()` and `all()`: `TRUE` or `FALSE`.
#' @section Errors:
#' The errors of [operators].
#' @seealso [operators], [matrices]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(1:6, 2))
#' sum(x)
#' mean(x)
#' range(x)
#' max(x, 10L)
#' any(x > 5L)
#' mean(pjrt_buffer(airquality$Ozone, "f32"), na.rm = TRUE)
#' as_array(sum((x - mean(x))^2) / (length(x) - 1))
#' @name summaries
NULL

#' @rdname summaries
#' @export
Summary.PJRTBuffer <- function(..., na.rm = FALSE) {
  check_flag(na.rm, "na.rm")
  if (.Generic %in% c("any", "all")) {
    # conditions of R take logicals only
    return(as_array(joined(.Generic, list(...), na.rm)))
  }
  if (...length() == 1L) {
    return(.Call(ffi_operator_1, .Generic, ..1, without_missing(na.rm)))
  }
  parts <- list(...)
  if (.Generic == "range") {
    finite <- parts[["finite"]] %||% FALSE
    check_flag(finite, "finite")
    parts <- parts[names(parts) %||% rep("", length(parts)) != "finite"]
    return(range_of(if (finite) lapply(parts, finite_only) else parts, na.rm || finite))
  }
  joined(.Generic, parts, na.rm)
}

range_of <- function(parts, na.rm) {
  end <- function(name) under_name("range", name, joined(name, parts, na.rm))
  ends <- rbind(end("min"), end("max"))
  dim(ends) <- 2L
  ends
}

# The numbers, with NaN for infinite ones of a buffer.
finite_only <- function(x) {
  if (!is_buffer(x)) {
    return(x[is.finite(x)])
  }
  # Inf - Inf is NaN
  if (is.numeric(x) && !is_integer_type(elt_type(x))) x + (x - x) else x
}

# The parameter of summaries that leave out what is missing.
without_missing <- function(na.rm) if (na.rm) -1L

# The summary of several arguments. The first one is a buffer.
joined <- function(name, parts, na.rm) {
  join <- c(sum = "+", prod = "*", max = "pmax", min = "pmin", any = "|", all = "&")[[name]]
  if (na.rm && name %in% c("max", "min")) {
    parts <- Filter(function(part) is_buffer(part) || !all(is.na(part)), parts)
  }
  # no lapply(), whose FUN the errors would name
  results <- list()
  for (part in parts) {
    is_read <- !is_buffer(part)
    result <- if (is_read) summarized(name, part, na.rm) else .Call(ffi_operator_1, name, part, without_missing(na.rm))
    results <- c(results, list(result))
  }
  if (length(results) == 1L) {
    return(results[[1L]])
  }
  under_name(name, join, Reduce(function(x, y) .Call(ffi_operator_2, join, x, y), results))
}

# Runs code whose errors about the operator `used` are to name the function that the user called.
under_name <- function(called, used, code) {
  tryCatch(code, pjrt_error_operator = function(e) {
    e$message <- gsub(paste0("`", used, "`"), paste0("`", called, "`"), e$message, fixed = TRUE)
    stop(e)
  })
}

# The summary of R's numbers beside a buffer.
summarized <- function(name, x, na.rm) {
  is_long <- inherits(x, "integer64")
  if (is_long) {
    load_bit64()
  }
  if (!is.numeric(x) && !is.logical(x) && !is.complex(x) || is.object(x) && !is_long) {
    abort_operator("`", name, "` takes buffers, and numbers of R, not ", given(x), ".", class = "invalid_type")
  }
  if (is.complex(x) && name %in% c("max", "min")) {
    abort_operator("`", name, "` cannot take complex numbers: they have no order.", class = "invalid_type")
  }
  if (na.rm) {
    x <- x[!is.na(x)]
  }
  if (length(x) == 0L && name %in% c("max", "min")) {
    abort_operator("`", name, "` needs at least one number of R.")
  }
  if (anyNA(x) && name %in% c("any", "all")) {
    abort_operator("`", name, "` cannot take NA: logical values on a device are true or false.")
  }
  get(name, baseenv())(x)
}

#' @rdname summaries
#' @export
mean.PJRTBuffer <- function(x, ..., trim = 0, na.rm = FALSE) {
  check_unused(...)
  check_flag(na.rm, "na.rm")
  if (!identical(trim, 0) && !identical(trim, 0L)) {
    abort_operator("`trim` must be 0.")
  }
  if (is_long(x)) long_means(x, sum, length(x), na.rm) else .Call(ffi_operator_1, "mean", x, without_missing(na.rm))
}

# Whether the sum of elements may not fit their dtype.
is_long <- function(x) is_buffer(x) && elt_type(x) %in% c("i64", "ui64")

# Means of 64-bit integers, whose sum may not fit: the upper and lower halves are summed exactly.
# `total` is the function that sums `count` elements.
long_means <- function(x, total, count, na.rm) {
  if (na.rm && elt_type(x) == "i64") {
    kept <- x != -2^63
    x <- x * kept
    count <- total(kept)
  }
  upper <- x %/% 2^32
  lower <- x - upper * 2^32
  if (elt_type(x) == "i64") {
    # towards zero, so that halves of different signs do not cancel out
    is_below <- x < 0L & lower != 0L
    upper <- upper + is_below
    lower <- x - upper * 2^32
  }
  total(upper) / count * 2^32 + total(lower) / count
}
