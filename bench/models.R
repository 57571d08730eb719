# Times models and small programs, each awaited at once, and compares them with JAX on the same plugin.
#
#   PJRT_BENCH_PYTHON=/path/to/python Rscript bench/models.R [file for the table]
#
# Times are medians over the rounds, and so is the ratio, of the pairs.

library(pjrt)
source("bench/measure.R")

# Median time of one run in microseconds, from the call until all results are ready: of 9 batches, of 20 ms each.
model_time <- function(name, folder) {
  run <- pjrt_compile(pjrt_program(path = file.path(folder, paste0(name, ".mlir"))))
  arrays <- dir(folder, sprintf("^%s-[0-9]+[.]npy$", name), full.names = TRUE)
  names <- paste0("x", seq_along(arrays))
  list2env(stats::setNames(lapply(arrays, pjrt_load_npy), names), environment())
  call <- as.call(c(quote(pjrt_execute), quote(run), lapply(names, as.name)))
  call <- bquote(await(.(call)))
  batches <- function(n, rounds) eval(bquote(median_time(.(n), .(call), .(rounds))), parent.frame())
  batches(max(3L, as.integer(20000 / batches(5L, 1L))), 9L)
}

times <- in_pairs(
  function(folder) {
    models <- sub(".mlir", "", dir(folder, "[.]mlir$"), fixed = TRUE)
    vapply(stats::setNames(nm = models), model_time, 0, folder)
  },
  "bench/jax_models.py"
)
table <- with(times, data.frame(
  pjrt_us = apply(ours[, colnames(jax)], 2L, median), jax_us = apply(jax, 2L, median), ratios_of(ours, jax)
))
report(
  utils::capture.output(print(signif(table, 3L))), "",
  sprintf(
    "geometric mean %.2f; above 1.05: %d of %d (load %s)", exp(mean(log(table$over_jax))), sum(table$over_jax > 1.05),
    nrow(table), machine_load()
  )
)
