# A plugin that reads programs only as portable artifacts: fixtures/other-plugin.c around the one of the tests.
# Slow: compiles a library and starts a session.

# Short forms, as JAX prints them.
text_forms <- '
module @forms attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32> {mhlo.layout_mode = "default"})
      -> (tensor<2x2xf32> {jax.result_info = "r"}) {
    %cst = stablehlo.constant dense<[[0.5, -1.5e+00, 0x40000000], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<3> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.add %arg0, %cst : tensor<2x3xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %2 = stablehlo.dot_general %arg0, %1, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT]
      : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %3 = stablehlo.reduce(%arg0 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
    %5 = stablehlo.compare  GT, %2, %4,  FLOAT : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
    %6 = stablehlo.select %5, %2, %4 : tensor<2x2xi1>, tensor<2x2xf32>
    %7:2 = stablehlo.while(%i = %c_0, %y = %6) : tensor<i32>, tensor<2x2xf32>
     cond {
      %9 = stablehlo.compare  LT, %i, %c,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %9 = stablehlo.add %i, %c_1 : tensor<i32>
      %10 = func.call @half(%y) : (tensor<2x2xf32>) -> tensor<2x2xf32>
      stablehlo.return %9, %10 : tensor<i32>, tensor<2x2xf32>
    }
    %8 = stablehlo.slice %7#1 [0:2, 0:2:1] : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %8 : tensor<2x2xf32>
  }
  func.func private @half(%arg0: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<2x2xf32> // one half
    %0 = stablehlo.multiply %arg0, %cst : tensor<2x2xf32>
    %1 = stablehlo.tanh %0 : tensor<2x2xf32>
    %2 = stablehlo.add %0, %1 : tensor<2x2xf32>
    return %2 : tensor<2x2xf32>
  }
}'

test_that("operators, prints, and programs in every form work with a plugin that reads only portable artifacts", {
  log <- withr::local_tempfile()
  result <- withr::local_tempfile()
  child <- run_child(quote({
    x <- pjrt_buffer(matrix(c(1, 2, 3, 4, 5, 6), 2), "f32")
    print(x * 2 + 1)
    print(x[1, ])
    print(as_array(x %*% t(x)))
    print(as_array(sort(pjrt_buffer(c(3, NaN, 1)), decreasing = TRUE)))
    text <- Sys.getenv("TEXT_FORMS")
    saveRDS(as_array(pjrt_execute(compile(text), x)), Sys.getenv("RESULT"))
    exported <- pjrt_load_exported(Sys.getenv("EXPORTED"))
    runs <- source(Sys.getenv("RUNS"))$value
    inputs <- lapply(runs$mlp$inputs, function(x) pjrt_buffer(x$data, x$dtype, shape = as.integer(x$dim)))
    outputs <- do.call(pjrt_execute, c(pjrt_compile(exported), inputs, simplify = FALSE))
    same <- function(x, y) isTRUE(all.equal(as.vector(as_array(x)), y$data, tolerance = 1e-6))
    print(unname(mapply(same, outputs, runs$mlp$outputs)))
    say <- function(error) cat(class(error)[[1L]], conditionMessage(error), "", sep = "\n")
    angles <- seq(-1, 1, 0.25)
    for (f in list(acos, asin, atan, asinh)) {
      stopifnot(all.equal(as.vector(as_array(f(pjrt_buffer(angles, "f64")))), f(angles)))
    }
    stopifnot(all.equal(as.vector(as_array(acos(pjrt_buffer(1i)))), acos(1i), tolerance = 1e-6))
    tryCatch(compile(sub("tanh", "unheard_of", text)), error = say)
  }), c(
    PJRT_PLUGIN_PATH_CPU = build_library(fixture("other-plugin.c")), PJRT_REAL = real_plugin(), PJRT_FAKE = "artifacts",
    PJRT_LOG = log, PJRT_CACHE = "0", PJRT_CPU_DEVICE_COUNT = "1",
    EXPORTED = fixture("exported/mlp.jaxexport"), RUNS = fixture("exported/runs.R"), TEXT_FORMS = text_forms,
    RESULT = result
  ))
  expect_clean(child)
  expect_snapshot(writeLines(child$out))
  x <- pjrt_buffer(matrix(c(1, 2, 3, 4, 5, 6), 2), "f32")
  expect_identical(readRDS(result), as_array(pjrt_execute(compile(text_forms), x)))
  # The first program, and a small one that shows why.
  expect_identical(readLines(log)[1:5], c("refused", "refused", "compiled", "compiled", "compiled"))
  expect_identical(sum(readLines(log) == "refused"), 2L)
})
