# Drawings of graphs.

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

test_that("a device that is too small is refused", {
  path <- withr::local_tempfile(fileext = ".pdf")
  grDevices::pdf(path, 0.4, 0.4)
  on.exit(grDevices::dev.off())
  expect_refused(plot(pjrt_program(loop_text)), "invalid_input", "The graphics device is too small")
})
