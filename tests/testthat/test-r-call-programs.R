# Programs of vignette("r-in-programs").

use_program <- function(name) pjrt_compile(pjrt_program(path = system.file("programs", name, package = "pjrt")))

test_that("a loop reports its progress, and stops when the function says so", {
  last <- Inf
  local_r_call("report", function(step, loss, attributes) {
    if (step %% attributes$every == 0) cat(sprintf("step %d\n", step))
    settled <- loss > (1 - 1e-6) * last
    last <<- loss
    settled
  })
  x <- scale(as.matrix(iris[1:4]))
  y <- as.vector(scale(as.integer(iris$Species)))
  lines <- utils::capture.output({
    out <- pjrt_execute(
      use_program("r-report.mlir"), pjrt_buffer(x, "f32"), pjrt_buffer(y, "f32"), pjrt_scalar(0.002, "f32")
    )
    steps <- as_array(out[[2L]])
  })
  expect_identical(lines, sprintf("step %d", seq(100L, steps, by = 100L)))
  expect_gt(steps, 100L)
  expect_lt(steps, 1e5)
  expect_equal(as.vector(as_array(out[[1L]])), unname(coef(lm(y ~ x - 1))), tolerance = 0.05)
})

test_that("a Markov chain draws from a density that is an R function", {
  data <- withr::with_seed(1, rgamma(100, shape = 3, rate = 2))
  density <- function(theta) {
    sum(dgamma(data, exp(theta[1]), exp(theta[2]), log = TRUE)) + sum(dnorm(theta, 0, 2, log = TRUE))
  }
  local_r_call("log_density", density)
  n <- 2000
  moves <- withr::with_seed(2, matrix(rnorm(2 * n, sd = 0.15), n))
  u <- withr::with_seed(3, runif(n))
  out <- pjrt_execute(
    use_program("r-density.mlir"), pjrt_buffer(c(0, 0), "f64"), pjrt_buffer(moves, "f64"), pjrt_buffer(u, "f64")
  )
  chain <- matrix(NA_real_, n, 2)
  now <- c(0, 0)
  for (i in seq_len(n)) {
    proposed <- now + moves[i, ]
    if (log(u[i]) < density(proposed) - density(now)) now <- proposed
    chain[i, ] <- now
  }
  expect_equal(as_array(out), chain, tolerance = 1e-12)
})

test_that("a training loop gets its batches from an R function", {
  steps <- integer()
  local_r_call("next_batch", function(step, attributes) {
    steps <<- c(steps, step)
    rows <- sample(nrow(iris), attributes$size)
    list(cbind(1, as.matrix(iris[rows, 3:4])), iris$Species[rows] == "virginica")
  })
  out <- withr::with_seed(
    4, await(pjrt_execute(use_program("r-loader.mlir"), pjrt_scalar(2000L), pjrt_scalar(0.02, "f32")))
  )
  expect_identical(steps, 1:2000)
  score <- cbind(1, as.matrix(iris[3:4])) %*% as_array(out)
  expect_gt(mean((score > 0) == (iris$Species == "virginica")), 0.9)
})
