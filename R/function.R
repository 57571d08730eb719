#' Make an R function of a program
#'
#' `pjrt_function()` makes an R function of a program. It takes buffers and R arrays, also in nested lists, and returns
#' the program's outputs. [pjrt_step()] makes a function for training loops.
#'
#' Both can be saved and sent to other sessions, with their programs, as [buffers][pjrt_serialize] can.
#'
#' # Arguments of the function
#' The arguments have the names of the program's arguments. For a program of JAX, these are the names in Python; `%x`
#' becomes `x`. Arguments without a name are called `x1`, `x2` and so on by their position. Arguments that JAX
#' flattened, such as `params['dense']['bias']`, are nested lists: `params = list(dense = list(bias = ...))`, in any
#' order. Elements without names are matched by position.
#'
#' Each array is one of these:
#' * a `PJRTBuffer`, which must have the dtype, shape and device that the program expects.
#' * an R vector or array, or another object that [pjrt_buffer()] takes. It must have the expected shape: a vector of
#'   length n fits shape n, and a single value fits a scalar. It is uploaded with the expected dtype, as by
#'   [pjrt_buffer()] with `check = TRUE`: values that the dtype cannot hold, and `NA`, are errors.
#'
#' Like JAX, the function ignores arguments that the program does not use. You may omit them.
#'
#' A PyTorch model has the arguments `x1`, `x2` and so on, and finally `weights`, whose default is the list of the
#' model's weights: see [pjrt_load_exported()].
#'
#' `print()` shows the arguments and which of them are donated. The call deletes a buffer that you pass for a donated
#' argument. See [pjrt_execute()].
#'
#' # Result
#' A function exported by JAX or PyTorch returns nested lists with the structure of the Python result: a dictionary
#' becomes a list with names, and a tuple a list without. Other programs return what [pjrt_execute()] returns; outputs
#' with names such as `grads$w` are put into nested lists. A single output is returned without a list.
#'
#' @param x A `PJRTLoadedExecutable`, a `PJRTExported` from [pjrt_load_exported()] or a `PJRTProgram`. Exported
#'   functions and programs are compiled with [pjrt_compile()]: JAX functions at the first call (with symbolic
#'   dimensions, at the first call with each shape), all others at once.
#' @param as A string: `"buffer"` if the function returns buffers, at once, or `"array"` if it waits and returns arrays,
#'   as from [as_array()].
#' @param device A device to compile for: anything that [as_pjrt_device()] takes. An executable has one already.
#' @param arguments A character vector: names for the function's arguments, instead of the program's.
#' @param ... For `pjrt_function()`, further arguments of [pjrt_compile()]. Not used by methods.
#' @return `pjrt_function()`: a function of class `PJRTFunction`. `format()`: a string, the signature. `print()`: `x`,
#'   invisibly.
#' @section Errors:
#' * `pjrt_error_argument_count`: arguments are missing, or there are more than the program takes.
#' * `pjrt_error_invalid_input`: elements of nested lists are missing or unknown, or an argument is not an array.
#' * `pjrt_error_shape_mismatch`, `pjrt_error_unsupported_dtype` and the other errors of [pjrt_buffer()] and
#'   [pjrt_execute()]. Messages name the program's argument.
#' @seealso [pjrt_step()] for training loops, [pjrt_execute()] for one call without a function
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # a network, exported by JAX; its parameters are nested dictionaries
#' path <- system.file("exported", "network.jaxexport", package = "pjrt")
#' network <- pjrt_load_exported(path)
#' predict <- pjrt_function(network)
#' predict
#' params <- list(
#'   hidden = list(w = matrix(rnorm(32), 4), b = numeric(8)),
#'   out = list(w = matrix(rnorm(24), 8), b = numeric(3))
#' )
#' predict(params, x = matrix(1:8, 2))
#' @export
pjrt_function <- function(x, as = c("buffer", "array"), device = NULL, arguments = NULL, ...) {
  as <- check_choice(as, c("buffer", "array"), "as")
  check_loaded(x)
  source <- list()
  if (inherits(x, "PJRTLoadedExecutable")) {
    check_unused(...)
    if (!is.null(device)) {
      abort_input("`device` must not be given for an executable: it has one already.")
    }
    source$executable <- x
  } else if (inherits(x, "PJRTExported") && is_compiled_later(x, ...)) {
    device <- as_pjrt_device(device)
    # refuses other platforms
    platform_index(x, platform(device))
    source$compile <- compile_later(x, device, ...)
    described <- describe_exported(x, device)
    described$as <- as
    return(make_function(rename_arguments(described, arguments), source))
  } else if (inherits(x, "PJRTExported") || inherits(x, "PJRTProgram")) {
    source$executable <- pjrt_compile(x, ..., device = device)
    check_loaded(source$executable, "The executable")
  } else {
    abort_type(
      "`x` must be a `PJRTLoadedExecutable`, a `PJRTExported` or a `PJRTProgram`, not ", given(x), "."
    )
  }
  described <- describe_function(x, source$executable)
  described$as <- as
  make_function(rename_arguments(described, arguments), source)
}

