# Plots of benchmarks.

#' @rdname pjrt_benchmark
#' @export
plot.PJRTBenchmark <- function(x, main = "Time of a run", ...) {
  check_benchmark(x)
  plot(structure(list(x), class = "PJRTComparison"), main = main, ...)
  invisible(x)
}

#' @rdname pjrt_benchmark
#' @export
plot.PJRTComparison <- function(x, main = "Time of a run", ...) {
  benchmarks <- check_comparison(x)
  check_title(main)
  rows <- as.data.frame(x)
  parts <- rbind(rows$of_gflops, rows$of_gbs)
  has_parts <- any(!is.na(parts))
  old <- graphics::par(no.readonly = TRUE)
  on.exit(graphics::par(old))
  if (has_parts) {
    graphics::layout(matrix(1:2, 2L), heights = c(1.15, 1))
    on.exit(graphics::layout(1), add = TRUE)
  }
  # layout() makes text smaller
  graphics::par(cex = 1)
  begin_plot(c(2.6, 1, 3.2, 2))
  rows$name <- set_left_margin(rows$name)
  plot_runs(benchmarks, rows, main, ...)
  if (has_parts) {
    plot_parts(rows, parts)
  }
  invisible(x)
}

# A row of dots for each program, with median and quartiles.
plot_runs <- function(benchmarks, rows, main, ...) {
  times <- lapply(benchmarks, `[[`, "seconds")
  range <- range(unlist(times))
  is_log <- range[[2L]] > 10 * range[[1L]]
  if (!is_log) {
    range[[1L]] <- 0
  }
  n <- length(times)
  graphics::plot.new()
  graphics::plot.window(range, c(n + 0.5, 0.5), log = if (is_log) "x" else "", yaxs = "i")
  ticks <- graphics::axTicks(1L)
  bottom_axis(ticks, format_seconds(ticks))
  graphics::mtext(rows$name, 2L, 0.5, at = seq_len(n))
  for (i in seq_len(n)) {
    seconds <- times[[i]]
    # a spread that is the same every time
    jitter <- (seq_along(seconds) * 0.618034) %% 1 - 0.5
    graphics::points(seconds, i + 0.22 + 0.25 * jitter, pch = 1L, cex = 0.6, col = line_colours()[["blue"]])
    graphics::rect(rows$lower[[i]], i - 0.25, rows$upper[[i]], i - 0.05, col = shade(0.25), border = NA)
    graphics::segments(rows$median[[i]], i - 0.3, rows$median[[i]], i, lwd = 3, lend = 1L)
  }
  # beside the box, on the side with room
  middle <- if (is_log) sqrt(prod(range)) else mean(range)
  is_left <- rows$median < middle
  label_at <- ifelse(is_left, rows$upper, rows$lower)
  graphics::text(label_at, seq_len(n) - 0.15, format_seconds(rows$median), pos = ifelse(is_left, 4L, 2L), offset = 0.3)
  plot_title(main, "dots: runs, bar: quartiles, line: median", ...)
}

# Bars for the parts of the limits.
plot_parts <- function(rows, parts) {
  n <- nrow(rows)
  most <- max(1, parts, na.rm = TRUE)
  graphics::plot.new()
  graphics::plot.window(c(0, 1.12 * most), c(n + 0.5, 0.5), yaxs = "i", xaxs = "i")
  ticks <- pretty(c(0, most), 4L)
  bottom_axis(ticks, paste0(100 * ticks, "%"))
  graphics::abline(v = 1, lty = 2L, lwd = 1.5)
  graphics::mtext(rows$name, 2L, 0.5, at = seq_len(n))
  fills <- plot_colours[c("blue", "orange")]
  for (i in seq_len(n)) {
    at <- i + c(-0.19, 0.19)
    graphics::rect(0, at - 0.16, parts[, i], at + 0.16, col = fills, border = NA)
    rates <- c(paste(signif_text(rows$gflops[[i]]), "GFLOP/s"), paste(signif_text(rows$gbs[[i]]), "GB/s"))
    known <- !is.na(parts[, i])
    if (any(known)) {
      labels <- sprintf("%s, %s", percent(parts[known, i]), rates[known])
      bar_labels(parts[known, i], at[known], labels, fills[known])
    }
  }
  plot_title("Parts of the device's measured limits", "upper bar: compute, lower bar: memory")
}
