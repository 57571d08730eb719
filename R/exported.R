#' Load a function exported by JAX or PyTorch
#'
#' `pjrt_load_exported()` reads a function that `jax.export` wrote, for [pjrt_compile()]. In Python:
#' ```python
#' exported = jax.export.export(jax.jit(f), platforms=["cpu"])(*args)
#' open("f.jaxexport", "wb").write(exported.serialize())
#' ```
#'
#' JAX flattens the arguments of a function, which may be nested lists, tuples and dictionaries, into a sequence of
#' arrays. Dictionaries are sorted by key. The compiled program takes these arrays by position, in the order of
#' `inputs`. It does not take arrays that the function does not use (`kept` is `FALSE`). It returns the arrays of the
#' result in the order of `outputs`. [pjrt_function()] makes a function that takes and returns nested lists instead.
#'
#' `print()` shows the arguments and the result as trees of names in R's spelling, with types and shapes, and which
#' arguments are donated. Trees with many arrays are folded. `as.character()` returns the text of the program.
#'
#' Pass a PRNG key (`key<fry>`, `key<rbg>`, `key<unsafe_rbg>`) as its `jax.random.key_data()`: a `ui32` array with one
#' more dimension, of size 2 for `key<fry>` and 4 for the others.
#'
#' A function that was exported for several devices needs as many: see [pjrt_execute_sharded()]. A function that was
#' exported for several platforms is compiled for the platform of the device.
#'
#' Custom calls need a handler; see [pjrt_register_custom_call()]. Most linear algebra works: see [linear-algebra].
#'
#' @section Symbolic dimensions:
#' A function can have symbolic dimensions, such as the shape `(b, 4)`. The argument `shapes` of [pjrt_compile()] sets
#' their sizes:
#' ```r
#' pjrt_compile(exported, shapes = list(x = c(32, 4)))
#' pjrt_compile(exported, shapes = list(b = 32))
#' ```
#' Inputs have the names in `inputs$name`. The shape of one input may determine several symbolic dimensions, and sizes
#' that depend on them, such as `2*b + 1`. If an input and a dimension have the same name, the name stands for the
#' input.
#'
#' PyTorch's files of models with `dynamic_shapes` do not say which sizes are equal. Each such size is a dimension of
#' its own, `d1`, `d2` and so on, and the sizes of outputs are `"?"`.
#'
#' The package replaces symbolic dimensions with sizes. If it cannot do this for an operation, the error names the
#' operation.
#'
#' @section Derivatives:
#' `exported.serialize(vjp_order=1)` writes a function together with its derivative, and `vjp_order=2` also the second
#' derivative. `vjp = TRUE` loads the derivative, which is another `PJRTExported`. Its inputs are the arguments of the
#' function, and then the cotangents of the outputs, such as `cotangents['loss']` for the output `result['loss']`. For
#' the gradient of a loss, pass `1`. Its outputs are the cotangents of the arguments, with the arguments' names, in the
#' order of `inputs`. Arrays of integers have cotangents of type `float0`: inputs of this type are not passed, and
#' outputs contain `FALSE`.
#'
#' In `input_tree`, the cotangents are the named argument `cotangents`, with the structure of the result. `output_tree`
#' has the structure of the arguments.
#'
#' @section PyTorch:
#' torch_xla writes a model as a folder, with its weights:
#' ```python
#' torch_xla.stablehlo.save_torch_model_as_stablehlo(model, args, "folder")
#' ```
#' The weights are loaded as buffers, with their names in PyTorch. On a CPU, large ones are memory-mapped and not
#' copied, as by [pjrt_load_npy()]. The order of weights and arguments differs between programs, so pass them by name:
#' ```r
#' model <- pjrt_load_exported("folder")
#' run <- pjrt_compile(model)
#' pjrt_execute(run, model$weights, args = list(x, y))
#' ```
#' Or make a function that already has the weights: `predict <- pjrt_function(model)`, and then `predict(x, y)`. A
#' single argument needs no name: `pjrt_execute(run, model$weights, x)`. Omit arguments that the model does not use, or
#' pass them by names such as `` `args[1]` ``. Weights with the same names, types and shapes can replace the model's,
#' for example from [pjrt_load_safetensors()]. A model that was exported with `save_weights=False` has no weights.
#'
#' torchax returns weights, and a JAX function that takes them as its first argument. Export the function as above, and
#' write the weights with `numpy.savez()` for [pjrt_load_npy()].
#'
#' @section Limits:
#' These functions can be loaded, but not compiled:
#' * Functions for other platforms. Export with `platforms=["cpu"]`, or `"cuda"`, `"rocm"`, `"tpu"`.
#' * Functions with ordered effects, such as ordered I/O.
#' * Functions with a calling convention other than 9 or 10. The tests run functions that JAX 0.4.25 to 0.12 exported. A
#'   plugin may be older than JAX: [pjrt_compile()] rewrites operations that it does not know.
#'
#' @param x A string: the path of a file, or of a folder that PyTorch wrote. Or a raw vector: the content of a file.
#' @param device For PyTorch, the device of the weights: anything that [as_pjrt_device()] takes.
#' @param name For PyTorch, the name of a function in the folder. Default: the only one, or `"forward"`.
#' @param vjp A flag: whether to load the function's derivative. A number loads the derivative of that order.
#' @return A `PJRTExported`, which cannot be modified. `$`, `[[`, `names()` and `as.list()` read it like a list:
#' * `name`: the function's name.
#' * `inputs`, `outputs`: data frames with a row for each array: `name`, which for inputs starts with the argument's
#'   name in Python, such as `params['w']`; `path`, such as `args[0]['w']`; `dtype`; `shape`, a list of integer vectors,
#'   or of character vectors if a dimension is symbolic; and for inputs `kept`, whether the program takes it. For JAX
#'   also `donated`, whether the program takes over its memory, and `alias`, the number of the output that reuses it, or
#'   `NA`.
#' * `input_tree`, `output_tree`: nested lists with the structure of arguments and result. Each array is represented by
#'   its row in `inputs` or `outputs`, and `None` by `NULL`. The input tree has the elements `args` and `kwargs`. A
#'   registered Python type, such as a named tuple, is a list with the attribute `"type"`, its name. Its elements have
#'   the names of the fields where the program contains them.
#' * `weights`: for PyTorch, a named list of `PJRTBuffer`s. Their names are elements of `inputs$path`.
#' * `framework`: `"JAX"` or `"PyTorch"`.
#' * `platforms`: a character vector, JAX's names of the platforms that the function was exported for. Empty for
#'   PyTorch, whose functions run on any platform.
#' * `num_devices`: the number of devices that it runs on.
#' * `jax_version`: JAX's version, or `NULL` if the file does not contain it.
#' * `calling_convention`: a number, the version of JAX's calling convention.
#' * `ordered_effects`, `unordered_effects`: character vectors, the Python types of its side effects.
#' * `disabled_checks`: a character vector, the checks that were disabled in the export: targets of custom calls, or
#'   `"platform"`.
#' * `custom_calls`: a data frame with a row for each function that the program calls: `target`, its name, and
#'   `available`, whether there was a handler for one of the platforms when the file was loaded.
#' * `has_vjp`: whether the file also contains the derivative of this function.
#' * `order`: an integer, the order of this derivative; 0 for the function itself.
#' * `program`: a `PJRTProgram`.
#' @section Errors:
#' * `pjrt_error_invalid_input`: the file is damaged, not an exported function, or does not contain the derivative.
#'   [pjrt_compile()] raises it for a function that cannot be compiled.
#' * `pjrt_error_io`: the file cannot be read.
#' * The errors of [pjrt_load_npy()] for the weights of a model.
#' @seealso [pjrt_function()] to call it like an R function; [pjrt_program()] for programs without a description of
#'   their arguments
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' # a network with two layers; its parameters are nested dictionaries
#' path <- system.file("exported", "network.jaxexport", package = "pjrt")
#' network <- pjrt_load_exported(path)
#' network
#'
#' run <- pjrt_compile(network)
#' arrays <- lapply(network$inputs$shape, function(shape) {
#'   pjrt_buffer(array(seq_len(prod(shape)) / 10, shape))
#' })
#' do.call(pjrt_execute, c(run, arrays))
#'
#' # a loss with its gradient, for data of any number of rows
#' path <- system.file("exported", "loss.jaxexport", package = "pjrt")
#' pjrt_load_exported(path)
#' gradient <- pjrt_load_exported(path, vjp = TRUE)
#' gradient
#' run <- pjrt_compile(gradient, shapes = list(x = c(8, 3)))
#' x <- pjrt_buffer(matrix(sin(1:24), 8))
#' w <- pjrt_buffer(c(1, 2, 3))
#' y <- pjrt_buffer(cos(1:8))
#' pjrt_execute(run, w = w, x = x, y = y, cotangents = pjrt_scalar(1))[[1]]
#'
#' # a network of PyTorch
#' path <- system.file("exported", "iris-torch", package = "pjrt")
#' model <- pjrt_load_exported(path)
#' model
#' run <- pjrt_compile(model)
#' x <- pjrt_buffer(as.matrix(iris[1:4]), "f32")
#' scores <- pjrt_execute(run, model$weights, x)
#' table(max.col(as_array(scores)), iris$Species)
#' @export
pjrt_load_exported <- function(x, device = NULL, name = NULL, vjp = FALSE) {
  order <- derivative_order(vjp)
  if (!is.raw(x)) {
    if (!is.character(x)) {
      abort_type("`x` must be the path of a file or a folder, or a raw vector, not ", given(x), ".")
    }
    check_string(x, "x")
    # it warns of paths that are too long
    if (validUTF8(x) && suppressWarnings(dir.exists(native_path(full_path(x))))) {
      if (!is.null(name)) check_string(name, "name")
      if (order > 0L) abort_input("`vjp` must be FALSE for a folder of PyTorch, which contains no derivatives.")
      return(load_pytorch(full_path(x), device, name))
    }
  }
  exported <- if (is.raw(x)) {
    call_native(ffi_exported_new, x, order)
  } else {
    call_with_text(ffi_exported_read, full_path(x), order)
  }
  if (!is.null(device) || !is.null(name)) {
    abort_input("`device` and `name` must be NULL unless `x` is a folder of PyTorch.")
  }
  exported
}

