#' Join other processes with MPI
#'
#' `mpi_init()` connects this process with the processes that `mpirun` or a cluster's scheduler started together with
#' it. All of them must call it. Then programs on the CPU and functions such as [mpi_all_reduce()] can exchange arrays.
#' `close()` disconnects the process; this also happens when R quits.
#'
#' A process that was started alone is a world of one process.
#'
#' @section The library:
#' The system's MPI is loaded at run time: Open MPI, MPICH and its relatives, or one with the standard ABI of MPI 5. The
#' package uses the first of these: an MPI that is already loaded, for example by package Rmpi; the file that the
#' environment variable `PJRT_MPI` names; the MPI whose launcher started the process; Open MPI; MPICH. On Debian,
#' install `openmpi-bin` or `mpich`.
#' `mpi_init()` sets the environment variable `UCX_ERROR_SIGNALS` to an empty text, unless it is set, since UCX, which
#' MPICH uses, would end the process at signals that R or this package handles.
#'
#' One thread makes all calls of MPI, and another one makes the calls for the store of [pjrt_distributed()]. If Rmpi has
#' initialized MPI, only R's thread may communicate. It does so while it waits for a result or is idle, and `mpi.quit()`
#' or `mpi.finalize()` of Rmpi ends MPI. Load Rmpi before you call `mpi_init()`: Rmpi cannot join an MPI that is
#' initialized already.
#' @section Order:
#' All processes must communicate in the same order. Programs that communicate run one after the other, in the order of
#' their launch. In a program, each call must use a result of the previous call. Otherwise the compiler could swap them,
#' and `pjrt_compile()` raises an error. To order independent calls, give them the attribute `ticket = true`. Their last
#' operand and last result are then a ticket, any small array, that goes from call to call. Tokens do not order calls on
#' the CPU. Loops and branches must also take a ticket and return it.
#' @section Targets:
#' Programs on the CPU use these in [custom calls][pjrt_register_custom_call] with `api_version = 4 : i32`:
#'
#' * `pjrt_mpi_all_reduce`: attribute `op`, as in [mpi_all_reduce()], by default sum.
#' * `pjrt_mpi_all_gather`: the result has the operands of all processes, one after the other.
#' * `pjrt_mpi_reduce_scatter`: each process gets its part of the sum, or of what `op` names.
#' * `pjrt_mpi_all_to_all`: part i of the operand goes to process i.
#' * `pjrt_mpi_broadcast`: attribute `root` (an integer).
#' * `pjrt_mpi_send`, `pjrt_mpi_recv`: attributes `peer` and `tag` (integers; `tag` from 0 to 65535, by default 0). A
#'   send copies its operands and does not wait. It needs `has_side_effect = true`.
#' * `pjrt_mpi_barrier`: the results are copies of the operands.
#'
#' `pjrt_mpi_all_reduce` works in place in a call with `output_operand_aliases`, which spares the memory of the result.
#'
#' Each may have several operands, with a result for each. Arrays are row-major, and parts divide their elements in that
#' order. To communicate in groups, set `groups = array<i64: 0, 1, 2, 3>` and `group_size = 2 : i64`: lists of ranks of
#' that length, in which -1 fills a short list. `root` then counts in the group.
#'
#' `pjrt_mpi_permute` has pairs of ranks, `pairs = array<i64: 0, 1, 1, 0>`: the first of each sends its operand to the
#' second. A process that receives nothing gets zeros.
#' @section Errors:
#' `pjrt_error_library_missing` if no MPI is found, if the library is not one of these, or if it does not belong to the
#' launcher. An error of MPI is raised when a result is read. If a process is killed, or its R script fails or quits
#' with a status other than 0, `mpirun` ends the others. With Slurm's `srun`, add `--kill-on-bad-exit`.
#' @return `mpi_init()` returns a list of class `PJRTMPI` with the `rank` of this process, counted from 0, the `size` of
#' the world, the `library`'s file, its `abi` and `version`, the version of the MPI `standard`, the level of support for
#' `threads`, and whether MPI was initialized before (`joined`). A second call returns the same. `close()`
#' returns `NULL`, invisibly.
#' @seealso [mpi_all_reduce()], [mpi_program()], [pjrt_distributed()], `vignette("cluster")` (see [pjrt_articles])
#' @examplesIf pjrt::plugins_downloaded("cpu") && nzchar(Sys.which("mpirun"))
#' # start it with: mpirun -n 4 Rscript script.R
#' world <- mpi_init()
#' x <- pjrt_buffer(rep(world$rank, 3))
#' as_array(mpi_all_reduce(x))
#' @export
mpi_init <- function() {
  named <- Sys.getenv("PJRT_MPI")
  keep_signals()
  found <- call_native(ffi_mpi_start, enc2utf8(named[nzchar(named)]))
  found <- structure(found, class = "PJRTMPI")
  if (is.null(the$mpi)) the$mpi <- list2env(list(world = found, programs = new.env()))
  found
}

