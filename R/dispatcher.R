#' Compile functions on first use
#'
#' A dispatcher runs a function of arrays that is compiled when it is first called with arguments of some kind.
#' `dispatch()` looks for an executable that was compiled for arguments of the same structure, dtypes, shapes, static
#' values and device, and runs it. If there is none, it calls `compile` and keeps the result. Packages that trace and
#' compile R functions, such as anvl, build on it.
#'
#' # Arguments of a call
#' `args` is a list of arguments, which may be nested lists. Each leaf is one of these:
#' * an array: a list of class `AnvlArray` with fields `data`, `dtype`, `shape`, `device`, `backend` and `ambiguous`.
#'   For backend `"pjrt"`, `data` is a `PJRTBuffer`.
#' * R data: a double, integer or logical value that is not `NA`, or an array of these. It is uploaded as `f32`, `i32`
#'   or `pred`, and as ambiguous unless it is logical.
#' * any value, below an argument that `static` names. Static values are compared with [identical()], numbers by their
#'   bits.
#'
#' # The compile callback
#' `compile` gets a list with the elements
#' * `args`, `in_tree` (its structure, see [build_tree()]) and `leaves`,
#' * `is_static`: for each leaf, whether it is static,
#' * `avals`: for each leaf that is not, a list of `dtype`, `shape` and `ambiguous`; otherwise `NULL`,
#' * `default_device`: the device of the arrays, or of `default_device()`, or `NULL` with `move_inputs`,
#' * `context`: the value of `context()`, if there is one.
#'
#' For backend `"pjrt"`, it returns a list with the elements
#' * `exec`: a `PJRTLoadedExecutable`, and its `client` and `device`,
#' * `out_tree` and `out_avals`: the structure of the result, and for each output a list whose element `ambiguous` is
#'   used,
#' * `const_arrays` (optional): `PJRTBuffer`s that the executable takes before the other inputs,
#' * `phantom_specs` (optional): lists of `dtype` and `shape`. Each call passes new buffers like these after the other
#'   inputs, for the executable to take over their memory,
#' * `input_dtypes` (see below).
#'
#' For other backends, it returns a list with the function `r_fun`. That is called with a list of the arrays' `data` and
#' of R data, and its value is the result.
#'
#' # With a context
#' If `context` is a function, it is called at every dispatch, and its value is part of what must be equal. Arrays and R
#' data are then told apart: the elements of `avals` are lists of `kind` (`"array"` or `"rdata"`), `dtype` and `shape`,
#' where the `dtype` of R data is `"double"`, `"integer"` or `"logical"`. `compile` also returns `input_dtypes`, a
#' character vector with the dtype to upload each input at, `NA` for arrays. There is no `ambiguous`.
#'
#' @param capacity A whole number: how many executables to keep. More replace those that were used least recently.
#' @param compile A function of one argument, which is called for arguments of a new kind.
#' @param static A character vector: the names of static arguments.
#' @param backend A string: the backend of the arrays.
#' @param move_inputs A flag: whether to copy inputs to the device of the executable. Otherwise they must all be on one
#'   device, which is part of what must be equal.
#' @param default_device A function that returns the device for calls without arrays. Required unless `move_inputs` is
#'   `TRUE`.
#' @param extractor A function that takes an array and returns a list with its `dtype`, `shape` and `ambiguous`, for
#'   backends other than `"pjrt"`.
#' @param context `NULL`, or a function that returns a character vector.
#' @param dispatcher A `Dispatcher`.
#' @param args A list: the arguments of the call.
#' @return
#' * `dispatcher()`: a `Dispatcher`.
#' * `dispatch()`: the outputs as arrays, in the structure of `out_tree`.
#' * `dispatcher_size()`: how many executables it keeps.
#' @section Errors:
#' `pjrt_error_invalid_input` for arguments and results of `compile` that are not as described, and
#' `pjrt_error_device_mismatch` for arrays on different devices. Errors of `compile` are passed on, and nothing is kept.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # doubles a number, or the elements of an array
#' double <- dispatcher(
#'   capacity = 10,
#'   default_device = function() pjrt_device("cpu:0"),
#'   compile = function(info) {
#'     aval <- info$avals[[1]]
#'     type <- paste(c(aval$shape, aval$dtype), collapse = "x")
#'     text <- "func.func @main(%x: tensor<{T}>) -> tensor<{T}> {
#'       %y = stablehlo.add %x, %x : tensor<{T}>
#'       return %y : tensor<{T}>
#'     }"
#'     list(
#'       exec = pjrt_compile(pjrt_program(text, types = list(T = type))),
#'       client = pjrt_client("cpu"), device = info$default_device,
#'       out_tree = build_tree(list(y = NA)), out_avals = list(aval)
#'     )
#'   }
#' )
#' dispatch(double, list(21))$y$data
#' dispatch(double, list(1:3 + matrix(0, 3, 2)))$y$data
#' dispatcher_size(double)
#' @export
dispatcher <- function(capacity, compile, static = character(), backend = "pjrt", move_inputs = FALSE,
                       default_device = NULL, extractor = NULL, context = NULL) {
  if (!is_whole_number(capacity) || capacity < 1 || !is.finite(capacity)) {
    abort_type("`capacity` must be a positive count, not ", given(capacity), ".")
  }
  check_function(compile, "compile")
  if (!is.character(static) || is.object(static) || anyNA(static)) {
    abort_type("`static` must be a character vector without NA, not ", given(static), ".")
  }
  check_string(backend, "backend")
  check_flag(move_inputs, "move_inputs")
  if (!is.null(default_device)) {
    check_function(default_device, "default_device")
  } else if (!move_inputs) {
    abort_input("`default_device` is required unless `move_inputs` is TRUE.")
  }
  if (!is.null(extractor)) {
    check_function(extractor, "extractor")
  } else if (backend != "pjrt") {
    abort_input("`extractor` is required for a non-\"pjrt\" backend.")
  }
  if (!is.null(context)) {
    check_function(context, "context")
  }
  .Call(
    ffi_dispatcher_new, capacity, list(compile, default_device, extractor, context), static, as_utf8(backend),
    move_inputs
  )
}

#' @rdname dispatcher
#' @export
dispatch <- function(dispatcher, args) {
  .Call(ffi_dispatch, dispatcher, args)
}

#' @rdname dispatcher
#' @export
dispatcher_size <- function(dispatcher) {
  .Call(ffi_dispatcher_size, dispatcher)
}

#' @export
format.Dispatcher <- function(x, ...) {
  dead_text(x, "Dispatcher") %||% "<Dispatcher>"
}

#' @export
print.Dispatcher <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}
