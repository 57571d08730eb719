# Draws a graph with base graphics. All lengths are inches at a text size of 1; the whole is scaled to fit the device.

# Text below this size is hard to read.
readable_size <- 0.58

# `graph` is a graph, or a function that returns one with so many nodes.
draw_graph <- function(graph, main, legend) {
  old <- graphics::par(mar = c(if (legend) 1.6 else 0.3, 0.3, if (is.null(main)) 0.3 else 2, 0.3), xpd = NA)
  on.exit(graphics::par(old))
  tryCatch(graphics::plot.new(), error = function(e) abort_too_small())
  size <- graphics::par("pin")
  if (any(size < 0.5)) {
    abort_too_small()
  }
  graphics::plot.window(c(0, size[[1L]]), c(0, size[[2L]]), xaxs = "i", yaxs = "i")
  if (is.function(graph)) {
    for (most in c(120, 80, 55, 40, 30, 22, 16, 12, 8, 5)) {
      drawing <- best_drawing(graph(most), size)
      if (drawing$scale >= readable_size) break
    }
  } else {
    drawing <- best_drawing(graph, size)
  }
  draw_level(drawing$level, drawing$scale, (size[[1L]] - drawing$scale * drawing$level$width) / 2, (size[[2L]] + drawing$scale * drawing$level$height) / 2)
  if (!is.null(main)) {
    graphics::title(main)
  }
  if (legend) {
    draw_legend(drawing$roles, size[[1L]])
  }
}

abort_too_small <- function() {
  abort_input("The graphics device is too small to draw a graph on.")
}

# The layout from top to bottom or from left to right, whichever is larger on the page.
best_drawing <- function(graph, size) {
  nodes <- graph$nodes
  nodes$expanded <- seq_len(nrow(nodes)) %in% nodes$parent
  nodes$lines <- node_lines(nodes, 32L)
  line <- graphics::strheight("M", "inches") * 1.6
  width <- vapply(nodes$lines, function(lines) max(graphics::strwidth(lines, "inches")), 0) + 0.2
  height <- lengths(nodes$lines) * line + 0.1
  drawings <- lapply(c(FALSE, TRUE), function(across) {
    level <- layout_level(0L, nodes, graph$edges, width, height, across)
    list(level = level, scale = min(1, size / c(level$width, level$height)), roles = unique(nodes$role))
  })
  drawings[[if (drawings[[2L]]$scale > 1.1 * drawings[[1L]]$scale) 2L else 1L]]
}

# The nodes inside of another one, with those inside of them.
layout_level <- function(parent, nodes, edges, width, height, across) {
  members <- which(nodes$parent == parent)
  inner <- lapply(members, function(i) if (nodes$expanded[[i]]) layout_level(i, nodes, edges, width, height, across))
  w <- width[members]
  h <- height[members]
  for (i in which(nodes$expanded[members])) {
    inner[[i]]$top <- h[[i]]
    w[[i]] <- max(w[[i]], inner[[i]]$width + 0.3)
    h[[i]] <- h[[i]] + inner[[i]]$height + 0.15
  }
  here <- edges$to %in% members
  from <- match(edges$from[here], members)
  to <- match(edges$to[here], members)
  if (length(members) == 0L) {
    return(list(width = 1, height = 1, members = members))
  }
  # boxes without any edge stand side by side
  placed <- if (across) layout_graph(from, to, h, w, c(0.2, 0.35)) else layout_graph(from, to, w, h)
  if (across) {
    placed[c("x", "y", "width", "height")] <- placed[c("y", "x", "height", "width")]
    placed$bends <- lapply(placed$bends, function(bend) list(x = bend$y, y = bend$x))
  }
  list(
    x = placed$x, y = placed$y, w = w, h = h, width = placed$width, height = placed$height, from = from, to = to,
    bends = placed$bends, inner = inner, lines = nodes$lines[members], role = nodes$role[members],
    expanded = nodes$expanded[members], across = across,
    is_group = nodes$operations[members] > 1 & !nodes$expanded[members] & !nodes$role[members] %in% c("control", "input", "output")
  )
}

