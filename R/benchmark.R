#' Measure how fast a program runs
#'
#' `pjrt_benchmark()` runs a program many times and shows how long a run takes, and how much of the device's speed it
#' uses. Several programs take turns, so that other load on the machine affects all of them.
#'
#' # What is measured
#' After some runs to warm up, which are not counted, the program runs in three ways:
#' * One run: from its start until its outputs are complete, `times` times. This excludes R's overhead.
#' * In flight: runs are started without waiting for earlier ones, as in a loop that reads no results. The time per run,
#'   which includes freeing the results, shows what waiting for each run costs.
#' * From R: the same as one run, by `await(pjrt_execute())`. The difference is R's part. It is left out if a run takes
#'   more than a millisecond, because R's part is then too small to be measured.
#'
#' Input buffers stay as they are. If the program takes over the memory of an input (donation), each run gets a copy of
#' it, which is made before the time is taken. Ctrl-C ends the measurement.
#'
#' # Rates and limits
#' The compiler estimates how many floating point operations a run needs, and how many bytes it reads and writes (see
#' [executable_cost()]). If the plugin has no estimates, this package makes them. Divided by the median time, they are
#' the rates in GFLOP/s and GB/s. The estimate counts a loop of unknown length as one iteration, and code outside XLA,
#' such as custom calls, as nothing.
#'
#' The rates are compared with limits, which the package measures once in a session for each device and dtype. That
#' takes some seconds:
#' * For GFLOP/s, the fastest product of two large matrices, in the float type of the program's largest input or output,
#'   with the default precision. On some GPUs, that is lower than the dtype's. Programs without such a type have no
#'   limit.
#' * For GB/s, the fastest `a * x + y` of two arrays of at least 128 MB, if there is memory for them, where the result
#'   takes the place of `x`.
#'
#' The limits are measured on this machine under its current load; the maker's figures may be higher. Programs may
#' exceed them: 200% of GB/s means that data stayed in caches. A program below both limits may still be optimal:
#' sorting, random access, and serial work have other limits. On the CPU, results in fresh memory are slow on first
#' access, and donated inputs avoid that.
#'
#' @param executable A `PJRTLoadedExecutable` for one device, from [pjrt_compile()], or a `PJRTBenchmark` to compare
#'   others with.
#' @param ... The program's inputs: `PJRTBuffer`s as for [pjrt_execute()]. Or further executables that take the same
#'   `inputs`, and `PJRTBenchmark`s; their argument names are names for the result. For `plot()`, further arguments of
#'   [graphics::title()]. Not used by other methods.
#' @param main A string: the title of the first plot.
#' @param times A whole number: how many single runs are measured.
#' @param inputs A list of all inputs, as for [pjrt_execute()].
#' @param execution_options A `PJRTExecutionOptions`, from [pjrt_execution_options()], or `NULL`.
#' @param limits A flag: whether to measure the device's limits, unless they are known.
#' @param x A `PJRTBenchmark` or `PJRTComparison`.
#' @param row.names,optional Ignored.
#' @return `pjrt_benchmark()` for one program: a list of class `PJRTBenchmark`:
#' * `name`, `device`, `dtype`: strings; the dtype is that of the limit, or `NA`.
#' * `seconds`: the time of each single run.
#' * `in_flight`: seconds per run in flight, for some groups of runs.
#' * `from_r`: a data frame with a row for each group of runs: seconds per run `from_r`, and seconds per run `without_r`
#'   of the same number of runs right after them. No rows if not measured.
#' * `flops`, `bytes`: the estimate for one run, or `NA`; `estimated_by`: `"plugin"`, `"pjrt"` or `NA`.
#' * `limits`: a list with the limits `flops` and `bandwidth` per second, and the sizes `n` (rows of a matrix)
#'   and `array_bytes` that were used; or `NULL`.
#'
#' For several: a list of `PJRTBenchmark`s of class `PJRTComparison`.
#'
#' `as.data.frame()`: a data frame with a row for each program: `name`, `device`, `runs`, and in seconds `median`,
#' `lower` and `upper` quartile, `fastest`, `slowest`, `in_flight` and `r_part`; `gflops` and `gbs`, and `of_gflops` and
#' `of_gbs`, the parts of the limits.
#'
#' `plot()` shows single runs as dots with median and quartiles, and below the parts of the limits. It returns `x`,
#' invisibly.
#' @section Errors:
#' The errors of [pjrt_execute()] for inputs. `pjrt_error_invalid_input` for other invalid arguments, for executables
#' for several devices, and programs without outputs.
#' @seealso [executable_cost()], [executable_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' product <- pjrt_compile(pjrt_program("
#' func.func @main(
#'   %x: tensor<256x256xf32>, %y: tensor<256x256xf32>
#' ) -> tensor<256x256xf32> {
#'   %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
#'     : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
#'   return %z : tensor<256x256xf32>
#' }"))
#' sum <- pjrt_compile(pjrt_program("
#' func.func @main(
#'   %x: tensor<256x256xf32>, %y: tensor<256x256xf32>
#' ) -> tensor<256x256xf32> {
#'   %z = stablehlo.add %x, %y : tensor<256x256xf32>
#'   return %z : tensor<256x256xf32>
#' }"))
#' x <- pjrt_buffer(matrix(rnorm(256^2), 256))
#' pjrt_benchmark(product, x, x, times = 10)
#'
#' both <- pjrt_benchmark(product, sum, inputs = list(x, x), times = 10)
#' both
#' plot(both)
#' @usage
#' pjrt_benchmark(
#'   executable, ..., times = 30L, inputs = NULL,
#'   execution_options = NULL, limits = TRUE
#' )
#' @order 1
#' @export
pjrt_benchmark <- function(executable, ..., times = 30L, inputs = NULL, execution_options = NULL, limits = TRUE) {
  check_times(times)
  check_flag(limits, "limits")
  members <- c(if (!missing(executable)) list(executable), list(...))
  if (length(members) == 0L) {
    abort_input("There must be at least one executable or `PJRTBenchmark`.")
  }
  words <- lapply(as.list(substitute(list(...)))[-1L], name_of)
  if (!missing(executable)) {
    words <- c(list(name_of(substitute(executable))), words)
  }
  is_program <- vapply(members, inherits, NA, c("PJRTLoadedExecutable", "PJRTBenchmark"))
  if (sum(is_program) > 1L || missing(executable) || inherits(executable, "PJRTBenchmark")) {
    return(compare_programs(members, words, sole_inputs(inputs %||% list()), execution_options, times, limits))
  }
  subject <- benchmark_subject(
    executable, if (is.null(inputs)) list(...) else sole_inputs(inputs, ...), execution_options
  )
  benchmark <- run_benchmarks(list(subject), times, limits)[[1L]]
  # most programs are called main
  benchmark$name <- words[[1L]] %||% benchmark$name
  benchmark
}

