# Times models and small programs, each awaited at once, and compares them with JAX on the same plugin.
#
#   PJRT_BENCH_PYTHON=/path/to/python Rscript bench/models.R [file for the table]
#
# Each round is a new process of both, one after the other, so that other load and the luck of a process affect both
# equally. Times are medians over the rounds, and so is the ratio, of the pairs.

library(pjrt)
source("bench/measure.R")

python <- Sys.getenv("PJRT_BENCH_PYTHON")
if (!nzchar(python)) {
  stop("PJRT_BENCH_PYTHON must name a Python that has JAX.")
}
Sys.setenv(
  JAX_PLATFORMS = "pjrt_cpu",
  PJRT_NAMES_AND_LIBRARY_PATHS = paste0("pjrt_cpu:", pjrt:::plugin_path("cpu")),
  TF_CPP_MIN_LOG_LEVEL = "3"
)
measured_here <- Sys.getenv("PJRT_BENCH_MODELS")
folder <- if (nzchar(measured_here)) measured_here else tempfile("models")
rounds <- as.integer(Sys.getenv("PJRT_BENCH_ROUNDS", "7"))

batch_time <- function(loop, n) {
  start <- now()
  loop(n)
  (now() - start) / n
}

# Median time of one run in microseconds, from the call until all results are ready: of 9 batches, of 20 ms each.
ours <- function(name) {
  run <- pjrt_compile(pjrt_program(path = file.path(folder, paste0(name, ".mlir"))))
  arrays <- dir(folder, sprintf("^%s-[0-9]+[.]npy$", name), full.names = TRUE)
  inputs <- lapply(arrays, pjrt_load_npy)
  call <- as.call(c(quote(pjrt_execute), quote(run), lapply(seq_along(inputs), function(i) as.name(paste0("x", i)))))
  list2env(stats::setNames(inputs, paste0("x", seq_along(inputs))), environment())
  several <- is.list(eval(call)) && !inherits(eval(call), "PJRTBuffer")
  call <- if (several) bquote(lapply(.(call), await)) else bquote(await(.(call)))
  loop <- compiler::cmpfun(eval(bquote(function(n) for (i in seq_len(n)) .(call))))
  batch_time(loop, 3L)
  n <- max(3L, as.integer(20000 / batch_time(loop, 5L)))
  median(replicate(9L, batch_time(loop, n)))
}

# The process of a round: prints its times as the rival does.
if (nzchar(measured_here)) {
  names <- Sys.getenv("PJRT_BENCH_ORDER")
  for (name in strsplit(names, ",")[[1L]]) cat(name, ours(name), "\n")
  quit("no")
}

dir.create(folder)
script <- sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE))
rscript <- file.path(R.home("bin"), "Rscript")
both <- list(
  jax = function() others(python, c("bench/jax_models.py", folder)),
  ours = function() others(rscript, c("--vanilla", script))
)
models <- names(both$jax()) # writes them
Sys.setenv(PJRT_BENCH_MODELS = folder, PJRT_BENCH_ORDER = paste(models, collapse = ","))
measured <- lapply(seq_len(rounds), function(i) {
  turn <- if (i %% 2L == 0L) names(both) else rev(names(both))
  lapply(both[turn], function(times) times())
})
times_of <- function(who) do.call(rbind, lapply(measured, function(round) round[[who]][models]))
jax <- times_of("jax")
own <- times_of("ours")
ratios <- own / jax
table <- data.frame(
  pjrt_us = apply(own, 2L, median), jax_us = apply(jax, 2L, median), over_jax = apply(ratios, 2L, median),
  from = apply(ratios, 2L, min), to = apply(ratios, 2L, max)
)
report(
  utils::capture.output(print(signif(table, 3L))), "",
  sprintf(
    "geometric mean %.2f; above 1.05: %d of %d (load %s)", exp(mean(log(table$over_jax))), sum(table$over_jax > 1.05),
    nrow(table), strsplit(readLines("/proc/loadavg"), " ")[[1L]][[1L]]
  )
)
