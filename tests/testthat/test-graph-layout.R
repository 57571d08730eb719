# Where the nodes of graphs are.

test_that("nodes are below what they depend on, and do not overlap", {
  graph <- pjrt:::program_graph(pjrt_program(path = system.file("programs", "logistic-step.mlir", package = "pjrt")), 100)
  n <- nrow(graph$nodes)
  width <- rep(c(1, 2), length.out = n)
  placed <- pjrt:::layout_graph(graph$edges$from, graph$edges$to, width, rep(0.5, n))
  expect_true(all(placed$y[graph$edges$from] < placed$y[graph$edges$to]))
  for (layer in split(seq_len(n), placed$y)) {
    sorted <- layer[order(placed$x[layer])]
    right <- placed$x[sorted] + width[sorted] / 2
    left <- placed$x[sorted] - width[sorted] / 2
    expect_true(all(left[-1L] >= right[-length(right)]))
  }
  expect_gte(min(placed$x - width / 2), -1e-9)
  expect_lte(max(placed$x + width / 2), placed$width + 1e-9)
})
