#' CUDA requirements
#'
#' Platform `"cuda"` needs a plugin, NVIDIA's driver and NVIDIA's libraries. The package finds the libraries and loads them
#' before the plugin looks for them. No variable need be set, and none is changed.
#'
#' @section Driver:
#' The driver is the one thing that only the machine's administrator can install; the CUDA toolkit is not needed. Plugins
#' for CUDA 13 need driver 580 or newer, those for CUDA 12 need 525 or newer. A newer driver serves older plugins. GPUs
#' older than the Turing generation (compute capability below 7.5) need a plugin for CUDA 12, whatever the driver.
#'
#' A container sees the driver when it is started with the GPUs, as by `--gpus all` and the NVIDIA container toolkit.
#' `CUDA_VISIBLE_DEVICES` chooses which GPUs there are for this session; an empty one hides them all.
#' @section Libraries:
#' They are taken from the first of these places that has them:
#' 1. What is loaded in the session already, by this or another package.
#' 2. Beside the plugin, where Python wheels have them: in `nvidia/*/lib` of the folder that the plugin is installed in, and
#'    where the plugin itself says.
#' 3. The toolkit that `CUDA_HOME` or `CUDA_PATH` names, then the folders of `LD_LIBRARY_PATH`.
#' 4. Toolkits in `/usr/local`, and the system's own folders.
#'
#' Those for several GPUs, for several machines, and for the profiler may be missing; without the others no client is
#' made. They are loaded when the client is created.
#'
#' Compiling needs two files of the toolkit, too: the program `ptxas` and `libdevice.10.bc`. Where the plugin would not find
#' them, and the environment variable `XLA_FLAGS` and the compile options do not name them, the compile option
#' `xla_gpu_cuda_data_dir` names those of the toolkits above.
#' @section Errors:
#' When a client is created; the plugin itself loads without all of this.
#' * `pjrt_error_driver_missing`: there is no driver, or the container does not see it.
#' * `pjrt_error_driver_too_old`: the driver's CUDA is older than the plugin's.
#' * `pjrt_error_library_missing`: libraries are not there or cannot be loaded. The message names them and the ways to get
#'   them.
#' @seealso [install_pjrt()], [pjrt_client()]
#' @name cuda
NULL

# What this machine has for CUDA: a list of
# * `cuda`, `module`: the newest CUDA that the driver's library has, and the version of the kernel's module; NA when not there.
# * `needs`: the CUDA that the plugin needs, NA when its file does not tell.
# * `libraries`: a data frame with a row for each library that the plugin uses: its `name`; its `place` ("loaded", "file"
#   or "missing"); the `path` of the file; what it is needed for (`only_for`, NA when for everything); and the `problem`
#   that a file has.
# Without `plugin`, the path of a plugin's library, of the driver alone. Nothing is loaded but the driver's library.
cuda_report <- function(plugin = "") {
  report <- call_with_text(ffi_cuda_report, enc2utf8(plugin))
  of_driver <- lapply(report[c("cuda", "module", "needs")], function(x) x %||% NA_character_)
  libraries <- as.data.frame(report[c("name", "place", "path", "only_for", "problem")], stringsAsFactors = FALSE)
  c(of_driver, list(libraries = libraries))
}

# Names folders of Python packages in which CUDA's libraries are looked for besides the plugin's own.
cuda_look_in <- function(folders) {
  call_with_text(ffi_cuda_look_in, enc2utf8(folders))
}

# Whether a plugin takes a newer CUDA than the machine's driver has.
needs_newer_driver <- function(plugin) {
  report <- cuda_report(plugin)
  !is.na(report$cuda) && !is.na(report$needs) && numeric_version(report$needs) > numeric_version(report$cuda)
}
