# Shims that only other packages' code needs. Each section names that code.

connect_packages <- function() {
  add_expected_state()
  register_comparison()
  when_loaded("safetensors", add_framework)
  watch_tengen()
  connect_neighbours()
}

# Afterwards, no other package calls a function of the unloaded namespace.
disconnect_packages <- function() {
  unregister_framework()
  unwatch_tengen()
  disconnect_neighbours()
}

# Calls a function with the package's name when a package is loaded, and now if it is.
when_loaded <- function(package, f) {
  setHook(packageEvent(package, "onLoad"), f)
  if (isNamespaceLoaded(package)) {
    f(package)
  }
}

# Undoes setHook().
remove_hook <- function(event, hook) {
  setHook(event, Filter(function(known) !identical(known, hook), getHook(event)), "replace")
}

# Dependents, such as stablehlo and anvl, and their tests: they use these internal names of earlier versions. They also
# use plugin_path(), session_dump_dir() and the fields of `the`, which this package needs itself.

new_compile_options <- function(build_options = NULL) {
  pjrt_compile_options(build_options$num_replicas, build_options$num_partitions)
}

# `device_ordinal` is accepted for compatibility and has no effect: pjrt_compile() gets the device.
new_build_options <- function(num_replicas = 1L, num_partitions = 1L, device_ordinal = -1) {
  for (x in list(num_replicas, num_partitions, device_ordinal)) {
    if (!is_whole_number(x) || abs(x) > .Machine$integer.max) {
      abort_input("Build options must be whole numbers.")
    }
  }
  structure(
    list(
      num_replicas = as.integer(num_replicas), num_partitions = as.integer(num_partitions),
      device_ordinal = as.integer(device_ordinal)
    ),
    class = "PJRTBuildOptions"
  )
}

# The R package with CUDA's libraries that earlier versions used.
cuda_r_package <- "cuda12.8"

pjrt_memory <- function(buffer) {
  memory_space(buffer)
}

pjrt_api_version <- function(plugin) {
  call_native(ffi_plugin_version, as_pjrt_plugin(plugin))
}

#' @rdname plugin_info
#' @export
plugin_attributes <- function(plugin) {
  with_bit64(call_native(ffi_plugin_attributes, as_pjrt_plugin(plugin)))
}

#' @rdname devices
#' @export
pjrt_device <- function(device) {
  if (!inherits(device, "PJRTDevice") && !is.character(device)) {
    abort_type("Must be a PJRTDevice or a platform name, not ", given(device), ".")
  }
  as_pjrt_device(device)
}

# Fields of `the` that this package fills but does not need.
add_expected_state <- function() {
  the$platforms <- new.env(parent = emptyenv())
  the$canonical_devices <- new.env(parent = emptyenv())
  the$custom_calls <- list()
  the$default_execution_options <- NULL
}

# Records a client's devices under their names.
name_devices <- function(platform) {
  for (device in the$devices[[platform]]) {
    label <- as.character(device)
    owner <- the$platforms[[label]] %||% platform
    # a second client of a plugin has devices of the same names: the first client's win
    if (owner == platform || is.null(the$clients[[owner]])) {
      the$canonical_devices[[label]] <- device
      the$platforms[[label]] <- platform
    }
  }
}

# Removes the names of the devices of closed clients.
unname_devices <- function(closed) {
  labels <- names(the$platforms)
  labels <- labels[vapply(labels, function(label) the$platforms[[label]] %in% closed, NA)]
  rm(list = labels, envir = the$platforms)
  rm(list = labels, envir = the$canonical_devices)
  # another client's devices may take over these names
  for (platform in names(the$clients)) {
    name_devices(platform)
  }
}

# tengen: it has generics with the same names as ours. When it is loaded, our methods are registered for these as well.

#' @rawNamespace
#' S3method(tengen::as_array, PJRTArrayPromise)
#' S3method(tengen::as_array, PJRTBuffer)
#' S3method(tengen::as_raw, PJRTBuffer)
#' S3method(tengen::device, PJRTBuffer)
#' S3method(tengen::device, PJRTLoadedExecutable)
#' S3method(tengen::dtype, PJRTBuffer)
#' S3method(tengen::shape, PJRTBuffer)
NULL

# tengen's class "DataType" and our stand-in for it both have methods for comparisons. R 4.3 and later ask which to use;
# earlier versions use neither and warn.
choose_comparison <- function(x, y, ...) inherits(y, "DataType")

register_comparison <- function() {
  if (exists("chooseOpsMethod", baseenv())) {
    registerS3method("chooseOpsMethod", "PJRTDataType", choose_comparison)
  }
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

# safetensors: it looks up frameworks in an environment of its namespace and calls their constructors.

unregister_framework <- function() {
  remove_hook(packageEvent("safetensors", "onLoad"), add_framework)
  if (isNamespaceLoaded("safetensors")) {
    frameworks <- safetensors_frameworks()
    if (identical(frameworks[["pjrt"]]$constructor, pjrt_tensor_from_raw)) {
      rm("pjrt", envir = frameworks)
    }
  }
}

add_framework <- function(...) {
  frameworks <- safetensors_frameworks()
  if (is.environment(frameworks)) {
    frameworks[["pjrt"]] <- list(constructor = pjrt_tensor_from_raw, packages = "pjrt")
  }
}

# The environment in which safetensors looks up frameworks; NULL if its version has none.
safetensors_frameworks <- function() {
  get0("safetensors_frameworks", asNamespace("safetensors"), mode = "environment", inherits = FALSE)
}

# bit64: R prints integer64 vectors as doubles until bit64 is loaded.

# The native side calls this before it makes the first integer64 vector.
load_bit64 <- function(...) {
  bit64::is.integer64
}

# Attributes, after loading bit64 if it is needed to print them.
with_bit64 <- function(attributes) {
  if (any(vapply(attributes, inherits, NA, "integer64"))) {
    load_bit64()
  }
  attributes
}