# UCX, which MPICH uses, would replace R's handlers of fatal signals by its own, which end the process.
keep_signals <- function() {
  if (is.na(Sys.getenv("UCX_ERROR_SIGNALS", NA))) Sys.setenv(UCX_ERROR_SIGNALS = "")
}

#' @rdname mpi_init
#' @export
close.PJRTMPI <- function(con, ...) {
  check_unused(...)
  call_native(ffi_mpi_finish)
  if (!is.null(the$mpi)) the$mpi <- "ended"
  invisible()
}

#' @rdname mpi_init
#' @param x,con A `PJRTMPI`.
#' @param ... Not used.
#' @export
print.PJRTMPI <- function(x, ...) {
  print_lines(x)
}

#' @rdname mpi_init
#' @export
format.PJRTMPI <- function(x, ...) {
  check_intact(x, "PJRTMPI", parts = c("rank", "size", "library", "version", "standard", "threads", "joined"))
  c(
    sprintf("<PJRTMPI> process %d of %d (rank %d)", x$rank + 1L, x$size, x$rank),
    sprintf("%s, MPI %s, threads: %s%s", x$version, x$standard, x$threads, if (x$joined) ", joined" else ""),
    x$library
  )
}

#' Exchange buffers with other processes
#'
#' All processes of [mpi_init()] must call each function, in the same order. The functions return before the
#' communication has taken place; the buffers that they return become ready later. On the CPU, MPI reads and writes the
#' memory of buffers.
#'
#' `mpi_all_reduce()` combines the buffers of all processes, element by element. `mpi_all_gather()` returns all of them,
#' bound along the first dimension. `mpi_reduce_scatter()` combines buffers like `mpi_all_reduce()`, and each process
#' gets one part of the first dimension. `mpi_all_to_all()` sends part i of the first dimension to process i, and
#' returns the received parts in the order of the processes. `mpi_broadcast()` returns the buffers of the process
#' `root`. `mpi_send()` and `mpi_recv()` pass a buffer from one process to another; a send copies the buffer and does
#' not wait for its receiver. `mpi_barrier()` waits for all processes.
#'
#' Each call with new dtypes and shapes compiles a small program, which is kept for the session.
#'
#' @param buffers A [buffer][pjrt_buffer] on a CPU, or a list of them, on one device. All processes pass the same dtypes
#'   and shapes.
#' @param buffer A buffer on a CPU.
#' @param op How to combine elements: `"sum"`, `"prod"`, `"min"`, `"max"`, or for integers and `pred` `"and"`, `"or"`,
#'   `"xor"`. Complex
#' numbers have sums and products only, `pred` has no sums and products. `f16` and `bf16` are combined as `f32`.
#'   The minimum or maximum of `NaN` and a number is `NaN`, as in programs.
#' @param root,dest,source The rank of a process, counted from 0.
#' @param tag A number from 0 to 65535. `mpi_recv()` receives a message that was sent with the same tag.
#' @param dtype,shape The dtype and shape of the buffer that is sent.
#' @param device A CPU device, as in [pjrt_buffer()]: where the received buffer is, or whose programs wait.
#' @return A buffer for a buffer, a list of buffers with the same names for a list. `mpi_send()` and `mpi_barrier()`
#'   return `NULL`,
#' invisibly.
#' @section Errors:
#' `pjrt_error_invalid_input` for other arguments, and `pjrt_error_unsupported_dtype` for dtypes narrower than a byte
#' and of `f8`. If MPI fails, or `op` does not exist for a dtype, the error is raised when the result is read.
#' @examplesIf pjrt::plugins_downloaded("cpu") && nzchar(Sys.which("mpirun"))
#' # start it with: mpirun -n 4 Rscript script.R
#' world <- mpi_init()
#' gradients <- list(w = pjrt_buffer(diag(2)), b = pjrt_buffer(c(1, 2)))
#' sums <- mpi_all_reduce(gradients)
#' if (world$rank == 0) print(as_array(sums$w))
#' @export
mpi_all_reduce <- function(buffers, op = "sum") {
  check_choice(op, c("sum", "prod", "min", "max", "and", "or", "xor"), "op")
  exchange("all_reduce", buffers, sprintf('op = "%s"', op))
}

