#' Free buffers and close clients
#'
#' `pjrt_delete()` frees a buffer's memory now, without waiting for R's garbage collector. `close()` ends a client and
#' frees all its objects, for example to release a GPU's memory for another process, or to create a client with other
#' options.
#'
#' @section Deleted buffers:
#' A deleted buffer can no longer be used, through any variable. Programs, copies and promises that already use it still
#' read its content, and its memory is freed when they are done. If the device used an R vector in place, the vector is
#' released as well. `shape()`, `elt_type()`, `device()`, `format()`, `print()` and `str()` still work.
#'
#' @section Objects that can no longer be used: Every object of this package can be printed, even if it was deleted or
#'   donated, if its client was closed, if it was loaded without its content, for example from a saved workspace, or in
#'   a fork of the process that created it. `print()`, `format()` and `str()` show what it is:
#'   `<PJRTBuffer f32[3], deleted>`, `<PJRTBuffer f32[3], donated>`, `<PJRTBuffer f32[3], of a closed client>`,
#'   `<PJRTBuffer f32[3], of the parent process>` or `<PJRTBuffer of another session>`. Any other use raises an error.
#'
#' @section Closed clients:
#' `close()` waits until all work on the client's devices is done: programs, copies, transfers and compiles. Ctrl-C ends
#' the wait and leaves the client open. Then all buffers and executables of the client are freed. Using them or the
#' client's promises raises `pjrt_error_client_closed`. A promise that you have read keeps its value. Information that
#' does not need the device stays available: shapes, element types, names, ids, and an executable's inputs and outputs.
#'
#' After that, [pjrt_client()] creates a new client, which can have other options, such as another `cpu_device_count`.
#' Its devices are new objects. On GPUs, the memory that the client had reserved is available to other processes. Some
#' plugins, such as those for TPUs, allow one client per process; with them, creating a new client is an error.
#'
#' @param buffer A `PJRTBuffer`, or a list of them, which can be nested.
#' @param x A `PJRTBuffer`.
#' @param con A `PJRTClient`.
#' @param ... Not used.
#' @return `pjrt_delete()`: `buffer`, invisibly. It ignores buffers that are already deleted, of another session,
#'   or whose client is closed.
#'   `is_deleted()`: `TRUE` if the buffer was deleted or donated, its client is closed, or it is of another session and
#'   came without its content, else `FALSE`. `close()`: `NULL`, invisibly. You can close a client twice.
#' @section Errors:
#' `pjrt_error_invalid_pointer` if an argument is not a buffer; then nothing is deleted. `pjrt_error_forked` in a fork
#' of the process that created the client, except from `is_deleted()`.
#' @seealso [pjrt_memory_stats()]; [pjrt_execute()] about donation
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(rnorm(1e5))
#' pjrt_delete(x)
#' is_deleted(x)
#' format(x)
#' try(as_array(x))
#'
#' # a second client of the CPU, under another name
#' client <- plugin_client_create(pjrt_plugin("cpu"), "spare")
#' y <- pjrt_buffer(1:3, device = devices(client)[[1]])
#' close(client)
#' client
#' y
#' @name pjrt_delete
NULL

#' @rdname pjrt_delete
#' @export
pjrt_delete <- function(buffer) {
  buffers <- flat_list(buffer)
  for (one in buffers) {
    .Call(ffi_buffer_is_deleted, one)
  }
  for (one in buffers) {
    .Call(ffi_buffer_delete, one)
  }
  invisible(buffer)
}

#' @rdname pjrt_delete
#' @export
is_deleted <- function(x) {
  .Call(ffi_buffer_is_deleted, x)
}

#' @rdname pjrt_delete
#' @export
close.PJRTClient <- function(con, ...) {
  check_unused(...)
  if (call_native(ffi_client_close, con)) {
    forget_client(con)
    debug_message("closed the client for ", platform(con))
  }
  invisible()
}

# The elements of a nested list. Anything else is the only element.
flat_list <- function(x) {
  x <- list(x)
  # by levels: a list may be nested deeper than R's stack
  while (any(is_nested <- vapply(x, function(part) is.list(part) && !is.object(part), NA))) {
    x[!is_nested] <- lapply(x[!is_nested], list)
    x <- do.call(c, lapply(x, unname))
  }
  x
}

