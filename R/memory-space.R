#' Get memory spaces
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
#' @param object A `PJRTMemory`.
#' @param ... Not used.
#' @return
#' * `memory_spaces()`: a list of `PJRTMemory`, empty if the plugin has no memory spaces.
#' * `memory_space()`: a `PJRTMemory`, the memory space of a buffer, or `NULL` if the plugin does not provide it.
#' * `summary()`: a list of class `PJRTMemorySpaceInfo` with `id`, `kind`, `label` and `debug` (the plugin's
#'   short and long description) and `devices`, the devices of this process that can use it.
#' @section Errors:
#' `pjrt_error_invalid_input` if an argument is not a device, `pjrt_error_invalid_pointer` if it is not a buffer or
#' memory space, `pjrt_error_deleted_buffer` if a buffer was donated or deleted.
#' @seealso [copy_buffer()], [device_info()], which has the memory space that new buffers go to
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' memory_spaces("cpu:0")
#' x <- pjrt_buffer(1:3)
#' identical(memory_space(x), device_info(device(x))$default_memory_space)
#' host <- copy_buffer(x, memory_spaces("cpu:0")[[2]])
#' memory_space(host)
#' summary(memory_space(host))
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
memory_space <- function(x) {
  call_native(ffi_buffer_memory, x)
}

#' @rdname memory_spaces
#' @export
summary.PJRTMemory <- function(object, ...) {
  check_unused(...)
  new_info(call_native(ffi_memory_info, object), "PJRTMemorySpaceInfo")
}

#' @export
as.character.PJRTMemory <- function(x, ...) {
  check_unused(...)
  call_native(ffi_memory_info, x)$kind
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
