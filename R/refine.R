# A program for certain shapes, and that of an exported function for a platform: a function for several platforms takes
# the platform's number as an argument, and symbolic dimensions have no size.

# Checks a program, or an exported function, and returns the shapes that are given for it.
check_compilable <- function(program, shapes) {
  if (inherits(program, "PJRTExported")) {
    call_native(ffi_exported_check, program, NULL)
    return(given_shapes(shapes, program_inputs(program)$name))
  }
  check_program(program)
  if (!is.null(shapes)) {
    return(given_shapes(shapes, program_inputs(program)$name))
  }
}

# The inputs that a program or the one of an exported function takes: `name`, `dtype` and `shape`, a character vector if
# dimensions have no sizes.
program_inputs <- function(x) {
  if (inherits(x, "PJRTExported")) x$inputs[x$inputs$kept, ] else call_native(ffi_program_inputs, x)
}

is_symbolic <- function(x) {
  inputs <- if (inherits(x, "PJRTExported")) x$inputs else program_inputs(x)
  any(vapply(inputs$shape, is.character, NA))
}

# The shapes and sizes that a user gives, as a flat list of numbers with names.
given_shapes <- function(shapes, inputs) {
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
  if (is.null(names(shapes)) && length(shapes) <= length(inputs)) {
    names(shapes) <- inputs[seq_along(shapes)]
  }
  if (length(shapes) > 0L && (is.null(names(shapes)) || anyNA(names(shapes)) || !all(nzchar(names(shapes))))) {
    abort_input(
      "`shapes` must have names, or a shape for each of the ", length(inputs), " inputs in order.", hints = hints
    )
  }
  if (any(vapply(shapes, is.null, NA))) {
    abort_type("Each shape in `shapes` must be whole numbers from 0, not NULL.", hints = hints)
  }
  # within lists, NULL is `None`
  tree <- build_tree(shapes)
  flat <- lapply(flatten(shapes), plain_shape)
  names(flat) <- vapply(seq_along(flat), function(i) tree_path(tree, i), "")
  for (dim in flat) {
    if (!is.numeric(dim) || is.object(dim) || anyNA(dim) || any(dim < 0 | dim != trunc(dim) | dim > 2^53)) {
      abort_type("Each shape in `shapes` must be whole numbers from 0, not ", given(dim), ".", hints = hints)
    }
  }
  flat
}

# A checked program or function as a program for a platform, with the sizes that follow from `shapes`.
fixed_program <- function(program, platform, shapes) {
  names <- as.character(names(shapes))
  if (inherits(program, "PJRTExported")) {
    call_with_text(ffi_exported_program, program, platform, names, unname(shapes))
  } else if (is.null(shapes)) {
    program
  } else {
    call_with_text(ffi_program_of_shapes, program, names, unname(shapes))
  }
}
