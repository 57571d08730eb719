#' Shard an array across devices
#'
#' `pjrt_shard()` divides an array into parts and moves one to each device. `pjrt_unshard()` makes one R array of the parts
#' again. With an executable and the number or name of an input or output, the parts are those that the program wants;
#' without, they are equal parts along a dimension.
#'
#' The parts are in order of the devices: cut along a dimension, the first one has the first rows, or whatever the dimension
#' counts. The lists of several arguments are put together for [pjrt_execute_sharded()] by `Map(list, xs, ys)`.
#'
#' @section As the executable says:
#' A program of several partitions says how its arrays lie on the mesh of devices, and where it does not, the compiler
#' chooses: see `sharding` of [executable_inputs()]. `pjrt_shard(x, executable, input = )` follows that, be it several
#' dimensions that are divided, devices that have the same part, or all of it. `x` is the whole array. Only what a device
#' needs goes there: of a buffer or a file, nothing else is read. Where a dimension cannot be divided equally, the last parts
#' are filled with zeros, which the program does not look at.
#'
#' `pjrt_unshard(out, executable = , output = )` takes what [pjrt_execute_sharded()] returns, or the buffers of one output.
#' Of parts that several devices have, the first is read.
#'
#' Of several replicas each has a program's whole arrays. `dim` says along which dimension `x` holds those of all replicas
#' one after the other; with `dim = NULL`, all replicas get the same, and `pjrt_unshard()` takes the array of the first.
#'
#' @param x A vector, matrix or array. A vector has one dimension. With `input`, also a `PJRTBuffer`, or a file opened by
#'   [safetensors_open()], of which `tensor` is taken.
#' @param devices A list of devices or of their names, as for [pjrt_compile()], or an executable, for its devices.
#' @param dim The dimension that is divided, or along which the parts are put together, counted from 1. `NULL`: every
#'   device has all of `x`, and `pjrt_unshard()` takes the array of the first. With an executable's input or output, this is
#'   about its replicas.
#' @param dtype,... The element type and further arguments of [pjrt_buffer()]. With `input`, the type is the input's.
#' @param input The input that `x` is for, when `devices` is an executable: its number, or its name with or without `%`.
#' @param tensor The name or number of a tensor, when `x` is a safetensors file.
#' @param buffers A list with the buffers of the devices, in order. With an executable, also a list with all outputs of each
#'   device.
#' @param executable The `PJRTLoadedExecutable` whose output this is. It may also stand in second place.
#' @param output The number of the executable's output, by default the first.
#' @return `pjrt_shard()`: a list of `PJRTBuffer`s, one for each device. `pjrt_unshard()`: what [as_array()] gives for the
#'   whole array.
#' @section Errors:
#' `pjrt_error_shape_mismatch` when a dimension cannot be divided into equal parts, the parts do not fit together, or `x` has
#' not the shape of the input; `pjrt_error_dtype_mismatch` for parts of several types, and buffers and tensors of another type than
#' the input; `pjrt_error_invalid_input` for a dimension, input or output that is not there, and for an executable that does
#' not tell how its arrays lie on the devices.
#' @seealso [pjrt_execute_sharded()], `vignette("several-devices")`
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- matrix(1:6, nrow = 2)
#' # two parts on one device, for want of more
#' shards <- pjrt_shard(x, c("cpu:0", "cpu:0"))
#' shards
#' pjrt_unshard(shards)
#' pjrt_shard(c(0.5, 1.5), "cpu:0", dim = NULL)
#' try(pjrt_shard(x, c("cpu:0", "cpu:0"), dim = 2L))
#' @examplesIf pjrt::plugins_downloaded("cpu") && length(devices("cpu")) > 1L
#' # needs a CPU of two devices, by pjrt_client("cpu", cpu_device_count = 2L)
#' double <- pjrt_compile(pjrt_program("
#' module attributes {mhlo.num_partitions = 2 : i32} {
#'   sdy.mesh @mesh = <[\"columns\"=2]>
#'   func.func @main(%x: tensor<2x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"columns\"}]>}) -> tensor<2x6xf32> {
#'     %0 = stablehlo.add %x, %x : tensor<2x6xf32>
#'     return %0 : tensor<2x6xf32>
#'   }
#' }"))
#' shards <- pjrt_shard(matrix(1:12, nrow = 2), double, input = "x")
#' shards[[2]]
#' pjrt_unshard(pjrt_execute_sharded(double, shards), executable = double)
#' @export
pjrt_shard <- function(x, devices, dim = 1L, dtype = NULL, ..., input = NULL, tensor = NULL) {
  if (!is.null(input)) {
    return(shard_for_input(x, devices, input, dim, dtype, tensor, ...))
  }
  if (!is.null(tensor)) {
    abort_input("`tensor` is taken for an `input` of an executable only.", hints = "Say for which: `input = 1`.")
  }
  if (!is.atomic(x) || is.null(x)) {
    abort_input(
      "`x` must be an R vector, matrix or array, not ", given(x), "; read a buffer with as_array().",
      hints = "For an executable, `input = ` takes buffers and safetensors files, too."
    )
  }
  executable <- inherits(devices, "PJRTLoadedExecutable")
  targets <- if (executable) devices(devices) else device_list(devices)
  count <- length(targets)
  shards <- vector("list", count)
  # a loop, not lapply(), so that errors are those of the user's call
  if (is.null(dim)) {
    for (i in seq_len(count)) {
      shards[[i]] <- pjrt_buffer(x, dtype = dtype, device = targets[[i]], ...)
    }
    return(shards)
  }
  dims <- base::dim(x) %||% length(x)
  check_dimension(dim, dims)
  size <- dims[[dim]]
  if (size %% count != 0) {
    below <- size - size %% count
    pjrt_abort(
      sprintf("Dimension %d of `x` has %.0f elements, which are not divided equally by %d devices.", dim, size, count),
      "shape_mismatch",
      hints = sprintf("Leave elements out or add some, to have %.0f or %.0f, or use fewer devices.", below, below + count)
    )
  }
  # a block of rows for each device, when all dimensions up to `dim` are taken for one
  inner <- prod(dims[seq_len(dim)]) / count
  rows <- as_rows(x, inner * count)
  part_dims <- replace(dims, dim, size / count)
  for (i in seq_len(count)) {
    part <- rows[seq_len(inner) + (i - 1) * inner, , drop = FALSE]
    dim(part) <- part_dims
    shards[[i]] <- pjrt_buffer(restore_class(part, x), dtype = dtype, device = targets[[i]], ...)
  }
  shards
}

