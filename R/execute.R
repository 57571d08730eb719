#' Run a compiled program
#'
#' `pjrt_execute()` starts a program on a device and returns its output buffers at once. Reading an output waits for it.
#' You can pass outputs to other programs without waiting.
#'
#' Inputs are matched as R matches arguments: those with names by name, then the others by position. Names are compared
#' as paths, in any notation: `params['dense']['bias']` of JAX, `params.dense.bias`, `params$dense$bias`,
#' `params/dense/bias`, and the list `params = list(dense = list(bias = x))` are the same. Elements of a list without
#' names are numbered as in Python: `layers = list(x, y)` stands for `layers[0]` and `layers[1]`. Names must match in
#' full. [executable_info()] shows the names: JAX's if the program was exported with them, otherwise the names in its
#' text. Generated names such as `%arg0` and `%0` cannot be used.
#'
#' Every input is checked before the program starts: it must not be deleted, and must have the executable's device and
#' the dtype, shape and layout that the program expects. Use [pjrt_execute_sharded()] for programs on several devices.
#'
#' A program can reuse the memory of an input for an output, if the program's argument has the attribute
#' `tf.aliasing_output` or `jax.buffer_donor`. Such an input is donated: after the call it is deleted, and using it is
#' an error. A donated buffer cannot be used for a second input of the same call. [executable_info()] shows which
#' inputs are donated, and `pjrt_execution_options(keep_inputs = )` prevents it.
#'
#' @param executable A `PJRTLoadedExecutable`. Required.
#' @param ... `PJRTBuffer`s: the inputs by name, or in the program's order. Lists, which can be nested, stand for their
#'   elements. R matches an input named `e` or `ex` to `executable`: pass such inputs in `inputs`.
#' @param execution_options A `PJRTExecutionOptions`, from [pjrt_execution_options()], or `NULL`.
#' @param simplify A flag: whether to return a single output itself instead of a list.
#' @param check A flag, kept for compatibility: inputs and their names are always checked.
#' @param inputs A list of all inputs, instead of `...`. Its names may also be names of arguments of `pjrt_execute()`.
#' @return A `PJRTBuffer`. A list of `PJRTBuffer`s if the program does not have exactly one output, or if `simplify` is
#'   `FALSE`. Several outputs have names if JAX returned them in a dictionary: see the column `name` of
#'   [executable_info()].
#' @section Errors:
#' `pjrt_error_argument_count`, `pjrt_error_dtype_mismatch`, `pjrt_error_shape_mismatch`, `pjrt_error_device_mismatch`,
#' `pjrt_error_layout_mismatch`, `pjrt_error_deleted_buffer`, `pjrt_error_invalid_pointer` and
#' `pjrt_error_invalid_input` for invalid inputs. Messages name the argument by its number, from 1, and its name in the
#' program, as in ``argument 2 (`%y`)``. If a computation fails on the device, the error is raised when you read an
#' output, or by [await()].
#' @seealso [pjrt_function()] for programs as R functions, which also take R arrays; [as_array()], [as_array_async()],
#'   [await()], [pjrt_execution_options()], [executable_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "add-2x2.mlir", package = "pjrt")
#' program <- pjrt_program(path = path)
#' add <- pjrt_compile(program)
#' x <- pjrt_buffer(matrix(1:4, 2), dtype = "f32")
#' sum <- pjrt_execute(add, x, x)
#' as_array(pjrt_execute(add, sum, x))
#'
#' # by name
#' executable_info(add)$inputs$name
#' as_array(pjrt_execute(add, y = sum, x = x))
#' as_array(pjrt_execute(add, inputs = list(y = sum, x = x)))
#' @export
pjrt_execute <- function(executable = missing_executable(), ..., execution_options = NULL, simplify = TRUE,
                         check = TRUE, inputs = NULL) {
  .Call(
    ffi_executable_execute, executable, if (is.null(inputs)) list(...) else sole_inputs(inputs, ...), execution_options,
    simplify, check
  )
}

# As a default, this costs calls with an executable nothing.
missing_executable <- function() {
  abort_input(
    "`executable` is missing.",
    hints = "pjrt_execute(executable, x, y) runs an executable from pjrt_compile() on buffers from pjrt_buffer()."
  )
}

