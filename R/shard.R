#' Shard an array across devices
#'
#' `pjrt_shard()` divides an array into parts and moves one part to each device. `pjrt_unshard()` combines parts to one
#' R array. If you pass an executable and one of its inputs or outputs, the parts fit the program. Otherwise they are
#' equal parts along a dimension.
#'
#' The parts have the order of the devices: the first device gets the first rows, or the first elements of another
#' dimension. For [pjrt_execute_sharded()], `Map(list, xs, ys)` combines the lists for several arguments.
#'
#' @section Inputs and outputs of executables:
#' A program with several partitions defines how its arrays are divided between devices, or leaves it to the compiler:
#' see `sharding` in [executable_info()]. `pjrt_shard(x, executable = , input = )` divides the whole array
#' `x`
#' accordingly, along several dimensions if necessary, and copies parts that several devices need. Only the parts that a
#' device needs are read from a buffer or file. If a dimension cannot be divided equally, the last parts are padded with
#' zeros, which the program ignores.
#'
#' `pjrt_unshard(out, executable = , output = )` takes the result of [pjrt_execute_sharded()], or the buffers of one
#' output. If several devices have the same part, the first one is read.
#'
#' Parts from `pjrt_shard()` or from a [pjrt_function()] know how their array is divided. A function or output of
#' another division refuses them, since parts of the same shape would get to wrong places of the array.
#'
#' With several replicas, each replica has its own whole array. `dim` is the dimension along which `x` contains the
#' arrays of all replicas. With `dim = NULL`, all replicas get the same array, and `pjrt_unshard()` returns that of the
#' first replica.
#'
#' @param x A vector, matrix or array. A vector has one dimension. With `input`, also a `PJRTBuffer`, or a file opened
#'   with [pjrt_open_safetensors()] whose `tensor` is used.
#' @param devices A list of devices or a character vector of their names, as for [pjrt_compile()]. Default: the devices
#'   of `executable`.
#' @param dim A number, from 1: the dimension along which the array is divided or the parts are combined. With `NULL`,
#'   every device gets all of `x`, and `pjrt_unshard()` returns the first array. With an executable's input or output,
#'   `dim` is about its replicas.
#' @param dtype,... A string and further arguments, as for [pjrt_buffer()]. With `input`, the default type is the
#'   input's.
#' @param input The number, from 1, or the name of the executable's input that `x` is for. Names have any spelling that
#'   [pjrt_execute()] takes: `params$w` is `params['w']`.
#' @param tensor The name or number, from 1, of a tensor, if `x` is a safetensors file.
#' @param buffers A list of `PJRTBuffer`s, one for each device, in order. With an executable, also a list that contains,
#'   for each device, a list of all outputs.
#' @param executable A `PJRTLoadedExecutable`: the one whose input `x` is for, or whose output `buffers` are.
#' @param output The number, from 1, of the executable's output. Default: 1.
#' @return `pjrt_shard()`: a list of `PJRTBuffer`s, one for each device of this process. `pjrt_unshard()`: an array, as
#'   [as_array()] returns it for the whole array.
#' If some of the executable's devices belong to other processes (see [pjrt_distributed()]), `pjrt_shard()` returns the
#' parts of this process's devices, in the order of `devices(executable)`: pass the whole array in every process.
#' `pjrt_unshard()` takes this process's parts. It needs all parts of the array, so it returns arrays that every process
#' has whole.
#'
#' @section Errors:
#' * `pjrt_error_shape_mismatch`: a dimension cannot be divided into equal parts, the parts do not fit together, or `x`
#'   does not have the shape of the input.
#' * `pjrt_error_dtype_mismatch`: the parts have different types, or a buffer or tensor does not have the type of the
#'   input.
#' * `pjrt_error_device_mismatch`: the parts are in another order than the devices.
#' * `pjrt_error_invalid_input`: a dimension, input or output does not exist, the executable does not say how its
#'   arrays are divided or divides them in another way, or other processes have parts that `pjrt_unshard()` needs.
#' @seealso [pjrt_execute_sharded()], `vignette("several-devices")` (see [pjrt_articles])
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- matrix(1:6, nrow = 2)
#' # two parts on the same device
#' shards <- pjrt_shard(x, c("cpu:0", "cpu:0"))
#' shards
#' pjrt_unshard(shards)
#' pjrt_shard(c(0.5, 1.5), "cpu:0", dim = NULL)
#' try(pjrt_shard(x, c("cpu:0", "cpu:0"), dim = 2L))
#'
#' # a program with two partitions, on a client of the CPU with two devices
#' pair <- plugin_client_create(
#'   pjrt_plugin("cpu"), "pair", list(cpu_device_count = 2L)
#' )
#' double <- pjrt_compile(pjrt_program("
#' module attributes {mhlo.num_partitions = 2 : i32} {
#'   sdy.mesh @m = <[\"columns\"=2]>
#'   func.func @main(
#'     %x: tensor<2x6xf32> {
#'       sdy.sharding = #sdy.sharding<@m, [{}, {\"columns\"}]>
#'     }
#'   ) -> tensor<2x6xf32> {
#'     %0 = stablehlo.add %x, %x : tensor<2x6xf32>
#'     return %0 : tensor<2x6xf32>
#'   }
#' }"), devices = devices(pair))
#' shards <- pjrt_shard(
#'   matrix(1:12, nrow = 2), executable = double, input = "x")
#' shards[[2]]
#' pjrt_unshard(pjrt_execute_sharded(double, shards), executable = double)
#' @export
pjrt_shard <- function(x, devices = NULL, dim = 1L, dtype = NULL, ..., executable = NULL, input = NULL, tensor = NULL) {
  if (is.null(devices) == is.null(executable) || inherits(devices, "PJRTLoadedExecutable")) {
    abort_input(
      "Either `devices` or `executable` must be given, and not both.",
      hints = "pjrt_shard(x, devices) divides an array equally, pjrt_shard(x, executable = , input = ) for an input."
    )
  }
  if (!is.null(executable)) {
    check_executable(executable)
  }
  if (!is.null(input)) {
    return(shard_for_input(x, executable, input, dim, dtype, tensor, ...))
  }
  if (!is.null(tensor)) {
    abort_input("`tensor` needs `input`.", hints = "Name the executable's input, as in `input = 1`.")
  }
  if (!is.atomic(x) || is.null(x)) {
    abort_type(
      "`x` must be an R vector, matrix or array, not ", given(x), "; read buffers with as_array().",
      hints = "With `input = `, for an executable, `x` can also be a buffer or a safetensors file."
    )
  }
  targets <- if (is.null(devices)) devices(executable, addressable = FALSE) else device_list(devices)
  count <- length(targets)
  # the parts of other processes are theirs to move
  own <- if (is.null(devices)) call_native(ffi_executable_own_positions, executable) else seq_len(count)
  shards <- vector("list", length(own))
  targets <- targets[own]
  # a loop, not lapply(), so that errors show the user's call
  if (is.null(dim)) {
    for (i in seq_along(own)) {
      shards[[i]] <- pjrt_buffer(x, dtype = dtype, device = targets[[i]], ...)
    }
    return(shards)
  }
  dims <- base::dim(x) %||% length(x)
  check_dimension(dim, dims)
  size <- dims[[dim]]
  if (size %% count != 0) {
    below <- size - size %% count
    fitting <- sprintf("%.0f", setdiff(c(below, below + count), 0))
    pjrt_abort(
      sprintf(
        "Dimension %d of `x` has %s, which cannot be divided equally between %d devices.",
        dim, counted(size, "element"), count
      ),
      "shape_mismatch",
      hints = paste0("Remove or add elements to get ", paste(fitting, collapse = " or "), ", or use fewer devices.")
    )
  }
  # a block of rows for each device, with all dimensions up to `dim` treated as one
  inner <- prod(dims[seq_len(dim)]) / count
  rows <- as_rows(x, inner * count)
  part_dims <- replace(dims, dim, size / count)
  for (i in seq_along(own)) {
    part <- rows[seq_len(inner) + (own[[i]] - 1) * inner, , drop = FALSE]
    dim(part) <- part_dims
    shards[[i]] <- pjrt_buffer(restore_class(part, x), dtype = dtype, device = targets[[i]], ...)
  }
  shards
}

