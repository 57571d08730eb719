#' Call a function when a result is ready
#'
#' `pjrt_on_ready()` returns at once, and calls a function as soon as a buffer's content has been computed or a promise
#' has its value. R can do other work meanwhile. `vignette("event-loop")` shows how to use it with Shiny and other
#' packages (see [pjrt_articles]).
#'
#' R calls the function while it has nothing else to do:
#' * at the prompt, and in [Sys.sleep()]. On Windows, this needs package later.
#' * in the event loop of package later, which Shiny, httpuv and plumber use: [later::run_now()], `shiny::runApp()`.
#' * while it waits for other results, such as in [await()] and [as_array()], about every 50 milliseconds.
#'
#' Nothing polls: the thread that completes the work wakes R. A script must wait in one of these ways, since R calls
#' nothing after its last line.
#'
#' The function runs once, even if the computation failed: reading `x` then raises the error. An error in the function
#' itself becomes a warning. It cannot jump into the code that waits, such as to its restarts. R keeps `x` and the
#' function until then.
#'
#' In a fork, the parent's functions are not called. At the end of the session, pending functions are dropped.
#' @section Promises:
#' [promises::as.promise()] accepts buffers and the promises of [as_array_async()] and [pjrt_compile_async()], and so do
#' [promises::then()] and `%...>%`. The promise resolves to the buffer, once it is ready, to the array or to the
#' executable. If the computation or the compiler failed, it is rejected with the condition.
#'
#' With a version of promises in which `is.promising()` is generic (1.3.0), a buffer is promising until it is ready, so
#' that a Shiny output can return one.
#' @param x A `PJRTBuffer`, or a promise of [as_array_async()] or [pjrt_compile_async()]. Or a nested list of these;
#'   then the function is called when all are ready.
#' @param callback A function of one argument, which gets `x`.
#' @return A function without arguments, invisibly. Calling it cancels the callback, and returns whether the callback
#'   was pending. The computation goes on.
#' @section Errors:
#' `pjrt_error_invalid_input` for other arguments; `pjrt_error_deleted_buffer`, `pjrt_error_client_closed` and
#' `pjrt_error_forked` for objects that can no longer be used.
#' @seealso [await()], [is_ready()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "square.mlir", package = "pjrt")
#' square <- pjrt_compile(pjrt_program(path = path))
#' y <- pjrt_execute(square, pjrt_scalar(3))
#' pjrt_on_ready(y, function(y) cat("The result is", as_array(y), "\n"))
#' Sys.sleep(0.1)
#'
#' cancel <- pjrt_on_ready(y, print)
#' cancel()
#' @examplesIf pjrt::plugins_downloaded("cpu") && requireNamespace("promises", quietly = TRUE)
#'
#' y <- pjrt_execute(square, pjrt_scalar(4))
#' promises::then(y, function(y) cat("The result is", as_array(y), "\n"))
#' # at R's prompt, the event loop runs by itself
#' for (i in 1:3) later::run_now(0.1)
#' @export
pjrt_on_ready <- function(x, callback) {
  check_function(callback, "callback")
  watched <- handles_to_watch(x)
  entry <- new.env(parent = emptyenv())
  entry$x <- x
  entry$callback <- callback
  entry$left <- length(watched)
  entry$numbers <- numeric()
  loop <- current_loop()
  complete <- FALSE
  on.exit(if (!complete) forget_entry(entry))
  for (handle in watched) {
    number <- call_native(ffi_ready_watch, handle, loop)
    entry$numbers <- c(entry$numbers, number)
    the$on_ready$numbers <- c(the$on_ready$numbers, number)
    the$on_ready$entries <- c(the$on_ready$entries, list(entry))
  }
  complete <- TRUE
  invisible(function() {
    is_pending <- !is.null(entry$callback)
    forget_entry(entry)
    is_pending
  })
}

# What the native side watches for a result or a nested list of results. What is NULL is ready.
handles_to_watch <- function(x) {
  if (typeof(x) != "list" || is.object(x)) {
    if (!inherits(x, result_classes)) {
      abort_class(x, result_classes)
    }
    return(list(watched_handle(x)))
  }
  leaves <- flatten(x)
  for (i in which(!vapply(leaves, inherits, NA, result_classes))) {
    abort_type(
      "Element `", tree_path(build_tree(x), i), "` of `x` must be a ", any_of(result_classes), ", not ",
      given(leaves[[i]]), "."
    )
  }
  if (length(leaves) > 0L) lapply(leaves, watched_handle) else list(NULL)
}

watched_handle <- function(x) {
  if (inherits(x, "PJRTArrayPromise")) {
    check_array_promise(x)
    return(if (!x$materialized) x$data)
  }
  if (inherits(x, "PJRTExecutablePromise")) {
    check_executable_promise(x)
    return(if (is.null(x$executable)) x$data)
  }
  # raises an error unless it can be used
  is_ready.PJRTBuffer(x)
  x
}

# The number of later's event loop that is current; that of its main loop if it is not loaded.
current_loop <- function() {
  if (isNamespaceLoaded("later")) as.integer(later::current_loop()$id) else 0L
}

# The native side calls this for each result that is ready. Returns whether the user interrupts.
call_on_ready <- function(number) {
  place <- match(number, the$on_ready$numbers)
  if (is.na(place)) {
    return(FALSE)
  }
  entry <- the$on_ready$entries[[place]]
  drop_entries(place)
  entry$left <- entry$left - 1L
  if (entry$left > 0L) {
    return(FALSE)
  }
  callback <- entry$callback
  x <- entry$x
  entry$callback <- entry$x <- NULL
  failed <- function(e) {
    message <- paste0("A function given to pjrt_on_ready() failed: ", conditionMessage(e))
    # a warning that is an error, by options(warn = 2), would be lost here
    tryCatch(warning(message, call. = FALSE, immediate. = TRUE), error = function(e) inform(conditionMessage(e)))
  }
  tryCatch({
    callback(x)
    FALSE
  }, error = function(e) {
    failed(e)
    FALSE
  }, interrupt = function(e) TRUE)
}

forget_entry <- function(entry) {
  entry$callback <- entry$x <- NULL
  drop_entries(which(the$on_ready$numbers %in% entry$numbers))
  if (length(entry$numbers) > 0L) call_native(ffi_ready_forget, entry$numbers)
}

drop_entries <- function(places) {
  if (length(places) > 0L) {
    the$on_ready <- lapply(the$on_ready, `[`, -places)
  }
}

# later: its event loops call functions, too.

connect_later <- function(...) {
  when_loaded("later", use_later)
  setHook(packageEvent("later", "onUnload"), leave_later)
}

disconnect_later <- function() {
  remove_hook(packageEvent("later", "onLoad"), use_later)
  remove_hook(packageEvent("later", "onUnload"), leave_later)
  leave_later()
  drop_entries(seq_along(the$on_ready$numbers))
}

use_later <- function(...) call_native(ffi_idle_connect, TRUE)

leave_later <- function(...) call_native(ffi_idle_connect, FALSE)