#' Set execution options
#'
#' `pjrt_execution_options()` makes options for [pjrt_execute()] and [pjrt_execute_sharded()].
#'
#' @param non_donatable_input_indices Whole numbers: inputs, counted from 0, that keep their memory although the program
#'   donates it. `keep_inputs` does the same with names, or numbers from 1.
#' @param launch_id A whole number. It distinguishes executions of one program when several processes run it together.
#' @param device The device where a portable executable runs: anything that [as_pjrt_device()] takes. By default, it
#'   runs where its inputs are. See [pjrt_compile_options()].
#' @param keep_inputs Inputs that keep their memory although the program donates it: a character vector of the program's
#'   argument names, with or without the `%` in front, or a numeric vector of positions from 1.
#' @return A `PJRTExecutionOptions`.
#' @section Errors:
#' `pjrt_error_invalid_input` for arguments that are not as described. An execution raises it for inputs that the
#' program does not have, and for a `device` when the executable is not portable.
#' @seealso [executable_info()] for the names of a program's arguments, and for which of them are donated
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program("
#' func.func @main(
#'   %x: tensor<2xf32> {tf.aliasing_output = 0 : i32}
#' ) -> tensor<2xf32> {
#'   %0 = stablehlo.add %x, %x : tensor<2xf32>
#'   return %0 : tensor<2xf32>
#' }")
#' double <- pjrt_compile(program)
#' x <- pjrt_buffer(c(1, 2))
#' keep <- pjrt_execution_options(keep_inputs = "x")
#' pjrt_execute(double, x, execution_options = keep)
#' x
#' @export
pjrt_execution_options <- function(non_donatable_input_indices = integer(), launch_id = 0L, device = NULL,
                                   keep_inputs = NULL) {
  non_donatable_input_indices <- integers(non_donatable_input_indices) %||% abort_type(
    "`non_donatable_input_indices` must be whole numbers without NA, not ", given(non_donatable_input_indices), "."
  )
  if (length(launch_id) != 1L || is.null(integers(launch_id))) {
    abort_type("`launch_id` must be one whole number, not ", given(launch_id), ".")
  }
  device <- if (!is.null(device)) as_pjrt_device(device)
  keep_inputs <- check_keep_inputs(keep_inputs)
  call_with_text(ffi_execute_options_new, non_donatable_input_indices, as.integer(launch_id), device, keep_inputs)
}

# Whole numbers as an integer vector; NULL for anything else.
integers <- function(x) {
  is_whole <- typeof(x) %in% c("integer", "double") && !is.object(x) && !anyNA(x) &&
    all(x == trunc(x) & abs(x) <= .Machine$integer.max)
  if (is_whole) as.integer(x)
}

# `x` as NULL, or a character or integer vector.
check_keep_inputs <- function(x) {
  is_names <- is.character(x) && !is.object(x) && !anyNA(x) && all(nzchar(x))
  is_numbers <- !is.null(integers(x)) && all(x >= 1)
  if (!is.null(x) && !is_names && !is_numbers) {
    abort_type("`keep_inputs` must be names of inputs, or whole numbers from 1, not ", given(x), ".")
  }
  if (anyDuplicated(x) > 0L) {
    abort_input("`keep_inputs` must not have duplicates: got ", x[duplicated(x)][[1L]], " twice.")
  }
  if (is_names) as_utf8(x) else if (is_numbers) as.integer(x)
}

#' @export
format.PJRTExecutionOptions <- function(x, ...) {
  dead <- dead_text(x, "PJRTExecutionOptions")
  if (!is.null(dead)) {
    return(dead)
  }
  options <- call_native(ffi_execute_options_describe, x)
  line <- function(name, values) if (length(values) > 0L) paste0("  ", name, " = ", toString(values))
  c(
    sprintf("<PJRTExecutionOptions: launch %d>", options$launch_id),
    line("non_donatable_input_indices", options$non_donatable),
    if (!is.na(options$device)) line("device", options$device),
    line("keep_inputs", options$kept)
  )
}

#' @export
print.PJRTExecutionOptions <- function(x, ...) {
  print_lines(x)
}
