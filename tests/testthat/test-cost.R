# The estimated cost of each operation.

logistic_step <- function() {
  pjrt_compile(pjrt_program(path = system.file("programs", "logistic-step.mlir", package = "pjrt")))
}

test_that("the costs of operations add up to the plugin's own estimate", {
  step <- logistic_step()
  costs <- executable_cost(step, by = "operation")
  expect_s3_class(costs, c("PJRTOperationCosts", "data.frame"), exact = TRUE)
  total <- executable_cost(step)
  expect_identical(attr(costs, "reported"), if (plugin_estimates()) total)
  expect_identical(executable_cost(step, "total"), total)
  estimated <- attr(costs, "estimated")
  expect_equal(estimated[["flops"]], total[["flops"]], tolerance = 0.02)
  expect_equal(estimated[["transcendentals"]], total[["transcendentals"]], tolerance = 0.02)
  expect_equal(estimated[["bytes accessed"]], total[["bytes accessed"]], tolerance = 0.1)
  expect_equal(sum(costs$share), 1)
  expect_false(is.unsorted(-costs$share))
})

test_that("a matrix product has two flops for each product, with its line of the program", {
  dot <- pjrt_compile(pjrt_program("func.func @main(%x: tensor<30x40xf32>, %y: tensor<40x50xf32>) -> tensor<30x50xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<30x40xf32>, tensor<40x50xf32>) -> tensor<30x50xf32>
    return %0 : tensor<30x50xf32>
  }"))
  costs <- executable_cost(dot, by = "operation")
  expect_identical(costs$flops[[1L]], 2 * 30 * 40 * 50)
  expect_identical(costs$bytes[[1L]], 4 * (30 * 40 + 40 * 50 + 30 * 50))
  expect_identical(costs$source[[1L]], "program:2")
})

test_that("padding and groups of convolutions are counted as the plugin counts them", {
  conv <- pjrt_compile(pjrt_program("func.func @main(%x: tensor<2x9x9x4xf32>, %k: tensor<3x3x2x6xf32>) -> tensor<2x5x5x6xf32> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
      : (tensor<2x9x9x4xf32>, tensor<3x3x2x6xf32>) -> tensor<2x5x5x6xf32>
    return %0 : tensor<2x5x5x6xf32>
  }"))
  costs <- executable_cost(conv, by = "operation")
  expect_equal(attr(costs, "estimated")[["flops"]], executable_cost(conv)[["flops"]], tolerance = 0.02)
})

test_that("costs that a plugin does not estimate are this package's, and say so", {
  child <- run_child(quote({
    product <- pjrt_compile(pjrt_program("func.func @main(%x: tensor<30x40xf32>, %y: tensor<40x50xf32>) ->
        tensor<30x50xf32> {
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<30x40xf32>, tensor<40x50xf32>) -> tensor<30x50xf32>
      return %0 : tensor<30x50xf32>
    }"))
    print(executable_cost(product))
    print(attr(executable_cost(product, by = "operation"), "reported"))
    x <- pjrt_buffer(matrix(0, 30, 40))
    y <- pjrt_buffer(matrix(0, 40, 50))
    found <- pjrt_benchmark(product, x, y, times = 2, limits = FALSE)
    print(found[c("flops", "bytes", "estimated_by")])
    writeLines(grep("estimate", format(found), value = TRUE))
    shown <- capture.output(print(product), print(executable_info(product)))
    writeLines(grep("est.", shown, value = TRUE, fixed = TRUE))
  }), c(omitting_plugin("PJRT_Executable_GetCostAnalysis"), PJRT_CACHE = "0"))
  expect_clean(child)
  expect_snapshot(writeLines(child$out))
})

test_that("the body of a loop counts as often as it runs", {
  text <- "func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %end = stablehlo.constant dense<7> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<100xf32>
     cond {
       %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
       stablehlo.return %p : tensor<i1>
    } do {
       %1 = stablehlo.add %i, %one : tensor<i32>
       %2 = stablehlo.sine %v : tensor<100xf32>
       stablehlo.return %1, %2 : tensor<i32>, tensor<100xf32>
    }
    return %0#1 : tensor<100xf32>
  }"
  costs <- executable_cost(pjrt_compile(pjrt_program(text)), by = "operation")
  expect_identical(max(costs$times), 7)
  expect_identical(sum(costs$transcendentals), 700)
  expect_identical(attr(costs, "estimated")[["transcendentals"]], 100)
  # a number of iterations that the compiler does not know
  unknown <- sub("%x: tensor<100xf32>", "%x: tensor<100xf32>, %end: tensor<i32>", text, fixed = TRUE)
  unknown <- sub("%end = stablehlo.constant dense<7> : tensor<i32>", "", unknown, fixed = TRUE)
  costs <- executable_cost(pjrt_compile(pjrt_program(unknown)), by = "operation")
  expect_true(anyNA(costs$times))
  expect_identical(sum(costs$transcendentals), 100)
})

test_that("the table shows the most expensive operations and both totals", {
  costs <- executable_cost(logistic_step(), by = "operation")
  shown <- capture.output(visible <- withVisible(print(costs, n = 2)))
  expect_false(visible$visible)
  expect_match(shown[[1L]], "estimated from their shapes")
  # newer compilers do not record the place of a product
  if (!plugin_api(106)) expect_length(grep("program:", shown), 2L)
  expect_match(shown, "more with", all = FALSE)
  none <- capture.output(print(costs, n = 0))
  expect_match(none[[2L]], sprintf("... %d more with 100.0%% of the time", nrow(costs)), fixed = TRUE)
  expect_identical(any(grepl("The plugin's own:", shown, fixed = TRUE)), plugin_estimates())
  expect_lte(max(nchar(shown)), 100L)
  expect_identical(class(costs[1:2, ]), "data.frame")
  expect_refused(print(costs, n = "a"), "invalid_input", "`n` must be")
  expect_refused(executable_cost(logistic_step(), by = "line"), "invalid_input", "`by` must be one of")
  expect_refused(print(structure(1, class = "PJRTOperationCosts")), "invalid_input", "this package did not make it")
})

test_that("calls of other functions have unknown flops", {
  pjrt_register_r_call("r_cost", function(x) x)
  on.exit(pjrt_unregister_custom_call("r_cost"))
  text <- "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @r_cost(%x) {api_version = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }"
  executable <- pjrt_compile(pjrt_program(text))
  costs <- executable_cost(executable, by = "operation")
  expect_true(anyNA(costs$flops))
  expect_match(capture.output(print(costs)), "?", fixed = TRUE, all = FALSE)
  # XLA counts -1 for what it does not know
  expect_no_match(capture.output(print(costs), summary(executable)), "-1", fixed = TRUE)
})