# Measures the executables in `members`, in turns, beside the benchmarks. `words`: the variables' names, or NULL.
compare_programs <- function(members, words, inputs, execution_options, times, limits) {
  is_new <- vapply(members, inherits, NA, "PJRTLoadedExecutable")
  for (i in which(!is_new)) {
    if (!inherits(members[[i]], "PJRTBenchmark")) {
      abort_type(
        "Argument ", i, " must be a `PJRTLoadedExecutable` or a `PJRTBenchmark`, not ", given(members[[i]]), "."
      )
    }
    check_benchmark(members[[i]])
  }
  subjects <- lapply(members[is_new], benchmark_subject, inputs, execution_options)
  members[is_new] <- run_benchmarks(subjects, times, limits)
  labels <- names(members) %||% character(length(members))
  for (i in seq_along(members)) {
    members[[i]]$name <- if (nzchar(labels[[i]])) labels[[i]] else words[[i]] %||% members[[i]]$name
  }
  names(members) <- vapply(members, `[[`, "", "name")
  structure(members, class = "PJRTComparison")
}

# The name of a variable, or NULL for other expressions.
name_of <- function(expression) if (is.symbol(expression)) as.character(expression)

check_times <- function(times) {
  if (!is_whole_number(times) || times < 1 || times > 1e6) {
    abort_type("`times` must be a whole number from 1 to a million, not ", given(times), ".")
  }
}

# What is measured: an executable with its inputs.
benchmark_subject <- function(executable, inputs, options) {
  check_executable(executable)
  described <- describe_executable(executable)
  if (described$num_replicas * described$num_partitions > 1L) {
    abort_input("Only programs for one device can be measured; this one was compiled for several.")
  }
  if (length(described$outputs$dtype) == 0L) {
    abort_input("A program without outputs cannot be measured: its runs have no end to wait for.")
  }
  # checks the inputs, and warms up
  set <- call_native(ffi_benchmark_inputs, executable, inputs, options)
  first <- pjrt_execute(executable, inputs = set, execution_options = options, simplify = FALSE)
  await(first)
  list(
    executable = executable, inputs = inputs, options = options, described = described, device = device(first[[1L]]),
    bytes = sum(result_bytes(described$outputs), result_bytes(described$inputs)[described$inputs$donated])
  )
}

