# The program of an exported function for a platform and for shapes: a function for several platforms takes the
# platform's number as an argument, and symbolic dimensions have no size.

# Checks a program, or an exported function, and returns the shapes that are given for it.
check_compilable <- function(program, shapes) {
  if (inherits(program, "PJRTExported")) {
    check_can_run(program)
    return(given_shapes(program, shapes))
  }
  check_program(program)
  if (!is.null(shapes)) {
    abort_input("`shapes` is only for exported functions.", hints = "Load one with pjrt_load_exported().")
  }
}

check_can_run <- function(x) {
  check_exported(x, "program")
  check_program(x$program)
  refused <- why_refused(x)
  if (!is.null(refused)) {
    abort_input("The exported function `", x$name, "` ", refused$reason, hints = refused$hints)
  }
}

# The shapes and sizes that a user gives, as a flat list of numbers with names.
given_shapes <- function(exported, shapes) {
  if (is.null(shapes)) {
    return(list())
  }
  hints <- "Such as list(x = c(32, 4)) for the input `x`, or list(b = 32) for the symbolic dimension `b`."
  if (is.numeric(shapes) && !is.object(shapes)) {
    shapes <- as.list(shapes)
  }
  if (!is.list(shapes) || is.object(shapes)) {
    abort_type("`shapes` must be a list with the shapes of inputs, not ", given(shapes), ".", hints = hints)
  }
  inputs <- exported$inputs$name[exported$inputs$kept]
  if (is.null(names(shapes)) && length(shapes) <= length(inputs)) {
    names(shapes) <- inputs[seq_along(shapes)]
  }
  flat <- lapply(flat_shapes(shapes), plain_shape)
  if (length(flat) > 0L && (is.null(names(shapes)) || anyNA(names(flat)) || !all(nzchar(names(flat))))) {
    abort_input(
      "`shapes` must have names, or a shape for each of the ", length(inputs), " inputs in order.", hints = hints
    )
  }
  for (dim in flat) {
    if (!is.numeric(dim) || is.object(dim) || anyNA(dim) || any(dim < 0 | dim != trunc(dim) | dim > 2^53)) {
      abort_type("Each shape in `shapes` must be whole numbers from 0, not ", given(dim), ".", hints = hints)
    }
  }
  flat
}

# The numbers in a nested list, with their paths as names.
flat_shapes <- function(shapes, path = "") {
  flat <- list()
  for (i in seq_along(shapes)) {
    key <- names(shapes)[i] %||% ""
    here <- if (nzchar(path)) paste0(path, if (nzchar(key)) paste0("$", key) else paste0("[[", i, "]]")) else key
    part <- shapes[[i]]
    flat <- c(
      flat, if (is.list(part) && !is.object(part)) flat_shapes(part, here) else structure(list(part), names = here)
    )
  }
  flat
}

# The program of a checked function for a platform, with the sizes that follow from `shapes`.
exported_program <- function(exported, platform, shapes) {
  index <- platform_index(exported, platform)
  sizes <- exported_sizes(exported, shapes)
  if (is.na(index) && !is_symbolic(exported)) {
    return(exported$program)
  }
  kept <- exported$inputs$kept
  dtypes <- exported$inputs$dtype[kept]
  shapes <- Map(function(dtype, dim) c(dim, key_size(dtype)), dtypes, sizes$inputs[kept])
  refined_program(exported, index, unname(shapes))
}

# The number of a platform, from 0, that the program takes; NA if it takes none.
platform_index <- function(exported, platform) {
  # PyTorch exports for any platform
  if (length(exported$platforms) == 0L) {
    return(NA_integer_)
  }
  index <- match(platform, exported$platforms) - 1L
  if (is.na(index) && "platform" %in% exported$disabled_checks) {
    index <- 0L
  }
  if (is.na(index)) {
    abort_input(
      "The exported function `", exported$name, "` is for the platform \"",
      paste(exported$platforms, collapse = "\", \""),
      "\", not for \"", platform, "\".",
      hints = paste0(
        "Export it for this platform: jax.export.export(jax.jit(f), platforms=[\"", platform, "\"])(*args)."
      )
    )
  }
  if (length(exported$platforms) > 1L) index else NA_integer_
}

# The last dimension of a PRNG key's data.
key_size <- function(dtype) {
  switch(dtype, "key<fry>" = 2, "key<rbg>" = , "key<unsafe_rbg>" = 4)
}

# The shapes of all inputs and outputs for those that are given.
exported_sizes <- function(exported, shapes) {
  if (length(shapes) == 0L && is_symbolic(exported)) {
    abort_no_sizes(exported)
  }
  call_with_text(
    ffi_exported_sizes, exported$inputs$name, exported$inputs$path, exported$inputs$shape, exported$outputs$shape,
    as.character(names(shapes)), unname(shapes)
  )
}

abort_no_sizes <- function(exported) {
  symbolic <- symbolic_dimensions(exported)
  sizes <- structure(rep(list(32), length(symbolic)), names = symbolic)
  example <- which(vapply(exported$inputs$shape, is.character, NA))
  # not every function has arrays of these sizes
  input <- tryCatch(
    sprintf(
      "%s = c(%s)", quoted_name(exported$inputs$name[[example[[1L]]]]),
      toString(exported_sizes(exported, sizes)$inputs[[example[[1L]]]])
    ),
    error = function(e) NULL
  )
  abort_input(
    "The exported function `", exported$name, "` has symbolic dimensions, whose sizes are not known: ",
    toString(symbolic), ".",
    hints = sprintf(
      "Give %s: shapes = list(%s).", c("the shapes of inputs", "the sizes"),
      c(input %||% NA, sprintf("%s = 32", symbolic[[1L]]))
    )[c(!is.null(input), TRUE)]
  )
}

quoted_name <- function(name) {
  if (make.names(name) == name) name else paste0("`", name, "`")
}

# The program of a function with these shapes of the arrays that it takes, and a platform's number.
refined_program <- function(exported, index, shapes) {
  names <- exported$inputs$name[exported$inputs$kept]
  abort <- function(problem) abort_not_refined(exported, problem)
  tryCatch(
    call_native(ffi_exported_refine, exported$program, if (is.na(index)) -1L else index, shapes, names),
    pjrt_error_dynamic_shape = abort, pjrt_error_unsupported_program = abort
  )
}

abort_not_refined <- function(exported, problem) {
  what <- if (is_symbolic(exported)) "its symbolic dimensions" else "its platforms"
  pjrt_abort(
    paste(
      paste0("The exported function `", exported$name, "` cannot be compiled here: ", what, " cannot be resolved."),
      strsplit(conditionMessage(problem), "\n", fixed = TRUE)[[1L]][[1L]]
    ),
    "dynamic_shape", parent = problem,
    hints = if (is_symbolic(exported)) {
      paste(
        "Export it with fixed shapes, once for each shape:",
        "jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((32, 4), \"float32\"))."
      )
    } else {
      sprintf(
        "Export it for one: jax.export.export(jax.jit(f), platforms=[\"%s\"])(*args).", exported$platforms[[1L]]
      )
    }
  )
}
