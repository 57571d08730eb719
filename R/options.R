#' Compile options
#'
#' Tells [pjrt_compile()] how to compile a program: for how many devices, and what XLA should do differently.
#'
#' A program for several devices is of one of two kinds, or of both at once:
#'
#' * *Replicas* run the same program on data of their own. The program is written for one of them, and collective
#'   operations such as `stablehlo.all_reduce` exchange data between them.
#' * *Partitions* share one program on large arrays. It is written as if for one device, with annotations that say how the
#'   arrays are divided, and the compiler makes one part of it for each device. Annotations are those of GSPMD (attributes
#'   `mhlo.sharding`) or of Shardy (dialect `sdy`). Inputs and outputs of each device are its parts of the arrays, which
#'   [pjrt_shard()] makes and [pjrt_unshard()] puts together.
#'
#' Options are checked when they are made. They are values that do not change: make new ones instead.
#'
#' @param num_replicas,num_partitions How many replicas run, and into how many partitions each is divided. The program
#'   needs as many devices as their product. `NULL`: as many as the program says by the attributes `mhlo.num_replicas` and
#'   `mhlo.num_partitions` of its module, as JAX writes them, and else one. A number that is not the program's is refused.
#' @param device_assignment Which devices run it: a matrix of the ids of devices, with a row for each replica and a
#'   column for each partition. By default those that [pjrt_compile()] is told, or the first ones of the client.
#' @param use_spmd_partitioning Whether the compiler divides the program. `NULL`: when there are several partitions.
#' @param use_shardy_partitioner Whether Shardy does that, instead of GSPMD. `NULL`: when the program uses the dialect of
#'   Shardy.
#' @param allow_spmd_sharding_propagation_to_parameters,allow_spmd_sharding_propagation_to_output Whether the compiler may
#'   choose how inputs and outputs are divided. `NULL`: where the program does not say how, as in JAX. `FALSE`: every device
#'   then has the whole array. `TRUE`: also where the program says that all devices have the whole array. Or such a value for each input or
#'   output. Shardy does as by `NULL`, whatever is given.
#' @param compile_portable_executable Whether the device is chosen at each execution: that of the inputs, or for a
#'   program without inputs `pjrt_execution_options(device = )`.
#' @param optimization_level From 0, quick to compile, to 3, quick to run; `NULL` leaves it to the plugin.
#' @param debug_options XLA's own options: a named list of strings, flags and numbers, such as
#'   `list(xla_cpu_enable_fast_math = TRUE)`. Names start with `xla_`. Which there are depends on the plugin, which
#'   refuses those it does not know and values of a wrong type. A value of XLA's enumerations is given by its name.
#' @return A `PJRTCompileOptions`.
#' @section Right numbers:
#' The package sets two of XLA's options in every compile, as JAX does: `xla_cpu_enable_fast_min_max` and
#' `xla_gpu_enable_fast_min_max` are `FALSE`. With XLA's own default for CPUs, maxima and minima drop `NaN`, and so do
#' max-pooling, softmax, logsumexp and cumulative maxima. What `debug_options` or the environment variable `XLA_FLAGS` says
#' about them counts instead. A plugin that does not know the options compiles without them. An executable that was saved
#' keeps what it was compiled with.
#'
#' On the CPU, reductions by maximum take up to six times as long as with XLA's default, softmax twice as long, a layer of a
#' transformer a tenth longer, and a dense layer with relu as long as before. A reduction by `select(x > y | x != x, x, y)`
#' keeps `NaN` as well and is as fast as XLA's default whatever the options are, but takes the zeros -0 and 0 for equal.
#'
#' All other options have XLA's defaults, which are JAX's as well:
#'
#' * `xla_cpu_enable_fast_math` is `FALSE`. The options `xla_cpu_fast_math_honor_*` only matter with it.
#' * `xla_allow_excess_precision` is `TRUE`: compilers may keep intermediate results of f16 and bf16 in more precision. The
#'   CPU plugin was not seen to do so.
#' * `xla_cpu_enable_platform_dependent_math` and `xla_cpu_use_xnnpack` are `TRUE`: last digits may depend on the processor.
#' * `xla_gpu_ftz` is `FALSE`. On the CPU, subnormal numbers are taken for zero, and no option changes that.
#'
#' The article "It never takes the session down" of the package's website lists what the CPU plugin still gets wrong.
#' @section Errors:
#' `pjrt_error_invalid_input` for options that make no sense, alone or together, and for debug options that would end the
#' process. [pjrt_compile()] raises what the plugin refuses, as `pjrt_error_invalid_argument`.
#' @seealso [pjrt_compile()], [pjrt_execute_sharded()], `vignette("several-devices")`
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' quick <- pjrt_compile_options(optimization_level = 0)
#' quick
#' program <- pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
#' add <- pjrt_compile(program, quick)
#'
#' # runs where its inputs are
#' portable <- pjrt_compile(program, pjrt_compile_options(compile_portable_executable = TRUE))
#' device(pjrt_execute(portable, pjrt_buffer(diag(2)), pjrt_buffer(diag(2))))
#'
#' try(pjrt_compile_options(num_partitions = 2L, use_spmd_partitioning = FALSE))
#' @export
pjrt_compile_options <- function(num_replicas = NULL, num_partitions = NULL, device_assignment = NULL,
                                 use_spmd_partitioning = NULL, use_shardy_partitioner = NULL,
                                 compile_portable_executable = FALSE, optimization_level = NULL,
                                 debug_options = list(), allow_spmd_sharding_propagation_to_parameters = NULL,
                                 allow_spmd_sharding_propagation_to_output = NULL) {
  check_number_or_null(num_replicas, "num_replicas")
  check_number_or_null(num_partitions, "num_partitions")
  if (is.object(debug_options) || !(is.list(debug_options) || is.atomic(debug_options))) {
    abort_input("`debug_options` must be a named list, not ", given(debug_options), ".")
  }
  check_flag(compile_portable_executable, "compile_portable_executable")
  check_assignment(device_assignment, num_replicas, num_partitions)
  options <- list(
    num_replicas = num_replicas, num_partitions = num_partitions, device_assignment = device_assignment,
    use_spmd_partitioning = use_spmd_partitioning, use_shardy_partitioner = use_shardy_partitioner,
    compile_portable_executable = compile_portable_executable, optimization_level = optimization_level,
    debug_options = as.list(debug_options),
    allow_spmd_sharding_propagation_to_parameters = allow_spmd_sharding_propagation_to_parameters,
    allow_spmd_sharding_propagation_to_output = allow_spmd_sharding_propagation_to_output
  )
  call_native(ffi_compile_options_check, options)
  structure(options, class = "PJRTCompileOptions")
}

