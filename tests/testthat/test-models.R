# Models exported from JAX that use linear algebra, with the numbers that JAX computes.
# The files are made by src/rust/program/fixtures/exported/make_algebra.py.
# Slow: compiles models.

algebra <- function(file) fixture(file.path("exported", "algebra", file))

test_that("models with linear algebra give JAX's numbers in both precisions", {
  runs <- source(algebra("runs.R"), local = TRUE)$value
  models <- c("process", "kalman", "lstsq", "eigh", "expm")
  expect_setequal(names(runs), c(paste0(models, "-32"), paste0(models, "-64")))
  for (name in names(runs)) {
    run <- runs[[name]]
    exported <- pjrt_load_exported(algebra(paste0(name, ".jaxexport")))
    expect_true(any(startsWith(exported$custom_calls$target, "lapack_")), label = name)
    expect_true(all(exported$custom_calls$available), label = name)
    inputs <- lapply(run$inputs, function(x) pjrt_buffer(x$data, x$dtype, shape = as.integer(x$dim)))
    outputs <- do.call(pjrt_execute, c(pjrt_compile(exported), inputs, simplify = FALSE))
    expect_length(outputs, length(run$outputs))
    for (i in seq_along(outputs)) {
      expected <- run$outputs[[i]]
      expect_identical(shape(outputs[[i]]), as.integer(expected$dim), label = name)
      # errors of the factorizations, relative to the largest number
      scale <- max(abs(expected$data), 1)
      error <- max(abs(as.vector(as_array(outputs[[i]], int64 = "double")) - expected$data)) / scale
      expect_lt(error, if (endsWith(name, "32")) 2e-5 else 1e-13, label = paste("error of", name))
    }
  }
})