# Draws a level with its upper left corner at `left` and `top`.
draw_level <- function(level, scale, left, top) {
  x <- left + scale * level$x
  y <- top - scale * level$y
  w <- scale * level$w / 2
  h <- scale * level$h / 2
  for (i in seq_along(level$from)) {
    from <- level$from[[i]]
    to <- level$to[[i]]
    bend_x <- left + scale * level$bends[[i]]$x
    bend_y <- top - scale * level$bends[[i]]$y
    if (level$across) {
      draw_edge(c(x[[from]] + w[[from]], bend_x, x[[to]] - w[[to]]), c(y[[from]], bend_y, y[[to]]), scale)
    } else {
      draw_edge(c(x[[from]], bend_x, x[[to]]), c(y[[from]] - h[[from]], bend_y, y[[to]] + h[[to]]), scale)
    }
  }
  for (i in seq_along(x)) {
    fill <- if (level$expanded[[i]]) "#EDF8F4" else node_colour(level$role[[i]])
    draw_box(x[[i]], y[[i]], w[[i]], h[[i]], fill, level$role[[i]], level$is_group[[i]], scale)
    if (!level$expanded[[i]]) {
      draw_lines(level$lines[[i]], x[[i]], y[[i]], scale)
      next
    }
    inner <- level$inner[[i]]
    upper <- y[[i]] + h[[i]]
    draw_lines(level$lines[[i]], x[[i]], upper - scale * inner$top / 2, scale)
    draw_level(inner, scale, x[[i]] - scale * inner$width / 2, upper - scale * inner$top)
  }
}

draw_lines <- function(lines, x, y, scale) {
  step <- scale * graphics::strheight("M", "inches") * 1.6
  offset <- (seq_along(lines) - mean(seq_along(lines))) * step
  # the type is less important than the operation
  colours <- c("black", rep("#444444", length(lines) - 1L))
  graphics::text(x, y - offset, lines, cex = scale, col = colours)
}

draw_box <- function(x, y, w, h, fill, role, is_group, scale) {
  if (is_group) {
    shift <- 0.04 * scale
    graphics::rect(x - w + shift, y - h - shift, x + w + shift, y + h - shift, col = "white", border = "#444444")
  }
  if (!role %in% c("input", "output")) {
    return(graphics::rect(x - w, y - h, x + w, y + h, col = fill, border = "#444444"))
  }
  # rounded corners
  r <- min(w, h, 0.12 * scale)
  angle <- seq(0, pi / 2, length.out = 6L)
  corner <- function(cx, cy, from) cbind(cx + r * cos(angle + from), cy + r * sin(angle + from))
  points <- rbind(
    corner(x + w - r, y + h - r, 0), corner(x - w + r, y + h - r, pi / 2), corner(x - w + r, y - h + r, pi),
    corner(x + w - r, y - h + r, 3 * pi / 2)
  )
  graphics::polygon(points, col = fill, border = "#444444")
}

draw_edge <- function(x, y, scale) {
  n <- length(x)
  if (n > 2L) {
    curve <- graphics::xspline(x, y, shape = c(0, rep(0.5, n - 2L), 0), draw = FALSE)
    x <- curve$x
    y <- curve$y
    n <- length(x)
  }
  graphics::lines(x, y, col = "#555555")
  # the head points along the last visible piece
  size <- 0.09 * scale
  back <- max(which((x - x[[n]])^2 + (y - y[[n]])^2 >= size^2), 1L)
  along <- c(x[[n]] - x[[back]], y[[n]] - y[[back]])
  along <- along / max(sqrt(sum(along^2)), 1e-9) * size
  across <- c(-along[[2L]], along[[1L]]) * 0.4
  tip <- c(x[[n]], y[[n]])
  head <- rbind(tip, tip - along + across, tip - along - across)
  graphics::polygon(head, col = "#555555", border = NA)
}

# The colours that are on the page, in one line.
draw_legend <- function(roles, width) {
  shown <- graph_roles[graph_roles$role %in% roles & !duplicated(graph_roles$meaning), ]
  if ("output" %in% roles && !"input" %in% roles) {
    shown <- rbind(graph_roles[1L, ], shown)
  }
  wide <- graphics::strwidth(shown$meaning, "inches") + 0.4
  cex <- min(0.8, width / max(sum(wide), 0.1))
  at <- (width - sum(wide) * cex) / 2 + cex * cumsum(c(0, wide[-length(wide)]))
  low <- -0.22
  box <- 0.07 * cex / 0.8
  graphics::rect(at, low - box, at + 2 * box, low + box, col = shown$colour, border = "#444444")
  graphics::text(at + 3 * box, low, shown$meaning, cex = cex, adj = c(0, 0.5))
}
