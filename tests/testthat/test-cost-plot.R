# The plot of the cost of each operation.

test_that("the plot has a bar for each operation, the largest first, and one for the others", {
  product <- pjrt_compile(pjrt_program(
    "func.func @main(%x: tensor<80x80xf32>, %y: tensor<9xf32>) -> (tensor<80x80xf32>, tensor<9xf32>) {
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<80x80xf32>, tensor<80x80xf32>) -> tensor<80x80xf32>
      %1 = stablehlo.add %y, %y : tensor<9xf32>
      return %0, %1 : tensor<80x80xf32>, tensor<9xf32>
    }"
  ))
  costs <- executable_cost(product, by = "operation")
  bars <- pjrt:::cost_bars(costs, 10)
  expect_identical(bars$label, costs$operation)
  expect_identical(bars$share, costs$share)
  expect_false(is.unsorted(-bars$share))
  expect_identical(bars$colour, c("blue", "orange"))
  fewer <- pjrt:::cost_bars(costs, 1)
  expect_identical(fewer$label, c(costs$operation[[1L]], "1 more"))
  expect_equal(sum(fewer$share), 1)
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  expect_invisible(plot(costs))
  expect_match(pjrt:::cost_texts(bars, 1), "%")
  expect_identical(plot(costs, n = 1, main = "mine"), costs)
})

test_that("wrong arguments are refused, and a program without operations", {
  costs <- readRDS(test_path("fixtures", "plots.rds"))$costs
  expect_refused(plot(costs, n = -1), "invalid_input", "`n` must be")
  expect_refused(plot(costs, main = 1), "invalid_input", "`main` must be one string")
  empty <- costs
  empty <- structure(lapply(unclass(costs), function(column) column[0L]), class = class(costs), row.names = integer())
  expect_refused(plot(empty), "invalid_input", "the program has no operations")
})
