# Times calls of functions of programs with many parameters, and steps of a convolutional network, against JAX's jitted
# call of the same function with the same arguments on the same plugin in the same run.
#
#   PJRT_BENCH_PYTHON=/path/to/python Rscript bench/function.R [file for the table]
#
# Times are medians over the rounds, and so is the ratio, of the pairs.

library(pjrt)
source("bench/measure.R")

# The model and its inputs, which the rival has written.
model <- function(name, folder) {
  exported <- pjrt_load_exported(file.path(folder, paste0(name, ".jaxexport")))
  buffers <- lapply(exported$inputs$shape, function(shape) pjrt_buffer(array(0.01, shape)))
  params <- map_tree(exported$input_tree$args[[1L]], function(row) buffers[[row]])
  others <- buffers[-unlist(exported$input_tree$args[[1L]])]
  list(f = pjrt_function(exported), params = params, x = others[[1L]], others = others, exported = exported)
}

ours <- function(folder) {
  times <- numeric()
  for (name in sub(".jaxexport", "", dir(folder), fixed = TRUE)) {
    m <- model(name, folder)
    if (startsWith(name, "cnn")) {
      step <- pjrt_step(m$f)
      state <- list(params = m$params)
      x <- m$others[[1L]]
      y <- m$others[[2L]]
      times[[name]] <- median_time(10L, {
        state <<- step(state, x, y)
        await(state$loss)
      }, 10L)
      next
    }
    if (startsWith(name, "step")) {
      step <- pjrt_step(m$f)
      state <- list(params = m$params)
      x <- m$x
      times[[name]] <- median_time(500L, state <<- step(state, x), 10L)
      next
    }
    f <- m$f
    params <- m$params
    x <- m$x
    times[[name]] <- median_time(500L, f(params, x), 10L)
    rebuilt <- function() lapply(params, function(p) p)
    times[[paste0(name, "_rebuilt")]] <- median_time(500L, f(rebuilt(), x), 10L) - median_time(500L, rebuilt(), 10L)
    executable <- pjrt_compile(m$exported)
    all <- list(params = params, x = x)
    times[[paste0(name, "_execute")]] <- median_time(500L, pjrt_execute(executable, inputs = all), 10L)
  }
  times
}

times <- in_pairs(ours, "bench/jax_function.py")
jax <- times$jax
memory <- median(jax[, "memcpy_40mb"])
jax <- jax[, colnames(jax) != "memcpy_40mb"]
middle <- apply(times$ours, 2L, median)
table <- data.frame(
  function_us = middle[colnames(jax)],
  # with a new list of the same names at each call
  rebuilt_us = middle[paste0(colnames(jax), "_rebuilt")],
  # pjrt_execute() with the same lists
  execute_us = middle[paste0(colnames(jax), "_execute")],
  jax_us = apply(jax, 2L, median)
)
table <- cbind(table, ratios_of(times$ours, jax))
rownames(table) <- colnames(jax)
cell <- function(x) formatC(signif(x, 3), digits = 3, format = "fg")
report(
  utils::capture.output(print(as.data.frame(lapply(table, cell), row.names = rownames(table)))), "",
  sprintf("machine: load %s, a copy of 40 MB takes %s us", machine_load(), cell(memory))
)
