# Parts of arrays, as an executable divides them between devices.

# The parts of `x` for an input of an executable, one for each device.
shard_for_input <- function(x, executable, input, dim, dtype, tensor, ...) {
  if (is.null(executable)) {
    abort_input("`input` needs `executable`.", hints = "pjrt_shard(x, executable = , input = )")
  }
  number <- input_number(executable, input)
  layout <- array_layout(executable, number, "input")
  source <- whole_source(x, layout, dim, dtype, tensor, ...)
  targets <- devices(executable)
  shards <- vector("list", length(targets))
  # a loop, not lapply(), so that errors show the user's call
  for (i in seq_along(targets)) {
    shards[[i]] <- source$share(device_range(layout, position_of(layout, i), dim), targets[[i]])
  }
  with_division(shards, executable, number, "input", x)
}

# Notes on the parts how their array is divided: parts of the same shape may belong to other places of another array.
# Not on the array itself, which can be the part of a device.
with_division <- function(parts, executable, number, kind, array = NULL) {
  division <- call_native(ffi_executable_division, executable, kind == "input", as.integer(number))
  for (i in which(!vapply(parts, identical, NA, array))) {
    attr(parts[[i]], "division") <- if (nzchar(division)) division
  }
  parts
}

# Refuses parts of an array that is divided in another way.
check_division <- function(parts, executable, number, kind, argument) {
  known <- unlist(lapply(parts, attr, "division"))
  wanted <- call_native(ffi_executable_division, executable, kind == "input", as.integer(number))
  if (nzchar(wanted) && !all(known == wanted)) {
    abort_input(
      "`", argument, "` has parts of an array that is divided among the devices in another way than ", kind, " ",
      number, " of the program.",
      hints = c(
        "Combine the parts with the executable that they are from: pjrt_unshard(parts, executable = , output = ).",
        "executable_info() shows the sharding of each input and output."
      )
    )
  }
}

# The source of an input's parts, checked to have the shape of the whole array.
whole_source <- function(x, layout, dim, dtype, tensor, ...) {
  whole <- replicated_shape(layout, dim)
  source <- share_source(x, layout, dtype, tensor, ...)
  if (length(whole) == 0L && identical(as.integer(source$dims), 1L) && is.null(base::dim(x))) {
    source$dims <- integer()
  }
  if (!identical(as.numeric(source$dims), as.numeric(whole))) {
    pjrt_abort(
      sprintf(
        "`x` has the shape %s, but the whole array of %s has the shape %s.", shape_text(source$dims), layout$what,
        shape_text(whole)
      ),
      "shape_mismatch",
      hints = replicas_hint(layout, dim)
    )
  }
  source
}

# Combines the devices' parts of an output.
unshard_output <- function(buffers, executable, output, dim) {
  check_executable(executable)
  count <- length(describe_executable(executable)$outputs$dtype)
  if (!is_whole_number(output) || output < 1 || output > count) {
    abort_type("`output` must be a number from 1 to ", count, ", not ", given(output), ".")
  }
  layout <- array_layout(executable, output, "output")
  replicated_shape(layout, dim)
  parts <- output_parts(buffers, layout, output, length(devices(executable)))
  check_division(parts, executable, output, "output", "buffers")
  check_order(parts, devices(executable))
  replicas <- all_parts(parts, layout)
  if (is.null(dim) || layout$num_replicas == 1L) {
    replicas <- replicas[c(which(vapply(replicas, has_all_parts, NA, layout)), 1L)[1L]]
  }
  if (!all(vapply(replicas, has_all_parts, NA, layout))) {
    abort_input(
      "Devices of other processes have parts of ", layout$what, ", so this process cannot combine them.",
      hints = "Read this process's parts with as_array(), or let the program replicate the output."
    )
  }
  if (length(replicas) == 1L) {
    return(unshard_replica(replicas[[1L]], layout))
  }
  arrays <- vector("list", length(replicas))
  for (i in seq_along(replicas)) {
    arrays[[i]] <- unshard_replica(replicas[[i]], layout)
  }
  combine_arrays(arrays, dim)
}

# Refuses parts that are on the right devices, but in another order.
check_order <- function(parts, devices) {
  places <- match(lapply(parts, device), devices)
  if (!anyNA(places) && !identical(places, seq_along(devices)) && !anyDuplicated(places)) {
    wrong <- which(places != seq_along(devices))[[1L]]
    pjrt_abort(
      sprintf(
        "Element %d of `buffers` is on device '%s', but part %d of the array is on device '%s'.", wrong,
        as.character(device(parts[[wrong]])), wrong, as.character(devices[[wrong]])
      ),
      "device_mismatch",
      hints = "Pass the parts in the order of `devices(executable)`."
    )
  }
}

