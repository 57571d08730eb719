# Plots of benchmarks.

local_pdf <- function(width = 6, height = 4.5, env = parent.frame()) {
  file <- withr::local_tempfile(fileext = ".pdf", .local_envir = env)
  grDevices::pdf(file, width, height)
  withr::defer(grDevices::dev.off(), env)
}


test_that("benchmarks and comparisons are drawn, and the settings of the device stay", {
  local_pdf()
  before <- graphics::par(no.readonly = TRUE)
  x <- pjrt_buffer(c(1, 2))
  one <- pjrt_benchmark(compile(add_program("2xf32")), x, x, times = 3)
  expect_invisible(plot(one))
  expect_identical(plot(one, main = "mine"), one)
  compared <- pjrt_benchmark(one, two = one, three = one)
  expect_no_warning(expect_identical(plot(compared), compared))
  after <- graphics::par(no.readonly = TRUE)
  same <- c("mar", "mai", "mfrow", "las", "cex", "mgp")
  expect_identical(after[same], before[same])
})

test_that("benchmarks without limits, with one run, with long names and over 100% are drawn", {
  local_pdf()
  x <- pjrt_buffer(c(1, 2))
  one <- pjrt_benchmark(compile(add_program("2xf32")), x, x, times = 1, limits = FALSE)
  expect_no_warning(plot(one))
  fast <- pjrt_benchmark(compile(add_program("2xf32")), x, x, times = 9)
  fast$limits$bandwidth <- fast$bytes / stats::median(fast$seconds) / 3
  fast$seconds[[9L]] <- 1000 * fast$seconds[[1L]]
  expect_no_warning(plot(pjrt_benchmark(fast, one, `a program with a name that is long` = one)))
  part <- fast
  part$flops <- NA_real_
  expect_no_warning(plot(part))
})