#' @rdname pjrt_shard
#' @export
pjrt_unshard <- function(buffers, dim = 1L, executable = NULL, output = NULL) {
  if (!is.null(executable)) {
    return(unshard_output(buffers, executable, output %||% 1L, dim))
  }
  if (!is.null(output)) {
    abort_input("`output` needs `executable`.", hints = "pjrt_unshard(buffers, executable = , output = )")
  }
  are_buffers <- is.list(buffers) && all(vapply(buffers, inherits, NA, "PJRTBuffer"))
  if (!are_buffers || length(buffers) == 0L) {
    abort_type(
      "`buffers` must be a list of `PJRTBuffer`s, one for each device, not ", given(buffers), ".",
      hints = "Select one of several outputs: lapply(outputs, `[[`, 1)."
    )
  }
  shapes <- lapply(buffers, shape)
  types <- unique(vapply(buffers, function(buffer) as.character(elt_type(buffer)), ""))
  if (length(types) > 1L) {
    pjrt_abort(paste0("The parts have different dtypes: ", paste(types, collapse = ", "), "."), "dtype_mismatch")
  }
  dims <- shapes[[1L]]
  others <- if (is.null(dim)) {
    shapes
  } else {
    scalars <- "Scalars cannot be combined: `dim = NULL` returns the first one."
    check_dimension(dim, dims, if (length(dims) == 0L) scalars)
    lapply(shapes, function(shape) if (length(shape) == length(dims)) replace(shape, dim, 0) else shape)
  }
  if (length(unique(others)) > 1L) {
    shown <- vapply(shapes, function(shape) sprintf("[%s]", paste(shape, collapse = "x")), "")
    pjrt_abort(paste0("The parts do not fit together: ", paste(shown, collapse = ", "), "."), "shape_mismatch")
  }
  if (is.null(dim)) {
    return(as_array(buffers[[1L]]))
  }
  combine_arrays(read_together(buffers), dim)
}

