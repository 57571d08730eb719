#' Get memory statistics
#'
#' `pjrt_memory_stats()` shows how much memory buffers use, and how much host memory is used for transfers between R and
#' devices.
#'
#' Large arrays on their way to or from a device, and large arrays from [as_array()], use blocks of host memory that the
#' package keeps for reuse, since fresh memory is slow on first access. `options(pjrt.staging_max = )` limits how many
#' bytes it keeps: 256 MiB by default; 0 keeps none.
#'
#' R's garbage collector accounts for the memory of CPU buffers that were made from R data, of arrays on their way to R,
#' and approximately of executables. It cannot see other memory (results of programs, other devices); the package
#' triggers it when much of such memory is new.
#'
#' `plot()` shows how much memory the buffers of each client used over time. From the creation of the client on, the
#' package records the bytes of live buffers whenever they have changed by 1 MiB (2^20 bytes) or more since the last
#' record; smaller changes add up. This costs nothing for small buffers. For each of up to 512 spans of time, it keeps
#' the lowest, the highest and the last value. The spans are 10 milliseconds long at first; when more are needed, all
#' become twice as long. A peak is never lost, but its time becomes less exact.
#'
#' A buffer is freed when R collects its last R object as garbage. `buffers` includes buffers without an R object, as
#' long as something needs them: a running program, a promise, another library that uses the memory, or the package
#' itself. It includes garbage that R has not collected yet; `gc()` removes it.
#'
#' @param x A `PJRTMemoryStats`.
#' @param main A string: the plot's title.
#' @param ... For `plot()`, further arguments of [graphics::title()]. Otherwise not used.
#' @return `pjrt_memory_stats()`: a list of class `PJRTMemoryStats`:
#' * `clients`: a data frame with a row for each client: `platform`, `live_buffers` (not dropped, deleted or donated),
#'   their `live_bytes`, and `live_executables`. Objects that only a running program or a promise still uses are
#'   included.
#' * `staging`: bytes of host memory `in_use`, `kept` for reuse, and the `max` to keep.
#' * `pinned`: the number of R vectors that are kept because a device uses their memory.
#' * `objects`: the number of objects of each class that R holds, including garbage that is not collected yet. Promises
#'   of [as_array_async()] and [pjrt_compile_async()] hold `PJRTTransfer` and `PJRTCompiling` objects. The objects of a
#'   client's devices and memory spaces stay for the session.
#' * `buffers`: a data frame with a row for each buffer that was not deleted, donated or collected as garbage, the
#'   largest first; `NULL` in a fork of a process that has a client.
#'   - `dtype`, and `shape`: a list of integer vectors.
#'   - `bytes`: the size of its content. The plugin may need more memory for it, such as for padding. This includes
#'     buffers that use the memory of an R vector or of a file in place.
#'   - `device`: a string, and `memory`: the kind of its memory space, such as `"device"`, or `NA` if unknown.
#'   - `age`: seconds since it was created, exact to some milliseconds.
#'   - `made_at`: the call that made it, with its place in the source, if [pjrt_trace()] recorded it, else `NA`.
#' * `history`: a data frame with the bytes of each client's live buffers over time: `client` (the row in `clients`),
#'   `platform`, `from` and `time` (the first and the last noted change in a span of time), and the `lowest`, `highest`
#'   and last value, `live_bytes`, of the span. The last row of each client is the present.
#'
#' `plot()` and `print()` return `x`, invisibly.
#' @section Errors:
#' `plot()` raises `pjrt_error_invalid_input` if the session has no client.
#' @seealso [pjrt_delete()] to free memory now, [device_info()] for a device's allocator, [executable_info()] for the
#'   memory that a program needs
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(rnorm(1e5))
#' stats <- pjrt_memory_stats()
#' stats
#' head(stats$buffers)
#' # by type
#' tapply(stats$buffers$bytes, stats$buffers$dtype, sum)
#'
#' # memory over time
#' kept <- list()
#' for (i in 1:10) kept[[i]] <- pjrt_buffer(rnorm(1e5 * i))
#' kept <- NULL
#' invisible(gc())
#' plot(pjrt_memory_stats())
#' @order 1
#' @export
pjrt_memory_stats <- function() {
  stats <- call_native(ffi_memory_stats)
  structure(list(
    clients = data.frame(
      platform = as.character(stats$platform), live_buffers = as.numeric(stats$live_buffers),
      live_bytes = as.numeric(stats$live_bytes), live_executables = as.numeric(stats$live_executables)
    ),
    staging = c(in_use = stats$staging_in_use, kept = stats$staging_kept, max = stats$staging_max),
    pinned = stats$pinned,
    objects = structure(stats$objects, names = stats$classes),
    buffers = tryCatch(as_table(call_native(ffi_buffers_list)), pjrt_error_forked = function(e) NULL),
    history = memory_history(stats$histories, as.character(stats$platform))
  ), class = "PJRTMemoryStats")
}

# One data frame of the columns of each client.
memory_history <- function(histories, platforms) {
  rows <- vapply(histories, function(history) length(history$time), 0L)
  column <- function(name) as.numeric(unlist(lapply(histories, `[[`, name)))
  as_table(list(
    client = rep(seq_along(histories), rows), platform = rep(platforms, rows),
    from = structure(column("from"), class = c("POSIXct", "POSIXt")),
    time = structure(column("time"), class = c("POSIXct", "POSIXt")), lowest = column("lowest"),
    highest = column("highest"), live_bytes = column("live_bytes")
  ))
}

#' @export
format.PJRTMemoryStats <- function(x, ...) {
  check_intact(x, "PJRTMemoryStats", parts = c("clients", "staging", "pinned", "objects", "history"))
  clients <- vapply(seq_len(nrow(x$clients)), function(i) {
    client <- x$clients[i, ]
    sprintf(
      "%s of %s (most so far: %s), %s", counted(client$live_buffers, "buffer"), format_bytes(client$live_bytes),
      format_bytes(max(x$history$highest[x$history$client == i], 0)), counted(client$live_executables, "executable")
    )
  }, "")
  objects <- x$objects[x$objects > 0]
  objects <- if (length(objects) > 0L) toString(sprintf("%s %s", objects, names(objects))) else "none"
  facts <- labelled(c(
    stats::setNames(clients, sprintf("client %s", x$clients$platform)),
    staging = sprintf(
      "%s in use, %s kept, of at most %s", format_bytes(x$staging[["in_use"]]), format_bytes(x$staging[["kept"]]),
      format_bytes(x$staging[["max"]])
    ),
    pinned = counted(x$pinned, "R vector"), objects = objects
  ))
  facts <- c(facts[-length(facts)], strwrap(facts[[length(facts)]], width = 78L, exdent = 2L))
  c("<PJRTMemoryStats>", paste0("  ", facts))
}

#' @rdname pjrt_memory_stats
#' @export
print.PJRTMemoryStats <- function(x, ...) {
  print_lines(x)
}

# Called by the native side: a quick collection of recent garbage.
collect_young <- function(...) {
  gc(verbose = FALSE, full = FALSE)
}
