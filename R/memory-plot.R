# The plot of memory over time.

#' @rdname pjrt_memory_stats
#' @export
plot.PJRTMemoryStats <- function(x, main = "Memory of buffers", ...) {
  check_intact(x, "PJRTMemoryStats", parts = c("clients", "history"))
  check_title(main)
  history <- x$history
  if (nrow(history) == 0L) {
    abort_input("There is nothing to plot: the session has no client.")
  }
  parts <- split(history, factor(history$client, unique(history$client)))
  old <- begin_plot(c(if (length(parts) > 1L) 4.4 else 2.6, 1, 3.2, 2))
  on.exit(graphics::par(old))
  most <- max(history$highest, 1)
  ticks <- byte_ticks(most)
  set_left_margin(vapply(ticks, format_bytes, ""))
  times <- range(history$from, history$time)
  if (diff(as.numeric(times)) < 1) {
    times[[1L]] <- times[[2L]] - 1
  }
  graphics::plot.new()
  graphics::plot.window(as.numeric(times), c(0, 1.12 * max(most, ticks)), yaxs = "i")
  graphics::abline(h = ticks, col = shade(0.12))
  graphics::axis(2L, ticks, vapply(ticks, format_bytes, ""), col = NA, col.ticks = shade(0.6))
  moments <- pretty(times, 5L)
  moments <- moments[moments >= times[[1L]] & moments <= times[[2L]]]
  graphics::axis(1L, as.numeric(moments), format(moments, clock_format(moments)), col = NA, col.ticks = shade(0.6))
  colours <- rep_len(unname(line_colours()), length(parts))
  for (i in seq_along(parts)) {
    memory_curve(parts[[i]], times, colours[[i]], rep_len(1:6, length(parts))[[i]])
  }
  if (length(parts) > 1L) {
    platforms <- vapply(parts, function(part) part$platform[[1L]], "")
    legend_below(
      paste("client", names(parts), platforms), col = colours, lty = rep_len(1:6, length(parts)), lwd = 2, cex = 0.85
    )
  }
  peak <- history[which.max(history$highest), ]
  is_late <- as.numeric(peak$time) > mean(as.numeric(times))
  graphics::points(as.numeric(peak$time), peak$highest, pch = 19L, cex = 0.7)
  graphics::text(
    as.numeric(peak$time), peak$highest, sprintf("most: %s", format_bytes(peak$highest)),
    adj = c(if (is_late) 1.1 else -0.1, -0.4), cex = 0.85
  )
  plot_title(main, "line: live bytes, area: from the lowest to the highest of quick changes", ...)
  invisible(x)
}

# The steps of a client's bytes, and the area between their extremes where they changed quickly.
memory_curve <- function(part, times, colour, line) {
  pale <- grDevices::adjustcolor(colour, 0.3)
  wide <- part$highest > part$lowest
  graphics::rect(
    as.numeric(part$from)[wide], part$lowest[wide], as.numeric(part$time)[wide], part$highest[wide],
    col = pale, border = pale
  )
  # nothing before the first change
  at <- c(as.numeric(times[[1L]]), as.numeric(part$from)[[1L]], as.numeric(part$time))
  graphics::lines(at, c(0, 0, part$live_bytes), type = "s", col = colour, lwd = 2, lty = line)
}

# Round numbers of bytes from 0.
byte_ticks <- function(most) {
  unit <- 1000^floor(log(most, 1000))
  pretty(c(0, most / unit), 4L) * unit
}

# As much of the time as is needed to distinguish the moments.
clock_format <- function(moments) {
  if (length(moments) < 2L || diff(as.numeric(moments[1:2])) < 60) "%H:%M:%S" else "%H:%M"
}
