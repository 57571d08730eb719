# Logistic regression with a compiled training step: classifies an iris as versicolor or virginica from four
# measurements. Each step is one asynchronous execution of the program. The result is compared with glm().
#
# vignettes/articles/demo.Rmd shows and runs the sections of this file.

# ---- data ----
library(pjrt)

flowers <- droplevels(subset(iris, Species != "setosa"))
measures <- as.matrix(flowers[1:4])
standardised <- scale(measures)
is_virginica <- as.double(flowers$Species == "virginica")

features <- pjrt_buffer(cbind(1, standardised), dtype = "f64")
labels <- pjrt_buffer(is_virginica, dtype = "f64")

# ---- program ----
path <- system.file("programs", "logistic-step.mlir", package = "pjrt")
program <- pjrt_program(path = path)
step <- pjrt_compile(program)

# ---- training ----
rate <- pjrt_scalar(0.5, dtype = "f64")
momentum <- pjrt_scalar(0.9, dtype = "f64")

# Weights and velocity are donated, so that each step's results reuse their
# memory. `watch` gets the number of each step and its loss: a buffer that the
# device may not have computed yet.
train <- function(n_steps, watch) {
  weights <- pjrt_buffer(numeric(5L), dtype = "f64")
  velocity <- pjrt_buffer(numeric(5L), dtype = "f64")
  for (i in seq_len(n_steps)) {
    results <- pjrt_execute(
      step, features, labels, weights, velocity, rate, momentum
    )
    weights <- results[[1L]]
    velocity <- results[[2L]]
    watch(i, results[[3L]])
  }
  as_array(weights)
}

# ---- report ----
# Each report prints the loss that the previous report requested, so that the
# loop never waits for the device.
report_at <- c(1, 10, 30, 100, 300, 1000, 3000, 10000)
requested <- NULL
print_requested <- function() {
  if (!is.null(requested)) {
    loss <- value(requested$loss)
    cat(sprintf("step %6d   loss %.10f\n", requested$step, loss))
  }
}
report <- function(i, loss) {
  if (i %in% report_at) {
    print_requested()
    requested <<- list(step = i, loss = as_array_async(loss))
  }
}

# ---- run ----
cat(sprintf(
  "Logistic regression on %d flowers, trained on %s\n\n",
  nrow(flowers), as.character(device(features))
))

n_steps <- 10000L
started <- proc.time()[["elapsed"]]
trained <- train(n_steps, report)
elapsed <- proc.time()[["elapsed"]] - started
print_requested()
cat(sprintf(
  "\n%d steps in %.2f s: %.0f steps per second\n\n",
  n_steps, elapsed, n_steps / elapsed
))

# ---- compare ----
# transform the coefficients from standardised measurements to centimetres
slopes <- trained[-1L] / attr(standardised, "scaled:scale")
intercept <- trained[[1L]] - sum(slopes * attr(standardised, "scaled:center"))
fitted <- c(intercept, slopes)
expected <- coef(glm(is_virginica ~ measures, family = binomial))

print(data.frame(
  pjrt = sprintf("%.5f", fitted),
  glm = sprintf("%.5f", expected),
  row.names = c("(Intercept)", colnames(measures))
))

if (any(abs(fitted / expected - 1) > 5e-4)) {
  stop("the coefficients differ from glm()'s")
}
cat("\nAll coefficients equal glm()'s to 3 significant digits.\n")
