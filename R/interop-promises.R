# Makes promises of package promises from buffers and the promises of this package.

#' @exportS3Method promises::as.promise
as.promise.PJRTBuffer <- function(x) promise_of(x, await)

#' @exportS3Method promises::as.promise
as.promise.PJRTArrayPromise <- function(x) promise_of(x, value)

#' @exportS3Method promises::as.promise
as.promise.PJRTExecutablePromise <- function(x) promise_of(x, value)

# Generic since version 1.3.0. A promise that resolves to something promising follows that, so a buffer that is ready
# must not be promising.

#' @exportS3Method promises::is.promising
is.promising.PJRTBuffer <- function(x) tryCatch(!is_ready(x), pjrt_error = function(e) FALSE)

#' @exportS3Method promises::is.promising
is.promising.PJRTArrayPromise <- function(x) TRUE

#' @exportS3Method promises::is.promising
is.promising.PJRTExecutablePromise <- function(x) TRUE

# A promise of what `read` returns once `x` is ready.
promise_of <- function(x, read) {
  settle <- function(resolve, reject) {
    pjrt_on_ready(x, function(x) {
      problem <- NULL
      found <- tryCatch(read(x), error = function(e) problem <<- e)
      if (is.null(problem)) resolve(found) else reject(problem)
    })
  }
  promises::promise(function(resolve, reject) tryCatch(settle(resolve, reject), pjrt_error = reject))
}