# `vjp` as a number: 0 for the function itself.
derivative_order <- function(vjp) {
  is_flag <- is.logical(vjp) && length(vjp) == 1L && !is.na(vjp)
  if (!is_flag && !(is_whole_number(vjp) && vjp >= 0 && vjp <= 100)) {
    abort_type("`vjp` must be TRUE, FALSE or the order of the derivative, not ", given(vjp), ".")
  }
  as.integer(vjp)
}

# What users see of an exported function, a list.
exported_facts <- function(x) {
  call_native(ffi_exported_facts, x)
}

#' @export
format.PJRTExported <- function(x, ...) {
  dead <- dead_text(x, "PJRTExported")
  if (!is.null(dead)) {
    return(dead)
  }
  described <- call_native(ffi_function_lines, call_native(ffi_exported_function, x), length(x$weights) > 0L)
  paste(call_native(ffi_exported_lines, x, described), collapse = "\n")
}

#' @export
print.PJRTExported <- function(x, ...) {
  print_lines(x)
}

#' @export
as.character.PJRTExported <- function(x, ...) {
  check_unused(...)
  as.character(x$program)
}

#' @export
names.PJRTExported <- function(x) {
  names(exported_facts(x))
}

#' @export
length.PJRTExported <- function(x) {
  length(exported_facts(x))
}