# The function that compiles an exported function for the inputs of a call. In a session that has read it, it finds the
# device by its name.
compile_later <- function(x, device, ...) {
  name <- device_name(device)
  function(inputs) {
    here <- tryCatch(as_pjrt_device(device), pjrt_error_invalid_pointer = function(e) device_named(name))
    pjrt_compile(x, ..., device = here, shapes = shapes_of(inputs, x))
  }
}

# What a function of a program knows, as a list:
# * name, device: strings
# * inputs: a data frame with a row for each array that the caller passes. `path` is in normal form, with the argument's
#   name first; `kept` is FALSE for arrays that the program does not use; `donated`, `alias` and `type` as of an
#   executable
# * arguments: the names of the arguments; `optional`: whether the program uses none of their arrays
# * trees: for each argument, the nested list of the rows in `inputs`
# * outputs: a data frame with `path` in normal form ("" for none), and `type`
# * result: the nested list of the rows in `outputs`, or NULL for the result of pjrt_execute()
# * symbolic: the positions, among the inputs that are kept, of those whose dimensions choose the executable
describe_function <- function(x, executable) {
  described <- describe_executable(executable)
  check_one_device(described$num_replicas * described$num_partitions)
  taken <- as_table(list(
    path = call_native(ffi_function_paths, described$inputs$name), kept = rep(TRUE, length(described$inputs$name)),
    donated = described$inputs$donated, alias = described$inputs$alias, type = types(described$inputs)
  ))
  outputs <- as_table(list(
    path = call_native(ffi_function_paths, described$outputs$name), type = types(described$outputs)
  ))
  exported <- if (inherits(x, "PJRTExported")) x else attr(executable, "exported")
  parts <- if (!is.null(exported)) {
    describe_exported_arguments(exported, taken)
  } else {
    describe_named_arguments(taken)
  }
  result <- NULL
  if (!is.null(exported)) {
    result <- exported$output_tree
    outputs$path <- result_paths(result, nrow(outputs))
  } else if (nrow(outputs) > 1L && all(nzchar(outputs$path))) {
    result <- nest(outputs$path)
  }
  c(parts, list(
    name = if (is.null(exported)) described$name else exported$name, outputs = outputs, result = result,
    device = device_line(executable)
  ))
}

check_one_device <- function(count) {
  if (count > 1L) {
    abort_input(
      "The program runs on several devices, so it cannot become a function.",
      hints = "Use pjrt_execute_sharded(), which takes a list of inputs for each device."
    )
  }
}

# Whether a function is compiled by its calls: its file must describe its arguments.
is_compiled_later <- function(x, ..., shapes = NULL) {
  check_can_run(x)
  is.null(shapes) && !is_pytorch(x)
}

