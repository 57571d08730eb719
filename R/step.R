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
#' An output replaces the argument with its name, if both have the same dtype and shape. If no name matches, an output
#' replaces a donated argument if no other output and no other argument have this structure, dtypes and shapes. An
#' argument changes if there is an output for each of its arrays. If several outputs fit, `pjrt_step()` raises an error:
#' name the arguments and the outputs in `state`.
#'
#' @param f A `PJRTFunction` from [pjrt_function()], or an object that [pjrt_function()] accepts.
#' @param state `NULL`, or a character vector of the arguments that change. To choose the outputs that replace them, use
#'   a vector whose names are arguments and whose elements are names or positions of outputs:
#'   `c(params = "new_params")` or `c(params = 1)`.
#' @param outputs A character vector: names for the other outputs in the state, in their order. Default: their names in
#'   the result, or `output1`, `output2` and so on by position.
#' @return A function of class `PJRTStep`. `print()` shows the state, the other arguments and the other outputs.
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
  f <- if (inherits(f, "PJRTFunction")) f else pjrt_function(f)
  described <- description_of(f)
  if (!is.null(outputs) && (!is.character(outputs) || anyNA(outputs) || !all(nzchar(outputs)))) {
    abort_type("`outputs` must be a character vector of names, not ", given(outputs), ".")
  }
  described <- add_state(described, state, outputs)
  make_function(described, environment(f)$.source)
}

# Adds to a function's description which arguments form the state, and the structure of the next state.
add_state <- function(described, state, names) {
  sources <- output_sources(described, state)
  changes <- vapply(described$arguments, function(argument) {
    rows <- which(below(described$inputs$path, argument) & described$inputs$kept)
    length(rows) > 0L && !anyNA(sources[rows])
  }, NA)
  wanted <- if (is.null(names(state))) state else names(state)
  lacking <- if (is.null(state)) character() else wanted[!changes[match(wanted, described$arguments)]]
  if (length(lacking) > 0L) {
    rows <- which(below(described$inputs$path, lacking[[1L]]) & described$inputs$kept & is.na(sources))
    abort_input(
      "There is no output for `", in_r(described$inputs$path[[rows[[1L]]]]), "`.",
      hints = sprintf("Name the output that replaces the argument, as in `state = c(%s = 1)`.", lacking[[1L]])
    )
  }
  if (!any(changes)) {
    abort_input(
      "No output of `", described$name, "` replaces an argument: neither their names nor their structures match.",
      hints = if (length(described$arguments) > 0L) {
        sprintf("Name the outputs, as in `state = c(%s = 1)`.", described$arguments[[1L]])
      }
    )
  }
  if (!is.null(state)) {
    changes <- described$arguments %in% wanted
  }
  sources[!sub("/.*$", "", described$inputs$path) %in% described$arguments[changes]] <- NA
  next_state <- lapply(which(changes), function(i) renumber(described$trees[[i]], sources))
  others <- other_outputs(described, sources[!is.na(sources)])
  if (length(names) > length(others)) {
    abort_input(
      "`outputs` has ", counted(length(names), "name"), ", but the program has ",
      counted(length(others), "other output"), "."
    )
  }
  names(others)[seq_along(names)] <- names
  state_names <- described$arguments[changes]
  names(others) <- unique_names(names(others), state_names)
  described$state <- state_names
  described$sources <- sources
  described$result <- c(stats::setNames(next_state, state_names), others)
  described$others <- others
  described
}

# For each input, the number of the output that replaces it, or NA.
output_sources <- function(described, state) {
  check_state(described, state)
  inputs <- described$inputs
  outputs <- described$outputs
  sources <- rep(NA_integer_, nrow(inputs))
  replace <- function(rows, found) {
    # an output belongs to one input, with its dtype and shape
    for (i in seq_along(rows)) {
      row <- rows[[i]]
      n <- found[[i]]
      fits <- !is.na(n) && is.na(sources[[row]]) && !n %in% sources && outputs$type[[n]] == inputs$type[[row]]
      if (fits) sources[[row]] <<- n
    }
  }
  if (!is.null(names(state))) {
    tops <- top_paths(described, state)
    for (i in seq_along(state)) {
      rows <- which(below(inputs$path, names(state)[[i]]))
      replace(rows, match(sub(names(state)[[i]], tops[[i]], inputs$path[rows], fixed = TRUE), output_paths(described)))
    }
    return(sources)
  }
  rows <- which(inputs$kept)
  replace(rows, match(inputs$path[rows], outputs$path, incomparables = ""))
  match_structures(described, state, sources)
}

