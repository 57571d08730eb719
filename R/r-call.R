#' Call R functions from programs
#'
#' A program can call an R function while it runs: `stablehlo.custom_call @name`. `pjrt_register_r_call()` registers the
#' function, [pjrt_unregister_custom_call()] removes it. Use it for progress reports and early stopping from inside a
#' loop, for a density or a simulator written in R, or for a data loader. `vignette("r-in-programs")` shows these (see
#' [pjrt_articles]).
#'
#' ```
#' %y = stablehlo.custom_call @name(%x) {
#'   api_version = 4 : i32, has_side_effect = true,
#'   backend_config = {every = 10 : i64}
#' } : (tensor<3xf32>) -> tensor<f32>
#' ```
#'
#' The function gets the arguments of the call by position. If it has an argument `attributes`, it also gets
#' `backend_config` there: a named list, sorted by name as MLIR sorts it, of logical values, numbers, strings, vectors
#' and lists. Integers beyond 2^53 are strings, as is a vector that has one.
#'
#' The function's value is the result of the call. Values convert as in [pjrt_buffer()], but raw vectors are refused.
#' Their shape must be that of the program: a vector for rank 1, a vector of length 1 for a scalar, otherwise an array.
#' A `PJRTBuffer` must also have the result's dtype. For several results, return a list. For a call without results, the
#' value is ignored.
#'
#' @section When it runs:
#' R functions run on R's main thread: while R waits for a result ([await()], [as_array()], [value()]), when you ask
#' [is_ready()], and when R is idle, at its prompt or in [Sys.sleep()] (not on Windows). [pjrt_execute()] returns at
#' once, as for other programs. A program waits until its function can run, without blocking a thread of the plugin.
#' Programs that you execute later on the same device may wait for it.
#'
#' Without `has_side_effect = true`, the compiler may remove, duplicate or reorder calls.
#'
#' A function cannot jump into the code that waits, such as to its restarts: this is an error.
#'
#' Warnings and messages are shown at once. Handlers around the wait, such as [withCallingHandlers()] and
#' [suppressMessages()], get them when the wait is over.
#'
#' Ctrl-C ends R's wait, not the program. A function that it interrupts runs again later, from its start: when R next
#' waits for a result, or at [is_ready()]. To stop a program for good, remove its function; the program then fails.
#' Programs that still call functions when R quits also fail.
#'
#' A function may use buffers and run other programs, including ones that call R. It cannot wait for the program that
#' calls it. A child of a fork runs no functions for its parent.
#'
#' A program for several devices calls the function for each device. If a call fails, its results are zeros, so that no
#' other device waits for it, and then the execution fails. XLA ends the process if a device waits about a minute for
#' another one in a collective operation, so a function must be faster than that; see [pjrt_execute_sharded()].
#'
#' Compiled programs that call R functions are not kept in the [cache][pjrt_cache] on disk. [pjrt_save_executable()]
#' saves them; register the functions before you load them. Functions need row-major arrays, which is the default of
#' `stablehlo.custom_call`. They run for programs on the CPU.
#'
#' @param target_name A string: the name that programs call. If you register it again, the new function replaces the old
#'   one, also in compiled programs.
#' @param f A function.
#' @param as A string: `"array"` for arguments as R vectors and arrays, as from [as_array()], or `"buffer"` for
#'   arguments as buffers, which are copies.
#' @param .package A string or `NULL`: the package that the function belongs to. When its namespace is unloaded, the
#'   function is removed.
#' @return `NULL`, invisibly.
#' @section Errors:
#' If the function raises an error, or returns a value that the program does not expect, the execution fails: reading an
#' output raises an error of class `pjrt_error_r_call`. Its `parent` is the condition that the function raised, or
#' `NULL`.
#'
#' A function that waits for the program that calls it gets an error of class `pjrt_error_failed_precondition`.
#' @seealso [pjrt_register_custom_call()] for functions in C, C++ and Rust, which are faster and run on any thread.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' pjrt_register_r_call("report", function(step, loss) {
#'   cat(sprintf("step %d: loss %.3f\n", step, loss))
#'   loss < 0.1
#' })
#' # halves the loss until the R function says that it is enough
#' program <- pjrt_program('
#' func.func @main(%loss: tensor<f32>) -> (tensor<i32>, tensor<f32>) {
#'   %zero = stablehlo.constant dense<0> : tensor<i32>
#'   %no = stablehlo.constant dense<false> : tensor<i1>
#'   %out:3 = stablehlo.while(%i = %zero, %l = %loss, %stop = %no)
#'       : tensor<i32>, tensor<f32>, tensor<i1>
#'   cond {
#'     %more = stablehlo.not %stop : tensor<i1>
#'     stablehlo.return %more : tensor<i1>
#'   } do {
#'     %one = stablehlo.constant dense<1> : tensor<i32>
#'     %half = stablehlo.constant dense<0.5> : tensor<f32>
#'     %next = stablehlo.add %i, %one : tensor<i32>
#'     %less = stablehlo.multiply %l, %half : tensor<f32>
#'     %enough = stablehlo.custom_call @report(%next, %less) {
#'       api_version = 4 : i32, has_side_effect = true
#'     } : (tensor<i32>, tensor<f32>) -> tensor<i1>
#'     stablehlo.return %next, %less, %enough
#'       : tensor<i32>, tensor<f32>, tensor<i1>
#'   }
#'   return %out#0, %out#1 : tensor<i32>, tensor<f32>
#' }')
#' pjrt_execute(pjrt_compile(program), pjrt_scalar(1))
#' pjrt_unregister_custom_call("report")
#' @export
pjrt_register_r_call <- function(target_name, f, as = c("array", "buffer"), .package = NULL) {
  check_string(target_name, "target_name")
  check_function(f, "f")
  as <- check_choice(as, c("array", "buffer"), "as")
  check_package(.package)
  call_with_text(
    ffi_r_call_register, enc2utf8(target_name), f, as == "buffer", "attributes" %in% names(formals(args(f)))
  )
  keep_handler(target_name, f, .package)
}

