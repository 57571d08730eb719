#' pjrt: run compiled array programs on CPUs, GPUs and other accelerators
#'
#' The package loads PJRT plugins, moves R arrays to their devices, compiles StableHLO programs, runs them asynchronously and
#' returns results as R arrays. Start with [pjrt_buffer()], [pjrt_program()], [pjrt_compile()] and [pjrt_execute()], or
#' with `vignette("pjrt")`. [safetensors_load()] reads models trained elsewhere.
#'
#' [pjrt_options] lists options and environment variables.
#'
#' @section Installation:
#' The package is built from source and needs Rust (`cargo` and `rustc` >= 1.85). In a clone, `R CMD INSTALL .` downloads the
#' crates. To build on a machine without a network, run `sh tools/vendor.sh` and `R CMD build --no-build-vignettes .` in a
#' clone on another machine. The source package then contains the crates, and `R CMD INSTALL` uses only these.
#' `install_pjrt(source = "file")` installs a plugin from a wheel that you copied to the machine.
#'
#' The build reads these environment variables:
#' * `CARGO_TARGET_DIR`: a folder to build in, which is kept.
#' * `PJRT_KEEP_TARGET`: `true` keeps `src/rust/target`, which makes the next build fast. Builds in a git clone always keep
#'   it.
#'
#' @section Errors:
#' Every error is a condition of class `pjrt_error` and of a more specific class, such as `pjrt_error_shape_mismatch`,
#' `pjrt_error_dtype_mismatch`, `pjrt_error_device_mismatch`, `pjrt_error_argument_count`, `pjrt_error_deleted_buffer`,
#' `pjrt_error_invalid_input`, `pjrt_error_invalid_pointer`, `pjrt_error_plugin_not_found`, `pjrt_error_plugin_poisoned`,
#' `pjrt_error_forked` and `pjrt_error_client_closed`. The plugin's errors have a class for each PJRT error code, such as
#' `pjrt_error_invalid_argument` or `pjrt_error_resource_exhausted`. The fields `code`, `call_name` and `platform` contain the
#' plugin's error code, the PJRT function and the platform, or `NULL`.
#'
#' @section Poisoned plugins:
#' A plugin that throws a C++ exception may keep locks that are never released and threads that wait for ever. The call that
#' threw raises `pjrt_error_internal`, or `pjrt_error_resource_exhausted` if the plugin ran out of memory. After that, the
#' package does not call the plugin any more, not even at the end of the session. Everything that needs it raises
#' `pjrt_error_plugin_poisoned` at once, and data on its devices are lost. R, its objects and other plugins are not affected.
#' Save your work and restart R.
#'
#' @keywords internal
#' @useDynLib pjrt, .registration = TRUE, .fixes = "ffi_"
"_PACKAGE"
