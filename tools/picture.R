# Draws man/figures/objects.svg: the package's objects, and which function leads from one to the next. R is on the left,
# the device on the right. It fits a phone, and is readable on light and dark pages.
#
#   Rscript tools/picture.R

box <- function(x, y, title, text, width = 148L) {
  c(
    sprintf('<rect x="%d" y="%d" width="%d" height="52" rx="8" class="box"/>', x, y, width),
    sprintf('<text x="%d" y="%d" class="title">%s</text>', x + width %/% 2L, y + 22L, title),
    sprintf('<text x="%d" y="%d" class="text">%s</text>', x + width %/% 2L, y + 41L, text)
  )
}

arrow <- function(x1, y1, x2, y2, label = "", x = (x1 + x2) %/% 2L, y = (y1 + y2) %/% 2L - 8L, anchor = "middle") {
  c(
    sprintf('<line x1="%d" y1="%d" x2="%d" y2="%d" class="arrow" marker-end="url(#tip)"/>', x1, y1, x2, y2),
    sprintf('<text x="%d" y="%d" class="label" style="text-anchor:%s">%s</text>', x, y, anchor, label)
  )
}

picture <- c(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 420 330" width="420" height="330" role="img">',
  "<title>Arrays become buffers, programs become executables, and an executable turns buffers into buffers</title>",
  "<style>",
  "  .box { fill: #2f6fb0; }",
  "  .title { fill: #ffffff; font: bold 15px sans-serif; text-anchor: middle; }",
  "  .text { fill: #ffffff; font: 12px sans-serif; text-anchor: middle; }",
  "  .label { fill: #808890; font: 12px monospace; }",
  "  .arrow { stroke: #808890; stroke-width: 2; }",
  "  .tip { fill: #808890; }",
  "</style>",
  '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">',
  '<path d="M0 0 L10 5 L0 10 z" class="tip"/></marker></defs>',
  box(4L, 4L, "plugin", "CPU, GPU, TPU, ..."),
  box(4L, 184L, "program", "StableHLO, JAX"),
  box(4L, 94L, "R array", "or a file"),
  box(4L, 274L, "R array", "waits for the result"),
  box(268L, 4L, "client, devices", "of this session"),
  box(268L, 184L, "executable", "compiled and cached"),
  box(268L, 94L, "buffer", "memory of a device"),
  box(268L, 274L, "buffer", "may be computed later"),
  arrow(154L, 30L, 264L, 30L, "pjrt_client()"),
  arrow(154L, 120L, 264L, 120L, "pjrt_buffer()"),
  arrow(154L, 210L, 264L, 210L, "pjrt_compile()"),
  arrow(266L, 300L, 156L, 300L, "as_array()"),
  arrow(342L, 148L, 342L, 180L),
  arrow(342L, 238L, 342L, 270L, "pjrt_execute()", 334L, 258L, "end"),
  "</svg>"
)
dir.create("man/figures", showWarnings = FALSE, recursive = TRUE)
writeLines(picture, "man/figures/objects.svg")