#' @rdname mpi_all_reduce
#' @export
mpi_all_gather <- function(buffers) {
  size <- mpi_world()$size
  exchange("all_gather", buffers, resize = function(shape) c(parts_of(shape)[1L] * size, shape[-1L]))
}

#' @rdname mpi_all_reduce
#' @export
mpi_reduce_scatter <- function(buffers, op = "sum") {
  check_choice(op, c("sum", "prod", "min", "max", "and", "or", "xor"), "op")
  size <- mpi_world()$size
  exchange(
    "reduce_scatter", buffers, sprintf('op = "%s"', op), function(shape) c(parts_of(shape, size)[1L] / size, shape[-1L])
  )
}

#' @rdname mpi_all_reduce
#' @export
mpi_all_to_all <- function(buffers) {
  size <- mpi_world()$size
  exchange("all_to_all", buffers, resize = function(shape) parts_of(shape, size))
}

#' @rdname mpi_all_reduce
#' @export
mpi_broadcast <- function(buffers, root = 0L) {
  exchange("broadcast", buffers, sprintf("root = %d : i64", check_rank(root, "root")))
}

#' @rdname mpi_all_reduce
#' @export
mpi_send <- function(buffer, dest, tag = 0L) {
  attributes <- sprintf("peer = %d : i64, tag = %d : i64", check_rank(dest, "dest"), check_below(tag, 65536, "tag"))
  exchange("send", check_own(list(buffer), "buffer")[[1L]], attributes, results = FALSE)
  invisible()
}

#' @rdname mpi_all_reduce
#' @export
mpi_recv <- function(dtype, shape, source, tag = 0L, device = NULL) {
  attributes <- sprintf("peer = %d : i64, tag = %d : i64", check_rank(source, "source"), check_below(tag, 65536, "tag"))
  exchange("recv", pjrt_empty(dtype, shape, device), attributes)
}

#' @rdname mpi_all_reduce
#' @export
mpi_barrier <- function(device = NULL) {
  mpi_world()
  await(exchange("barrier", pjrt_empty("i32", 1L, device)))
  invisible()
}

mpi_world <- function() {
  if (is.null(the$mpi)) {
    abort_input("MPI is not initialized: call `mpi_init()` first.")
  }
  if (!is.environment(the$mpi)) {
    abort_input("`close()` has ended MPI in this process, and it cannot be initialized again.")
  }
  the$mpi$world
}

check_below <- function(x, end, name) {
  if (!(is.numeric(x) && length(x) == 1L && !is.na(x) && x >= 0 && x < end && x == floor(x))) {
    abort_input(sprintf("`%s` must be a whole number from 0 to %d.", name, as.integer(end - 1)))
  }
  as.integer(x)
}

check_rank <- function(x, name) check_below(x, mpi_world()$size, name)

check_own <- function(buffers, name) {
  is_own <- vapply(buffers, is_buffer, NA)
  if (!all(is_own) || length(buffers) == 0L) {
    abort_input(sprintf("`%s` must be a buffer%s.", name, if (name == "buffers") ", or a list of buffers" else ""))
  }
  buffers
}