# A function of JAX that is not compiled yet.
describe_exported <- function(x, device) {
  check_one_device(x$num_devices)
  kept <- x$inputs[x$inputs$kept, ]
  taken <- as_table(list(
    path = call_native(ffi_function_paths, kept$name), kept = kept$kept, donated = kept$donated, alias = kept$alias,
    type = types(kept)
  ))
  outputs <- as_table(list(path = result_paths(x$output_tree, nrow(x$outputs)), type = types(x$outputs)))
  c(describe_exported_arguments(x, taken), list(
    name = x$name, outputs = outputs, result = x$output_tree, device = paste("device:", as.character(device)),
    symbolic = which(vapply(kept$shape, is.character, NA))
  ))
}

# The shapes of a function's inputs, as pjrt_compile() takes them. A single value is a scalar where the function takes
# one.
shapes_of <- function(inputs, exported) {
  if (!is_symbolic(exported)) {
    return(NULL)
  }
  kept <- exported$inputs[exported$inputs$kept, ]
  shapes <- Map(function(input, shape, dtype) {
    dims <- if (inherits(input, "PJRTBuffer")) shape(input) else dim(input) %||% if (length(shape) > 0L) length(input)
    # of a PRNG key, the data have one more dimension
    if (startsWith(dtype, "key<")) utils::head(dims, -1L) else as.integer(dims)
  }, inputs, kept$shape, kept$dtype)
  stats::setNames(shapes, kept$name)
}

# The arguments of a program whose inputs have names.
describe_named_arguments <- function(inputs) {
  parts <- strsplit(inputs$path, "/", fixed = TRUE)
  first <- vapply(parts, function(part) if (length(part) > 0L) part[[1L]] else "", "")
  # names that are positions, repeated, or both an array and a list
  is_bad <- !nzchar(first) | grepl("^[0-9]+$", first) | inputs$path %in% inputs$path[duplicated(inputs$path)]
  lists <- unlist(lapply(parts, function(part) {
    vapply(seq_len(max(length(part) - 1L, 0L)), function(n) paste(part[seq_len(n)], collapse = "/"), "")
  }))
  is_bad <- is_bad | inputs$path %in% lists
  is_bad <- is_bad | first %in% first[is_bad]
  inputs$path[is_bad] <- unique_names(paste0("x", which(is_bad)), first[!is_bad])
  parts[is_bad] <- as.list(inputs$path[is_bad])
  first[is_bad] <- inputs$path[is_bad]
  arguments <- unique(first)
  renamed <- unique_names(arguments)
  inputs$path <- paste0(renamed[match(first, arguments)], substring(inputs$path, nchar(first) + 1L))
  tree <- nest(inputs$path)
  list(inputs = inputs, arguments = renamed, optional = logical(length(renamed)), trees = unname(tree[renamed]))
}

