# Logistic regression with a compiled training step: classifies an iris as versicolor or virginica from four measurements. Each
# step is one asynchronous execution of the program. The result is compared with glm().

library(pjrt)

flowers <- droplevels(subset(iris, Species != "setosa"))
measures <- as.matrix(flowers[1:4])
standardised <- scale(measures)
is_virginica <- as.double(flowers$Species == "virginica")

program <- pjrt_program(path = system.file("programs", "logistic-step.mlir", package = "pjrt"))
step <- pjrt_compile(program)

features <- pjrt_buffer(cbind(1, standardised), dtype = "f64")
labels <- pjrt_buffer(is_virginica, dtype = "f64")
rate <- pjrt_scalar(0.5, dtype = "f64")
momentum <- pjrt_scalar(0.9, dtype = "f64")
weights <- pjrt_buffer(numeric(5L), dtype = "f64")
velocity <- pjrt_buffer(numeric(5L), dtype = "f64")

cat(sprintf("Logistic regression on %d flowers, trained on %s\n\n", nrow(flowers), as.character(device(weights))))

# Weights and velocity are donated, so that each step's results reuse their memory. Each report prints the loss that the
# previous report requested, so that the loop never waits for the device.
report_loss <- function(report) {
  cat(sprintf("step %6d   loss %.10f\n", report$step, value(report$loss)))
}

n_steps <- 10000L
report_at <- c(1, 10, 30, 100, 300, 1000, 3000, 10000)
report <- NULL
started <- proc.time()[["elapsed"]]
for (i in seq_len(n_steps)) {
  results <- pjrt_execute(step, features, labels, weights, velocity, rate, momentum)
  weights <- results[[1L]]
  velocity <- results[[2L]]
  if (i %in% report_at) {
    if (!is.null(report)) {
      report_loss(report)
    }
    report <- list(step = i, loss = as_array_async(results[[3L]]))
  }
}
trained <- as_array(weights)
elapsed <- proc.time()[["elapsed"]] - started
report_loss(report)
cat(sprintf("\n%d steps in %.2f s: %.0f steps per second\n\n", n_steps, elapsed, n_steps / elapsed))

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
  stop("the coefficients differ from those of glm()")
}
cat("\nAll coefficients equal those of glm() to 3 significant digits.\n")