# The arrays of several buffers: all transfers start before the first wait.
read_together <- function(buffers) {
  lapply(lapply(buffers, as_array_async), value)
}

# Combines arrays along a dimension.
combine_arrays <- function(parts, dim) {
  sizes <- vapply(parts, function(part) as.numeric(dim(part)[[dim]]), 0)
  whole <- do.call(rbind, lapply(parts, function(part) as_rows(part, prod(dim(part)[seq_len(dim)]))))
  dim(whole) <- replace(dim(parts[[1L]]), dim, sum(sizes))
  restore_class(whole, parts[[1L]])
}

check_dimension <- function(dim, dims, hints = NULL) {
  if (!is_whole_number(dim) || dim < 1 || dim > length(dims)) {
    wanted <- switch(
      min(length(dims), 2L) + 1L, "NULL for a scalar", "NULL or 1", paste("NULL or a number from 1 to", length(dims))
    )
    abort_type("`dim` must be ", wanted, ", not ", given(dim), ".", hints = hints)
  }
}

# The values as a matrix with this many rows, without their class, whose methods would interfere.
as_rows <- function(x, rows) {
  values <- unclass(x)
  attributes(values) <- NULL
  dim(values) <- c(rows, length(values) / max(rows, 1))
  values
}

restore_class <- function(x, like) {
  class(x) <- oldClass(like)
  x
}