# The same numbers, with those of arguments that no name decides: of an output that alone has the structure of the
# argument, which alone has that of the output. Donation shows which arguments change, and never where their values come
# from: JAX assigns donated memory to outputs by their shapes, in order.
match_structures <- function(described, state, sources) {
  inputs <- described$inputs
  result <- described$result %||% as.list(seq_len(nrow(described$outputs)))
  # the whole result, then its parts
  outputs <- c(list(result), if (is.list(result)) result)
  is_free <- vapply(outputs, function(tree) !any(unlist(tree) %in% sources), NA) & lengths(outputs) > 0L
  outputs <- outputs[is_free]
  names(outputs) <- c("the result", output_labels(result))[is_free]
  # with the types of the arrays in their places
  structures <- lapply(outputs, renumber, described$outputs$type)
  rows <- lapply(described$trees, function(tree) as.integer(unlist(tree)))
  is_open <- vapply(seq_along(rows), function(i) {
    kept <- rows[[i]][inputs$kept[rows[[i]]]]
    may_change <- if (is.null(state)) any(inputs$donated[kept]) else described$arguments[[i]] %in% state
    may_change && length(kept) > 0L && all(is.na(sources[kept]))
  }, NA)
  open <- which(is_open)
  wanted <- lapply(described$trees[open], renumber, inputs$type)
  for (i in seq_along(open)) {
    fits <- which(vapply(structures, identical, NA, wanted[[i]]))
    rivals <- which(vapply(wanted, identical, NA, wanted[[i]]))
    if (length(fits) == 0L) next
    if (length(fits) > 1L || length(rivals) > 1L) {
      arguments <- described$arguments[open[rivals]]
      abort_input(
        "Names do not say which output replaces ", paste0("`", arguments, "`", collapse = " and which "), ": ",
        paste(names(outputs)[fits], collapse = ", "), if (length(fits) == 1L) " has" else " have",
        " the same structure.",
        hints = sprintf(
          "Name the outputs, as in `state = c(%s)`.",
          paste(arguments, "=", seq_along(arguments), collapse = ", ")
        )
      )
    }
    sources[rows[[open[[i]]]]] <- as.integer(unlist(outputs[[fits]]))
  }
  sources
}

# How messages name the elements of a result.
output_labels <- function(result) {
  if (!is.list(result)) {
    return(NULL)
  }
  names <- names(result) %||% character(length(result))
  ifelse(nzchar(names), paste0("output `", names, "`"), paste("output", seq_along(result)))
}

check_state <- function(described, state) {
  if (is.null(state)) {
    return()
  }
  known <- described$arguments
  is_valid <- (is.character(state) || is.numeric(state)) && !is.object(state) && !anyNA(state) && length(state) > 0L
  if (!is_valid || (is.numeric(state) && is.null(names(state)))) {
    abort_type(
      "`state` must be names of arguments, or outputs with the names of arguments, not ", given(state), ".",
      hints = sprintf("The arguments are %s.", quoted_list(known))
    )
  }
  wanted <- names(state) %||% state
  is_bad <- !wanted %in% known | duplicated(wanted)
  if (any(is_bad)) {
    abort_input(
      "`state` must name arguments of the function, each once: got `", wanted[is_bad][[1L]], "`.",
      hints = sprintf("The arguments are %s.", quoted_list(known))
    )
  }
}

# The paths of all outputs. Without names they are positions.
output_paths <- function(described) {
  if (is.null(described$result)) as.character(seq_len(nrow(described$outputs)) - 1L) else described$outputs$path
}

# The paths of outputs that `state` gives by name or position.
top_paths <- function(described, state) {
  paths <- output_paths(described)
  tops <- unique(sub("/.*$", "", paths))
  if (is.numeric(state)) {
    # a single output has no place in a list
    if (identical(paths, "")) tops <- ""
    is_bad <- !state %in% seq_along(tops)
    found <- tops[ifelse(is_bad, NA, state)]
  } else {
    found <- call_native(ffi_function_paths, state)
    is_bad <- !vapply(found, function(path) nzchar(path) && any(below(paths, path)), NA)
  }
  if (any(is_bad)) {
    abort_input(
      "`state` must name outputs: there is no output `", state[is_bad][[1L]], "`.",
      hints = sprintf("There are %d: %s.", length(tops), quoted_list(in_r(tops)))
    )
  }
  found
}

# Whether paths are this one, or lead to arrays in the list there.
below <- function(paths, path) {
  paths == path | startsWith(paths, paste0(path, "/"))
}

# A nested list of numbers with what these stand for: other numbers, or text. NULL for numbers without one.
renumber <- function(tree, numbers) {
  if (is.list(tree)) {
    lapply(tree, renumber, numbers)
  } else if (!is.null(tree) && !is.na(numbers[[tree]])) {
    numbers[[tree]]
  }
}

# The elements of the result without some outputs. All have names.
other_outputs <- function(described, used) {
  result <- described$result %||% as.list(seq_len(nrow(described$outputs)))
  if (!is.list(result)) {
    result <- list(result)
  }
  names <- names(result) %||% character(length(result))
  is_bare <- !nzchar(names)
  names[is_bare] <- paste0("output", seq_along(result))[is_bare]
  remaining <- lapply(result, without, used)
  kept <- lengths(remaining) > 0L
  stats::setNames(remaining[kept], names[kept])
}

# A nested list of numbers without some of them.
without <- function(tree, used) {
  if (!is.list(tree)) {
    return(if (!tree %in% used) tree)
  }
  rest <- lapply(tree, without, used)
  rest[lengths(rest) > 0L]
}

#' @export
print.PJRTStep <- function(x, ...) {
  described <- description_of(x, "PJRTStep")
  inputs <- described$inputs
  lines <- signature_lines(in_r(inputs$path), inputs$type, inputs$donated)
  is_state <- !is.na(described$sources)
  lines[is_state] <- sprintf("%s, from output %d", lines, described$sources)[is_state]
  others <- unlist(flatten(described$others))
  paths <- result_paths(described$result, nrow(described$outputs))
  writeLines(c(
    sprintf("<PJRTStep %s>", described$name),
    signature_section("state", lines[is_state]),
    signature_section("arguments", lines[!is_state & inputs$kept]),
    signature_section("other outputs", signature_lines(in_r(paths[others]), described$outputs$type[others])),
    sprintf("  %s", described$device)
  ))
  invisible(x)
}