# The bytes of arrays, packed or not.
result_bytes <- function(table) {
  bits <- as.numeric(sub("^[^0-9]*([0-9]+).*$", "\\1", sub("pred", "i8", table$dtype, fixed = TRUE)))
  bits / 8 * vapply(table$shape, function(shape) prod(as.numeric(shape)), 0)
}

# Measures all subjects, in turns.
run_benchmarks <- function(subjects, times, limits) {
  # the warm-up also says how long a run takes
  typical <- vapply(subjects, function(subject) {
    seconds <- single_runs(subject, 2)
    while (sum(seconds) < 0.05 && length(seconds) < 1000) {
      seconds <- c(seconds, single_runs(subject, 10))
    }
    stats_median(seconds)
  }, 0)
  seconds <- in_flight <- from_r <- rep(list(numeric()), length(subjects))
  rounds <- if (length(subjects) > 1L) min(10, times) else 1
  for (round in seq_len(rounds)) {
    count <- times %/% rounds + (round <= times %% rounds)
    for (i in seq_along(subjects)) {
      seconds[[i]] <- c(seconds[[i]], single_runs(subjects[[i]], count))
    }
  }
  for (i in seq_along(subjects)) {
    in_flight[[i]] <- runs_in_flight(subjects[[i]], typical[[i]])
    from_r[[i]] <- runs_from_r(subjects[[i]], typical[[i]])
  }
  Map(new_benchmark, subjects, seconds, in_flight, from_r, limits)
}

single_runs <- function(subject, times) {
  call_native(ffi_benchmark_runs, subject$executable, subject$inputs, subject$options, times, FALSE)
}

# How many runs may be in flight: their results take memory.
flight_depth <- function(subject) max(2, min(32, 256e6 %/% max(subject$bytes, 1)))

donates_any <- function(subject) any(subject$described$inputs$donated)

# Seconds per run, for some groups of runs in flight. `typical`: about the seconds of a run.
runs_in_flight <- function(subject, typical) {
  depth <- flight_depth(subject)
  runs <- runs_of_group(typical, depth, donates_any(subject))
  groups <- if (typical > 0.1) 1 else 5
  run <- function(i) call_native(
    ffi_benchmark_in_flight, subject$executable, subject$inputs, subject$options, runs, depth
  )
  vapply(seq_len(groups), run, 0) / runs
}

# How many runs a group in flight has: as many as fit in a tenth of a second, or that are in flight at once. Of long
# runs fewer, since a few show what waiting costs.
runs_of_group <- function(typical, depth, donates) {
  runs <- max(2, min(depth, 0.2 %/% typical))
  if (donates) runs else max(runs, min(5000, 0.1 %/% typical))
}

# Seconds per run that R starts and awaits, for some groups, each with the mean of as many runs without R right after
# it. No groups if runs take too long for R's part to be seen.
runs_from_r <- function(subject, typical) {
  if (typical > 1e-3) {
    return(data.frame(from_r = numeric(), without_r = numeric()))
  }
  runs <- ceiling(2e-3 / max(typical, 2e-6))
  if (donates_any(subject)) {
    runs <- min(runs, flight_depth(subject))
  }
  inputs <- lapply(seq_along(subject$described$inputs$dtype), function(i) call("[[", quote(set), i))
  options <- if (!is.null(subject$options)) list(execution_options = quote(options))
  run <- as.call(c(quote(pjrt_execute), quote(executable), inputs, options))
  # a function's own loop is compiled
  loop <- eval(call("function", as.pairlist(alist(executable = , sets = , options = )), bquote({
    start <- Sys.time()
    for (set in sets) await(.(run))
    as.numeric(Sys.time()) - as.numeric(start)
  })))
  new_set <- function() call_native(ffi_benchmark_inputs, subject$executable, subject$inputs, subject$options)
  one_group <- function(i) {
    sets <- if (donates_any(subject)) lapply(seq_len(runs), function(i) new_set()) else rep(list(new_set()), runs)
    c(from_r = loop(subject$executable, sets, subject$options) / runs, without_r = mean(single_runs(subject, runs)))
  }
  # the first is slower
  as.data.frame(t(vapply(1:11, one_group, c(from_r = 0, without_r = 0))))[-1L, ]
}