#' @rdname pjrt_shard
#' @export
pjrt_unshard <- function(buffers, dim = 1L, executable = NULL, output = NULL) {
  if (inherits(dim, "PJRTLoadedExecutable") && is.null(executable)) {
    executable <- dim
    dim <- 1L
  }
  if (!is.null(executable)) {
    return(unshard_output(buffers, executable, output %||% 1L, dim))
  }
  if (!is.null(output)) {
    abort_input("`output` is one of an executable's: give that, too.", hints = "pjrt_unshard(buffers, executable = , output = )")
  }
  are_buffers <- is.list(buffers) && all(vapply(buffers, inherits, NA, "PJRTBuffer"))
  if (!are_buffers || length(buffers) == 0L) {
    abort_input(
      "`buffers` must be a list of `PJRTBuffer`s, one for each device, not ", given(buffers), ".",
      hints = "Of several outputs, take one: lapply(outputs, `[[`, 1)."
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
    scalars <- "Scalars are no parts of an array: take the first by `dim = NULL`."
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
  parts <- vector("list", length(buffers))
  for (i in seq_along(buffers)) {
    parts[[i]] <- as_array_async(buffers[[i]])
  }
  for (i in seq_along(parts)) {
    parts[[i]] <- value(parts[[i]])
  }
  put_together(parts, dim)
}

# One array of several, one after the other along a dimension.
put_together <- function(parts, dim) {
  sizes <- vapply(parts, function(part) as.numeric(dim(part)[[dim]]), 0)
  whole <- do.call(rbind, lapply(parts, function(part) as_rows(part, prod(dim(part)[seq_len(dim)]))))
  dim(whole) <- replace(dim(parts[[1L]]), dim, sum(sizes))
  restore_class(whole, parts[[1L]])
}

check_dimension <- function(dim, dims, hints = NULL) {
  if (!is_whole_number(dim) || dim < 1 || dim > length(dims)) {
    abort_input(
      "`dim` must be NULL or one of the ", length(dims), " dimension(s), counted from 1, not ", given(dim), ".", hints = hints
    )
  }
}

# The values as a matrix of so many rows, without their class, whose methods would get in the way.
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