#' @export
as.list.PJRTExported <- function(x, ...) {
  check_unused(...)
  exported_facts(x)
}

#' @export
str.PJRTExported <- function(object, ...) {
  utils::str(exported_facts(object), ...)
}

#' @export
summary.PJRTExported <- function(object, ...) {
  summary(exported_facts(object), ...)
}

#' @export
`$.PJRTExported` <- function(x, name) {
  # as for a list, the beginning of a name is enough
  exported_facts(x)[[name, exact = FALSE]]
}

#' @export
`[[.PJRTExported` <- function(x, i, ...) {
  check_unused(...)
  facts <- exported_facts(x)
  if (!is_valid_text(i) && !(is_whole_number(i) && i >= 1 && i <= length(facts))) {
    abort_type("`i` must be the name or the position of an element of `x`, not ", given(i), ".")
  }
  facts[[i]]
}

#' @export
`[.PJRTExported` <- function(x, ...) {
  exported_facts(x)[...]
}

#' @export
`$<-.PJRTExported` <- function(x, name, value) {
  abort_input("Exported functions are immutable.", hints = "Load another one with pjrt_load_exported().")
}

#' @export
`[[<-.PJRTExported` <- `$<-.PJRTExported`

#' @export
`[<-.PJRTExported` <- `$<-.PJRTExported`
