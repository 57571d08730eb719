#' Load a PJRT plugin
#'
#' A plugin is the library that drives one kind of device. `pjrt_plugin()` loads it once per session; it stays loaded.
#'
#' The library is the first of:
#' 1. the file in the environment variable `PJRT_PLUGIN_PATH_<PLATFORM>`, such as `PJRT_PLUGIN_PATH_CPU`.
#' 2. the file passed to [pjrt_register_plugin()].
#' 3. a plugin in the package's cache.
#' 4. a plugin in the site's folder, `PJRT_SITE_DIR`: see [install_pjrt()].
#' 5. a plugin elsewhere on the machine, see below.
#' 6. a download, for platforms that [install_pjrt()] knows, if `PJRT_INSTALL` allows it.
#'
#' @section Plugins on the machine:
#' These places are searched, in this order:
#' * The folders in `PJRT_PLUGIN_PATH`, separated as in `PATH`, and their subfolders. The file's name determines the
#'   platform: `pjrt_c_api_cpu_plugin.so`, `libpjrt_metal.dylib` or `pjrt-plugin-<platform>.so`. You can also list a
#'   folder into which `pip install --target` has installed packages.
#' * The library in `TPU_LIBRARY_PATH`.
#' * Python packages: of the active virtual environment (`VIRTUAL_ENV`), of the interpreter `RETICULATE_PYTHON`, of
#'   `RETICULATE_PYTHON_ENV`, of the active conda environment (`CONDA_PREFIX`), of `python3` on the `PATH`, of the user,
#'   and of reticulate's default environments. Plugins are entry points `jax_plugins` and `xla_plugins`, files in
#'   packages of these names, and the libraries of `libtpu` and `libneuronxla`. If two packages have a plugin for a
#'   platform, the newer one is used. Python is not run or needed.
#' * The system's Python packages and libraries, and AWS Neuron's.
#'
#' If the package does not know a platform, its name is that of the entry point in lower case: the entry point `MyAccel`
#' is `pjrt_plugin("myaccel")`. All libraries are inspected, but only the selected one is loaded. A library is not used
#' if every user of the machine can write to it or its folder, or if it belongs to a user other than you or root, unless
#' `PJRT_PLUGIN_PATH` lists its folder. `PJRT_DISCOVER=0` limits the search to `PJRT_PLUGIN_PATH` and
#' `TPU_LIBRARY_PATH`.
#'
#' @section TPUs:
#' While Google's plugin for TPUs is loaded, it queries Google's cloud about the machine. Elsewhere this takes minutes,
#' and Ctrl-C cannot stop it. On a machine without a TPU, this package therefore sets the environment variable
#' `TPU_SKIP_MDS_QUERY` to `1`, unless it is already set.
#'
#' @param platform A string: the platform's name, such as `"cpu"` or `"cuda"`.
#' @param x A platform's name or a `PJRTPlugin`.
#' @return A `PJRTPlugin`. Every call for a platform returns the same object.
#' @section Errors:
#' * `pjrt_error_plugin_not_found`: there is no plugin for the platform.
#' * `pjrt_error_plugin_invalid`: the file cannot be used as a plugin. It is not a shared library, is for another system
#'   or processor, is incomplete, lacks a library that it needs, or has another major version of PJRT. The file is
#'   checked before any of its code runs.
#' * The plugin's own errors, if it fails to initialize.
#' @seealso [pjrt_register_plugin()], [pjrt_plugins()], [plugin_attributes()], [pjrt_client()], [install_pjrt()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' plugin <- pjrt_plugin("cpu")
#' plugin
#' plugin_attributes(plugin)$stablehlo_current_version
#' @export
pjrt_plugin <- function(platform) {
  check_platform(platform)
  known <- the$plugins[[platform]]
  if (!is.null(known)) {
    return(known)
  }
  plugin <- load_plugin(plugin_path(platform), platform)
  the$plugins[[platform]] <- plugin
  plugin
}

load_plugin <- function(path, platform) {
  debug_message("loading the plugin for ", platform, " from ", path)
  if (platform %in% c("cuda", "gpu")) {
    cuda_add_folders(unique(look_for_plugins()$places$path))
  }
  if (platform == "tpu") {
    skip_tpu_metadata()
  }
  set_log_level()
  plugin <- call_with_text(ffi_plugin_load, full_path(path))
  attr(plugin, "platform") <- platform
  warn_about_custom_calls()
  plugin
}

