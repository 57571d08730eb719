#' Free the memory of a buffer
#'
#' R's garbage collector frees a buffer some time after the last name of it is gone. `pjrt_delete()` does not wait for
#' that, and `close()` ends a client with all that was made of it: to give a GPU's memory to another process, or to
#' create a client with other options.
#'
#' @section Deleted buffers:
#' A buffer that is deleted is dead at once, under all of its names. Programs, copies and promises that were given it
#' before still read what it held; its memory is free as soon as none of them needs it. An R vector that the device used
#' in place is let go of then, too. What the buffer was can still be told: `shape()`, `elt_type()`, `device()`,
#' `format()`.
#'
#' @section Closed clients:
#' `close()` waits until everything that was started on the client's devices is done: programs, copies, transfers and
#' compiles. Ctrl-C ends the wait, and leaves the client as it is. Then all buffers and executables of the client are
#' freed, and can no more be used than its promises: this is a `pjrt_error_client_closed`. A promise that has been read
#' keeps its value. What can be told without the device can still be told: shapes, element types, names, ids, how a
#' device or a memory space is called, what an executable takes and gives.
#'
#' After that, [pjrt_client()] gives a new client, which may have other options, such as another `cpu_device_count`. Its
#' devices are new objects. On GPUs the memory that the client had taken is free for other processes. Some plugins allow
#' one client for each process, as those for TPUs do: there the new one is an error of the plugin.
#'
#' @param buffer A `PJRTBuffer`, or a list of them, which may hold such lists.
#' @param x A `PJRTBuffer`.
#' @param con A `PJRTClient`.
#' @param ... Not used.
#' @return `pjrt_delete()`: `buffer`, invisibly; nothing happens to a buffer that is dead already, or whose client is
#'   closed. `is_deleted()`: `TRUE` for a buffer that was deleted or donated or whose client is closed, else `FALSE`.
#'   `close()`: `NULL`, invisibly; closing a client twice is fine.
#' @section Errors:
#' `pjrt_error_invalid_pointer` for anything but a buffer; nothing is deleted then. `pjrt_error_forked` in a fork of the
#' process that made the client, except from `is_deleted()`.
#' @seealso [pjrt_memory_stats()], [pjrt_execution_options()] about donation
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(rnorm(1e5))
#' pjrt_delete(x)
#' is_deleted(x)
#' format(x)
#' try(as_array(x))
#' \dontrun{
#' close(pjrt_client("cpu"))
#' pjrt_client("cpu", cpu_device_count = 4)
#' }
#' @name pjrt_delete
NULL

#' @rdname pjrt_delete
#' @export
pjrt_delete <- function(buffer) {
  buffers <- flat_list(buffer)
  for (one in buffers) {
    .Call(ffi_buffer_is_deleted, one)
  }
  for (one in buffers) {
    .Call(ffi_buffer_delete, one)
  }
  invisible(buffer)
}

#' @rdname pjrt_delete
#' @export
is_deleted <- function(x) {
  .Call(ffi_buffer_is_deleted, x)
}

#' @rdname pjrt_delete
#' @export
close.PJRTClient <- function(con, ...) {
  if (call_native(ffi_client_close, con)) {
    forget_client(con)
    debug_message("closed the client for ", platform(con))
  }
  invisible()
}

# The elements of a list and of the lists in it; anything else is the one element.
flat_list <- function(x) {
  if (is.list(x) && !is.object(x)) do.call(c, lapply(unname(x), flat_list)) else list(x)
}
