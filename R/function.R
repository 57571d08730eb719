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
#' flattened are nested lists:
#'
#' | Python | R |
#' |---|---|
#' | `params['w']`, of a dictionary | `params$w` |
#' | `state.mu`, of a named tuple or class | `state$mu` |
#' | `state[0]`, of a tuple or list | `state[[1]]` |
#' | `args[0]`, of `*args` | `args[[1]]` |
#' | `()`, `optax.EmptyState()` | `list()` |
#' | `None` | `NULL` |
#'
#' So `opt_state[1][0].count` in Python is `opt_state[[2]][[1]]$count` in R, also in messages, and in what `print()` and
#' [pjrt_step()] show and take. Elements with names are matched by name, in any order, all others by position. Fields of
#' named tuples and classes have positions, too, but elements of dictionaries do not. `NULL` and empty lists may be left
#' out where this does not change positions. A file has the names of fields only through the arrays that the program
#' uses: a field that is `None` or not used may have none. Any name stands for it, but a list for a class cannot be
#' longer than the class.
#'
#' Each array is one of these:
#' * a `PJRTBuffer`, which must have the dtype, shape and device that the program expects.
#' * an R vector or array, or another object that [pjrt_buffer()] takes. It must have the expected shape: a vector of
#'   length n fits shape n, and a single value fits a scalar. It is uploaded with the expected dtype, as by
#'   [pjrt_buffer()] with `check = TRUE`: values that the dtype cannot hold, and `NA`, are errors. For integers,
#'   fractions are cut off: 1.9 becomes 1.
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
#' A function exported by JAX or PyTorch returns nested lists with the structure of the Python result, as for arguments.
#' Other programs return what [pjrt_execute()] returns; outputs with names such as `grads$w` are put into nested lists.
#' A single output is returned without a list.
#'
#' # Several devices
#' A program for several devices divides its arguments as it says, like [pjrt_shard()]: pass whole arrays or buffers.
#' With `as = "array"`, the function returns whole arrays, as [pjrt_unshard()] does. With `as = "buffer"`, it returns at
#' once, and each array of the result is a list of its parts: a buffer for each device. The function also takes such
#' lists, so results and the state of a [pjrt_step()] stay on their devices. Every replica gets the same whole arrays,
#' and `as = "array"` returns the first replica's results; to give replicas arrays of their own, pass lists of buffers.
#'
#' `devices` chooses the devices, as for [pjrt_compile()]; by default they are the first ones of the default platform.
#'
#' @param x A `PJRTLoadedExecutable`, a `PJRTExported` from [pjrt_load_exported()] or a `PJRTProgram`. Exported
#'   functions and programs are compiled with [pjrt_compile()]: those with symbolic dimensions, or with dimensions such
#'   as `?` that have no size, at the first call with each shape, other JAX functions at the first call, and all others
#'   at once.
#' @param as A string: `"buffer"` if the function returns buffers, at once, or `"array"` if it waits and returns arrays,
#'   as from [as_array()]. See below about several devices.
#' @param device A device to compile for: anything that [as_pjrt_device()] takes. An executable has one already.
#' @param arguments A character vector: names for the function's arguments, instead of the program's.
#' @param object A `PJRTFunction`, or a `PJRTStep` from [pjrt_step()].
#' @param ... For `pjrt_function()`, further arguments of [pjrt_compile()]. Not used by methods.
#' @return
#' * `pjrt_function()`: a function of class `PJRTFunction`.
#' * `format()`: a string, the signature.
#' * `print()`: `x`, invisibly. It folds long lists.
#' * `summary()`: a list of two data frames with a row for each array, `inputs` and `outputs`: `name`, `type`, and for
#'   inputs `kept`, whether the program takes it, `donated`, and for a step `from`, the output that replaces it.
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
  source <- list(as = as)
  if (inherits(x, "PJRTExported")) {
    source$weights <- x$weights
  }
  if (inherits(x, "PJRTLoadedExecutable")) {
    check_unused(...)
    if (!is.null(device)) {
      abort_input("`device` must not be given for an executable: it has one already.")
    }
    source$executable <- x
  } else if (inherits(x, c("PJRTExported", "PJRTProgram")) && is_compiled_later(x, ...)) {
    source <- c(source, compile_later(x, device, ...))
    routine <- if (inherits(x, "PJRTExported")) ffi_exported_function else ffi_function_of_program
    return(make_function(renamed_function(call_native(routine, x), arguments), source))
  } else if (inherits(x, "PJRTExported") || inherits(x, "PJRTProgram")) {
    source$executable <- pjrt_compile(x, ..., device = device)
    check_loaded(source$executable, "The executable")
  } else {
    abort_type(
      "`x` must be a `PJRTLoadedExecutable`, a `PJRTExported` or a `PJRTProgram`, not ", given(x), "."
    )
  }
  exported <- attr(source$executable, "exported")
  source$device <- device_line(source$executable)
  text <- call_native(ffi_function_of_executable, source$executable, exported)
  make_function(renamed_function(text, arguments), source)
}

