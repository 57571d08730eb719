#' Set compile options
#'
#' `pjrt_compile_options()` makes options for [pjrt_compile()]: the number of devices that a program runs on, and
#' settings of the compiler.
#'
#' A program for several devices uses replicas, partitions, or both:
#'
#' * *Replicas* run the same program on different data. The program is written for one of them, and collective
#'   operations such as `stablehlo.all_reduce` exchange data between them.
#' * *Partitions* share one program on large arrays. The program is written as if for one device, with annotations that
#'   say how arrays are divided, and the compiler makes one part of it for each device. Annotations use GSPMD (attribute
#'   `mhlo.sharding`) or Shardy (dialect `sdy`). Each device takes and returns its parts of the arrays; [pjrt_shard()]
#'   divides an array, and [pjrt_unshard()] combines the parts.
#'
#' Options are checked when you create them, except `debug_options`, which the plugin checks when it compiles. They are
#' immutable.
#'
#' @param num_replicas,num_partitions Whole numbers: how many replicas run, and into how many partitions each is
#'   divided. The program needs as many devices as their product. `NULL`: the numbers in the attributes
#'   `mhlo.num_replicas` and `mhlo.num_partitions` of the program's module, as JAX writes them, or else one. Numbers
#'   that contradict the program are errors.
#' @param device_assignment A matrix of the ids of devices, with a row for each replica and a column for each partition.
#'   Default: the devices passed to [pjrt_compile()], or the client's first ones.
#' @param use_spmd_partitioning A flag: whether the compiler divides the program. `NULL`: it does if there are several
#'   partitions.
#' @param use_shardy_partitioner A flag: whether Shardy divides the program instead of GSPMD. `NULL`: it does if the
#'   program uses Shardy's dialect.
#' @param allow_spmd_sharding_propagation_to_parameters,allow_spmd_sharding_propagation_to_output A flag, or one for
#'   each input or output: whether the compiler may choose how the array is divided. `NULL`: it chooses if the program
#'   does not specify this, as in JAX. `FALSE`: if the program does not specify it, every device has the whole array.
#'   `TRUE`: it may also divide an array that is whole on every device according to the program. Shardy always behaves
#'   as with `NULL`.
#' @param compile_portable_executable A flag: whether the device is chosen at each execution. It is the device of the
#'   inputs, or `pjrt_execution_options(device = )` for a program without inputs.
#' @param optimization_level A number from 0 (fast compile) to 3 (fast program), or `NULL` for the plugin's default.
#' @param debug_options A named list of strings, flags and numbers: XLA's own options, such as
#'   `list(xla_cpu_enable_fast_math = TRUE)`. Names start with `xla_`. The plugin refuses options that it does not have,
#'   and values of the wrong type. For XLA's enumerations, use the name of the value.
#' @return A `PJRTCompileOptions`.
#' @section Options that differ from XLA's defaults:
#' The package sets `xla_cpu_enable_fast_min_max` and `xla_gpu_enable_fast_min_max` to `FALSE` in every compile, as JAX
#' does. With XLA's own default for CPUs, maxima and minima drop `NaN`, and so do max-pooling, softmax, logsumexp and
#' cumulative maxima. `debug_options` and the environment variable `XLA_FLAGS` override this. A plugin that does not
#' have these options compiles without them. Saved executables keep the options that they were compiled with.
#'
#' On the CPU, maximum reductions take up to six times as long as with XLA's default, softmax twice as long, and a
#' transformer layer a tenth longer. A dense layer with relu is not slower. A reduction with
#' `select(x > y | x != x, x, y)` keeps `NaN` and is as fast as XLA's default, whatever the options, but treats -0 and 0
#' as equal.
#'
#' The package also sets `xla_cpu_enable_concurrency_optimized_scheduler` to `FALSE`, as JAX does. Programs of many
#' small operations are then faster: in our measurements, a step of a small decoder took 11% less time and 50 steps of
#' Hamiltonian Monte Carlo 18% less.
#'
#' The package sets `xla_cpu_use_fusion_emitters` to `FALSE` for programs that find places of minima or maxima
#' (`argmin`, `argmax`) and compute neither functions such as `exp()` nor windows, and to `TRUE`, XLA's default, for
#' all others. With `FALSE`, a step of k-means takes less than half of the time; exponentials and max-pooling take up to
#' twice as long. The option is not set for plugins with an API newer than 0.106, which have only one kind of code.
#'
#' All other options have XLA's defaults, which are also JAX's:
#'
#' * `xla_cpu_enable_fast_math` is `FALSE`. The options `xla_cpu_fast_math_honor_*` have an effect only if it is `TRUE`.
#' * `xla_allow_excess_precision` is `TRUE`: compilers may keep intermediate results of f16 and bf16 in higher
#'   precision. We have not seen the CPU plugin do so.
#' * `xla_cpu_enable_platform_dependent_math` and `xla_cpu_use_xnnpack` are `TRUE`: last digits may depend on the
#'   processor.
#' * `xla_gpu_ftz` is `FALSE`. On the CPU, most operations treat subnormal numbers as zero.
#'
#' The article "Reliability" lists known errors of the CPU plugin (see [pjrt_articles]).
#' @section Errors:
#' `pjrt_error_invalid_input` for invalid options or combinations, and for debug options that would end the process. If
#' the plugin refuses options, [pjrt_compile()] raises `pjrt_error_invalid_argument`.
#' @seealso [pjrt_compile()], [pjrt_execute_sharded()], `vignette("several-devices")` (see [pjrt_articles])
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' quick <- pjrt_compile_options(optimization_level = 0)
#' quick
#' path <- system.file("programs", "add-2x2.mlir", package = "pjrt")
#' program <- pjrt_program(path = path)
#' add <- pjrt_compile(program, quick)
#'
#' # a portable executable runs on the device of its inputs
#' options <- pjrt_compile_options(compile_portable_executable = TRUE)
#' portable <- pjrt_compile(program, options)
#' device(pjrt_execute(portable, pjrt_buffer(diag(2)), pjrt_buffer(diag(2))))
#'
#' # an invalid option
#' try(pjrt_compile_options(num_partitions = 2L, num_replicas = 0L))
#' @export
pjrt_compile_options <- function(num_replicas = NULL, num_partitions = NULL, device_assignment = NULL,
                                 use_spmd_partitioning = NULL, use_shardy_partitioner = NULL,
                                 compile_portable_executable = FALSE, optimization_level = NULL,
                                 debug_options = list(), allow_spmd_sharding_propagation_to_parameters = NULL,
                                 allow_spmd_sharding_propagation_to_output = NULL) {
  check_number_or_null(num_replicas, "num_replicas")
  check_number_or_null(num_partitions, "num_partitions")
  if (is.object(debug_options) || !(is.null(debug_options) || is.list(debug_options) || is.atomic(debug_options))) {
    abort_type("`debug_options` must be a named list, not ", given(debug_options), ".")
  }
  check_flag(compile_portable_executable, "compile_portable_executable")
  check_assignment(device_assignment, num_replicas, num_partitions)
  options <- list(
    num_replicas = num_replicas, num_partitions = num_partitions, device_assignment = device_assignment,
    use_spmd_partitioning = use_spmd_partitioning, use_shardy_partitioner = use_shardy_partitioner,
    compile_portable_executable = compile_portable_executable, optimization_level = optimization_level,
    debug_options = lapply(as.list(debug_options), debug_option),
    allow_spmd_sharding_propagation_to_parameters = allow_spmd_sharding_propagation_to_parameters,
    allow_spmd_sharding_propagation_to_output = allow_spmd_sharding_propagation_to_output
  )
  call_native(ffi_compile_options_check, options)
  structure(options, class = "PJRTCompileOptions")
}

