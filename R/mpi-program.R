#' Run a program for several devices in several processes
#'
#' `mpi_program()` takes a program for several devices, one for each process, and returns the part that this process
#' runs on its one device. Collective operations become [calls of MPI][mpi_init]. `mpi_shard()` makes this process's
#' part of an input, and `mpi_unshard()` combines the parts of an output to an R array in all processes.
#'
#' All processes must call `mpi_program()` and run the result. Partitioned programs (GSPMD, Shardy, and JAX's
#' `shard_map`) and programs with replicas work. JAX exports such a function with `jax.export` if its arguments are
#' sharded over the devices of a mesh.
#'
#' XLA's CPU compiler partitions the program, which compiles it once more. The result is a `PJRTProgram` like others:
#' [pjrt_compile()] keeps its executable on disk, separately for each rank.
#'
#' @param program For `mpi_program()`, a `PJRTProgram`, or a `PJRTExported` from [pjrt_load_exported()]. For the others,
#'   the `PJRTProcessProgram` that it returns.
#' @param compile_options From [pjrt_compile_options()]: `num_replicas` or `num_partitions` for programs that do not say
#'   how many devices they are for.
#' @return `mpi_program()`: a list of class `PJRTProcessProgram` with the `program` of this process, its `rank`, and the
#'   `inputs` and `outputs`: for each a list with its `dtype`, the dimensions of the `whole` array and of a `part`.
#'
#'   `mpi_shard()`: a `PJRTBuffer`. `mpi_unshard()`: an array, the same in all processes.
#' @section Errors:
#' * `pjrt_error_invalid_input` if the program is for another number of devices than there are processes.
#' * `pjrt_error_unsupported_program` for reductions other than a sum, product, maximum, minimum, and, or, and xor, for
#'   groups of unequal size, and for collective operations in the condition of a loop.
#' * The errors of [pjrt_shard()] and [pjrt_unshard()].
#' @seealso [mpi_init()], [pjrt_shard()], `vignette("cluster")` (see [pjrt_articles])
#' @examplesIf pjrt::plugins_downloaded("cpu") && nzchar(Sys.which("mpirun"))
#' # start it with: mpirun -n 4 Rscript script.R
#' world <- mpi_init()
#' # the sums of the columns, for rows that are divided among all processes
#' n <- world$size
#' program <- pjrt_program(sprintf('
#'   module @sums attributes {mhlo.num_partitions = %d : i32} {
#'     func.func @main(
#'       %%x: tensor<8x2xf32> {mhlo.sharding = "{devices=[%d,1]<=[%d]}"}
#'     ) -> tensor<2xf32> {
#'       %%zero = stablehlo.constant dense<0.0> : tensor<f32>
#'       %%sums = stablehlo.reduce(%%x init: %%zero)
#'         applies stablehlo.add across dimensions = [0]
#'         : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
#'       return %%sums : tensor<2xf32>
#'     }
#'   }', n, n, n))
#' options <- pjrt_compile_options(num_partitions = n)
#' parts <- mpi_program(program, options)
#' x <- mpi_shard(matrix(1:16, 8), parts, input = 1)
#' sums <- pjrt_execute(pjrt_compile(parts$program), x)
#' mpi_unshard(sums, parts)
#' @export
mpi_program <- function(program, compile_options = pjrt_compile_options()) {
  world <- mpi_world()
  check_intact(compile_options, "PJRTCompileOptions", parts = c("num_replicas", "num_partitions", "debug_options"))
  dir <- tempfile("pjrt-partitioned-")
  on.exit(unlink(dir, recursive = TRUE))
  options <- unclass(compile_options)
  dump <- list(xla_dump_to = full_path(dir), xla_dump_hlo_pass_re = "spmd-partitioning", xla_dump_hlo_as_proto = TRUE)
  options$debug_options[names(dump)] <- dump
  class(options) <- class(compile_options)
  client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = world$size, threads = 1L))
  on.exit(close(client), add = TRUE)
  executable <- pjrt_compile(program, options, devices = devices(client))
  described <- describe_executable(executable)
  are_partitions <- described$num_partitions > 1L
  if (are_partitions && described$num_replicas > 1L) {
    abort_input("The program has both replicas and partitions, but processes can stand for one of them only.")
  }
  layouts <- function(arrays, kind) lapply(seq_along(arrays$dtype), function(i) array_layout(executable, i, kind))
  part <- call_native(
    ffi_program_of_process, partitioned_module(dir, are_partitions), world$rank, world$size, are_partitions
  )
  names <- described$inputs$name
  inputs <- layouts(described$inputs, "input")
  if (any(nzchar(names))) names(inputs) <- names
  structure(
    list(
      program = part, rank = world$rank, size = world$size, inputs = inputs,
      outputs = layouts(described$outputs, "output")
    ),
    class = "PJRTProcessProgram"
  )
}