# Whether a function is compiled by its calls: its file must describe its arguments.
is_compiled_later <- function(x, ..., shapes = NULL) {
  is_exported <- inherits(x, "PJRTExported")
  if (is_exported) {
    call_native(ffi_exported_check, x, NULL)
  }
  is.null(shapes) && ((is_exported && x$framework != "PyTorch") || is_symbolic(x))
}

# The function that compiles an exported function or a program for the inputs of a call, and the devices in words. In a
# session that has read it, it finds the devices by their names.
compile_later <- function(x, device, ..., devices = NULL) {
  # here, and not by the first call
  check_compile_arguments(...)
  if (!is.null(device) && !is.null(devices)) {
    abort_input("Only one of `device` and `devices` can be given.")
  }
  is_exported <- inherits(x, "PJRTExported")
  if (is.null(device) && is.null(devices) && is_exported && x$num_devices > 1) {
    devices <- utils::head(devices(platform(as_pjrt_device(NULL))), x$num_devices)
  }
  chosen <- if (is.null(devices)) list(as_pjrt_device(device)) else device_list(devices)
  if (is_exported) {
    call_native(ffi_exported_check, x, platform(chosen[[1L]]))
  }
  names <- vapply(chosen, device_name, "")
  here <- function(i) {
    tryCatch(as_pjrt_device(chosen[[i]]), pjrt_error_invalid_pointer = function(e) device_named(names[[i]]))
  }
  words <- vapply(chosen, as.character, "")
  list(
    device = paste0(if (is.null(devices)) "device: " else "devices: ", toString(words)),
    compile = function(inputs) {
      shapes <- shapes_of(inputs, x)
      if (is.null(devices)) {
        pjrt_compile(x, ..., device = here(1L), shapes = shapes)
      } else {
        pjrt_compile(x, ..., devices = lapply(seq_along(names), here), shapes = shapes)
      }
    }
  )
}

check_compile_arguments <- function(...) {
  given <- list(...)
  known <- c("", names(formals(pjrt_compile)))
  do.call(check_unused, given[!(names(given) %||% rep("", length(given))) %in% known])
}

# The shapes of the inputs of an exported function or a program, as pjrt_compile() takes them. An input that is
# given as its parts on several devices has a fixed shape.
shapes_of <- function(inputs, x) {
  if (!is_symbolic(x)) {
    return(NULL)
  }
  kept <- program_inputs(x)
  shapes <- list()
  # a loop, not Map(), so that errors show the user's call
  for (i in seq_along(inputs)) {
    input <- inputs[[i]]
    is_parts <- is.list(input) && !is.object(input)
    if (is_parts && is.character(kept$shape[[i]])) {
      abort_input(
        "`", kept$name[[i]], "` must be a whole array, not a list of its parts, for the first call with its shape."
      )
    }
    if (!is_parts) {
      shapes[[kept$name[[i]]]] <- shape_of_input(input, kept$shape[[i]], kept$dtype[[i]])
    }
  }
  shapes
}

