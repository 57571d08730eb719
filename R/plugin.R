#' Load a PJRT plugin
#'
#' A plugin is the library that drives one kind of device. It is loaded once per session and stays loaded.
#'
#' The library is looked for in this order:
#' 1. The file that the environment variable `PJRT_PLUGIN_PATH_<PLATFORM>` names, e.g. `PJRT_PLUGIN_PATH_CPU`.
#' 2. The one that [pjrt_register_plugin()] named.
#' 3. The package's cache.
#' 4. What is on the machine already, see below.
#' 5. For platforms that [install_pjrt()] knows, a download, as far as `PJRT_INSTALL` allows.
#'
#' @section Plugins on the machine:
#' These places count, the first one first:
#' * The folders that `PJRT_PLUGIN_PATH` lists, separated as in `PATH`: the plugins in them and in the folders in
#'   them. The platform is taken from the name of the file, such as `pjrt_c_api_cpu_plugin.so`, `libpjrt_metal.dylib` or
#'   `pjrt-plugin-<platform>.so`. A folder may also be one that `pip install --target` has put packages into.
#' * The library that `TPU_LIBRARY_PATH` names.
#' * Python's packages: those of the active virtual environment (`VIRTUAL_ENV`), of the interpreter that
#'   `RETICULATE_PYTHON` names, of `RETICULATE_PYTHON_ENV`, of the active conda environment (`CONDA_PREFIX`), of `python3`
#'   on the `PATH`, of the user, and of reticulate's default environments. Plugins are what packages announce as
#'   entry points `jax_plugins` and `xla_plugins`, what lies in the packages of these names, and the libraries of
#'   `libtpu` and `libneuronxla`. Of two packages for a platform the newer counts. No Python is run or needed.
#' * The system's Python packages and libraries, and those of AWS Neuron.
#'
#' A platform of whose name nothing is known is used by the name of its entry point, in lower case: one called `MyAccel`
#' is `pjrt_plugin("myaccel")`. Libraries are looked into, and only the one to be used is loaded. A library is not taken
#' when every user of the machine can write to it or to its folder, or when it belongs to a user who is neither you
#' nor root, unless `PJRT_PLUGIN_PATH` lists its folder. `PJRT_DISCOVER=0` keeps to what `PJRT_PLUGIN_PATH` and
#' `TPU_LIBRARY_PATH` name.
#'
#' @section TPUs:
#' While Google's plugin for TPUs is loaded, it asks the cloud that it expects to run in what machine this is. On a machine
#' without a TPU this package sets the environment variable `TPU_SKIP_MDS_QUERY` to `1`, unless it is set: else that takes
#' minutes, which Ctrl-C cannot end.
#'
#' @param platform The platform's name, e.g. `"cpu"` or `"cuda"`.
#' @param x A platform's name or a `PJRTPlugin`.
#' @return A `PJRTPlugin`; always the same object for a platform.
#' @section Errors:
#' `pjrt_error_plugin_not_found` when no plugin can be found for the platform, `pjrt_error_plugin_invalid` when the file
#' found cannot be used as a plugin: not a shared library, one for another system or processor, incomplete, without a library
#' that it needs, or of another major version of PJRT. The file is checked before any of its code runs. A plugin that fails
#' to set itself up gives its own error.
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
    cuda_look_in(unique(look_for_plugins()$places$path))
  }
  if (platform == "tpu") {
    skip_tpu_metadata()
  }
  set_log_level()
  plugin <- call_with_text(ffi_plugin_load, enc2utf8(path))
  attr(plugin, "platform") <- platform
  plugin
}

# XLA reads what it is to print when its library is loaded: nothing but why it ends the process, unless the user wants more.
set_log_level <- function() {
  given <- Sys.getenv("TF_CPP_MIN_LOG_LEVEL")
  level <- if (is_verbose()) "0" else "3"
  if ((!nzchar(given) || identical(given, the$log_level)) && given != level) {
    the$log_level <- level
    Sys.setenv(TF_CPP_MIN_LOG_LEVEL = level)
  }
}