# The arguments of an exported function. `taken` are the inputs of its program, whose names have the arguments' names.
describe_exported_arguments <- function(x, taken) {
  all <- call_native(ffi_function_paths, x$inputs$path)
  # without "args/0" or "kwargs/scale"
  below <- sub("^[^/]*/[^/]*", "", all)
  # weights are the inputs that are not arguments
  is_weight <- is_pytorch(x) & !seq_along(all) %in% unlist(x$input_tree)
  below[is_weight] <- paste0("/", all[is_weight], recycle0 = TRUE)
  position <- rep(NA_integer_, length(all))
  is_positional <- startsWith(all, "args/") & !is_weight
  position[is_positional] <- as.integer(sub("^args/([0-9]+).*$", "\\1", all[is_positional])) + 1L
  kept <- which(x$inputs$kept)
  if (length(kept) != nrow(taken)) {
    abort_input("The exported function `", x$name, "` is damaged: its program has other inputs.")
  }
  # "params" for the program's name "params/hidden/b" of what is below "/hidden/b"
  known <- ifelse(
    endsWith(taken$path, below[kept]), substring(taken$path, 1L, nchar(taken$path) - nchar(below[kept])), ""
  )
  known[grepl("/", known, fixed = TRUE) | grepl("^[0-9]*$", known)] <- NA
  positional <- vapply(seq_along(x$input_tree$args), function(i) {
    names <- unique(known[position[kept] %in% i])
    if (length(names) == 1L && !is.na(names)) names else NA_character_
  }, "")
  named <- names(x$input_tree$kwargs)
  arguments <- c(ifelse(is.na(positional), paste0("x", seq_along(positional)), positional), named)
  # the names of keywords are fixed
  arguments[seq_along(positional)] <- unique_names(arguments[seq_along(positional)], named)
  owner <- ifelse(
    is.na(position), length(positional) + match(sub("^kwargs/([^/]*).*$", "\\1", all), named), position
  )
  trees <- unname(c(x$input_tree$args, x$input_tree$kwargs))
  optional <- !seq_along(arguments) %in% owner[kept]
  weights <- NULL
  if (any(is_weight)) {
    # the last argument; weights that were exported are its default
    weights <- unique_names("weights", arguments)
    arguments <- c(arguments, weights)
    owner[is_weight] <- length(arguments)
    trees <- c(trees, list(stats::setNames(as.list(which(is_weight)), x$inputs$path[is_weight])))
    optional <- c(optional, TRUE)
  }
  inputs <- as_table(list(
    path = paste0(arguments[owner], below, recycle0 = TRUE), kept = x$inputs$kept, donated = logical(length(owner)),
    alias = rep(NA_integer_, length(owner)), type = types(x$inputs)
  ))
  inputs[kept, c("donated", "alias", "type")] <- taken[c("donated", "alias", "type")]
  list(
    inputs = inputs, arguments = arguments, trees = trees, optional = optional,
    # the name of the argument that has a default, and the default
    weights = weights, default = x$weights
  )
}

# Names that differ from each other, from `others`, and from what the functions made here need.
unique_names <- function(names, others = character()) {
  taken <- c(others, "...", ".callable", "ffi_function_call")
  utils::tail(make.unique(c(taken, names), sep = "_"), length(names))
}

# The nested list of the positions of some paths. Lists whose elements all have numbers have no names.
nest <- function(paths) {
  build <- function(rows, parts) {
    is_end <- lengths(parts) == 0L
    if (any(is_end)) {
      return(rows[[1L]])
    }
    first <- vapply(parts, `[[`, "", 1L)
    keys <- unique(first)
    children <- lapply(keys, function(key) {
      build(rows[first == key], lapply(parts[first == key], `[`, -1L))
    })
    if (setequal(keys, seq_along(keys) - 1L)) {
      children[order(as.integer(keys))]
    } else {
      stats::setNames(children, keys)
    }
  }
  if (length(paths) == 0L) {
    return(list())
  }
  build(seq_along(paths), strsplit(paths, "/", fixed = TRUE))
}

# The path of each array in a nested list of their numbers.
result_paths <- function(tree, count) {
  paths <- character(count)
  visit <- function(node, path) {
    if (is.list(node)) {
      names <- names(node) %||% character(length(node))
      for (i in seq_along(node)) {
        part <- if (nzchar(names[[i]])) call_native(ffi_function_paths, names[[i]]) else as.character(i - 1L)
        visit(node[[i]], c(path, part))
      }
    } else if (!is.null(node)) {
      paths[[node]] <<- paste(path, collapse = "/")
    }
  }
  visit(tree, character())
  paths
}

rename_arguments <- function(described, arguments) {
  if (is.null(arguments)) {
    return(described)
  }
  before <- described$arguments
  if (!is.character(arguments) || anyNA(arguments) || length(arguments) != length(before)) {
    abort_type(
      "`arguments` must be ", counted(length(before), "name"), ", not ", given(arguments), ".",
      hints = if (length(before) > 0L) sprintf("They replace %s.", quoted_list(before))
    )
  }
  is_bad <- !nzchar(arguments) | arguments != unique_names(arguments) | grepl("[./$%'\"`\\\\[]|\\]", arguments)
  if (any(is_bad)) {
    abort_input("`arguments` must be unique names without dots and brackets: got ", quoted_list(arguments[is_bad]), ".")
  }
  first <- sub("/.*$", "", described$inputs$path)
  described$inputs$path <- paste0(
    arguments[match(first, before)], substring(described$inputs$path, nchar(first) + 1L), recycle0 = TRUE
  )
  described$arguments <- arguments
  described
}