# The parts of each replica, in the order of partitions. Those that other processes have are NULL, unless this process
# has the same.
all_parts <- function(parts, layout) {
  positions <- if (length(layout$positions) > 0L) layout$positions else 1L
  count <- layout$num_replicas * layout$num_partitions
  all <- vector("list", count)
  all[positions] <- parts[seq_along(positions)]
  complete <- function(replica) {
    for (first in which(layout$is_first)) {
      has_same <- function(i) !is.null(replica[[i]]) && identical(layout$starts[[i]], layout$starts[[first]])
      replica[first] <- replica[c(Filter(has_same, c(first, seq_along(replica))), first)[[1L]]]
    }
    replica
  }
  lapply(unname(split(all, (seq_len(count) - 1L) %/% layout$num_partitions)), complete)
}

has_all_parts <- function(replica, layout) {
  !any(vapply(replica[layout$is_first], is.null, NA))
}

# The whole array of one replica, from the parts of its partitions.
unshard_replica <- function(parts, layout) {
  join_parts(read_together(parts[layout$is_first]), layout)
}

# The whole array of one replica, from R arrays: the parts of those partitions that are the first to have them.
join_parts <- function(arrays, layout) {
  chosen <- which(layout$is_first)
  like <- arrays[[1L]]
  if (length(chosen) == 1L) {
    return(if (identical(as.numeric(layout$whole), as.numeric(layout$part))) like else crop(like, layout$whole))
  }
  whole <- array(vector(typeof(like), 1L), layout$whole)
  for (i in seq_along(chosen)) {
    sizes <- layout$sizes[[chosen[[i]]]]
    part <- unclass(crop(arrays[[i]], sizes))
    # as a call, so that R does not copy `whole` for every part
    eval(
      call("<-", as.call(c(quote(`[`), quote(whole), positions_from(layout$starts[[chosen[[i]]]], sizes))), quote(part))
    )
  }
  restore_class(whole, like)
}

# Positions along each dimension, from a start that counts from 0.
positions_from <- function(starts, sizes) {
  unname(Map(function(start, size) start + seq_len(size), starts, sizes))
}

# An array cut to these dimensions.
crop <- function(x, dims) {
  if (identical(as.numeric(dim(x)), as.numeric(dims))) {
    return(x)
  }
  restore_class(do.call(`[`, c(list(unclass(x)), lapply(dims, seq_len), list(drop = FALSE))), x)
}

# How an input or output is divided between devices: see the native side. `what` is its name in messages.
array_layout <- function(executable, number, kind) {
  layout <- call_native(ffi_executable_array, executable, kind == "input", as.integer(number))
  name <- if (kind == "input") describe_executable(executable)$inputs$name[[number]] else ""
  layout$what <- sprintf("%s %d%s", kind, as.integer(number), if (nzchar(name)) sprintf(" (`%s`)", name) else "")
  if (is.null(layout$starts)) {
    abort_input(
      "The executable does not say how ", layout$what, " is divided between its devices.",
      hints = c(
        "Compile the program again if an earlier version saved the executable.",
        "Or pass devices instead of the executable, and the dimension as `dim`."
      )
    )
  }
  layout
}

# Refuses what names none of a program's inputs or outputs.
abort_number_or_name <- function(x, kind, count, hints = NULL) {
  abort_type(
    "`", kind, "` must be a number or name of the program's ", counted(count, kind), ", not ", given(x), ".",
    hints = hints
  )
}

input_number <- function(executable, input) {
  names <- describe_executable(executable)$inputs$name
  number <- if (is_text(input) && nzchar(input)) {
    call_with_text(ffi_executable_input, executable, enc2utf8(input))
  } else if (is_whole_number(input) && input >= 1 && input <= length(names)) {
    as.integer(input)
  }
  if (is.null(number)) {
    shown <- names[nzchar(names)]
    abort_number_or_name(
      input, "input", length(names),
      hints = if (length(shown) > 0L) sprintf("Their names: %s.", toString(shorten_list(sprintf("\"%s\"", shown), 8L)))
    )
  }
  number
}

# The shape of the array that contains the arrays of all replicas.
replicated_shape <- function(layout, dim) {
  whole <- layout$whole
  if (layout$num_replicas == 1L || is.null(dim)) {
    return(whole)
  }
  check_dimension(dim, whole, "With `dim = NULL`, all replicas have the same array.")
  replace(whole, dim, whole[[dim]] * layout$num_replicas)
}

replicas_hint <- function(layout, dim) {
  if (layout$num_replicas > 1L) {
    if (is.null(dim)) {
      "All replicas get the same array. The argument `dim` of pjrt_shard() divides `x` between them."
    } else {
      sprintf("`x` must contain the arrays of %d replicas along dimension %d.", layout$num_replicas, as.integer(dim))
    }
  }
}

# The position of this process's i-th device among all devices of the executable.
position_of <- function(layout, i) {
  if (length(layout$positions) > 0L) layout$positions[[i]] else i
}

# A device's part of the array: its start, from 0, its size, and the dimensions of its buffer.
device_range <- function(layout, position, dim) {
  replica <- (position - 1L) %/% layout$num_partitions
  partition <- (position - 1L) %% layout$num_partitions + 1L
  start <- layout$starts[[partition]]
  if (replica > 0L && !is.null(dim)) {
    start[[dim]] <- start[[dim]] + replica * layout$whole[[dim]]
  }
  list(start = start, size = layout$sizes[[partition]], dims = layout$part)
}