# The shape of an input for one of this shape: that of R data may stand for a scalar, or be the length of a vector.
shape_of_input <- function(input, shape, dtype) {
  dims <- if (inherits(input, "PJRTBuffer")) shape(input) else dim(input)
  if (startsWith(dtype, "key<")) {
    # the data have one more dimension
    as.integer(utils::head(dims %||% length(input), -1L))
  } else {
    as.integer(dims %||% if (length(shape) > 0L) length(input))
  }
}

# The description of a function with other names of its arguments. It is a text that native code makes and reads.
renamed_function <- function(text, arguments) {
  if (is.null(arguments)) text else call_native(ffi_function_renamed, text, arguments)
}

# The R function for a description. `source` is a list with the `executable`, or with the function `compile` of the
# inputs; and `as`, `device` (a line that describes the devices), and the `weights` of a model.
make_function <- function(text, source) {
  facts <- call_native(ffi_function_facts, text)
  is_step <- !is.null(facts$state)
  is_shown <- !facts$arguments %in% facts$state
  arguments <- facts$arguments[is_shown]
  first <- if (is_step) utils::tail(make.unique(c(arguments, "state"), sep = "_"), 1L)
  formals <- c(first, arguments)
  required <- c(first, arguments[!facts$optional[is_shown]])
  defaults <- stats::setNames(rep(alist(x = ), length(formals)), formals)
  defaults[setdiff(formals, required)] <- list(NULL)
  if (!is.null(facts$weights)) {
    # not the list itself, which print() of the bare function would show
    defaults[intersect(facts$weights, arguments)] <- list(call("$", as.name(".source"), as.name("weights")))
  }
  call <- bquote(.Call(ffi_function_call, .callable, .(as.call(c(quote(list), lapply(formals, as.name))))))
  if (is_step) {
    source$as <- "buffer"
  } else if (source$as == "array" && facts$devices == 1 && facts$has_outputs) {
    call <- bquote(as_array(.(call)))
  }
  f <- eval(call("function", as.pairlist(c(defaults, alist(... = ))), bquote(
    if (.(wrong_call(required, length(formals)))) refuse_call() else .(call)
  )))
  environment(f) <- list2env(list(.source = source, .text = text), parent = topenv())
  make_callable(environment(f))
  structure(f, class = if (is_step) "PJRTStep" else "PJRTFunction")
}

# The native part of a function, which its environment keeps. The native side calls this for a function that R has read.
make_callable <- function(environment) {
  environment$.callable <- .Call(ffi_function_new, environment, environment$.text)
}

quoted_list <- function(names) {
  toString(abbreviate_list(paste0("`", names, "`", recycle0 = TRUE)))
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
  # JAX does not write the names of arguments that a program does not use
  is_made_up <- length(unknown) > 0L && any(grepl("^x[0-9]+$", all))
  hint <- "Names like `x2` stand for arguments whose names are not in the file: pass these by position."
  pjrt_abort(problem, "argument_count", hints = if (is_made_up) hint)
}

# The native side calls this for other arguments than plain arrays: returns a plain array, or advice as a string.
plain_argument <- function(x) {
  plain_data(x) %||% conversion_advice(x)
}

# The executable that a function runs with these inputs: buffers and R arrays in the program's order. The native side
# calls this, with the function's environment and the inputs, for the first call and for other shapes.
executable_for_call <- function(call) {
  source <- call[[1L]]$.source
  source$executable %||% source$compile(call[[2L]])
}

# The native side calls this for a program on several devices, with the function's environment, its executable and the
# inputs. Returns a list of the outputs: whole arrays, or lists of parts.
execute_on_devices <- function(call) {
  executable <- call[[2L]]
  inputs <- call[[3L]]
  parts <- vector("list", length(inputs))
  i <- 0L
  tryCatch(
    {
      for (i in seq_along(inputs)) parts[[i]] <- input_parts(inputs[[i]], executable, i)
      i <- 0L
      made <- pjrt_execute_sharded(
        executable, lapply(seq_along(devices(executable)), function(k) lapply(parts, `[[`, k)),
        simplify = FALSE
      )
    },
    pjrt_error = function(e) stop(with_own_names(e, call[[1L]]$.text, executable, i))
  )
  numbers <- seq_along(made[[1L]])
  if (call[[1L]]$.source$as == "array") {
    lapply(numbers, function(n) unshard_output(made, executable, n, NULL))
  } else {
    lapply(numbers, function(n) with_division(lapply(made, `[[`, n), executable, n, "output"))
  }
}

