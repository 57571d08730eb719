# Programs as graphs.

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
  expect_match(dot, "call say \\\"hi\\\"\\n", fixed = TRUE)
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
})

test_that("large programs are folded, and keep all operations", {
  program <- pjrt_program(deep_text(5000))
  folded <- pjrt:::program_graph(program, 40)
  expect_lte(nrow(folded$nodes), 45L)
  expect_identical(sum(folded$nodes$operations), 10000)
  whole <- pjrt:::program_graph(program, Inf)
  expect_identical(nrow(whole$nodes), 10002L)
  expect_true(all(whole$edges$from < whole$edges$to))
})

test_that("functions with symbolic dimensions show their operations, also if they are long", {
  loss <- pjrt_load_exported(system.file("exported", "loss.jaxexport", package = "pjrt"))
  dot <- as_dot(loss)
  expect_identical(dot, as_dot(loss$program))
  expect_match(dot, "dot_general\\nf32[?]", fixed = TRUE)
  expect_match(dot, "subgraph cluster_", fixed = TRUE)
  # one operation
  square <- pjrt_load_exported(test_path("fixtures", "exported", "symbolic.jaxexport"))
  expect_match(as_dot(square), "[label=\"multiply\\nf32[?x?x4]\"", fixed = TRUE)
  # a call with more operations than fit
  long <- paste0(
    "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = func.call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }",
    sub("func.func @main", "func.func private @f", deep_text(300), fixed = TRUE)
  )
  expect_gt(dot_nodes(as_dot(pjrt_program(long), max_nodes = 40)), 10L)
})

test_that("wrong arguments are refused", {
  program <- pjrt_program(loop_text)
  for (bad in list(0, NA, "many", NULL, c(1, 2))) {
    expect_refused(as_dot(program, max_nodes = bad), "invalid_input", "`max_nodes` must be a number of at least 1")
  }
  expect_refused(as_dot(1), "invalid_input", "`x` must be a `PJRTProgram`, `PJRTExported` or `PJRTLoadedExecutable`")
})
