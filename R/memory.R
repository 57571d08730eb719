#' Memory statistics
#'
#' Tells how much memory buffers take, and how much host memory is in use or kept for the way between R and devices.
#'
#' Large arrays on their way to R or to a device, and large arrays that came to R by [as_array()], lie in blocks of
#' memory that the package keeps for the next one when they are free: to touch fresh memory costs more than the work.
#' `options(pjrt.staging_max = )` is the number of bytes that it keeps at most, 256 MB unless you set it; 0 keeps none.
#'
#' R's garbage collector counts the memory of buffers on the CPU that were made from R data, of arrays on their way to R,
#' and about as much as executables take, with the handle that holds them. Memory that it cannot see (results of programs,
#' other devices) makes it run when much of it is new.
#'
#' @return A list:
#' * `clients`: a data frame with one row for each client: `platform`, `live_buffers` (neither dropped, deleted nor donated), their
#'   `live_bytes`, and `live_executables`, all of them also where R does not hold them any more, but a program that
#'   runs or a promise does.
#' * `staging`: bytes of host memory `in_use`, `kept` for the next use, and the `max` that is kept.
#' * `pinned`: the number of R vectors that are kept because a device uses their memory, or is about to read it.
#' * `objects`: how many objects of each class R holds, those included that are garbage and not collected yet.
#'   `PJRTTransfer` and `PJRTCompiling` are what the promises of [as_array_async()] and [pjrt_compile_async()] wait for.
#'   The objects of a client's devices and memory spaces stay for the session.
#' @seealso [pjrt_delete()] to free memory now, [device_memory_stats()] for what a device counts, [executable_memory_stats()] for
#'   what a program needs
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(rnorm(1e5))
#' pjrt_memory_stats()
#' @export
pjrt_memory_stats <- function() {
  stats <- call_native(ffi_memory_stats)
  list(
    clients = data.frame(
      platform = as.character(stats$platform), live_buffers = as.numeric(stats$live_buffers),
      live_bytes = as.numeric(stats$live_bytes), live_executables = as.numeric(stats$live_executables)
    ),
    staging = c(in_use = stats$staging_in_use, kept = stats$staging_kept, max = stats$staging_max),
    pinned = stats$pinned,
    objects = structure(stats$objects, names = stats$classes)
  )
}

# Called by the native side: a quick search for garbage among what is new.
collect_young <- function(...) {
  gc(verbose = FALSE, full = FALSE)
}
