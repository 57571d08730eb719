#' Handle errors
#'
#' Every error of this package is a condition of class `pjrt_error` and of a more specific class, so that handlers can
#' distinguish errors. Messages say what is wrong and what to do.
#'
#' @section Programs:
#' * `pjrt_error_compile`: the program has a mistake; fields `line`, `column`, `source` and `detail`.
#' * `pjrt_error_compiler_crashed`: the program crashed the compiler, which runs in a separate process.
#' * `pjrt_error_custom_call`: the program calls a function that has no handler; field `target`.
#' * `pjrt_error_dynamic_shape`: arguments or results of the program have an unknown size.
#' * `pjrt_error_program_version`: the program has an operation that is too new for the plugin.
#' * `pjrt_error_unsupported_program`: the program would wait for ever, or is bytecode that cannot be written as text.
#' * `pjrt_error_r_call`: an R function that the program calls failed; field `parent`.
#' @section Inputs:
#' * `pjrt_error_argument_count`: the number of inputs is wrong.
#' * `pjrt_error_shape_mismatch`, `pjrt_error_dtype_mismatch`: an input, or data, have the wrong shape or dtype.
#' * `pjrt_error_device_mismatch`, `pjrt_error_layout_mismatch`: an input is on the wrong device, or has another layout.
#' * `pjrt_error_unsupported_dtype`: a dtype cannot hold the data, or a compiler cannot handle the dtype.
#' * `pjrt_error_operator`: an operation on buffers that [operators] do not support; a second class says why.
#' * `pjrt_error_invalid_input`: any other invalid argument or file. It is the parent of three classes:
#'   - `pjrt_error_invalid_type`: an argument has the wrong type, class or length, or is `NA`.
#'   - `pjrt_error_invalid_value`: an argument is out of range or unknown, or contradicts another.
#'   - `pjrt_error_invalid_file`: a file, or bytes, are damaged or have another format. It is the parent of
#'     `pjrt_error_safetensors_invalid`, `pjrt_error_npy_invalid`, `pjrt_error_serialized_invalid` and
#'     `pjrt_error_plugin_invalid`.
#' * `pjrt_error_leaf_failed`: the function that [map_tree()] applies failed; field `parent`.
#' * `pjrt_error_trace`: a trace is being recorded already, or none is.
#' @section Objects that cannot be used:
#' * `pjrt_error_deleted_buffer`: the buffer was deleted or donated.
#' * `pjrt_error_client_closed`: the client was closed.
#' * `pjrt_error_forked`: the object belongs to the parent of this forked process.
#' * `pjrt_error_invalid_pointer`: the object comes from another session without its content, or has another class.
#' @section Files:
#' * `pjrt_error_io`: a file cannot be read or written.
#' * `pjrt_error_file_changed`: a file changed while it was in use.
#' * `pjrt_error_serialized_mismatch`: an executable was serialized for another plugin, processor or device.
#' @section Plugins:
#' * `pjrt_error_plugin_not_found`: there is no plugin for the platform.
#' * `pjrt_error_driver_missing`, `pjrt_error_driver_too_old`, `pjrt_error_library_missing`: the plugin needs a driver,
#'   a newer driver, or a library. The first is also raised if the plugin throws a C++ exception while its client is
#'   created, because its hardware is missing.
#' * `pjrt_error_download`, `pjrt_error_checksum`: a plugin could not be downloaded, or has the wrong checksum.
#' * `pjrt_error_unsupported_call`: the plugin lacks a function.
#' * `pjrt_error_plugin_poisoned`: the plugin threw a C++ exception earlier; see below.
#' * `pjrt_error_internal`: a fault in the package or in a plugin.
#'
#' Errors that a plugin reports have a class for each PJRT error code, such as `pjrt_error_invalid_argument` or
#' `pjrt_error_resource_exhausted`, after the more specific classes above. The fields `code`, `call_name` and `platform`
#' contain the plugin's error code, the PJRT function and the platform; they are `NULL` for other errors.
#'
#' [await()] and the like raise `pjrt_error_deadline_exceeded` when their `timeout` is over. Warnings have class
#' `pjrt_warning`, and for missing values also `pjrt_warning_na`; messages have class `pjrt_message`.
#'
#' @section Poisoned plugins:
#' A plugin that throws a C++ exception may hold locks that are never released, and threads that wait for ever. The call
#' that threw raises `pjrt_error_internal`, or `pjrt_error_resource_exhausted` if the plugin ran out of memory. After
#' that, the package no longer calls the plugin, not even at the end of the session. Every use of the plugin raises
#' `pjrt_error_plugin_poisoned` at once, and data on its devices are lost. R, its objects and other plugins are not
#' affected. Save your work and restart R.
#'
#' @seealso [tryCatch()], [pjrt_sitrep()] for problems with plugins
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "add-2x2.mlir", package = "pjrt")
#' add <- pjrt_compile(pjrt_program(path = path))
#' x <- pjrt_buffer(c(1, 2, 3))
#' # the message
#' try(pjrt_execute(add, x, x))
#' # the classes
#' tryCatch(
#'   pjrt_execute(add, x, x),
#'   pjrt_error_shape_mismatch = function(error) class(error)
#' )
#' @name pjrt_errors
NULL
