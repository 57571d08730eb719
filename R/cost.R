#' Estimate the cost of each operation
#'
#' `executable_cost(executable, by = "operation")` estimates what each operation of the optimized program costs, and
#' shows the most expensive ones with their source.
#'
#' The estimates follow from the shapes alone; nothing is measured. An execution has a cost for each operation that the
#' compiler has left: most are fusions of several operations of the program. [as_dot()] shows them.
#'
#' @section Rules:
#' * A matrix product has 2 flops for each element of the result and each product that it adds up. So does a
#'   convolution; its padding costs nothing.
#' * An operation on each element has one flop per element, or one transcendental operation for `exp`, `log`, `sqrt`,
#'   `tanh`, powers and such.
#' * A reduction repeats its function for each element that it removes, a scatter for each update.
#' * Sorting has `n * log2(n)` flops, a Fourier transform `5 * n * log2(n)`, a Cholesky decomposition `n^3 / 3`, a
#'   triangular solve `n^2` for each right-hand side.
#' * A fusion has the flops of all its parts.
#' * Every operation reads its operands and writes its result. The parts of a fusion share registers. Slices and gathers
#'   read only what they return, and an update in place moves only the update.
#' * The body of a loop counts as often as it runs, if the compiler knows that. Otherwise, and for branches, it counts
#'   once.
#' * A call of a function outside of XLA has unknown flops, except for the matrix products and convolutions of the
#'   libraries that XLA calls.
#'
#' `share` is the share of the estimated time: an operation takes as long as its flops or its bytes, whichever is
#' longer, on a machine with 10 flops in the time of a byte. A transcendental operation counts as 10 flops.
#'
#' @param x A `PJRTOperationCosts`, from [executable_cost()].
#' @param n A whole number: how many operations are shown.
#' @param main A string: the title of the plot.
#' @param ... For `plot()`, further arguments of [graphics::title()]. Otherwise not used.
#' @return A data frame of class `PJRTOperationCosts` with a row for each operation, the most expensive first.
#'   - `operation`: the name in [inspect_hlo()], `opcode` and `shape` of the result.
#'   - `times`: how often it runs in an execution, or `NA` if that is not known.
#'   - `flops`, `transcendentals` and `bytes` of all times. Flops are `NA` if they are not known.
#'   - `share`: the share of the estimated time.
#'   - `op_name`: the operation in the program's framework, such as `"jit(step)/dot_general"`, and `source`, such as
#'     `"model.py:12"`, or `"program:17"` for a line of the program's text; `""` if the compiler has not recorded it.
#'
#'   The attribute `reported` has the plugin's own estimate for the whole program, or is `NULL`; `estimated` is the
#'   total with every loop counted once, as XLA's own analysis does.
#'
#' `plot()` draws a bar for each of the `n` most expensive operations, the largest first, and one for all others. The
#' colour shows whether flops or bytes take longer. `plot()` and `print()` return `x`, invisibly.
#' @section Errors:
#' The errors of [inspect_hlo()].
#' @seealso [executable_cost()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "logistic-step.mlir", package = "pjrt")
#' step <- pjrt_compile(pjrt_program(path = path))
#' costs <- executable_cost(step, by = "operation")
#' print(costs, n = 3)
#' plot(costs)
#' costs[1, c("operation", "flops", "source")]
#' @order 1
#' @name operation-costs
NULL

# How many flops a machine computes while it moves a byte, and how many a transcendental operation takes.
flops_per_byte <- 10
flops_per_transcendental <- 10

operation_costs <- function(executable) {
  costs <- as_table(call_native(ffi_executable_operation_costs, executable))
  estimated <- c(
    flops = sum(costs$flops, na.rm = TRUE), transcendentals = sum(costs$transcendentals),
    `bytes accessed` = sum(costs$bytes)
  )
  times <- ifelse(is.na(costs$times), 1, costs$times)
  for (name in c("flops", "transcendentals", "bytes")) {
    costs[[name]] <- costs[[name]] * times
  }
  time <- pmax(compute_time(costs), costs$bytes)
  costs$share <- time / max(sum(time), 1e-300)
  # "-" is the program's own text
  costs$file[costs$file == "-"] <- "program"
  costs$source <- ifelse(nzchar(costs$file), paste0(costs$file, ":", costs$line), "")
  costs <- costs[order(-costs$share), setdiff(names(costs), c("file", "line"))]
  columns <- c(
    "operation", "opcode", "shape", "times", "flops", "transcendentals", "bytes", "share", "op_name", "source"
  )
  costs <- as_table(unclass(costs)[columns])
  structure(
    costs,
    class = c("PJRTOperationCosts", "data.frame"), estimated = estimated,
    reported = reported_cost(executable)
  )
}

