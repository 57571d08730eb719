# Arrays and compile callbacks for dispatchers. Needs helper-programs.R.

# An array as dependents make it. `...` replaces fields.
anvl_array <- function(data, ambiguous = FALSE, ...) {
  fields <- if (inherits(data, "PJRTBuffer")) {
    list(data = data, dtype = dtype(data), shape = shape(data), device = device(data))
  } else {
    list(data = data, dtype = "f64", shape = dim(data), device = "here")
  }
  fields <- c(fields, list(ambiguous = ambiguous, backend = "pjrt"))
  structure(utils::modifyList(fields, list(...)), class = "AnvlArray")
}

anvl_f32 <- function(x, ...) anvl_array(pjrt_buffer(x, "f32"), ...)

# The type of an aval in a program.
aval_type <- function(dtype, shape) {
  paste0("tensor<", paste0(shape, "x", recycle0 = TRUE, collapse = ""), if (dtype == "bool") "i1" else dtype, ">")
}

# A program that returns its arguments.
echo_program <- function(types) {
  names <- sprintf("%%a%d", seq_along(types))
  sprintf(
    "func.func @main(%s) -> (%s) {\n return %s : %s\n}", paste0(names, ": ", types, collapse = ", "),
    toString(types), toString(names), toString(types)
  )
}

# Compiles a program that returns its inputs. `...` replaces elements of the result.
compile_echo <- function(info, ..., exec = compile(echo_program(types))) {
  avals <- Filter(Negate(is.null), info$avals)
  types <- vapply(avals, function(aval) aval_type(aval$dtype, aval$shape), "")
  result <- list(
    exec = exec, client = pjrt_client("cpu"), device = pjrt_device("cpu:0"),
    out_tree = build_tree(as.list(seq_along(avals))), out_avals = avals
  )
  given <- list(...)
  result[names(given)] <- given
  result
}

# A dispatcher that counts its compilations and keeps what `compile` gets, in the attribute `log`.
counting_dispatcher <- function(
  capacity = 10, compile = compile_echo, ..., default_device = function() pjrt_device("cpu:0")
) {
  log <- new.env()
  log$count <- 0L
  made <- dispatcher(capacity, function(info) {
    log$count <- log$count + 1L
    log$info <- info
    compile(info)
  }, ..., default_device = default_device)
  list(dispatch = function(...) dispatch(made, list(...)), dispatcher = made, log = log)
}