quoted_list <- function(names) {
  toString(abbreviate_list(paste0("`", names, "`", recycle0 = TRUE)))
}

# The R function for a description. `source` is what executable_for() takes.
make_function <- function(described, source) {
  is_step <- !is.null(described$state)
  arguments <- setdiff(described$arguments, described$state)
  optional <- described$optional[match(arguments, described$arguments)]
  first <- if (is_step) unique_state(arguments)
  formals <- c(first, arguments)
  required <- c(first, arguments[!optional])
  defaults <- stats::setNames(rep(alist(x = ), length(formals)), formals)
  defaults[arguments[optional]] <- list(NULL)
  if (!is.null(described$weights)) {
    # not the list itself, which print() of the bare function would show
    defaults[intersect(described$weights, arguments)] <- list(call("$", as.name(".described"), as.name("default")))
  }
  call <- bquote(.Call(ffi_function_call, .callable, .(as.call(c(quote(list), lapply(formals, as.name))))))
  if (!is_step && described$as == "array") {
    call <- bquote(as_array(.(call)))
  }
  f <- eval(call("function", as.pairlist(c(defaults, alist(... = ))), bquote(
    if (.(wrong_call(required, length(formals)))) refuse_call() else .(call)
  )))
  environment(f) <- list2env(list(.source = source, .described = described), parent = topenv())
  make_callable(environment(f))
  structure(f, class = if (is_step) "PJRTStep" else "PJRTFunction")
}

# The native part of a function, which its environment keeps. The native side calls this for a function that R has read.
make_callable <- function(environment) {
  described <- environment$.described
  arguments <- setdiff(described$arguments, described$state)
  result <- described$result
  environment$.callable <- .Call(
    ffi_function_new, environment, as_utf8(c(if (!is.null(described$state)) "", arguments)),
    as_utf8(described$inputs$path), described$inputs$kept, if (!is.null(result)) build_tree(result),
    if (!is.null(result)) as.integer(unlist(flatten(result))), described$symbolic %||% integer()
  )
}

# The first argument of a step.
unique_state <- function(arguments) {
  utils::tail(make.unique(c(arguments, "state"), sep = "_"), 1L)
}

# The expression for a call with too few or too many arguments.
wrong_call <- function(required, count) {
  extra <- quote(...length() > 0L)
  if (length(required) <= 20L) {
    Reduce(function(a, b) call("||", a, b), lapply(required, function(name) call("missing", as.name(name))), extra)
  } else {
    # to ask for each takes longer than the call
    bquote(.(extra) || nargs() < .(length(required)))
  }
}

# Raises the error for a call of a function with too few or too many arguments.
refuse_call <- function() {
  frame <- parent.frame()
  f <- sys.function(-1L)
  formals <- formals(f)
  all <- setdiff(names(formals), "...")
  is_required <- vapply(formals[all], function(default) identical(default, quote(expr = )), NA)
  is_missing <- vapply(all, function(name) eval(call("missing", as.name(name)), frame), NA)
  extra <- eval(quote(names(list(...))), frame) %||% character(eval(quote(...length()), frame))
  lacking <- all[is_required & is_missing]
  unknown <- extra[nzchar(extra)]
  takes <- sprintf("The function takes %s", if (length(all) > 0L) quoted_list(all) else "no arguments")
  problem <- if (length(unknown) > 0L) {
    sprintf("%s: it has no argument %s.", takes, quoted_list(unknown))
  } else if (length(lacking) > 0L) {
    sprintf("%s: %s missing.", takes, paste(quoted_list(lacking), if (length(lacking) == 1L) "is" else "are"))
  } else {
    sprintf("%s: got %d too many.", takes, length(extra))
  }
  pjrt_abort(problem, "argument_count")
}

