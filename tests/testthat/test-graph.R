# Programs drawn as graphs.

loop_text <- '
func.func @main(%n: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
   cond {
     %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
     stablehlo.return %p : tensor<i1>
  } do {
     %one = stablehlo.constant dense<1> : tensor<i32>
     %1 = stablehlo.add %i, %one : tensor<i32>
     %2 = func.call @"say \\"hi\\""(%v) : (tensor<4xf32>) -> tensor<4xf32>
     stablehlo.return %1, %2 : tensor<i32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}
func.func private @"say \\"hi\\""(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %a : tensor<4xf32>
  %1 = stablehlo.abs %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}'

deep_text <- function(layers) {
  lines <- sprintf("  %%t%d = stablehlo.tanh %%a%d : tensor<2xf32>\n  %%a%d = stablehlo.add %%t%d, %%a%d : tensor<2xf32>",
    seq_len(layers), seq_len(layers) - 1L, seq_len(layers), seq_len(layers), seq_len(layers) - 1L)
  paste(c(
    "func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {", lines,
    sprintf("  return %%a%d : tensor<2xf32>\n}", layers)
  ), collapse = "\n")
}

drawn <- function(x, ..., width = 600, height = 600) {
  path <- withr::local_tempfile(fileext = ".png")
  grDevices::png(path, width, height, type = "cairo")
  on.exit(grDevices::dev.off())
  visible <- withVisible(plot(x, ...))
  on.exit()
  grDevices::dev.off()
  expect_false(visible$visible)
  expect_identical(visible$value, x)
  # an empty page is much smaller
  expect_gt(file.size(path), 3000)
}

# Whether Graphviz accepts a graph, and its nodes.
dot_nodes <- function(dot) {
  skip_if(!nzchar(Sys.which("dot")), "Graphviz is not installed")
  file <- withr::local_tempfile(lines = as.vector(dot), fileext = ".dot")
  out <- suppressWarnings(system2("dot", c("-Tplain", shQuote(file)), stdout = TRUE, stderr = TRUE))
  expect_null(attr(out, "status"))
  expect_false(any(grepl("Error|Warning", out)))
  sum(startsWith(out, "node "))
}

test_that("as_dot() returns text that Graphviz accepts, with regions as clusters", {
  dot <- as_dot(pjrt_program(loop_text))
  expect_s3_class(dot, "PJRTDot")
  expect_match(dot, "subgraph cluster_", fixed = TRUE)
  expect_match(dot, "add(_, 1)\\ni32[]", fixed = TRUE)
  expect_match(dot, "call say \\\\\\\"hi", fixed = TRUE)
  expect_identical(dot_nodes(dot), 6L)
  expect_output(print(dot), "digraph program {", fixed = TRUE)
  logistic <- pjrt_program(path = system.file("programs", "logistic-step.mlir", package = "pjrt"))
  expect_gt(dot_nodes(as_dot(logistic)), 20L)
  expect_lt(dot_nodes(as_dot(logistic, max_nodes = 10)), 15L)
})

test_that("bytecode, HLO modules and executables have graphs, too", {
  bytecode <- pjrt_program(path = system.file("exported", "network.jaxexport", package = "pjrt"))
  expect_match(as_dot(bytecode), "dot_general", fixed = TRUE)
  expect_gt(dot_nodes(as_dot(bytecode)), 5L)
  program <- pjrt_program(path = system.file("programs", "logistic-step.mlir", package = "pjrt"))
  executable <- pjrt_compile(program)
  expect_match(as_dot(executable), "fusion|dot")
  expect_gt(dot_nodes(as_dot(executable)), 5L)
  drawn(bytecode)
  drawn(executable)
})

test_that("plot() draws on any device, folded until it is readable", {
  program <- pjrt_program(loop_text)
  drawn(program, main = "a loop")
  drawn(program, legend = FALSE, max_nodes = Inf)
  deep <- pjrt_program(deep_text(300))
  drawn(deep)
  drawn(deep, width = 1200, height = 400)
  drawn(pjrt_program("func.func @main() -> tensor<f32> { %c = stablehlo.constant dense<1.0> : tensor<f32> return %c : tensor<f32> }"))
  path <- withr::local_tempfile(fileext = ".pdf")
  grDevices::pdf(path)
  plot(program)
  grDevices::dev.off()
  expect_gt(file.size(path), 3000)
})

test_that("large programs are folded within a second, and keep all operations", {
  program <- pjrt_program(deep_text(5000))
  time <- system.time(folded <- pjrt:::program_graph(program, 40))[["elapsed"]]
  expect_lt(time, 5)
  expect_lte(nrow(folded$nodes), 45L)
  expect_identical(sum(folded$nodes$operations), 10000)
  whole <- pjrt:::program_graph(program, Inf)
  expect_identical(nrow(whole$nodes), 10002L)
  expect_true(all(whole$edges$from < whole$edges$to))
})

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

test_that("wrong arguments are refused", {
  program <- pjrt_program(loop_text)
  for (bad in list(0, NA, "many", NULL, c(1, 2))) {
    expect_refused(as_dot(program, max_nodes = bad), "invalid_input", "`max_nodes` must be a number of at least 1")
  }
  expect_refused(as_dot(1), "invalid_input", "`x` must be a `PJRTProgram` or `PJRTLoadedExecutable`")
  expect_refused(plot(program, max_nodes = "x"), "invalid_input", "`max_nodes`")
  expect_refused(plot(program, main = 1), "invalid_input", "`main`")
  expect_refused(plot(program, legend = NA), "invalid_input", "`legend`")
  path <- withr::local_tempfile(fileext = ".png")
  grDevices::png(path, 40, 40)
  on.exit(grDevices::dev.off())
  expect_refused(plot(program), "invalid_input", "The graphics device is too small")
})
