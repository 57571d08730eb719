# What all plots share: settings of the device, titles that fit, room for labels, and legends.

# Prepares the device for a plot, and returns the settings to restore.
begin_plot <- function(margins = c(3, 1, 3.2, 2)) {
  inks <- lapply(graphics::par("fg", "col", "col.axis", "col.lab", "col.main", "col.sub"), visible_ink)
  layout <- list(
    las = 1, mgp = c(2, 0.6, 0), tcl = -0.3, mar = margins, xpd = FALSE, cex.main = graphics::par("cex.main")
  )
  graphics::par(c(inks, layout))
}

check_title <- function(main) {
  if (!is_valid_text(main)) {
    abort_type("`main` must be one string, not ", given(main), ".")
  }
}

# A title and an explanation in smaller text below, both no wider than the figure.
plot_title <- function(main, below, ...) {
  room <- graphics::par("pin")[[1L]] + 1.9 * min(graphics::par("mai")[c(2L, 4L)])
  fitted <- function(text, cex, font) {
    cex * min(1, room / graphics::strwidth(text, units = "inches", cex = cex, font = font))
  }
  graphics::par(cex.main = fitted(main, graphics::par("cex.main"), graphics::par("font.main")))
  graphics::title(main = main, line = 1.5, ...)
  graphics::mtext(below, 3L, 0.3, cex = graphics::par("cex") * fitted(below, 0.8, 1L), col = shade(0.7))
}

# Makes room for these labels on the left, and returns them, shortened where they are too long.
set_left_margin <- function(labels, cex = 1) {
  labels <- fit_labels(labels, 0.4 * graphics::par("fin")[[1L]] - 0.25, cex)
  margins <- graphics::par("mai")
  margins[[2L]] <- max(graphics::strwidth(labels, units = "inches", cex = cex)) + 0.25
  graphics::par(mai = margins)
  labels
}

# Shortens labels that are wider than this, in inches.
fit_labels <- function(labels, room, cex, at_end = FALSE) {
  short <- labels
  longest <- max(nchar(labels))
  while (max(graphics::strwidth(short, units = "inches", cex = cex)) > room && longest > 4L) {
    longest <- longest - 1L
    short <- clipped(labels, longest, at_end)
  }
  short
}

# An axis at the bottom, with lines in the plot.
bottom_axis <- function(at, labels) {
  graphics::abline(v = at, col = shade(0.12))
  graphics::axis(1L, at, labels, col = NA, col.ticks = shade(0.6))
}

# Labels of horizontal bars: beside their ends, or inside where there is no room.
bar_labels <- function(ends, at, labels, fills, cex = 0.85) {
  widths <- graphics::strwidth(paste0(labels, "m"), cex = cex)
  is_inside <- ends + widths > graphics::par("usr")[[2L]] & ends > widths
  graphics::text(
    ends, at, labels, pos = ifelse(is_inside, 2L, 4L), offset = 0.3, cex = cex,
    col = ifelse(is_inside, ink_on(fills), graphics::par("fg")), xpd = NA
  )
}

# A legend at the bottom of the figure, in as many columns as fit.
legend_below <- function(labels, ...) {
  width <- max(graphics::strwidth(labels, units = "inches")) + 4 * graphics::par("cin")[[1L]]
  columns <- max(1L, min(length(labels), floor(graphics::par("fin")[[1L]] / width)))
  old <- graphics::par(xpd = NA)
  on.exit(graphics::par(old))
  graphics::legend(
    graphics::grconvertX(0.5, "nfc"), graphics::grconvertY(0.01, "nfc"), labels, border = NA, bty = "n", xjust = 0.5,
    yjust = 0, ncol = columns, x.intersp = 0.6, ...
  )
}
