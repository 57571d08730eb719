#' CUDA requirements
#'
#' Platform `"cuda"` needs a plugin, NVIDIA's driver and NVIDIA's libraries. The package finds and loads the libraries;
#' you do not need to set any environment variables.
#'
#' @section Driver:
#' The machine's administrator must install the driver. The CUDA toolkit is not needed. Plugins for CUDA 13 need driver
#' 580 or newer, those for CUDA 12 need 525 or newer. A newer driver works with older plugins. GPUs older than the
#' Turing generation (compute capability below 7.5) need a plugin for CUDA 12, whatever the driver.
#'
#' A container sees the driver if it is started with the GPUs, for example with `--gpus all` and the NVIDIA container
#' toolkit. `CUDA_VISIBLE_DEVICES` selects the GPUs for this session; an empty value hides them all.
#' @section Libraries:
#' Each library is taken from the first of these places that has it:
#' 1. Libraries that are already loaded in the session, by this or another package.
#' 2. Folders beside the plugin, where Python wheels put them: `nvidia/*/lib` in the folder where the plugin is
#'    installed, and the plugin's own search path.
#' 3. The toolkit in `CUDA_HOME` or `CUDA_PATH`, then the folders in `LD_LIBRARY_PATH`.
#' 4. Toolkits in `/usr/local`, and the system's library folders.
#'
#' The libraries are loaded when the client is created. Those for several GPUs, several machines and the profiler are
#' optional. If any other library is missing, creating the client fails.
#'
#' The compiler also needs two files of the toolkit: the program `ptxas` and `libdevice.10.bc`. If the plugin would not
#' find them, and neither the environment variable `XLA_FLAGS` nor the compile options specify them, the package sets
#' the compile option `xla_gpu_cuda_data_dir` to one of the toolkits above.
#' @section Errors:
#' Creating a client can raise these errors. Loading the plugin does not.
#' * `pjrt_error_driver_missing`: there is no driver, or the container does not see it.
#' * `pjrt_error_driver_too_old`: the driver's CUDA version is older than the plugin's.
#' * `pjrt_error_library_missing`: libraries are missing or cannot be loaded. The message names them and says how to get
#'   them.
#' @seealso [install_pjrt()], [pjrt_client()]
#' @examples
#' # this machine's driver and libraries
#' str(pjrt_sitrep()$cuda)
#' @name cuda
NULL

# This machine's CUDA: a list of
# * `cuda`, `module`: the newest CUDA that the driver supports, and the version of the kernel module; NA if missing.
# * `needs`: the CUDA that the plugin needs; NA if its file does not say.
# * `libraries`: a data frame with a row for each library that the plugin uses: its `name`; its `place` ("loaded",
#   "file" or "missing"); the `path` of the file; the feature that needs it (`only_for`, NA for all); and a `problem`
#   with the file.
# `plugin` is the path of a plugin's library; without it, only the driver is described. Loads nothing but the driver.
cuda_report <- function(plugin = "") {
  report <- call_with_text(ffi_cuda_report, enc2utf8(plugin))
  of_driver <- lapply(report[c("cuda", "module", "needs")], function(x) x %||% NA_character_)
  libraries <- as.data.frame(report[c("name", "place", "path", "only_for", "problem")], stringsAsFactors = FALSE)
  c(of_driver, list(libraries = libraries))
}

# Adds folders of Python packages to those in which CUDA's libraries are looked for.
cuda_add_folders <- function(folders) {
  call_with_text(ffi_cuda_look_in, enc2utf8(folders))
}

# Whether a plugin needs a newer CUDA than the driver supports.
needs_newer_driver <- function(plugin) {
  report <- cuda_report(plugin)
  !is.na(report$cuda) && !is.na(report$needs) && numeric_version(report$needs) > numeric_version(report$cuda)
}
