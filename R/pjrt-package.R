#' pjrt: run compiled array programs on CPUs, GPUs and other accelerators
#'
#' Loads PJRT plugins, moves R arrays to their devices, compiles StableHLO programs, runs them asynchronously and brings
#' results back as R arrays. Start with [pjrt_buffer()], [pjrt_program()], [pjrt_compile()] and [pjrt_execute()], or
#' with `vignette("pjrt")`. [safetensors_load()] reads models that were trained elsewhere.
#'
#' What can be set, by options and environment variables, is in [pjrt_options].
#'
#' @section Installation:
#' The package is built from source and needs Rust (`cargo` and `rustc` >= 1.85). In a clone, `R CMD INSTALL .` fetches the
#' crates from the network. To build on a machine without a network, run `sh tools/vendor.sh` and then
#' `R CMD build --no-build-vignettes .` in a clone elsewhere: the source package then carries the crates, and `R CMD INSTALL` of it uses only those.
#' [install_pjrt()] with `source = "file"` installs a plugin from a wheel that you copied to the machine.
#'
#' The build reads these environment variables:
#' * `CARGO_TARGET_DIR`: the folder to build in, which is kept.
#' * `PJRT_KEEP_TARGET`: `true` keeps `src/rust/target`, so that the next build is quick. Builds in a git clone keep it anyway.
#'
#' @section Errors:
#' Every error is a condition of class `pjrt_error`, and of a class for its kind: `pjrt_error_shape_mismatch`,
#' `pjrt_error_dtype_mismatch`, `pjrt_error_device_mismatch`, `pjrt_error_argument_count`, `pjrt_error_deleted_buffer`,
#' `pjrt_error_invalid_input`, `pjrt_error_invalid_pointer`, `pjrt_error_plugin_not_found`, `pjrt_error_plugin_poisoned`,
#' `pjrt_error_forked`, `pjrt_error_client_closed` and
#' more, and for errors of the plugin one for each PJRT error code, such as `pjrt_error_invalid_argument` or
#' `pjrt_error_resource_exhausted`. The fields `code`, `call_name` and `platform` tell the plugin's error code, the PJRT
#' function and the platform, where there are such.
#'
#' @section Poisoned plugins:
#' A plugin that throws a C++ exception may be left with locks that nobody gives back and with threads that wait for ever.
#' The call that threw raises `pjrt_error_internal`, or `pjrt_error_resource_exhausted` when the plugin got no memory. From
#' then on the plugin is not called any more, not even at the end of the session: everything that would need it raises
#' `pjrt_error_plugin_poisoned` at once, and what lies on its devices is lost. R, its own objects and other plugins are not
#' affected. Save your work and restart R.
#'
#' @keywords internal
#' @useDynLib pjrt, .registration = TRUE, .fixes = "ffi_"
"_PACKAGE"
