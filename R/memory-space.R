#' Memory spaces
#'
#' A device's buffers can lie in different memory spaces: its own memory (`"device"` for most plugins), or memory of the
#' host that it can reach (`"pinned_host"`, `"unpinned_host"`), which is larger and slower. [copy_buffer()] moves buffers
#' between them.
#'
#' There is exactly one R object for each memory space. `as.character()` gives its kind.
#'
#' @param x
#' * `memory_spaces()`: a `PJRTClient` for the memory spaces of all devices that this process can use, or a device: anything
#'   that [as_pjrt_device()] takes.
#' * `memory_space()`: a `PJRTBuffer`.
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @param memory A `PJRTMemory`.
#' @return `memory_spaces()`: a list of `PJRTMemory`, empty when the plugin knows no memory spaces. `default_memory_space()`, the
#'   space that buffers go to, and `memory_space()`, the one where a buffer lies: a `PJRTMemory`, or `NULL` when the plugin
#'   does not say. `memory_space_info()`: a list of class `PJRTMemorySpaceInfo` with `id`, `kind`, `label` and `debug` (the plugin's
#'   short and long string) and `devices`, those of this process that can use it.
#' @section Errors:
#' `pjrt_error_invalid_input` for anything but a device, `pjrt_error_invalid_pointer` for anything but a buffer or memory space,
#' `pjrt_error_deleted_buffer` for a buffer that was donated or deleted.
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

# The same under the name that other packages' tests know.
pjrt_memory <- function(buffer) {
  memory_space(buffer)
}

#' @export
as.character.PJRTMemory <- function(x, ...) {
  memory_space_info(x)$kind
}

#' @export
format.PJRTMemory <- function(x, ...) {
  as.character(x)
}

#' @export
print.PJRTMemory <- function(x, ...) {
  cat("<PJRTMemory:", as.character(x), ">\n", sep = "")
  invisible(x)
}

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
#' The statistics of the device's allocator, as far as its plugin keeps any: GPUs and TPUs do, the CPU does not.
#' [pjrt_memory_stats()] tells for every platform how much memory your buffers take.
#'
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @return A named numeric vector of those that the plugin tells: the number of allocations, `num_allocs`, and in bytes
#'   `bytes_in_use`, `peak_bytes_in_use`, `largest_alloc_size`, `bytes_limit`, `bytes_reserved`, `peak_bytes_reserved`,
#'   `bytes_reservable_limit`, `largest_free_block_bytes`, `pool_bytes` and `peak_pool_bytes`.
#' @section Errors:
#' `pjrt_error_unimplemented` when the plugin keeps no statistics, `pjrt_error_invalid_input` for anything but a device.
#' @seealso [pjrt_memory_stats()], [device_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' try(device_memory_stats("cpu:0"))
#' @export
device_memory_stats <- function(device = NULL) {
  stats <- call_native(ffi_device_memory_stats, as_pjrt_device(device))
  structure(stats$values, names = stats$names)
}