# A value as native code takes it: text in UTF-8.
debug_option <- function(x) {
  if (!is.object(x) && is_valid_text(x)) as_utf8(x) else x
}

check_number_or_null <- function(x, name) {
  if (!is.null(x) && !is_whole_number(x)) {
    abort_type("`", name, "` must be a whole number or NULL, not ", given(x), ".")
  }
}

check_compile_options <- function(x, name = "compile_options") {
  if (!inherits(x, "PJRTCompileOptions")) {
    abort_type(
      "`", name, "` must be a `PJRTCompileOptions`, not ", given(x), "; create it with pjrt_compile_options()."
    )
  }
  check_intact(x, "PJRTCompileOptions", parts = c("num_replicas", "num_partitions", "debug_options"), name = name)
}

check_assignment <- function(assignment, num_replicas, num_partitions) {
  counts <- c(num_replicas %||% NA, num_partitions %||% NA)
  if (is.matrix(assignment) && !isTRUE(all(dim(assignment) == counts, na.rm = TRUE))) {
    sizes <- function(counts) {
      known <- !is.na(counts)
      paste(mapply(counted, counts[known], c("row", "column")[known]), collapse = " and ")
    }
    abort_input(
      "`device_assignment` must have a row for each replica and a column for each partition: ", sizes(counts), ", not ",
      sizes(dim(assignment)), "."
    )
  }
  if (length(assignment) > 0L && !is.matrix(assignment) && isTRUE(all(counts != 1))) {
    abort_input("`device_assignment` must be a matrix, with a row for each replica and a column for each partition.")
  }
}

#' @export
format.PJRTCompileOptions <- function(x, ...) {
  check_compile_options(x, "x")
  x <- unclass(x)
  default <- list(compile_portable_executable = FALSE, debug_options = list())
  shown <- x[!vapply(names(x), function(name) identical(x[[name]], default[[name]]), NA)]
  shown <- shown[setdiff(names(shown), c("num_replicas", "num_partitions", "debug_options"))]
  if (is.matrix(shown$device_assignment)) {
    rows <- apply(shown$device_assignment, 1L, paste, collapse = ", ")
    shown$device_assignment <- paste0("[", rows, "]", collapse = " ")
  }
  shown <- c(shown, x$debug_options)
  values <- vapply(shown, function(value) paste(format(value, trim = TRUE), collapse = ", "), "")
  c(
    sprintf("<PJRTCompileOptions: %s>", counts_text(x$num_replicas, x$num_partitions)),
    if (length(shown) > 0L) sprintf("  %s = %s", names(shown), values)
  )
}

# The numbers of replicas and partitions, in words.
counts_text <- function(num_replicas, num_partitions) {
  if (is.null(num_replicas) && is.null(num_partitions)) {
    return("replicas and partitions as in the program")
  }
  count <- function(n, what) {
    if (is.null(n)) paste0(what, "s as in the program") else counted(n, what)
  }
  paste0(count(num_replicas, "replica"), ", ", count(num_partitions, "partition"))
}

#' @export
print.PJRTCompileOptions <- function(x, ...) {
  print_lines(x)
}

#' @export
`$<-.PJRTCompileOptions` <- function(x, name, value) {
  abort_input("Compile options are immutable.", hints = "Create new ones with pjrt_compile_options().")
}

#' @export
`[[<-.PJRTCompileOptions` <- `$<-.PJRTCompileOptions`

#' @export
`[<-.PJRTCompileOptions` <- `$<-.PJRTCompileOptions`
