#' pjrt: run compiled array programs on CPUs, GPUs and other accelerators
#'
#' The package loads PJRT plugins, moves R arrays to their devices, compiles StableHLO programs, runs them
#' asynchronously and returns results as R arrays. Start with [pjrt_buffer()], [pjrt_program()], [pjrt_compile()] and
#' [pjrt_execute()], or with `vignette("pjrt")`. [pjrt_load_safetensors()] reads models trained elsewhere.
#'
#' [pjrt_options] lists options and environment variables.
#'
#' @section Installation:
#' The package is built from source and needs Rust (`cargo` and `rustc` >= 1.85). In a clone, `R CMD INSTALL .`
#' downloads the crates. To build on a machine without a network, run `sh tools/vendor.sh` and
#' `R CMD build --no-build-vignettes .` in a clone on another machine. The source package then contains the crates, and
#' `R CMD INSTALL` uses only these. `install_pjrt(source = "file")` installs a plugin from a wheel that you copied to
#' the machine.
#'
#' The build reads these environment variables:
#' * `CARGO_TARGET_DIR`: a folder to build in, which is kept.
#' * `PJRT_KEEP_TARGET`: `true` keeps `src/rust/target`, which makes the next build fast. Builds in a git clone always
#'   keep it.
#'
#' @section Errors:
#' Every error is a condition of class `pjrt_error` and of a more specific class:
#'
#' * `pjrt_error_compile`: a mistake in a program; fields `line`, `column`, `source` and `detail`.
#' * `pjrt_error_compiler_crashed`: a program that crashes the compiler, which is in a separate process.
#' * `pjrt_error_custom_call`: a program that calls a function without a handler; field `target`.
#' * `pjrt_error_dynamic_shape`: a program with arguments or results of unknown size.
#' * `pjrt_error_program_version`: a program with an operation that is too new for the plugin.
#' * `pjrt_error_unsupported_program`: a program that would wait for ever, or bytecode that cannot be written as text.
#' * `pjrt_error_argument_count`: a wrong number of inputs.
#' * `pjrt_error_shape_mismatch`, `pjrt_error_dtype_mismatch`: inputs or data of the wrong shape or dtype.
#' * `pjrt_error_device_mismatch`, `pjrt_error_layout_mismatch`: inputs on the wrong device, or with another layout.
#' * `pjrt_error_unsupported_dtype`: data that a dtype cannot hold, or a dtype that a compiler cannot handle.
#' * `pjrt_error_operator`: an operation on buffers that [operators] do not have; a second class says why.
#' * `pjrt_error_deleted_buffer`: a buffer that was deleted or donated.
#' * `pjrt_error_invalid_input`: other invalid arguments and files: parent of the next three.
#' * `pjrt_error_invalid_type`: an argument of the wrong type, class or length, or `NA`.
#' * `pjrt_error_invalid_value`: an argument that is out of range or unknown, or contradicts another.
#' * `pjrt_error_invalid_file`: a file, or bytes, that are damaged or not what they should be: parent of the next ones.
#' * `pjrt_error_safetensors_invalid`, `pjrt_error_npy_invalid`: damaged safetensors files and files of NumPy.
#' * `pjrt_error_serialized_invalid`: a damaged serialized object.
#' * `pjrt_error_plugin_invalid`: a file that is not a plugin, or not for this machine.
#' * `pjrt_error_invalid_pointer`: an object of this package that is of another session, without its content, or of
#'   another class.
#' * `pjrt_error_io`, `pjrt_error_file_changed`: files that cannot be read, or changed while in use.
#' * `pjrt_error_serialized_mismatch`: an executable that was serialized for another plugin, processor or device.
#' * `pjrt_error_plugin_not_found`: a missing plugin.
#' * `pjrt_error_driver_missing`, `pjrt_error_driver_too_old`, `pjrt_error_library_missing`: missing drivers, libraries.
#'   A plugin that throws a C++ exception when its client is created lacks its hardware: `pjrt_error_driver_missing`.
#' * `pjrt_error_download`, `pjrt_error_checksum`: failed installations of plugins.
#' * `pjrt_error_plugin_poisoned`: use of a plugin that threw a C++ exception.
#' * `pjrt_error_client_closed`, `pjrt_error_forked`: use of a closed client, or in a forked process.
#' * `pjrt_error_unsupported_call`: a call that the plugin does not have.
#' * `pjrt_error_internal`: a fault in the package or in a plugin.
#'
#' The plugin's errors have a class for each PJRT error code, such as `pjrt_error_invalid_argument` or
#' `pjrt_error_resource_exhausted`; more specific classes come before it. The fields `code`, `call_name` and `platform`
#' contain the plugin's error code, the PJRT function and the platform, or `NULL`.
#'
#' @section Poisoned plugins:
#' A plugin that throws a C++ exception may keep locks that are never released and threads that wait for ever. The call
#' that threw raises `pjrt_error_internal`, or `pjrt_error_resource_exhausted` if the plugin ran out of memory. After
#' that, the package does not call the plugin any more, not even at the end of the session. Every use of it raises
#' `pjrt_error_plugin_poisoned` at once, and data on its devices are lost. R, its objects and other plugins are not
#' affected. Save your work and restart R.
#'
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # compile a program once, and run it on the device
#' x <- pjrt_buffer(matrix(c(2, 0, 1, 3), 2), "f64")
#' program <- pjrt_program("
#' func.func @main(%x: tensor<{X}>) -> tensor<{X}> {
#'   %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
#'     : (tensor<{X}>, tensor<{X}>) -> tensor<{X}>
#'   return %y : tensor<{X}>
#' }", types = list(X = x))
#' square <- pjrt_compile(program)
#' as_array(pjrt_execute(square, x))
#' @keywords internal
#' @useDynLib pjrt, .registration = TRUE, .fixes = "ffi_"
"_PACKAGE"