# XLA reads its log level when its library is loaded. By default, it prints only fatal errors.
set_log_level <- function() {
  given <- Sys.getenv("TF_CPP_MIN_LOG_LEVEL")
  level <- if (is_verbose()) "0" else "3"
  if ((!nzchar(given) || identical(given, the$log_level)) && given != level) {
    the$log_level <- level
    Sys.setenv(TF_CPP_MIN_LOG_LEVEL = level)
  }
}

# While libtpu is loaded, it queries Google's cloud about the machine. Without a TPU, this takes minutes to fail.
skip_tpu_metadata <- function() {
  devices <- Sys.glob(c("/dev/accel*", "/dev/vfio/[0-9]*"))
  if (length(devices) == 0L && !nzchar(Sys.getenv("TPU_SKIP_MDS_QUERY"))) {
    debug_message("this machine has no TPU: setting TPU_SKIP_MDS_QUERY to 1")
    Sys.setenv(TPU_SKIP_MDS_QUERY = "1")
  }
}

#' @rdname pjrt_plugin
#' @export
as_pjrt_plugin <- function(x) {
  if (inherits(x, "PJRTPlugin")) {
    call_native(ffi_plugin_file, x)
    x
  } else if (is.character(x)) {
    pjrt_plugin(x)
  } else {
    abort_type("Invalid plugin: <", paste(class(x), collapse = "/"), ">; use a platform's name or a `PJRTPlugin`.")
  }
}

#' Get plugin information
#'
#' `plugin_info()` describes a plugin: its versions, extensions and attributes.
#'
#' A portable program declares its version of StableHLO. If the plugin cannot read this version, [pjrt_compile()]
#' rewrites the program with older operations. If an operation has no older form, the error names it.
#'
#' @param plugin A `PJRTPlugin` or a platform's name.
#' @return `plugin_info()`: a list of class `PJRTPluginInfo`:
#' * `platform`, and `path`: the plugin's library.
#' * `api_version`: the version of the PJRT C API that the plugin implements, a list of two integers, `major` and
#'   `minor`. This package uses 0.90. Plugins of other minor versions work; calling a function that a plugin lacks is an
#'   error.
#' * `stablehlo_versions`: the versions of StableHLO in which the plugin reads portable programs, a list of two
#'   [numeric_version()]s, `minimum` and `current`, or `NULL` if the plugin does not provide them.
#' * `extensions`: the plugin's extensions to the PJRT C API, a data frame with a row for each: its `name` in the PJRT
#'   headers (`NA` if it is newer than this package), the number of its `type`, and the `size` of its struct in bytes,
#'   which grows with its version.
#' * `attributes`: a named list. XLA's plugins have `xla_version`, `stablehlo_current_version` and
#'   `stablehlo_minimum_version`; other plugins may have other attributes. Strings are character, floats double and
#'   flags logical. Whole numbers and vectors of them are integer or, if they are too large, double or
#'   [bit64::integer64]. A value of an unknown type is `NA`.
#'
#' `plugin_attributes()`: the attributes alone.
#' @section Errors:
#' `pjrt_error_plugin_not_found` and `pjrt_error_plugin_invalid`, as from [pjrt_plugin()].
#' @seealso [pjrt_plugin()], [client_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' info <- plugin_info("cpu")
#' info$stablehlo_versions$current
#' head(info$extensions)
#' str(info$attributes)
#' @order 1
#' @export
plugin_info <- function(plugin) {
  plugin <- as_pjrt_plugin(plugin)
  versions <- call_native(ffi_plugin_stablehlo_versions, plugin)
  extensions <- call_native(ffi_plugin_extensions, plugin)
  facts <- list(
    platform = attr(plugin, "platform"), path = call_native(ffi_plugin_file, plugin),
    api_version = pjrt_api_version(plugin),
    stablehlo_versions = if (!is.null(versions)) lapply(versions, numeric_version),
    extensions = data.frame(name = extensions$name, type = extensions$number, size = extensions$size),
    attributes = plugin_attributes(plugin)
  )
  new_info(facts, "PJRTPluginInfo")
}

#' @export
format.PJRTPlugin <- function(x, ...) {
  dead_text(x, "PJRTPlugin") %||% paste0("<PJRTPlugin:", attr(x, "platform"), ">")
}

#' @export
print.PJRTPlugin <- function(x, ...) {
  print_lines(x)
}

# The platform to use if the user does not specify one.
default_platform <- function() .Call(ffi_default_platform)