# How long the flops of operations take, in the time that a byte takes.
compute_time <- function(costs) {
  flops <- ifelse(is.na(costs$flops), 0, costs$flops)
  (flops + flops_per_transcendental * costs$transcendentals) / flops_per_byte
}

# The plugin's own estimate, or NULL.
reported_cost <- function(executable) {
  total <- if_supported(executable_cost(executable), NULL)
  if (is.null(attr(total, "estimated_by"))) total
}

# A subset is a plain data frame: it has no totals.
#' @export
`[.PJRTOperationCosts` <- function(x, ...) {
  check_costs(x)
  class(x) <- "data.frame"
  attr(x, "estimated") <- NULL
  attr(x, "reported") <- NULL
  x[...]
}

# The rows that are shown, with short numbers.
cost_table <- function(x, n) {
  rows <- utils::head(structure(x, class = "data.frame"), n)
  shown <- data.frame(
    operation = clipped(rows$operation, 30L), shape = clipped(rows$shape, 22L),
    share = sprintf("%.1f%%", 100 * rows$share),
    flops = ifelse(is.na(rows$flops), "?", short_count(rows$flops)), bytes = short_count(rows$bytes),
    times = ifelse(is.na(rows$times), "?", format(rows$times, trim = TRUE)),
    source = clipped(ifelse(nzchar(rows$source), basename(rows$source), rows$op_name), 30L, at_end = TRUE)
  )
  if (all(rows$times %in% 1)) {
    shown$times <- NULL
  }
  if (!any(nzchar(shown$source))) {
    shown$source <- NULL
  }
  shown
}

#' @rdname operation-costs
#' @export
print.PJRTOperationCosts <- function(x, n = 10, ...) {
  check_costs(x, n)
  cat(sprintf("<PJRTOperationCosts: %s, estimated from their shapes>\n", counted(nrow(x), "operation")))
  if (min(n, nrow(x)) > 0) {
    print(cost_table(x, n), right = TRUE, row.names = FALSE)
  }
  if (n < nrow(x)) {
    cat(sprintf("... %d more with %.1f%% of the time\n", nrow(x) - n, 100 * sum(x$share[seq_len(nrow(x)) > n])))
  }
  cat(cost_totals(x), sep = "\n")
  invisible(x)
}

check_costs <- function(x, n = 10) {
  parts <- c("operation", "shape", "times", "flops", "transcendentals", "bytes", "share", "op_name", "source")
  check_intact(x, "PJRTOperationCosts", parts = parts)
  if (!is_whole_number(n) || n < 0) {
    abort_type("`n` must be a number of operations, not ", given(n), ".")
  }
}

# The total beside that of the plugin.
cost_totals <- function(x) {
  figures <- function(costs) if (length(costs) > 0L) paste(names(costs), short_count(costs), collapse = ", ")
  reported <- figures(known_costs(attr(x, "reported")))
  c(
    paste0("Total, loops once: ", figures(known_costs(attr(x, "estimated")))),
    if (!is.null(reported)) paste0("The plugin's own:  ", reported)
  )
}

# The costs that are shown, unless they are unknown: XLA counts -1 for those.
known_costs <- function(costs) {
  costs <- costs[c("flops", "transcendentals", "bytes accessed")]
  costs[!is.na(costs) & costs >= 0]
}

short_count <- function(x) {
  unit <- findInterval(abs(x), 1000^(1:4))
  paste0(
    trimws(formatC(x / 1000^unit, digits = 3L, format = "fg")), c("", "k", "M", "G", "T")[unit + 1L], recycle0 = TRUE
  )
}

clipped <- function(x, longest, at_end = FALSE) {
  count <- nchar(x)
  long <- count > longest
  x[long] <- if (at_end) {
    paste0("...", substring(x[long], count[long] - longest + 4L))
  } else {
    paste0(substr(x[long], 1L, longest - 3L), "...")
  }
  x
}
