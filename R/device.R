#' List and find devices
#'
#' `devices()` lists the devices of a client or an executable. `as_pjrt_device()` and `pjrt_device()` find a device by
#' name. `device()` returns the device of a buffer or an executable.
#'
#' There is exactly one R object for each device, so you can compare devices with `==` or `identical()` and use them as
#' keys of [utils::hashtab()], if your version of R has it.
#'
#' @param x
#' * `devices()`: a `PJRTClient`, a platform's name, a `PJRTLoadedExecutable`, or `NULL` for the default platform.
#' * `as_pjrt_device()`: a `PJRTDevice`; a `PJRTClient` or a platform's name for its first device; a platform's name
#'   with an index from 0, such as `"cpu:1"`; or `NULL` for the first device of the default platform.
#' * `device()`: a `PJRTBuffer` or `PJRTLoadedExecutable`.
#' @param device A `PJRTDevice` or a name, as for `as_pjrt_device()`.
#' @param addressable A flag: `TRUE` for the devices that this process can use, `FALSE` for the devices of all
#'   processes. They differ only if several processes created the client together: see [pjrt_distributed()].
#' @param ... For methods.
#' @return A `PJRTDevice`; `devices()` returns a list of them. An executable's devices are those it runs on, starting
#'   with all partitions of the first replica, and `device()` returns the first one of this process. A portable
#'   executable can run on all devices of its client, and `device()` is an error.
#' @section Errors:
#' `pjrt_error_invalid_input` if the index is out of range, if `x` does not name a device, and for `device()` of a
#' portable executable.
#' @seealso [device_info()], [memory_spaces()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' devices("cpu")
#' first <- pjrt_device("cpu:0")
#' as.character(first)
#' identical(device(pjrt_scalar(1, device = first)), first)
#' @order 1
#' @name devices
NULL

#' @rdname devices
#' @export
devices <- function(x = NULL, ...) {
  UseMethod("devices")
}

#' @rdname devices
#' @export
devices.default <- function(x = NULL, ..., addressable = TRUE) {
  check_unused(...)
  devices(as_pjrt_client(x), addressable = addressable)
}

#' @rdname devices
#' @export
devices.PJRTClient <- function(x, ..., addressable = TRUE) {
  check_unused(...)
  check_flag(addressable, "addressable")
  if (addressable) .Call(ffi_client_devices, x) else .Call(ffi_client_all_devices, x)
}

#' @rdname devices
#' @export
devices.PJRTLoadedExecutable <- function(x, ..., addressable = TRUE) {
  check_unused(...)
  check_flag(addressable, "addressable")
  call_native(ffi_executable_devices, x, addressable)
}

#' @rdname devices
#' @export
as_pjrt_device <- function(x) {
  if (inherits(x, "PJRTDevice")) {
    call_native(ffi_device_label, x)
    return(x)
  }
  if (is.null(x)) {
    return(.Call(ffi_client_devices, pjrt_client())[[1L]])
  }
  if (inherits(x, "PJRTClient")) {
    return(nth_device(x, 0, platform(x)))
  }
  if (!is.character(x) || length(x) != 1L || is.na(x) || !nzchar(x) || !validUTF8(x)) {
    abort_type("Must be a PJRTDevice, a PJRTClient, a platform name, or NULL, not ", given(x), ".")
  }
  name <- sub(":.*$", "", x)
  index <- if (grepl(":", x, fixed = TRUE)) sub("^[^:]*:", "", x) else "0"
  if (!grepl("^[0-9]{1,9}$", index) || !nzchar(name)) {
    abort_input("'", x, "' is not a device's name: use a platform and an index from 0, such as \"cpu:1\".")
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
      hints = sprintf("It has %s. Indices start at 0; see devices().", counted(length(found), "device"))
    )
  }
  found[[index + 1]]
}

#' @rdname devices
#' @export
device <- function(x, ...) {
  found <- if (...length() == 0L) .Call(ffi_fast_device, x)
  if (is.null(found)) UseMethod("device") else found
}

#' @export
device.PJRTBuffer <- function(x, ...) {
  check_unused(...)
  .Call(ffi_buffer_device, x)
}

#' @export
device.PJRTLoadedExecutable <- function(x, ...) {
  check_unused(...)
  call_native(ffi_executable_device, x)
}

#' Get device information
#'
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @return A list of class `PJRTDeviceInfo`:
#' * `platform`, `id` (unique in all processes), `kind` (the vendor's name), `label` (as the device prints) and `debug`
#'   (the plugin's longer description).
#' * `process_index`: the number, from 0, of the process that the device belongs to; `addressable`: whether this process
#'   can use it.
#' * `local_hardware_id`: the device's number on this machine, from 0; `NA` if the plugin does not provide it.
#' * `default_memory_space`: the memory space that buffers go to, a `PJRTMemory`, or `NULL` if the plugin does not
#'   provide it; `memory_spaces`: all that the device can use.
#' * `memory`: the statistics of the device's memory allocator. GPUs and TPUs have them; for the CPU it is `NULL`. A
#'   named numeric vector with the values that the plugin provides: the number of allocations, `num_allocs`, and in
#'   bytes `bytes_in_use`, `peak_bytes_in_use`, `largest_alloc_size`, `bytes_limit`, `bytes_reserved`,
#'   `peak_bytes_reserved`, `bytes_reservable_limit`, `largest_free_block_bytes`, `pool_bytes` and `peak_pool_bytes`.
#' * `attributes`: a named list of the plugin's further attributes.
#' @section Errors:
#' `pjrt_error_invalid_input` if `device` does not name a device.
#' @seealso [devices()], [memory_spaces()], [pjrt_memory_stats()] for the memory of your buffers on every platform
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' device_info("cpu:0")
#' device_info("cpu:0")$kind
#' @export
device_info <- function(device = NULL) {
  device <- as_pjrt_device(device)
  facts <- call_native(ffi_device_info, device)
  if (facts$local_hardware_id < 0L) {
    facts$local_hardware_id <- NA_integer_
  }
  memory <- list(
    default_memory_space = call_native(ffi_device_default_memory, device), memory_spaces = memory_spaces(device),
    memory = if_supported(device_memory(device), NULL)
  )
  new_info(c(facts[names(facts) != "attributes"], memory, facts["attributes"]), "PJRTDeviceInfo")
}

# The statistics of a device's allocator.
device_memory <- function(device) {
  stats <- call_native(ffi_device_memory_stats, device)
  structure(stats$values, names = stats$names)
}

#' @export
platform.PJRTDevice <- function(x, ...) {
  check_unused(...)
  call_native(ffi_device_platform, x)
}

#' @export
as.character.PJRTDevice <- function(x, ...) {
  check_unused(...)
  call_native(ffi_device_label, x)
}

#' @export
format.PJRTDevice <- function(x, ...) {
  dead_device(x) %||% as.character(x)
}

#' @export
print.PJRTDevice <- function(x, ...) {
  show_lines(dead_device(x) %||% paste0("<", as.character(x), ">"))
  invisible(x)
}

dead_device <- function(x) dead_text(x, "PJRTDevice", as.character(x))

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
  pass_on("device", x, c("PJRTBuffer", "PJRTLoadedExecutable"), ...)
}