new_benchmark <- function(subject, seconds, in_flight, from_r, limits) {
  described <- subject$described
  cost <- if_supported(executable_cost(subject$executable), NULL)
  known <- function(name) if (isTRUE(cost[name] >= 0)) cost[[name]] else NA_real_
  dtype <- main_float(described)
  structure(
    list(
      name = described$name, device = as.character(subject$device), dtype = dtype, seconds = seconds,
      in_flight = in_flight,
      from_r = from_r, flops = known("flops"), bytes = known("bytes accessed"),
      estimated_by = if (is.null(cost)) NA_character_ else attr(cost, "estimated_by") %||% "plugin",
      limits = if (limits) device_limits(subject$device, dtype)
    ),
    class = "PJRTBenchmark"
  )
}

# The float type of the largest arrays that a program takes and returns, or NA.
main_float <- function(described) {
  table <- list(
    dtype = c(described$inputs$dtype, described$outputs$dtype),
    shape = c(described$inputs$shape, described$outputs$shape)
  )
  is_float <- table$dtype %in% c("f64", "f32", "f16", "bf16")
  if (any(is_float)) table$dtype[is_float][[which.max(result_bytes(table)[is_float])]] else NA_character_
}

check_benchmark <- function(x) {
  check_intact(x, "PJRTBenchmark", parts = c("name", "device", "seconds", "in_flight", "from_r", "flops", "bytes"))
}

stats_median <- function(x) if (length(x) > 0L) sort(x)[[(length(x) + 1L) %/% 2L]] else NA_real_

# Numbers of a benchmark, as a list.
benchmark_row <- function(x) {
  check_benchmark(x)
  quartiles <- quartiles_of(x$seconds)
  middle <- quartiles[[2L]]
  rates <- c(x$flops, x$bytes) / middle / 1e9
  most <- if (is.null(x$limits)) c(NA, NA) else c(x$limits$flops, x$limits$bandwidth) / 1e9
  list(
    name = x$name, device = x$device, runs = length(x$seconds), median = middle, lower = quartiles[[1L]],
    upper = quartiles[[3L]], fastest = min(x$seconds), slowest = max(x$seconds), in_flight = stats_median(x$in_flight),
    r_part = r_part(x), gflops = rates[[1L]], gbs = rates[[2L]], of_gflops = rates[[1L]] / most[[1L]],
    of_gbs = rates[[2L]] / most[[2L]]
  )
}

# Lower quartile, median and upper quartile. Each is a time that was measured.
quartiles_of <- function(x) {
  x <- sort(x)
  x[ceiling(c(0.25, 0.5, 0.75) * length(x))]
}

# What R adds to a run in seconds, or NA if that is not seen in most groups.
r_part <- function(x) {
  parts <- x$from_r$from_r - x$from_r$without_r
  if (length(parts) > 0L && quartiles_of(parts)[[1L]] > 0) stats_median(parts) else NA_real_
}

#' @rdname pjrt_benchmark
#' @export
as.data.frame.PJRTBenchmark <- function(x, row.names = NULL, optional = FALSE, ...) {
  as.data.frame(benchmark_row(x))
}

#' @rdname pjrt_benchmark
#' @export
as.data.frame.PJRTComparison <- function(x, row.names = NULL, optional = FALSE, ...) {
  do.call(rbind, lapply(check_comparison(x), as.data.frame))
}

# The benchmarks of a comparison.
check_comparison <- function(x) {
  is_whole <- is.list(x) && length(x) > 0L && all(vapply(x, inherits, NA, "PJRTBenchmark"))
  check_intact(if (is_whole) x, "PJRTComparison")
  unname(unclass(x))
}