# Without a TPU, libtpu asks Google's cloud what machine this is while it is loaded, for minutes where nothing answers.
skip_tpu_metadata <- function() {
  devices <- Sys.glob(c("/dev/accel*", "/dev/vfio/[0-9]*"))
  if (length(devices) == 0L && !nzchar(Sys.getenv("TPU_SKIP_MDS_QUERY"))) {
    debug_message("no TPU is here, so TPU_SKIP_MDS_QUERY is set to 1")
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
    abort_input("Invalid plugin: <", paste(class(x), collapse = "/"), ">; give a platform's name or a `PJRTPlugin`.")
  }
}

#' Plugin information
#'
#' @description
#' * `plugin_attributes()` gives what the plugin tells of itself.
#' * `pjrt_api_version()` gives the version of the PJRT C API that the plugin was built with. This package speaks 0.90. Plugins
#'   of other minor versions work, older and newer ones; a call that a plugin lacks is an error when it is made.
#' * `plugin_stablehlo_versions()` gives the versions of StableHLO in which the plugin reads portable programs.
#' * `plugin_extensions()` lists what the plugin offers beside PJRT's calls.
#'
#' @details
#' A portable program names the version of StableHLO that it is written in. One newer than the plugin still compiles as long as
#' it uses nothing new; otherwise [pjrt_compile()] says so.
#'
#' @param plugin A `PJRTPlugin` or a platform's name.
#' @return
#' * `plugin_attributes()`: a named list. XLA's plugins give `xla_version`, `stablehlo_current_version` and
#'   `stablehlo_minimum_version`; other plugins give what they like. Texts are character, floats double, flags logical, and
#'   whole numbers and vectors of them integer, or double, or [bit64::integer64] where they are too
#'   large to be exact otherwise. A value of a type that this package does not know is `NA`.
#' * `pjrt_api_version()`: a list of two integers, `major` and `minor`.
#' * `plugin_stablehlo_versions()`: a list of two [numeric_version()]s, `minimum` and `current`, or `NULL` when the plugin
#'   does not tell.
#' * `plugin_extensions()`: a data frame with a row for each extension: its `name` in the PJRT headers (`NA` for one newer than
#'   this package), the number of its `type`, and the `size` of its struct in bytes, which grows with its version.
#' @section Errors:
#' `pjrt_error_plugin_not_found` and `pjrt_error_plugin_invalid` as for [pjrt_plugin()].
#' @seealso [pjrt_plugin()], [client_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' str(plugin_attributes("cpu"))
#' pjrt_api_version("cpu")
#' plugin_stablehlo_versions("cpu")$current
#' plugin_extensions("cpu")
#' @export
plugin_attributes <- function(plugin) {
  with_bit64(call_native(ffi_plugin_attributes, as_pjrt_plugin(plugin)))
}

#' @rdname plugin_attributes
#' @export
pjrt_api_version <- function(plugin) {
  call_native(ffi_plugin_version, as_pjrt_plugin(plugin))
}

#' @rdname plugin_attributes
#' @export
plugin_stablehlo_versions <- function(plugin) {
  versions <- call_native(ffi_plugin_stablehlo_versions, as_pjrt_plugin(plugin))
  if (!is.null(versions)) lapply(versions, numeric_version)
}

#' @rdname plugin_attributes
#' @export
plugin_extensions <- function(plugin) {
  found <- call_native(ffi_plugin_extensions, as_pjrt_plugin(plugin))
  data.frame(name = found$name, type = found$number, size = found$size)
}

# Attributes, with bit64 loaded where they need it to be shown right.
with_bit64 <- function(attributes) {
  if (any(vapply(attributes, inherits, NA, "integer64"))) {
    load_bit64()
  }
  attributes
}

#' @export
print.PJRTPlugin <- function(x, ...) {
  cat("<PJRTPlugin:", attr(x, "platform"), ">\n", sep = "")
  invisible(x)
}

# The platform to use when the user names none.
default_platform <- function() {
  platform <- Sys.getenv("PJRT_PLATFORM")
  if (nzchar(platform)) platform else "cpu"
}
