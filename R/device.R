#' Devices
#'
#' `devices()` lists the devices of a client or an executable, `as_pjrt_device()` and `pjrt_device()` find one by name, and `device()`
#' tells where a buffer lies or for which device a program was compiled.
#'
#' There is exactly one R object for each device, so `identical()` tells devices apart, and a device can be a key of
#' [utils::hashtab()] where R has that. `==` compares devices as well.
#'
#' @param x
#' * `devices()`: a `PJRTClient`, a platform's name, an executable, or `NULL` for the default platform.
#' * `as_pjrt_device()`: a `PJRTDevice`, a `PJRTClient` or a platform's name for its first device, a platform's name
#'   with an index from 0 such as `"cpu:1"`, or `NULL` for the first device of the default platform.
#' * `device()`: a `PJRTBuffer` or `PJRTLoadedExecutable`.
#' @param device A `PJRTDevice` or a name, as for `as_pjrt_device()`.
#' @param ... For methods.
#' @return A `PJRTDevice`; `devices()` a list of those that this process can use. An executable's are those it runs on, all
#'   partitions of the first replica first, and `device()` gives the first; a portable one can run on all of its client's,
#'   and has no `device()`.
#' @section Errors:
#' `pjrt_error_invalid_input` for an index beyond the number of devices, or anything that names no device.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' devices("cpu")
#' first <- pjrt_device("cpu:0")
#' as.character(first)
#' identical(device(pjrt_scalar(1, device = first)), first)
#' @name devices
NULL

#' @rdname devices
#' @export
devices <- function(x = NULL, ...) {
  UseMethod("devices")
}

#' @export
devices.default <- function(x = NULL, ...) {
  .Call(ffi_client_devices, as_pjrt_client(x))
}

#' @export
devices.PJRTClient <- function(x, ...) {
  .Call(ffi_client_devices, x)
}

#' @export
devices.PJRTLoadedExecutable <- function(x, ...) {
  call_native(ffi_executable_devices, x)
}

#' @rdname devices
#' @export
pjrt_device <- function(device) {
  if (!inherits(device, "PJRTDevice") && !is.character(device)) {
    abort_input("Must be a PJRTDevice or a platform name.")
  }
  as_pjrt_device(device)
}

#' @rdname devices
#' @export
as_pjrt_device <- function(x) {
  if (inherits(x, "PJRTDevice")) {
    return(x)
  }
  if (is.null(x)) {
    known <- the$clients[[default_platform()]] %||% pjrt_client()
    return(.Call(ffi_client_devices, known)[[1L]])
  }
  if (inherits(x, "PJRTClient")) {
    return(nth_device(x, 0, platform(x)))
  }
  if (!is.character(x) || length(x) != 1L || is.na(x) || !nzchar(x)) {
    abort_input("Must be a PJRTDevice, a PJRTClient, a platform name, or NULL.")
  }
  name <- sub(":.*$", "", x)
  index <- if (grepl(":", x, fixed = TRUE)) sub("^[^:]*:", "", x) else "0"
  if (!grepl("^[0-9]{1,9}$", index) || !nzchar(name)) {
    abort_input("'", x, "' names no device: after the platform and a colon comes an index from 0, as in \"cpu:1\".")
  }
  nth_device(pjrt_client(name), as.numeric(index), name)
}

nth_device <- function(client, index, platform) {
  found <- .Call(ffi_client_devices, client)
  if (length(found) == 0L) {
    abort_input("No devices available for platform ", platform, ".")
  }
  if (index >= length(found)) {
    abort_input(
      "Device index ", index, " out of range for platform ", platform, ".",
      hints = sprintf("It has %d device(s), counted from 0; see devices().", length(found))
    )
  }
  found[[index + 1]]
}

#' @rdname devices
#' @export
device <- function(x, ...) {
  UseMethod("device")
}

#' @export
device.PJRTBuffer <- function(x, ...) {
  .Call(ffi_buffer_device, x)
}

#' @export
device.PJRTLoadedExecutable <- function(x, ...) {
  call_native(ffi_executable_device, x)
}

#' @export
platform.PJRTDevice <- function(x, ...) {
  call_native(ffi_device_platform, x)
}

#' @export
as.character.PJRTDevice <- function(x, ...) {
  call_native(ffi_device_label, x)
}

#' @export
format.PJRTDevice <- function(x, ...) {
  as.character(x)
}

#' @export
print.PJRTDevice <- function(x, ...) {
  cat("<", as.character(x), ">\n", sep = "")
  invisible(x)
}

#' @export
`==.PJRTDevice` <- function(e1, e2) {
  both <- inherits(e1, "PJRTDevice") && inherits(e2, "PJRTDevice")
  identical(e1, e2) || (both && as.character(e1) == as.character(e2) && platform(e1) == platform(e2))
}

#' @export
`!=.PJRTDevice` <- function(e1, e2) {
  !(e1 == e2)
}

#' @export
device.default <- function(x, ...) {
  abort_class(x, c("PJRTBuffer", "PJRTLoadedExecutable"))
}
