# The colours of all plots and graphs, on light and dark backgrounds.

# Colours that people with any colour vision can tell apart, and that differ in grey (Okabe and Ito).
plot_colours <- c(
  blue = "#0072B2", orange = "#E69F00", green = "#009E73", purple = "#CC79A7", sky = "#56B4E9", red = "#D55E00",
  yellow = "#F0E442"
)

# How bright colours are, from 0 to 1.
brightness <- function(colours) {
  as.vector(c(0.299, 0.587, 0.114) %*% grDevices::col2rgb(colours)) / 255
}

# The colour between two others that has this part of the first.
mixed <- function(colour, other, part) {
  mixture <- part * grDevices::col2rgb(colour) + (1 - part) * grDevices::col2rgb(other)
  grDevices::rgb(t(round(mixture)), maxColorValue = 255)
}

# Black or white, for text on these colours.
ink_on <- function(colours) {
  ifelse(brightness(colours) > 0.5, "black", "white")
}

# The device's background, or NULL if it is transparent.
paper <- function() {
  colour <- graphics::par("bg")
  if (grDevices::col2rgb(colour, alpha = TRUE)[["alpha", 1L]] > 127) colour
}

# The colours of dots and lines, which need more contrast than areas: on dark backgrounds, light blue comes before blue.
line_colours <- function() {
  is_light <- brightness(visible_ink(graphics::par("fg"))) < 0.5
  if (is_light) plot_colours else replace(plot_colours, c("blue", "sky"), plot_colours[c("sky", "blue")])
}

# The colour of text itself if it is readable on the device's background, or else black or white.
visible_ink <- function(ink) {
  paper <- paper()
  if (is.null(paper) || abs(brightness(ink) - brightness(paper)) > 0.4) ink else ink_on(paper)
}

# The colour that is this part of the way from the background to the text.
shade <- function(part) {
  ink <- visible_ink(graphics::par("fg"))
  mixed(ink, paper() %||% ink_on(ink), part)
}