# Calls the function of a program; native code calls this by name. Returns a list with its value, the message and the
# number of its error, or NULL if the user interrupted it.
evaluate_r_call <- function(.f, ...) {
  tryCatch(list(plain_results(.f(...))), error = keep_r_call_error, interrupt = function(e) NULL)
}

# What a function returned, with the objects that mean arrays of numbers as these.
plain_results <- function(x) {
  if (is.object(x)) plain_result(x) else if (typeof(x) == "list") lapply(x, plain_result) else x
}

plain_result <- function(x) {
  if (is.object(x) && !is_buffer(x)) plain_data(x) %||% x else x
}

# The same, where handlers of warnings and messages are around the wait: they get these when it is over.
evaluate_r_call_kept <- function(.f, ...) {
  evaluate_r_call(function(...) withCallingHandlers(.f(...), warning = keep_condition, message = keep_condition), ...)
}

keep_condition <- function(condition) {
  the$kept_conditions <- c(the$kept_conditions, list(condition))
  tryInvokeRestart(if (inherits(condition, "message")) "muffleMessage" else "muffleWarning")
}

# Signals what R functions have signalled in a wait; native code calls this by name when the wait is over.
signal_kept <- function(...) {
  kept <- the$kept_conditions
  the$kept_conditions <- list()
  for (condition in kept) {
    if (inherits(condition, "message")) message(condition) else warning(condition)
  }
}

# Whether one of the functions that called this one handles warnings or messages; native code calls this by name.
has_handlers <- function(...) {
  for (n in rev(seq_len(sys.nframe()))) {
    f <- sys.function(n)
    if (identical(f, withCallingHandlers) || identical(f, tryCatch)) {
      classes <- setdiff(eval(quote(...names()), sys.frame(n)), c("", "error", "interrupt"))
      if (length(classes) > 0L) {
        return(TRUE)
      }
    }
  }
  FALSE
}

# Keeps an error, as the parent of the error of an execution that fails because of it. The oldest are dropped.
keep_r_call_error <- function(e, most = 100L) {
  number <- the$r_call_errors$count + 1
  kept <- c(the$r_call_errors$kept, structure(list(e), names = number))
  the$r_call_errors <- list(count = number, kept = kept[seq.int(max(1L, length(kept) - most + 1L), length(kept))])
  message <- tryCatch(enc2utf8(as.character(conditionMessage(e))), error = function(e) character())
  if (inherits(e, "pjrt_error")) {
    # what the error of the execution says again
    lines <- unlist(strsplit(message, "\n", fixed = TRUE))
    message <- lines[!grepl("^i (The error's `parent` is|From PJRT_)", lines)]
  }
  c(readable(paste(message, collapse = "\n")), format(number, scientific = FALSE))
}

# The error of this number, or NULL.
r_call_error <- function(number) {
  the$r_call_errors$kept[[as.character(number)]]
}
