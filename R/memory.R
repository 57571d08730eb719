# The memory space that a buffer lies in: an object of class `PJRTMemory` with `id`, `kind` and `label`, or NULL when
# the plugin does not say.
pjrt_memory <- function(buffer) {
  space <- call_native(ffi_buffer_memory, buffer)
  if (!is.null(space)) {
    structure(space, class = "PJRTMemory")
  }
}

#' @export
print.PJRTMemory <- function(x, ...) {
  cat("<PJRTMemory:", x$kind, ">\n", sep = "")
  invisible(x)
}
