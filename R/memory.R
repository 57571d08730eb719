#' Memory statistics
#'
#' `pjrt_memory_stats()` shows how much memory buffers use, and how much host memory is used for transfers between R and
#' devices.
#'
#' Large arrays on their way to or from a device, and large arrays from [as_array()], use blocks of host memory that the package
#' keeps for reuse, since fresh memory is slow on first access. `options(pjrt.staging_max = )` limits how many bytes it keeps:
#' 256 MiB by default; 0 keeps none.
#'
#' R's garbage collector accounts for the memory of CPU buffers that were made from R data, of arrays on their way to R, and
#' approximately of executables. It cannot see other memory (results of programs, other devices); the package triggers it when
#' much of such memory is new.
#'
#' @return A list:
#' * `clients`: a data frame with a row for each client: `platform`, `live_buffers` (not dropped, deleted or donated), their
#'   `live_bytes`, and `live_executables`. Objects that only a running program or a promise still uses are included.
#' * `staging`: bytes of host memory `in_use`, `kept` for reuse, and the `max` to keep.
#' * `pinned`: the number of R vectors that are kept because a device uses their memory.
#' * `objects`: the number of objects of each class that R holds, including garbage that is not collected yet. Promises of
#'   [as_array_async()] and [pjrt_compile_async()] hold `PJRTTransfer` and `PJRTCompiling` objects. The objects of a client's
#'   devices and memory spaces stay for the session.
#' @seealso [pjrt_delete()] to free memory now, [device_memory_stats()] for a device's allocator,
#'   [executable_memory_stats()] for the memory that a program needs
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

# Called by the native side: a quick collection of recent garbage.
collect_young <- function(...) {
  gc(verbose = FALSE, full = FALSE)
}
