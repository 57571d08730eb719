# Nested lists of results: the methods of generics for lists.

#' @export
as_array.list <- function(x, ...) {
  classes <- c("PJRTBuffer", "PJRTArrayPromise")
  read <- if (...length() > 0L) as_array else function(leaf) as_array(leaf)
  map_results("as_array", x, classes, read, start = if (...length() == 0L) start_reading, ...)
}

#' @export
as_array_async.list <- function(x, ...) {
  map_results("as_array_async", x, "PJRTBuffer", as_array_async, ...)
}

#' @export
value.list <- function(x, ...) {
  map_results("value", x, result_classes, value, ...)
}

#' @export
await.list <- function(x, timeout = NULL, ...) {
  end <- if (!is.null(timeout)) end_of_wait(timeout)
  wait <- function(leaf, ...) {
    if (is.null(end)) await(leaf, ...) else await(leaf, timeout = max(end - proc.time()[["elapsed"]], 0), ...)
  }
  map_results("await", x, result_classes, wait, ...)
  invisible(x)
}

#' @export
is_ready.list <- function(x, ...) {
  all(unlist(flatten(map_results("is_ready", x, result_classes, is_ready, ...))))
}

# Starts the transfer of a buffer that is not in the host's memory.
start_reading <- function(leaf) {
  if (inherits(leaf, "PJRTBuffer") && platform(leaf) != "cpu") as_array_async(leaf) else leaf
}

# Applies a generic to all results in a nested list, and returns the values in a list of the same structure. `start` is
# applied to all of them first.
map_results <- function(name, x, classes, f, start = NULL, ...) {
  parts <- .Call(ffi_tree_take_apart, x)
  tree <- parts[[1L]]
  leaves <- parts[[2L]]
  is_ours <- vapply(leaves, inherits, NA, classes)
  generic <- if (!any(is_ours) && length(leaves) > 0L) neighbour_generic(name, x)
  if (!is.null(generic)) {
    # not from here, where R would find our methods first
    return(do.call(generic, list(x, ...), quote = TRUE, envir = globalenv()))
  }
  for (i in which(!is_ours)) {
    if (is.null(neighbour_generic(name, leaves[[i]]))) {
      abort_type(
        "Element `", tree_path(tree, i), "` of `x` must be a ", any_of(classes), ", not ", given(leaves[[i]]), "."
      )
    }
  }
  i <- 0L
  values <- withCallingHandlers(
    {
      for (i in seq_along(leaves)) if (!is.null(start)) leaves[[i]] <- start(leaves[[i]])
      for (i in seq_along(leaves)) leaves[[i]] <- f(leaves[[i]], ...)
      leaves
    },
    pjrt_error = function(e) {
      e$message <- sprintf("`%s`: %s", tree_path(tree, i), conditionMessage(e))
      stop(e)
    }
  )
  .Call(ffi_tree_unflatten, tree, values)
}