#' @export
format.PJRTBenchmark <- function(x, ...) {
  row <- benchmark_row(x)
  limits <- x$limits
  part <- function(rate, unit, part, limit, of) {
    sprintf(
      "%s %s%s", signif_text(rate), unit,
      if (is.na(part)) "" else sprintf(", %s of the %s of %s", percent(part), signif_text(limit / 1e9), of)
    )
  }
  lines <- c(
    "one run" = sprintf(
      "%s, quartiles %s and %s", format_seconds(row$median), format_seconds(row$lower), format_seconds(row$upper)
    ),
    "in flight" = sprintf("%s per run", format_seconds(row$in_flight)),
    "from R" = if (!is.na(row$r_part)) {
      sprintf("%s longer", format_seconds(row$r_part))
    } else if (nrow(x$from_r) > 0L) {
      "as one run, within its variation"
    } else {
      "R's part is too small to be measured"
    },
    "compute" = if (!is.na(row$gflops)) {
      part(
        row$gflops, "GFLOP/s", row$of_gflops, limits$flops,
        sprintf("a product of %.0fx%.0f %s", limits$n, limits$n, limits$dtype)
      )
    },
    "memory" = if (!is.na(row$gbs)) {
      part(
        row$gbs, "GB/s", row$of_gbs, limits$bandwidth,
        sprintf("a * x + y on arrays of %s", format_bytes(limits$array_bytes))
      )
    },
    "rates" = if (identical(x$estimated_by, "pjrt")) "from this package's estimates: the plugin has none",
    "advice" = benchmark_advice(row)
  )
  c(
    sprintf("<PJRTBenchmark: %s on %s, %s>", row$name, row$device, counted(row$runs, "run")),
    sprintf("  %-10s %s", paste0(names(lines), ":"), lines)
  )
}

# What the numbers say, in a few words, or NULL.
benchmark_advice <- function(row) {
  if (isTRUE(row$in_flight < 0.5 * row$median)) {
    "runs in flight are faster: do not wait for each"
  } else if (isTRUE(row$r_part > row$median)) {
    "R's part is larger than the program's: do more in one program"
  }
}

#' @export
print.PJRTBenchmark <- function(x, ...) {
  writeLines(format(x))
  invisible(x)
}

#' @export
format.PJRTComparison <- function(x, ...) {
  rows <- as.data.frame(x)
  quickest <- min(rows$median)
  cells <- list(
    c("", rows$name), c("median", format_seconds(rows$median)), c("quartiles", format_range(rows$lower, rows$upper)),
    c("in flight", format_seconds(rows$in_flight)), c("GFLOP/s", rate_cells(rows$gflops, rows$of_gflops)),
    c("GB/s", rate_cells(rows$gbs, rows$of_gbs)), c("slower by", slower_cells(rows$median / quickest))
  )
  is_known <- vapply(cells, function(cell) any(nzchar(cell[-1L])), NA)
  justify <- c("left", rep("right", length(cells) - 1L))
  columns <- Map(format, cells, justify = justify)[is_known]
  devices <- unique(rows$device)
  c(
    sprintf("<PJRTComparison on %s>", paste(devices, collapse = ", ")),
    paste0("  ", do.call(paste, c(columns, sep = "  ")))
  )
}

#' @export
print.PJRTComparison <- print.PJRTBenchmark

# "3.2 (41%)" for each.
rate_cells <- function(rates, parts) {
  parts <- ifelse(is.na(parts), "", sprintf(" (%s)", percent(parts)))
  ifelse(is.na(rates), "", paste0(signif_text(rates), parts))
}

slower_cells <- function(ratios) {
  ifelse(ratios == 1, "", ifelse(ratios < 2, sprintf("%.0f%%", 100 * (ratios - 1)), sprintf("%.1f times", ratios)))
}

percent <- function(part) {
  paste0(vapply(100 * part, function(x) format(signif(x, 2), scientific = FALSE, decimal.mark = "."), ""), "%")
}

signif_text <- function(x) {
  vapply(x, function(x) {
    format(signif(x, 3), scientific = FALSE, big.mark = ",", decimal.mark = ".", trim = TRUE)
  }, "")
}

# "1.2 - 1.4 ms" for each.
format_range <- function(lower, upper) {
  scale <- vapply(upper, function(x) time_units[[unit_of(x)]], 0)
  sprintf("%s - %s", signif_text(lower / scale), format_seconds(upper))
}

time_units <- c(ns = 1e-9, us = 1e-6, ms = 1e-3, s = 1)

unit_of <- function(x) if (x < 1e-6) "ns" else if (x < 1e-3) "us" else if (x < 1) "ms" else "s"

# "1.2 ms" for each.
format_seconds <- function(seconds) {
  one <- function(x) {
    if (is.na(x)) {
      return("")
    }
    if (x == 0) {
      return("0")
    }
    unit <- unit_of(x)
    paste(signif_text(x / time_units[[unit]]), unit)
  }
  vapply(seconds, one, "")
}