# The native side calls this for other arguments than plain arrays: returns a plain array, or advice as a string.
plain_argument <- function(x) {
  plain_data(x) %||% conversion_advice(x)
}

# The native side calls this for a function's first call: its environment and the list of the program's inputs.
executable_for_call <- function(call) {
  executable_for(call[[1L]]$.source, call[[2L]])
}

# The executable that a function runs with these inputs: buffers and R arrays in the program's order. Called once, and
# again for other dimensions of the inputs in `symbolic`. `source` is a list with the executable, or with a function of
# the inputs.
executable_for <- function(source, inputs) {
  source$executable %||% source$compile(inputs)
}

in_r <- function(paths) {
  call_native(ffi_function_paths_in_r, paths)
}

description_of <- function(f, class = "PJRTFunction") {
  described <- if (is.function(f)) environment(f)$.described
  if (!is.list(described)) {
    check_intact(NULL, class)
  }
  described
}

# `x: f32[2x3], donated` for each row.
signature_lines <- function(names, types, donated = FALSE) {
  names <- ifelse(nzchar(names), paste0(names, ": "), "")
  paste0(names, types, ifelse(donated, ", donated", ""), recycle0 = TRUE)
}

# Lines of a signature, below a title.
signature_section <- function(title, lines, most = 12L) {
  if (length(lines) == 0L) {
    return(sprintf("  %s: none", title))
  }
  c(sprintf("  %s:", title), paste0("    ", abbreviate_list(lines, most)))
}

#' @rdname pjrt_function
#' @export
format.PJRTFunction <- function(x, ...) {
  described <- description_of(x, class(x)[[1L]])
  described$inputs <- shown_inputs(described)
  described$inputs <- described$inputs[described$inputs$kept, ]
  inputs <- signature_lines(in_r(described$inputs$path), described$inputs$type, described$inputs$donated)
  outputs <- toString(abbreviate_list(described$outputs$type))
  if (nrow(described$outputs) != 1L) {
    outputs <- paste0("(", outputs, ")")
  }
  sprintf("%s(%s) -> %s", described$name, toString(abbreviate_list(inputs)), outputs)
}

#' @rdname pjrt_function
#' @export
format.PJRTStep <- format.PJRTFunction

#' @rdname pjrt_function
#' @export
print.PJRTFunction <- function(x, ...) {
  described <- description_of(x)
  inputs <- shown_inputs(described)
  is_shown <- inputs$kept
  writeLines(c(
    sprintf("<PJRTFunction %s>", described$name),
    signature_section("arguments", signature_lines(in_r(inputs$path), inputs$type, inputs$donated)[is_shown]),
    if (!all(is_shown)) signature_section("not used", in_r(inputs$path[!is_shown])),
    signature_section("result", signature_lines(in_r(described$outputs$path), described$outputs$type)),
    sprintf("  %s", described$device)
  ))
  invisible(x)
}

# The inputs in the order of the arguments. All weights count as one: there may be thousands.
shown_inputs <- function(described) {
  inputs <- described$inputs
  if (is.null(described$weights)) {
    return(inputs)
  }
  first <- sub("/.*$", "", inputs$path)
  is_weight <- first == described$weights
  weights <- inputs[which(is_weight)[[1L]], ]
  weights$path <- described$weights
  weights$type <- paste0(counted(sum(is_weight), "array"), if (length(described$default) > 0L) " of the model" else "")
  arguments <- inputs[!is_weight, ]
  rbind(arguments[order(match(first[!is_weight], described$arguments)), ], weights)
}

#' @export
str.PJRTFunction <- function(object, ...) {
  cat(" ", class(object)[[1L]], " ", format.PJRTFunction(object), "\n", sep = "")
}

#' @export
str.PJRTStep <- str.PJRTFunction