# A shape whose first dimension can be divided.
parts_of <- function(shape, size = 1L) {
  if (length(shape) == 0L) {
    abort_input("A scalar has no first dimension: use pjrt_buffer() instead of pjrt_scalar().")
  }
  if (shape[1L] %% size != 0) {
    abort_input(sprintf("The first dimension must be a multiple of %d, the number of processes.", size))
  }
  shape
}

# The type of an array in a program.
tensor_type <- function(dtype, shape) {
  known <- c(
    bool = "i1", c64 = "complex<f32>", c128 = "complex<f64>", f16 = "f16", bf16 = "bf16", f32 = "f32", f64 = "f64",
    i8 = "i8",
    i16 = "i16", i32 = "i32", i64 = "i64", ui8 = "ui8", ui16 = "ui16", ui32 = "ui32", ui64 = "ui64"
  )
  name <- known[dtype]
  if (is.na(name)) {
    pjrt_abort(sprintf("MPI does not exchange arrays of %s.", dtype), "unsupported_dtype")
  }
  paste0(
    "tensor<", paste0(format(shape, scientific = FALSE, trim = TRUE), "x", recycle0 = TRUE, collapse = ""), name, ">"
  )
}

# Runs the program of one call on buffers.
exchange <- function(what, buffers, attributes = "", resize = identity, results = TRUE) {
  mpi_world()
  is_one <- is_buffer(buffers)
  inputs <- if (is_one) list(buffers) else check_own(
    if (is.list(buffers)) unname(buffers) else list(buffers), "buffers"
  )
  # of all that a program depends on: this takes far less time than to ask each buffer
  key <- paste(what, attributes, .Call(ffi_mpi_kinds, inputs))
  executable <- the$mpi$programs[[key]]
  if (is.null(executable)) {
    executable <- compile_exchange(what, inputs, attributes, resize, results)
    the$mpi$programs[[key]] <- executable
  }
  outputs <- pjrt_execute(executable, inputs = inputs, simplify = FALSE)
  if (is_one) outputs[[1L]] else stats::setNames(outputs, names(buffers))
}

compile_exchange <- function(what, inputs, attributes, resize, results) {
  where <- device(inputs[[1L]])
  if (platform(where) != "cpu") {
    abort_input("MPI exchanges buffers on a CPU only.")
  }
  dtypes <- vapply(inputs, function(x) as.character(dtype(x)), "")
  shapes <- lapply(inputs, shape)
  from <- mapply(tensor_type, dtypes, shapes)
  to <- if (results) mapply(tensor_type, dtypes, lapply(shapes, resize)) else "tensor<1xi32>"
  pjrt_compile(pjrt_program(exchange_program(what, attributes, from, to, results)), device = where)
}

exchange_program <- function(what, attributes, from, to, results) {
  n <- seq_along(from)
  reads <- what != "recv"
  arguments <- paste0("%a", n, ": ", from, collapse = ", ")
  if (results) {
    made <- if (length(to) > 1L) sprintf("%%r:%d", length(to)) else "%r"
    returned <- if (length(to) > 1L) paste0("%r#", n - 1L) else "%r"
  }
  called <- sprintf(
    "stablehlo.custom_call @pjrt_mpi_%s(%s) {api_version = 4 : i32, has_side_effect = true, backend_config = {%s}} : (%s) -> (%s)",
    what, if (reads) paste0("%a", n, collapse = ", ") else "", attributes,
    if (reads) paste(from, collapse = ", ") else "",
    if (results) paste(to, collapse = ", ") else ""
  )
  body <- if (results) sprintf("    %s = %s", made, called) else c(
    paste0("    ", called), "    %r = stablehlo.constant dense<0> : tensor<1xi32>"
  )
  c(
    "module {", sprintf("  func.func @main(%s) -> (%s) {", arguments, paste(to, collapse = ", ")), body,
    sprintf("    return %s : %s", if (results) paste(returned, collapse = ", ") else "%r", paste(to, collapse = ", ")),
    "  }", "}"
  )
}
