#' Wait for a buffer or a promise
#'
#' `await()` waits until a buffer's content has been computed, or a promise has its value. `is_ready()` checks without
#' waiting. You need neither for correct results: functions that read a buffer wait for it, and programs accept buffers
#' that are not ready. For a nested list of results, `await()` waits for all, and `is_ready()` is `TRUE` if all are
#' ready.
#'
#' Ctrl-C ends the wait, not the computation.
#'
#' @param x A `PJRTBuffer`, or a promise of [as_array_async()] or [pjrt_compile_async()]. Or a nested list of these.
#' @param timeout A number: how many seconds to wait at most. `NULL` for no limit.
#' @param ... For methods.
#' @return `await()`: `x`, invisibly. `is_ready()`: `TRUE` or `FALSE`.
#' @section Errors:
#' If the computation failed on the device, `await()` raises the error, a condition of class `pjrt_error`. For a list,
#' the message names the element, and `pjrt_error_invalid_input` is raised for elements that are not results.
#' `pjrt_error_deadline_exceeded` if the time is over; the computation goes on.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(rnorm(10))
#' await(x)
#' is_ready(x)
#' await(x, timeout = 10)
#' @export
await <- function(x, ...) {
  if (...length() > 0L || is.null(.Call(ffi_fast_await, x))) UseMethod("await") else invisible(x)
}

#' @rdname await
#' @export
await.PJRTBuffer <- function(x, timeout = NULL, ...) {
  check_unused(...)
  if (!is.null(timeout)) wait_at_most(x, timeout)
  .Call(ffi_buffer_await, x)
  invisible(x)
}

# What can be awaited.
result_classes <- c("PJRTBuffer", "PJRTArrayPromise", "PJRTExecutablePromise")

# Waits until a result is ready, or raises an error when the time is over.
wait_at_most <- function(x, timeout) {
  end <- end_of_wait(timeout)
  pause <- 0.001
  while (!is_ready(x)) {
    left <- end - proc.time()[["elapsed"]]
    if (left <= 0) {
      pjrt_abort(
        "The time to wait is over, and the result is not ready.", "deadline_exceeded",
        hints = "The computation goes on: call await() again, or is_ready()."
      )
    }
    Sys.sleep(min(pause, left))
    pause <- min(2 * pause, 0.01)
  }
}

# When a wait of so many seconds ends, by the clock of proc.time().
end_of_wait <- function(timeout) {
  if (!is.numeric(timeout) || is.object(timeout) || length(timeout) != 1L || is.na(timeout) || timeout < 0) {
    abort_type("`timeout` must be a number of seconds, or NULL, not ", given(timeout), ".")
  }
  proc.time()[["elapsed"]] + timeout
}

#' @rdname await
#' @export
is_ready <- function(x, ...) {
  found <- if (...length() == 0L) .Call(ffi_fast_is_ready, x)
  if (is.null(found)) UseMethod("is_ready") else found
}

#' @export
is_ready.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  .Call(ffi_buffer_is_ready, x)
}

#' Read a buffer asynchronously
#'
#' `as_array_async()` starts the transfer to R and returns a promise at once. `value()` waits for the array and returns
#' it. The array is the buffer's content when the promise was made, even if the buffer is donated or deleted later.
#' `summary()`, `all.equal()`, `mean()`, `is.na()` and `anyNA()` wait for the array as well, and use it. `dim()` and
#' `length()` know the answer without it. Other functions of R need `value()`.
#'
#' @param x A `PJRTBuffer`. For `value()`, also a `PJRTArrayPromise` or a promise of [pjrt_compile_async()]. Or a nested
#'   list of these.
#' @param int64 A string, as for [as_array()].
#' @param ... For methods.
#' @return `as_array_async()`: a `PJRTArrayPromise`. `value()`: a vector or array, as from [as_array()]; every call
#'   returns the same object. For a nested list, both return a list of the same structure.
#' @section Errors:
#' If the computation failed on the device, `value()` raises the error.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' promise <- as_array_async(pjrt_buffer(1:3))
#' promise
#' value(promise)
#' promise
#' @export
as_array_async <- function(x, ...) {
  UseMethod("as_array_async")
}

#' @rdname as_array_async
#' @export
as_array_async.PJRTBuffer <- function(x, int64 = c("integer64", "double", "integer"), ...) {
  check_unused(...)
  promise <- new.env(parent = emptyenv())
  promise$data <- .Call(ffi_transfer_start, x, int64)
  promise$dtype <- elt_type(x)
  promise$shape <- shape(x)
  promise$materialized <- FALSE
  promise$value <- NULL
  class(promise) <- "PJRTArrayPromise"
  promise
}