# The source of the parts: the shape of the whole array, and a function that moves a part to a device.
share_source <- function(x, layout, dtype, tensor, ...) {
  if (inherits(x, "PJRTSafetensors")) {
    check_no_options(..., dtype = dtype)
    return(share_of_file(x, layout, tensor))
  }
  if (!is.null(tensor)) {
    abort_type("`tensor` needs a file opened with pjrt_open_safetensors(), but `x` is ", given(x), ".")
  }
  if (inherits(x, "PJRTBuffer")) {
    check_no_options(..., dtype = dtype)
    check_share_dtype(as.character(elt_type(x)), layout)
    share <- function(range, device) {
      if (identical(device, device(x)) && identical(as.numeric(range$size), as.numeric(shape(x)))) {
        return(x)
      }
      call_native(ffi_buffer_share, x, range$start, range$size, range$dims, device)
    }
    return(list(dims = shape(x), share = share))
  }
  if (!is.atomic(x) || is.null(x)) {
    abort_type("`x` must be an R vector, matrix or array, a `PJRTBuffer` or a safetensors file, not ", given(x), ".")
  }
  share_of_array(x, dtype %||% layout$dtype, ...)
}

share_of_file <- function(x, layout, tensor) {
  known <- names(x)
  if (is.null(tensor)) {
    abort_input("`x` is a file: select one of its tensors with `tensor`.")
  }
  position <- tensor_positions(tensor, known)
  if (length(position) != 1L) {
    abort_input("`tensor` must select one tensor, not ", length(position), ".")
  }
  described <- call_native(ffi_safetensors_tensor, x, position)
  check_share_dtype(described$dtype, layout)
  list(dims = described$shape, share = function(range, device) {
    call_native(ffi_safetensors_share, x, position, range$start, range$size, range$dims, device)
  })
}

share_of_array <- function(x, dtype, ...) {
  dims <- dim(x) %||% length(x)
  share <- function(range, device) {
    if (length(range$dims) == 0L) {
      return(pjrt_scalar(x, dtype = dtype, device = device, ...))
    }
    is_all <- identical(as.numeric(range$size), as.numeric(dims))
    part <- if (is_all) x else array_part(x, dims, range)
    if (!identical(as.numeric(range$size), as.numeric(range$dims))) {
      part <- pad(part, range$dims)
    }
    pjrt_buffer(part, dtype = dtype, device = device, ...)
  }
  list(dims = dims, share = share)
}

# A part of an R array, with its class and without its names.
array_part <- function(x, dims, range) {
  values <- unclass(x)
  attributes(values) <- NULL
  dim(values) <- dims
  restore_class(do.call(`[`, c(list(values), positions_from(range$start, range$size), list(drop = FALSE))), x)
}

# An array padded with zeros to these dimensions.
pad <- function(x, dims) {
  whole <- array(vector(typeof(x), 1L), dims)
  part <- unclass(x)
  eval(call("<-", as.call(c(quote(`[`), quote(whole), lapply(dim(x), seq_len))), quote(part)))
  restore_class(whole, x)
}

check_no_options <- function(..., dtype) {
  if (!is.null(dtype) || ...length() > 0L) {
    abort_input("`dtype` and further arguments are for R arrays only: buffers and tensors keep their type.")
  }
}

check_share_dtype <- function(dtype, layout) {
  if (!identical(dtype, layout$dtype)) {
    pjrt_abort(sprintf("`x` is of type %s, but %s is of type %s.", dtype, layout$what, layout$dtype), "dtype_mismatch")
  }
}

# The buffers of one output, one for each device, given alone or with the other outputs of each device.
output_parts <- function(buffers, layout, output, count) {
  if (!is.list(buffers) || length(buffers) != count) {
    abort_type(
      "`buffers` must be a list of length ", count, ", with an element for each device, not ", given(buffers), "."
    )
  }
  parts <- vector("list", count)
  for (i in seq_len(count)) {
    part <- buffers[[i]]
    if (is.list(part) && length(part) >= output) {
      part <- part[[output]]
    }
    if (!inherits(part, "PJRTBuffer")) {
      abort_type(
        "`buffers` must be a list of `PJRTBuffer`s, or of lists of them; element ", i, " is ", given(part), "."
      )
    }
    if (!identical(as.numeric(shape(part)), as.numeric(layout$part))) {
      pjrt_abort(
        sprintf(
          "Element %d of `buffers` has the shape %s, but a part of %s has %s.", i, shape_text(shape(part)), layout$what,
          shape_text(layout$part)
        ),
        "shape_mismatch"
      )
    }
    if (!identical(as.character(elt_type(part)), layout$dtype)) {
      pjrt_abort(
        sprintf(
          "Element %d of `buffers` is of type %s, but %s is of type %s.", i, elt_type(part), layout$what, layout$dtype
        ),
        "dtype_mismatch"
      )
    }
    parts[[i]] <- part
  }
  parts
}

shape_text <- function(dims) sprintf("[%s]", paste(format(dims, scientific = FALSE, trim = TRUE), collapse = "x"))
