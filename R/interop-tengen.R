# Package tengen has generics with the same names as ours. When it is loaded, our methods are registered for these as well.

#' @rawNamespace
#' S3method(tengen::as_array, PJRTArrayPromise)
#' S3method(tengen::as_array, PJRTBuffer)
#' S3method(tengen::as_raw, PJRTBuffer)
#' S3method(tengen::device, PJRTBuffer)
#' S3method(tengen::device, PJRTLoadedExecutable)
#' S3method(tengen::dtype, PJRTBuffer)
#' S3method(tengen::shape, PJRTBuffer)
NULL

# The data type of an element type. The native side keeps it for dtype().
data_type <- function(type) {
  name <- data_type_name(type)
  # tengen lacks floats of at most eight bits and integers of less than eight
  made <- if (!grepl("^(f[48]e|u?i[24]$)", name) && has_tengen()) {
    tengen::as_dtype(name)
  } else {
    structure(name, class = c("PJRTDataType", "DataType"))
  }
  .Call(ffi_data_type_keep, type, made)
}

# Looks for tengen once per session: R takes hundreds of microseconds to find that a package is not installed.
has_tengen <- function() {
  if (is.null(the$tengen)) {
    the$tengen <- requireNamespace("tengen", quietly = TRUE)
  }
  the$tengen
}

# Looks again when tengen is loaded or unloaded.
watch_tengen <- function() {
  reset_tengen()
  setHook(packageEvent("tengen", "onLoad"), reset_tengen)
  setHook(packageEvent("tengen", "onUnload"), reset_tengen)
}

unwatch_tengen <- function() {
  reset_tengen()
  remove_hook(packageEvent("tengen", "onLoad"), reset_tengen)
  remove_hook(packageEvent("tengen", "onUnload"), reset_tengen)
}

reset_tengen <- function(...) {
  the$tengen <- NULL
  .Call(ffi_data_types_forget)
}