#' @rdname as_array_async
#' @export
value <- function(x, ...) {
  UseMethod("value")
}

#' @export
value.PJRTArrayPromise <- function(x, ...) {
  check_unused(...)
  check_array_promise(x)
  if (!x$materialized) {
    x$value <- .Call(ffi_transfer_value, x$data)
    x$materialized <- TRUE
    # drop the copy on the host
    x$data <- NULL
  }
  x$value
}

#' @export
as_array.PJRTArrayPromise <- function(x, drop = FALSE, ...) {
  check_unused(...)
  dropped(value(x), drop)
}

#' @export
value.PJRTBuffer <- function(x, ...) {
  as_array(x, ...)
}

#' @export
summary.PJRTArrayPromise <- function(object, ...) {
  summary(promised_numbers(object), ...)
}

#' @export
summary.PJRTExecutablePromise <- summary.PJRTArrayPromise

# The value, with doubles instead of integer64, for which bit64's functions round.
promised_numbers <- function(x) {
  values <- value(x)
  if (inherits(values, "integer64")) rounded(values, x$dtype) else values
}

# R's own would answer for the environment: a length of 5, and a mean of NA.
#' @export
mean.PJRTArrayPromise <- function(x, ...) {
  mean(promised_numbers(x), ...)
}

#' @export
is.na.PJRTArrayPromise <- function(x) {
  is.na(value(x))
}

#' @export
anyNA.PJRTArrayPromise <- function(x, recursive = FALSE) {
  anyNA(value(x))
}

#' @export
dim.PJRTArrayPromise <- function(x) {
  check_array_promise(x)
  if (length(x$shape) > 0L) x$shape
}

#' @export
length.PJRTArrayPromise <- function(x) {
  check_array_promise(x)
  element_count(x$shape)
}

#' @method all.equal PJRTArrayPromise
#' @export
all.equal.PJRTArrayPromise <- function(target, current, ...) {
  if (inherits(current, c("PJRTArrayPromise", "PJRTBuffer"))) {
    current <- value(current)
  }
  if (!is.atomic(current)) {
    return(sprintf("target is a PJRTArrayPromise, current is of type %s", typeof(current)))
  }
  all.equal(value(target), current, ...)
}

#' @export
is_ready.PJRTArrayPromise <- function(x, ...) {
  check_unused(...)
  check_array_promise(x)
  x$materialized || .Call(ffi_transfer_is_ready, x$data)
}

#' @export
format.PJRTArrayPromise <- function(x, ...) {
  check_array_promise(x)
  dead_promise(x) %||% paste0("<", promise_words(x), ">")
}

promise_words <- function(x) {
  sprintf("PJRTArrayPromise %s[%s]", as.character(x$dtype), paste(x$shape, collapse = "x"))
}

# A promise that was read keeps its value.
dead_promise <- function(x) {
  if (!x$materialized) dead_text(x$data, "PJRTArrayPromise", promise_words(x))
}

#' @export
print.PJRTArrayPromise <- function(x, ...) {
  check_array_promise(x)
  dead <- dead_promise(x)
  if (!is.null(dead)) {
    show_lines(dead)
    return(invisible(x))
  }
  if (x$materialized) {
    show_lines(c("<PJRTArrayPromise>", "Status: Materialized", "Value:"))
    print(value(x))
  } else {
    show_lines(c(
      "<PJRTArrayPromise>", "Status: Not materialized", paste0("dtype: ", as.character(x$dtype)),
      paste0("shape: ", paste(x$shape, collapse = " x ")), "(Call value() to materialize the array)"
    ))
  }
  invisible(x)
}

check_array_promise <- function(x) {
  check_intact(x, "PJRTArrayPromise", "environment", c("materialized", "value"))
}

#' @export
await.PJRTArrayPromise <- function(x, timeout = NULL, ...) {
  check_unused(...)
  if (!is.null(timeout)) wait_at_most(x, timeout)
  value(x)
  invisible(x)
}

#' @export
await.default <- function(x, ...) {
  pass_on("await", x, result_classes, ...)
}

#' @export
is_ready.default <- function(x, ...) {
  pass_on("is_ready", x, result_classes, ...)
}

#' @export
as_array_async.default <- function(x, ...) {
  pass_on("as_array_async", x, "PJRTBuffer", ...)
}

#' @export
value.default <- function(x, ...) {
  pass_on("value", x, result_classes, ...)
}
