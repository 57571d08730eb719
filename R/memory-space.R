#' Memory spaces
#'
#' A device can have several memory spaces: its own memory (called `"device"` by most plugins), and host memory that it
#' can reach (`"pinned_host"`, `"unpinned_host"`), which is larger and slower. [copy_buffer()] copies buffers between
#' them.
#'
#' There is exactly one R object for each memory space. `as.character()` returns its kind.
#'
#' @param x
#' * `memory_spaces()`: a device, i.e. anything that [as_pjrt_device()] takes, or a `PJRTClient` for the memory spaces
#'   of all its devices that this process can use.
#' * `memory_space()`: a `PJRTBuffer`.
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @param memory A `PJRTMemory`.
#' @return
#' * `memory_spaces()`: a list of `PJRTMemory`, empty if the plugin has no memory spaces.
#' * `default_memory_space()`: a `PJRTMemory`, the memory space that new buffers go to, or `NULL` if the plugin does not
#'   provide it.
#' * `memory_space()`: a `PJRTMemory`, the memory space of a buffer, or `NULL` if the plugin does not provide it.
#' * `memory_space_info()`: a list of class `PJRTMemorySpaceInfo` with `id`, `kind`, `label` and `debug` (the plugin's
#'   short and long description) and `devices`, the devices of this process that can use it.
#' @section Errors:
#' `pjrt_error_invalid_input` if an argument is not a device, `pjrt_error_invalid_pointer` if it is not a buffer or
#' memory space, `pjrt_error_deleted_buffer` if a buffer was donated or deleted.
#' @seealso [copy_buffer()], [device_memory_stats()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' memory_spaces("cpu:0")
#' x <- pjrt_buffer(1:3)
#' identical(memory_space(x), default_memory_space(device(x)))
#' host <- copy_buffer(x, memory_spaces("cpu:0")[[2]])
#' memory_space(host)
#' memory_space_info(memory_space(host))
#' @name memory_spaces
NULL

#' @rdname memory_spaces
#' @export
memory_spaces <- function(x = NULL) {
  if (inherits(x, "PJRTClient")) {
    call_native(ffi_client_memories, x)
  } else {
    call_native(ffi_device_memories, as_pjrt_device(x))
  }
}

#' @rdname memory_spaces
#' @export
default_memory_space <- function(device = NULL) {
  call_native(ffi_device_default_memory, as_pjrt_device(device))
}

#' @rdname memory_spaces
#' @export
memory_space <- function(x) {
  call_native(ffi_buffer_memory, x)
}

#' @rdname memory_spaces
#' @export
memory_space_info <- function(memory) {
  new_info(call_native(ffi_memory_info, memory), "PJRTMemorySpaceInfo")
}

#' @export
as.character.PJRTMemory <- function(x, ...) {
  memory_space_info(x)$kind
}

#' @export
format.PJRTMemory <- function(x, ...) {
  dead_memory(x) %||% as.character(x)
}

#' @export
print.PJRTMemory <- function(x, ...) {
  show_lines(dead_memory(x) %||% paste0("<PJRTMemory:", as.character(x), ">"))
  invisible(x)
}

dead_memory <- function(x) dead_text(x, "PJRTMemory", paste0("PJRTMemory:", as.character(x)))

#' @export
`==.PJRTMemory` <- function(e1, e2) {
  identical(e1, e2)
}

#' @export
`!=.PJRTMemory` <- function(e1, e2) {
  !(e1 == e2)
}

#' Device memory statistics
#'
#' `device_memory_stats()` returns the statistics of a device's memory allocator. GPUs and TPUs have them, the CPU does
#' not. [pjrt_memory_stats()] shows the memory of your buffers on every platform.
#'
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @return A named numeric vector with the values that the plugin provides: the number of allocations, `num_allocs`, and
#'   in bytes `bytes_in_use`, `peak_bytes_in_use`, `largest_alloc_size`, `bytes_limit`, `bytes_reserved`,
#'   `peak_bytes_reserved`, `bytes_reservable_limit`, `largest_free_block_bytes`, `pool_bytes` and `peak_pool_bytes`.
#' @section Errors:
#' `pjrt_error_unimplemented` if the plugin has no statistics, `pjrt_error_invalid_input` if `device` is not a device.
#' @seealso [pjrt_memory_stats()], [device_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # the CPU has no statistics
#' tryCatch(
#'   device_memory_stats("cpu:0"),
#'   pjrt_error = function(error) class(error)[[1]]
#' )
#' @export
device_memory_stats <- function(device = NULL) {
  stats <- call_native(ffi_device_memory_stats, as_pjrt_device(device))
  structure(stats$values, names = stats$names)
}