check_number_or_null <- function(x, name) {
  if (!is.null(x) && !is_whole_number(x)) {
    abort_input("`", name, "` must be a whole number or NULL, not ", given(x), ".")
  }
}

check_compile_options <- function(x, name = "compile_options") {
  if (!inherits(x, "PJRTCompileOptions")) {
    abort_input("`", name, "` must be a `PJRTCompileOptions`, not ", given(x), "; make it with pjrt_compile_options().")
  }
  check_made(x, "PJRTCompileOptions", parts = c("num_replicas", "num_partitions", "debug_options"), name = name)
}

check_assignment <- function(assignment, num_replicas, num_partitions) {
  counts <- c(num_replicas %||% NA, num_partitions %||% NA)
  if (is.matrix(assignment) && !isTRUE(all(dim(assignment) == counts, na.rm = TRUE))) {
    what <- function(count, name) paste0(if (is.na(count)) "" else paste0(count, " "), name)
    abort_input(
      "`device_assignment` must have a row for each of the ", what(counts[[1L]], "replicas"), " and a column for each of the ",
      what(counts[[2L]], "partitions"), ", not ", nrow(assignment), " row(s) and ", ncol(assignment), " column(s)."
    )
  }
  if (length(assignment) > 0L && !is.matrix(assignment) && isTRUE(all(counts != 1))) {
    abort_input("`device_assignment` must be a matrix, with a row for each replica and a column for each partition.")
  }
}

# The builders of options that came before pjrt_compile_options().
new_compile_options <- function(build_options = NULL) {
  pjrt_compile_options(build_options$num_replicas, build_options$num_partitions)
}

# `device_ordinal` is taken for compatibility: the device that a program is compiled for says its number itself.
new_build_options <- function(num_replicas = 1L, num_partitions = 1L, device_ordinal = -1) {
  for (x in list(num_replicas, num_partitions, device_ordinal)) {
    if (!is_whole_number(x) || abs(x) > .Machine$integer.max) {
      abort_input("Build options must be whole numbers.")
    }
  }
  structure(
    list(
      num_replicas = as.integer(num_replicas), num_partitions = as.integer(num_partitions),
      device_ordinal = as.integer(device_ordinal)
    ),
    class = "PJRTBuildOptions"
  )
}

#' @export
format.PJRTCompileOptions <- function(x, ...) {
  check_compile_options(x, "x")
  x <- unclass(x)
  default <- list(compile_portable_executable = FALSE, debug_options = list())
  told <- x[!vapply(names(x), function(name) identical(x[[name]], default[[name]]), NA)]
  told <- told[setdiff(names(told), c("num_replicas", "num_partitions", "debug_options"))]
  if (is.matrix(told$device_assignment)) {
    rows <- apply(told$device_assignment, 1L, paste, collapse = ", ")
    told$device_assignment <- paste0("[", rows, "]", collapse = " ")
  }
  told <- c(told, x$debug_options)
  values <- vapply(told, function(value) paste(format(value, trim = TRUE), collapse = ", "), "")
  c(
    sprintf("<PJRTCompileOptions: %s>", counts_text(x$num_replicas, x$num_partitions)),
    if (length(told) > 0L) sprintf("  %s = %s", names(told), values)
  )
}

# How many replicas and partitions there are, in words.
counts_text <- function(num_replicas, num_partitions) {
  if (is.null(num_replicas) && is.null(num_partitions)) {
    return("replicas and partitions as the program says")
  }
  count <- function(n, what) {
    if (is.null(n)) paste0(what, "s as the program says") else sprintf("%.0f %s%s", n, what, if (n == 1) "" else "s")
  }
  paste0(count(num_replicas, "replica"), ", ", count(num_partitions, "partition"))
}

#' @export
print.PJRTCompileOptions <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}

#' @export
`$<-.PJRTCompileOptions` <- function(x, name, value) {
  abort_input("Compile options do not change.", hints = "Make new ones with pjrt_compile_options().")
}

#' @export
`[[<-.PJRTCompileOptions` <- `$<-.PJRTCompileOptions`

#' @export
`[<-.PJRTCompileOptions` <- `$<-.PJRTCompileOptions`
