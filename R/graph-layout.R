# Places the nodes of a graph in layers: every node is below the nodes that it depends on. The order within layers has few
# crossings, and the positions keep edges short.

# The position of each node, as centres, and the points of each edge. `width` and `height` are those of the nodes, which are in
# the order of their dependencies; y grows downwards.
layout_graph <- function(from, to, width, height, gap = c(0.25, 0.25)) {
  count <- length(width)
  layer <- node_layers(from, to, count)
  chains <- edge_chains(from, to, layer, count)
  layer <- c(layer, chains$layer)
  width <- c(width, rep(0.1, length(chains$layer)))
  order <- layer_order(chains$from, chains$to, layer)
  x <- layer_positions(chains$from, chains$to, order, width, gap[[1L]])
  tall <- tapply(c(height, rep(0, length(chains$layer))), factor(layer, seq_len(max(layer, 1L))), max)
  y <- cumsum(c(0, tall[-length(tall)])) + gap[[2L]] * (seq_along(tall) - 1) + tall / 2
  left <- min(x - width / 2)
  x <- x - left
  list(
    x = x[seq_len(count)], y = as.vector(y[layer[seq_len(count)]]),
    width = max(x + width / 2), height = sum(tall) + gap[[2L]] * (length(tall) - 1L),
    bends = lapply(chains$bends, function(nodes) list(x = x[nodes], y = as.vector(y[layer[nodes]])))
  )
}

# The layer of each node. Nodes that depend on nothing are right above the first one that uses them.
node_layers <- function(from, to, count) {
  layer <- rep(1L, count)
  for (i in order(to)) {
    layer[[to[[i]]]] <- max(layer[[to[[i]]]], layer[[from[[i]]]] + 1L)
  }
  sources <- setdiff(from, to)
  for (i in sources) {
    layer[[i]] <- min(layer[to[from == i]]) - 1L
  }
  layer
}

# Edges between neighbouring layers. Where an edge passes a layer, it bends at a node of its own.
edge_chains <- function(from, to, layer, count) {
  bends <- lapply(seq_along(from), function(i) seq_len(layer[[to[[i]]]] - layer[[from[[i]]]] - 1L))
  ends <- cumsum(lengths(bends))
  numbers <- Map(function(bend, end) count + end - length(bend) + bend, bends, ends)
  list(
    from = as.integer(unlist(Map(c, from, numbers))),
    to = as.integer(unlist(Map(function(to, bend) c(bend, to), to, numbers))),
    layer = as.integer(unlist(Map(function(from, bend) layer[[from]] + bend, from, bends))), bends = numbers
  )
}

# The nodes of each layer from left to right, by the mean position of their neighbours, sweeping down and up.
layer_order <- function(from, to, layer) {
  nodes <- split(seq_along(layer), layer)
  position <- numeric(length(layer))
  place <- function(members) position[members] <<- (seq_along(members) - 0.5) / length(members)
  lapply(nodes, place)
  crossings <- function() {
    count <- 0
    for (edges in split(seq_along(from), layer[from])) {
      a <- position[from[edges]]
      b <- position[to[edges]]
      count <- count + sum(outer(a, a, "<") & outer(b, b, ">"))
    }
    count
  }
  best <- list(nodes = nodes, crossings = crossings())
  above <- split(from, factor(to, seq_along(layer)))
  below <- split(to, factor(from, seq_along(layer)))
  for (sweep in seq_len(12L)) {
    downwards <- sweep %% 2L == 1L
    neighbours <- if (downwards) above else below
    for (i in if (downwards) seq_along(nodes) else rev(seq_along(nodes))) {
      members <- nodes[[i]]
      wish <- vapply(members, function(node) {
        near <- neighbours[[node]]
        if (length(near) > 0L) mean(position[near]) else position[[node]]
      }, 0)
      nodes[[i]] <- members[order(wish)]
      place(nodes[[i]])
    }
    found <- crossings()
    if (found < best$crossings) {
      best <- list(nodes = nodes, crossings = found)
    }
    if (best$crossings == 0) break
  }
  best$nodes
}

# The x of each node: near its neighbours, without overlaps. Least squares with a fixed order is an isotonic regression.
layer_positions <- function(from, to, order, width, gap) {
  x <- numeric(length(width))
  room <- lapply(order, function(members) {
    w <- width[members]
    c(0, cumsum((w[-length(w)] + w[-1L]) / 2 + gap))
  })
  for (i in seq_along(order)) {
    x[order[[i]]] <- room[[i]] - mean(range(room[[i]]))
  }
  near <- split(c(from, to), factor(c(to, from), seq_along(width)))
  for (sweep in seq_len(16L)) {
    for (i in if (sweep %% 2L == 1L) seq_along(order) else rev(seq_along(order))) {
      members <- order[[i]]
      wish <- vapply(members, function(node) if (length(near[[node]]) > 0L) mean(x[near[[node]]]) else x[[node]], 0)
      x[members] <- if (length(members) == 1L) wish else stats::isoreg(wish - room[[i]])$yf + room[[i]]
    }
  }
  x
}