# The parts of an input, one for each device: a list is one of them already.
input_parts <- function(x, executable, number) {
  if (is.list(x) && !is.object(x)) {
    count <- length(devices(executable))
    if (length(x) != count || !all(vapply(x, inherits, NA, "PJRTBuffer"))) {
      abort_input("`x` must be a whole array, or a list of ", counted(count, "buffer"), ", one for each device.")
    }
    check_division(x, executable, number, "input", "x")
    return(x)
  }
  if (inherits(x, "PJRTBuffer")) {
    return(shard_for_input(x, executable, number, dim = NULL, dtype = NULL, tensor = NULL))
  }
  plain <- if (inherits(x, "integer64")) x else plain_data(x)
  if (is.null(plain)) {
    abort_type("`x` must be a `PJRTBuffer` or an R array of numbers, not ", given(x), ".", hints = conversion_advice(x))
  }
  tryCatch(
    shard_for_input(plain, executable, number, dim = NULL, dtype = NULL, tensor = NULL, check = TRUE),
    pjrt_error_invalid_input = function(e) {
      # counts the elements of the whole array, not of a part
      dtype <- describe_executable(executable)$inputs$dtype[[number]]
      pjrt_buffer(plain, dtype, device = devices(executable)[[1L]], check = TRUE)
      stop(e)
    }
  )
}

# An error that names the inputs as the function does. With a number above 0, it is about this input.
with_own_names <- function(error, text, executable, number) {
  inputs <- call_native(ffi_function_arrays, text)$inputs
  own <- inputs$name[inputs$kept]
  known <- describe_executable(executable)$inputs$name
  for (i in seq_along(own)) {
    error$message <- gsub(sprintf("(`%s`)", known[[i]]), sprintf("(`%s`)", own[[i]]), error$message, fixed = TRUE)
  }
  about_x <- "^`(x|data)` "
  if (number > 0L) {
    link <- if (grepl(about_x, error$message)) "" else ":"
    error$message <- sprintf("Argument %d (`%s`)%s %s", number, own[[number]], link, sub(about_x, "", error$message))
  }
  error
}

description_of <- function(f, class = "PJRTFunction") {
  environment <- if (is.function(f)) environment(f)
  if (!is.environment(environment) || !is_text(environment$.text) || !is.list(environment$.source)) {
    check_intact(NULL, class)
  }
  environment
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
  call_native(ffi_function_signature, description_of(x, class(x)[[1L]])$.text)
}

#' @rdname pjrt_function
#' @export
format.PJRTStep <- format.PJRTFunction

#' @rdname pjrt_function
#' @export
print.PJRTFunction <- function(x, ...) {
  class <- class(x)[[1L]]
  described <- description_of(x, class)
  writeLines(c(
    sprintf("<%s %s>", class, call_native(ffi_function_facts, described$.text)$name),
    call_native(ffi_function_lines, described$.text, length(described$.source$weights) > 0L),
    sprintf("  %s", described$.source$device)
  ))
  invisible(x)
}

#' @export
print.PJRTStep <- print.PJRTFunction

#' @rdname pjrt_function
#' @export
summary.PJRTFunction <- function(object, ...) {
  check_unused(...)
  described <- description_of(object, class(object)[[1L]])
  lapply(call_native(ffi_function_arrays, described$.text), as.data.frame)
}

#' @export
summary.PJRTStep <- summary.PJRTFunction

#' @export
str.PJRTFunction <- function(object, ...) {
  cat(" ", class(object)[[1L]], " ", format.PJRTFunction(object), "\n", sep = "")
}

#' @export
str.PJRTStep <- str.PJRTFunction