# Why objects cannot be used any more, as their texts end.
fates <- c(
  deleted = "deleted", donated = "donated", closed = "of a closed client", forked = "of the parent process"
)

# The text for an object that cannot be used any more; NULL if it can. `words` describe it, and are not evaluated if it
# is of another session and nothing of it is left.
dead_text <- function(x, class, words = class, closed = fates[["closed"]]) {
  fate <- .Call(ffi_object_fate, x)
  if (fate == "sent") {
    fate <- tryCatch({
      revive(x)
      .Call(ffi_object_fate, x)
    }, pjrt_error = function(e) "saved")
  }
  if (!nzchar(fate)) {
    return()
  }
  if (fate == "saved") {
    return(sprintf("<%s of another session>", class))
  }
  sprintf("<%s, %s>", words, if (fate == "closed") closed else fates[[fate]])
}

# str() for objects that format: their class and the first line.
str_line <- function(object, ...) {
  line <- sub("^<(.*)>$", "\\1", strsplit(format(object)[[1L]], "\n", fixed = TRUE)[[1L]][[1L]])
  class <- class(object)[[1L]]
  cat(" ", if (!startsWith(line, class)) paste0(class, " "), line, "\n", sep = "")
}

#' @export
str.Dispatcher <- str_line

#' @export
str.PJRTArrayPromise <- str_line

#' @export
str.PJRTClient <- str_line

#' @export
str.PJRTDevice <- str_line

#' @export
str.PJRTExecutablePromise <- str_line

#' @export
str.PJRTExecutionOptions <- str_line

#' @export
str.PJRTMemory <- str_line

#' @export
str.PJRTPlugin <- str_line

#' @export
str.PJRTProgram <- str_line

#' @export
str.PJRTSafetensors <- str_line

#' @export
str.RTree <- str_line

# all.equal(): base takes any two pointers for equal, and environments and functions that contain them.
equal_handles <- function(target, current, ...) {
  class <- class(target)[[1L]]
  if (!inherits(current, class)) {
    return(sprintf("target is a %s, current is a %s", class, data.class(current)))
  }
  compare <- switch(class,
    PJRTDevice = `==`,
    PJRTExecutionOptions = function(a, b) identical(format(a), format(b)),
    PJRTProgram = function(a, b) identical(pjrt_serialize(a), pjrt_serialize(b)),
    RTree = tree_equal
  )
  is_alive <- function(x) is.null(dead_text(x, class))
  is_equal <- identical(target, current) ||
    (!is.null(compare) && is_alive(target) && is_alive(current) && compare(target, current))
  if (is_equal) TRUE else sprintf("target and current are not the same %s", class)
}

#' @method all.equal Dispatcher
#' @export
all.equal.Dispatcher <- equal_handles

#' @method all.equal PJRTClient
#' @export
all.equal.PJRTClient <- equal_handles

#' @method all.equal PJRTDLPack
#' @export
all.equal.PJRTDLPack <- equal_handles

#' @method all.equal PJRTDevice
#' @export
all.equal.PJRTDevice <- equal_handles

#' @method all.equal PJRTExecutablePromise
#' @export
all.equal.PJRTExecutablePromise <- equal_handles

#' @method all.equal PJRTExecutionOptions
#' @export
all.equal.PJRTExecutionOptions <- equal_handles

#' @method all.equal PJRTExported
#' @export
all.equal.PJRTExported <- equal_handles

#' @method all.equal PJRTFunction
#' @export
all.equal.PJRTFunction <- equal_handles

#' @method all.equal PJRTLoadedExecutable
#' @export
all.equal.PJRTLoadedExecutable <- equal_handles

#' @method all.equal PJRTMemory
#' @export
all.equal.PJRTMemory <- equal_handles

#' @method all.equal PJRTPlugin
#' @export
all.equal.PJRTPlugin <- equal_handles

#' @method all.equal PJRTProgram
#' @export
all.equal.PJRTProgram <- equal_handles

#' @method all.equal PJRTSafetensors
#' @export
all.equal.PJRTSafetensors <- equal_handles

#' @method all.equal PJRTStep
#' @export
all.equal.PJRTStep <- equal_handles

#' @method all.equal RTree
#' @export
all.equal.RTree <- equal_handles
