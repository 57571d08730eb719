# Draws man/figures/objects.svg: the package's objects, and which function leads from one to the next. It is readable on
# light and dark pages.
#
#   Rscript tools/picture.R

box <- function(x, y, title, text, width = 150) {
  c(
    sprintf('<rect x="%d" y="%d" width="%d" height="52" rx="8" class="box"/>', x, y, width),
    sprintf('<text x="%d" y="%d" class="title">%s</text>', x + width %/% 2L, y + 22L, title),
    sprintf('<text x="%d" y="%d" class="text">%s</text>', x + width %/% 2L, y + 41L, text)
  )
}

arrow <- function(x1, y1, x2, y2, label, x = (x1 + x2) %/% 2L, y = (y1 + y2) %/% 2L - 8L, anchor = "middle") {
  c(
    sprintf('<line x1="%d" y1="%d" x2="%d" y2="%d" class="arrow" marker-end="url(#tip)"/>', x1, y1, x2, y2),
    sprintf('<text x="%d" y="%d" class="label" style="text-anchor:%s">%s</text>', x, y, anchor, label)
  )
}

picture <- c(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 290" width="860" height="290" role="img">',
  "<title>Arrays become buffers, programs become executables, and an executable turns buffers into buffers</title>",
  "<style>",
  "  .box { fill: #2f6fb0; }",
  "  .title { fill: #ffffff; font: bold 15px sans-serif; text-anchor: middle; }",
  "  .text { fill: #ffffff; font: 12px sans-serif; text-anchor: middle; }",
  "  .label { fill: #808890; font: 13px monospace; }",
  "  .arrow { stroke: #808890; stroke-width: 2; }",
  "  .tip { fill: #808890; }",
  "</style>",
  '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">',
  '<path d="M0 0 L10 5 L0 10 z" class="tip"/></marker></defs>',
  box(10, 20, "program", "StableHLO, JAX, PyTorch"),
  box(355, 20, "executable", "compiled and cached"),
  box(10, 119, "R array", "or a file"),
  box(355, 119, "buffer", "memory of a device"),
  box(700, 119, "buffer", "may still be computed"),
  box(10, 218, "plugin", "CPU, GPU, TPU, ..."),
  box(355, 218, "client, devices", "of this session"),
  box(700, 218, "R array", "waits for the result"),
  arrow(162, 46, 351, 46, "pjrt_compile()"),
  arrow(162, 145, 351, 145, "pjrt_buffer()"),
  arrow(507, 145, 696, 145, "pjrt_execute()"),
  arrow(507, 46, 740, 115, "runs it", 640, 70, "start"),
  arrow(162, 244, 351, 244, "pjrt_client()"),
  arrow(430, 214, 430, 175, "holds", 440, 200, "start"),
  arrow(775, 173, 775, 214, "as_array()", 765, 200, "end"),
  "</svg>"
)
dir.create("man/figures", showWarnings = FALSE, recursive = TRUE)
writeLines(picture, "man/figures/objects.svg")
