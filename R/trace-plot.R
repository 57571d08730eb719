#' Plot a trace
#'
#' `plot()` draws what each lane did over time, with one colour for each kind of event. Inner events are drawn on top of
#' those that contain them. `ggplot2::autoplot()` draws the same as a ggplot, if \pkg{ggplot2} is installed.
#'
#' The colours are distinguishable with all common kinds of colour vision, and differ in brightness in print. Events
#' shorter than a pixel are drawn as one: use `xlim`, or [write the trace to a file][pjrt_trace] for a page with zoom.
#'
#' @param x,object A `PJRTTrace` from [pjrt_trace()].
#' @param xlim Two numbers: the seconds to show. `NULL`: all.
#' @param main A string: the title. `NULL`: none.
#' @param ... Ignored.
#' @return `plot()`: `x`, invisibly. `autoplot()`: a ggplot.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' values <- runif(1e5)
#' trace <- pjrt_trace(for (i in 1:20) as_array(pjrt_buffer(values, "f32")))
#' trace
#' plot(trace)
#' plot(trace, xlim = c(0, trace$seconds / 10))
#' @export
plot.PJRTTrace <- function(x, xlim = NULL, main = NULL, ...) {
  check_trace(x)
  if (is.null(xlim)) {
    xlim <- c(0, max(x$seconds, 1e-9))
  } else if (
    is.object(xlim) || !is.numeric(xlim) || length(xlim) != 2L || !all(is.finite(xlim)) || xlim[[1L]] >= xlim[[2L]]
  ) {
    abort_type("`xlim` must be two increasing numbers, not ", given(xlim), ".")
  }
  if (!is.null(main)) {
    check_encoded(main, "main")
  }
  unit <- time_unit(xlim[[2L]] - xlim[[1L]])
  lanes <- trace_lanes(x)
  labels <- names(lanes)
  old <- begin_plot(c(7, 1, if (is.null(main)) 0.5 else 2.5, 1.5))
  on.exit(graphics::par(old))
  labels <- set_left_margin(labels)
  graphics::plot.new()
  graphics::plot.window(xlim, c(length(lanes) + 0.5, 0.5), xaxs = "i", yaxs = "i")
  graphics::abline(h = seq_along(lanes), col = shade(0.08))
  pixel <- (xlim[[2L]] - xlim[[1L]]) / max(graphics::par("pin")[[1L]] * 150, 1)
  shown <- trace_bars(x, lanes, xlim, pixel)
  # grey and black depend on the background
  colours <- replace(trace_colours, c("call", "gc"), c(shade(0.15), shade(1)))
  graphics::rect(
    shown$start, shown$row - shown$half, shown$end, shown$row + shown$half, col = colours[shown$group], border = NA
  )
  at <- pretty(xlim / unit$size)
  at <- at[at * unit$size >= xlim[[1L]] & at * unit$size <= xlim[[2L]]]
  graphics::axis(1L, at * unit$size, format(at, trim = TRUE))
  graphics::axis(2L, seq_along(lanes), labels, tick = FALSE)
  graphics::title(xlab = sprintf("time (%s)", unit$name), main = main)
  groups <- names(trace_colours)[names(trace_colours) %in% shown$group]
  graphics::box(col = shade(0.3))
  if (length(groups) > 0L) {
    legend_below(groups, fill = colours[groups])
  }
  invisible(x)
}

# The colours of kinds of events. Kinds that often meet differ in brightness. The legend has their names.
trace_colours <- c(
  call = "#D9D9D9", wait = plot_colours[["red"]], run = plot_colours[["green"]], launch = plot_colours[["yellow"]],
  compile = plot_colours[["orange"]], convert = plot_colours[["blue"]], transfer = plot_colours[["sky"]],
  file = plot_colours[["purple"]], callback = "#8B4A6B", gc = "#000000"
)

trace_groups <- c(
  call = "call", wait = "wait", run = "run", device = "run", launch = "launch", compile = "compile", phase = "compile",
  upload = "transfer", transfer = "transfer", conversion = "convert", download = "convert", work = "convert",
  file = "file", callback = "callback", gc = "gc"
)

# The row of each lane, from the top, by its label.
trace_lanes <- function(trace) {
  shown <- trace$lanes[trace$lanes %in% c("R", trace$events$lane)]
  stats::setNames(seq_along(shown), shown)
}

# Bars from left to right, outer ones first. Those within a pixel are one.
trace_bars <- function(trace, lanes, xlim, pixel) {
  events <- trace$events
  row <- unname(lanes[events$lane])
  kept <- events$end >= xlim[[1L]] & events$start <= xlim[[2L]] & !is.na(row)
  bars <- data.frame(
    start = pmax(events$start[kept], xlim[[1L]]), end = pmin(events$end[kept], xlim[[2L]]),
    row = row[kept], group = unname(trace_groups[events$kind[kept]])
  )
  bars$end <- pmax(bars$end, bars$start + pixel)
  cell <- paste(bars$row, bars$group, round(bars$start / pixel), round(bars$end / pixel))
  bars <- bars[!duplicated(cell), ]
  bars$half <- ifelse(bars$group == "call", 0.4, 0.32)
  bars[order(bars$group != "call", -(bars$end - bars$start)), ]
}

time_unit <- function(seconds) {
  if (seconds >= 1) {
    list(size = 1, name = "s")
  } else if (seconds >= 1e-3) {
    list(size = 1e-3, name = "ms")
  } else {
    list(size = 1e-6, name = "microseconds")
  }
}

#' @rdname plot.PJRTTrace
#' @exportS3Method ggplot2::autoplot
autoplot.PJRTTrace <- function(object, ...) {
  check_unused(...)
  check_trace(object)
  if (!requireNamespace("ggplot2", quietly = TRUE)) {
    pjrt_abort("autoplot() needs the package ggplot2.", "trace", hints = "plot() draws the same without it.")
  }
  lanes <- trace_lanes(object)
  xlim <- c(0, max(object$seconds, 1e-9))
  unit <- time_unit(xlim[[2L]])
  bars <- trace_bars(object, lanes, xlim, xlim[[2L]] / 2000)
  bars$group <- factor(bars$group, intersect(names(trace_colours), bars$group))
  drawn <- data.frame(
    xmin = bars$start / unit$size, xmax = bars$end / unit$size, ymin = bars$row - bars$half,
    ymax = bars$row + bars$half,
    kind = bars$group
  )
  aesthetics <- ggplot2::aes(
    xmin = .data$xmin, xmax = .data$xmax, ymin = .data$ymin, ymax = .data$ymax, fill = .data$kind
  )
  ggplot2::ggplot(drawn) +
    ggplot2::geom_rect(aesthetics) +
    ggplot2::scale_fill_manual(values = trace_colours) +
    ggplot2::scale_y_reverse(breaks = seq_along(lanes), labels = names(lanes)) +
    ggplot2::labs(x = sprintf("time (%s)", unit$name), y = NULL, fill = NULL) +
    ggplot2::theme_minimal() +
    ggplot2::theme(legend.position = "bottom", panel.grid.minor = ggplot2::element_blank())
}

# ggplot2 finds columns by it.
utils::globalVariables(".data")