# The file with the module that the compiler has partitioned; a program with replicas is not changed.
partitioned_module <- function(dir, are_partitions) {
  pattern <- if (
    are_partitions
  ) "[.]after_spmd-partitioning[.].*[.]hlo[.]pb$" else "[.]before_optimizations[.]hlo[.]pb$"
  files <- list.files(dir, pattern, full.names = TRUE)
  if (length(files) != 1L) {
    pjrt_abort("The compiler did not write the partitioned program.", "unsupported_call", hints = c(
      "Only XLA's CPU plugin does."
    ))
  }
  files
}

#' @rdname mpi_program
#' @param x A vector, matrix or array, a `PJRTBuffer`, or a file opened with [pjrt_open_safetensors()]: the whole array.
#' @param input,output The number, from 1, of an input or output, or an input's name.
#' @param dim With replicas, the dimension along which `x` contains the arrays of all replicas, or along which they are
#'   combined. `NULL`: all replicas get the same array, and `mpi_unshard()` returns this process's array.
#' @param dtype,...,tensor As for [pjrt_shard()].
#' @export
mpi_shard <- function(x, program, input, dim = 1L, dtype = NULL, ..., tensor = NULL) {
  check_process_program(program)
  layout <- part_layout(program$inputs, input, "input")
  source <- whole_source(x, layout, dim, dtype, tensor, ...)
  source$share(device_range(layout, program$rank + 1L, dim), as_pjrt_device("cpu"))
}

#' @rdname mpi_program
#' @param buffer A `PJRTBuffer`: this process's part of the output.
#' @export
mpi_unshard <- function(buffer, program, output = 1L, dim = 1L) {
  check_process_program(program)
  layout <- part_layout(program$outputs, output, "output")
  if (!is_buffer(buffer) || !identical(as.numeric(shape(buffer)), as.numeric(layout$part))) {
    abort_type("`buffer` must be a `PJRTBuffer` of shape ", shape_text(layout$part), ", not ", given(buffer), ".")
  }
  replicated_shape(layout, dim)
  has_replicas <- layout$num_replicas > 1L
  is_whole <- !has_replicas && sum(layout$is_first) == 1L &&
    identical(as.numeric(layout$whole), as.numeric(layout$part))
  if (program$size == 1L || is_whole || (has_replicas && is.null(dim))) {
    return(as_array(buffer))
  }
  gathered <- as_array(mpi_all_gather(buffer))
  rows <- layout$part[[1L]]
  arrays <- vector("list", program$size)
  for (i in seq_len(program$size)) {
    start <- c((i - 1) * rows, numeric(length(layout$part) - 1L))
    arrays[[i]] <- array_part(gathered, base::dim(gathered), list(start = start, size = layout$part))
  }
  if (has_replicas) combine_arrays(arrays, dim) else join_parts(arrays[layout$is_first], layout)
}

part_layout <- function(layouts, which, kind) {
  is_name <- is.character(which) && length(which) == 1L && which %in% names(layouts)
  if (!is_name && !(is_whole_number(which) && which >= 1 && which <= length(layouts))) {
    abort_number_or_name(which, kind, length(layouts))
  }
  layouts[[which]]
}

check_process_program <- function(program) {
  if (!inherits(program, "PJRTProcessProgram")) {
    abort_type("`program` must be a `PJRTProcessProgram`, not ", given(program), "; create it with mpi_program().")
  }
  parts <- c("program", "rank", "size", "inputs", "outputs")
  check_intact(program, "PJRTProcessProgram", parts = parts, name = "program")
}

#' @export
format.PJRTProcessProgram <- function(x, ...) {
  check_intact(x, "PJRTProcessProgram", parts = c("program", "rank", "size", "inputs", "outputs"))
  arrays <- function(layouts) {
    text <- function(layout) {
      sprintf("%s%s of %s", layout$dtype, shape_text(layout$part), shape_text(layout$whole))
    }
    names <- names(layouts) %||% rep("", length(layouts))
    sprintf("    %s%s", ifelse(nzchar(names), paste0(names, ": "), ""), vapply(layouts, text, ""))
  }
  c(
    sprintf("<PJRTProcessProgram: process %d of %d>", x$rank + 1L, x$size),
    "  inputs:", arrays(x$inputs), "  outputs:", arrays(x$outputs)
  )
}

#' @export
print.PJRTProcessProgram <- function(x, ...) {
  print_lines(x)
}
