# The plot of the cost of each operation.

#' @rdname operation-costs
#' @export
plot.PJRTOperationCosts <- function(x, n = 10, main = "Estimated time of operations", ...) {
  check_costs(x, n)
  check_title(main)
  if (nrow(x) == 0L) {
    abort_input("There is nothing to plot: the program has no operations.")
  }
  bars <- cost_bars(x, max(n, 1))
  old <- begin_plot(c(4.2, 1, 3.2, 1.5))
  on.exit(graphics::par(old))
  count <- nrow(bars)
  # smaller text for many bars
  cex <- min(0.85, graphics::par("pin")[[2L]] / count / (1.1 * graphics::par("cin")[[2L]]))
  labels <- set_left_margin(bars$label, cex)
  texts <- cost_texts(bars, cex)
  part <- graphics::strwidth(paste0(texts, "m"), units = "inches", cex = cex) / graphics::par("pin")[[1L]]
  graphics::plot.new()
  graphics::plot.window(c(0, max(bars$share / (1 - pmin(part, 0.7)))), c(count + 0.5, 0.5), xaxs = "i", yaxs = "i")
  ticks <- graphics::axTicks(1L)
  bottom_axis(ticks, paste0(100 * ticks, "%"))
  graphics::mtext(labels, 2L, 0.5, at = seq_len(count), cex = cex * graphics::par("cex"))
  fills <- c(plot_colours[c("blue", "orange")], rest = shade(0.3))[bars$colour]
  graphics::rect(0, seq_len(count) - 0.38, bars$share, seq_len(count) + 0.38, col = fills, border = NA)
  bar_labels(bars$share, seq_len(count), texts, fills, cex)
  plot_title(main, "share of the time of all operations, estimated from their shapes", ...)
  legend_below(c("limited by compute", "limited by memory"), fill = plot_colours[c("blue", "orange")], cex = 0.85)
  invisible(x)
}

# The text beside each bar: its share, and as much of its source as leaves 0.3 of the width to the bars.
cost_texts <- function(bars, cex) {
  room <- 0.7 * graphics::par("pin")[[1L]] - graphics::strwidth("00.0%, m", units = "inches", cex = cex)
  sources <- fit_labels(bars$source, room, cex, at_end = TRUE)
  sprintf("%.1f%%%s%s", 100 * bars$share, ifelse(nzchar(sources), ", ", ""), sources)
}

# A bar for each of the `n` most expensive operations, and one for all others.
cost_bars <- function(x, n) {
  shown <- cost_table(x, n)
  rows <- utils::head(structure(x, class = "data.frame"), n)
  bars <- data.frame(
    label = shown$operation, share = rows$share, source = shown$source %||% "",
    colour = ifelse(compute_time(rows) > rows$bytes, "blue", "orange")
  )
  others <- nrow(x) - nrow(rows)
  if (others > 0L) {
    share <- sum(x$share) - sum(rows$share)
    bars <- rbind(bars, data.frame(label = sprintf("%d more", others), share = share, source = "", colour = "rest"))
  }
  bars
}
