#' List the living buffers
#'
#' `pjrt_buffers()` shows what takes memory on the devices: all buffers that were not deleted, donated or collected as
#' garbage, the largest first.
#'
#' A buffer is freed when R collects its last R object as garbage. The list also has buffers without an R object, as
#' long as something needs them: a running program, a promise, another library that uses the memory, or the package
#' itself. Garbage that R has not collected yet is included; `gc()` removes it.
#'
#' @return A data frame with a row for each buffer:
#' * `dtype`, and `shape`: a list of integer vectors.
#' * `bytes`: the size of its content. The plugin may need more memory for it, such as for padding. Buffers that use the
#'   memory of an R vector or of a file in place are counted, too.
#' * `device`: a string, and `memory`: the kind of its memory space, such as `"device"`, or `NA` if unknown.
#' * `age`: seconds since it was created, exact to some milliseconds.
#' * `made_at`: the call that made it, with its place in the source, if [pjrt_trace()] recorded it, else `NA`.
#' @section Errors:
#' `pjrt_error_forked` in a fork of a process that has a client.
#' @seealso [pjrt_memory_stats()] for sums and how they changed over time, [pjrt_delete()] to free memory now
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(0, 100, 50))
#' y <- pjrt_buffer(1:10)
#' buffers <- pjrt_buffers()
#' head(buffers)
#'
#' # by type
#' tapply(buffers$bytes, buffers$dtype, sum)
#' @export
pjrt_buffers <- function() {
  as_table(call_native(ffi_buffers_list))
}
