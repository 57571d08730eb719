# Functions for loops: a program's outputs replace the arguments that they update.

#' Make a step of a training loop
#'
#' `pjrt_step()` makes an R function of a program that updates some of its arguments, such as the parameters of a model.
#' The function takes the current values and returns the new ones, so that a training loop needs one line:
#' ```r
#' step <- pjrt_step(f)
#' state <- list(params = params)
#' for (batch in batches) state <- step(state, batch)
#' as_array(state$loss)
#' ```
#'
#' The function has the argument `state`, a list of the arguments that change, and the other arguments of `f`. It
#' returns the same list with the new values and the other outputs of the program. Elements of `state` that are not
#' arguments, such as `loss` here, are ignored. Like [pjrt_execute()], it returns before the device has computed.
#'
#' @section Which outputs replace which arguments:
#' An output replaces the argument with its name, if both have the same dtype and shape. The only output of a program
#' has no name. If no name matches, an output replaces a donated argument, or one that `state` names, if no other output
#' and no other of these arguments have this structure, dtypes and shapes. An argument changes if there is an output for
#' each of its arrays that the program reads. Its arrays that the program only writes change, too. If several outputs
#' fit, `pjrt_step()` raises an error: name the arguments and the outputs in `state`.
#'
#' @param f A `PJRTFunction` from [pjrt_function()], or an object that [pjrt_function()] accepts.
#' @param state `NULL`, or a character vector of the arguments that change. To choose the outputs that replace them, use
#'   a vector whose names are arguments and whose elements are names or positions of outputs:
#'   `c(params = "new_params")` or `c(params = 1)`. A part of the result has a name such as `"[[2]]$params"`. If the
#'   whole result is the new value, name only the argument: `"params"`.
#' @param outputs A character vector: new names for the other outputs, in their order. Default: their names in
#'   the result, or `output1`, `output2` and so on by position.
#' @return A function of class `PJRTStep`. `print()` shows the state with the outputs that replace it, the other
#'   arguments and the other outputs.
#' @section Errors:
#' `pjrt_error_invalid_input` if no output replaces an argument, if several fit, or if `state` or `outputs` contain
#' unknown names. The function raises the errors of a [pjrt_function()].
#' @seealso [pjrt_function()]; [pjrt_execute()] about donation; `vignette("jax")` (see [pjrt_articles])
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # gradient descent with momentum; a step reuses the memory of its state
#' path <- system.file("programs", "logistic-step.mlir", package = "pjrt")
#' step <- pjrt_step(
#'   pjrt_program(path = path), state = c(weights = 1, velocity = 2),
#'   outputs = "loss"
#' )
#' step
#' features <- pjrt_buffer(matrix(rnorm(500), 100), "f64")
#' labels <- pjrt_buffer(rep(c(0, 1), 50), "f64")
#' state <- list(weights = numeric(5), velocity = numeric(5))
#' for (i in 1:10) {
#'   state <- step(state, features, labels, rate = 0.1, momentum = 0.9)
#' }
#' as_array(state$weights)
#' as_array(state$loss)
#' @export
pjrt_step <- function(f, state = NULL, outputs = NULL) {
  check_loaded(f, "`f`")
  if (!inherits(f, c("PJRTFunction", "PJRTLoadedExecutable", "PJRTExported", "PJRTProgram"))) {
    abort_type("`f` must be a `PJRTFunction`, or what pjrt_function() takes, not ", given(f), ".")
  }
  f <- if (inherits(f, "PJRTFunction")) f else pjrt_function(f)
  described <- description_of(f)
  make_function(call_native(ffi_function_step, described$.text, state, outputs), described$.source)
}
