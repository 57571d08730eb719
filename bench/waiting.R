# Times small programs with loops, each awaited at once, and compares them with JAX on the same plugin.
#
#   PJRT_BENCH_PYTHON=/path/to/python Rscript bench/waiting.R [file for the table]
#
# The two alternate over several rounds, so that other load affects both equally. A row shows the fastest round of each.

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
folder <- tempfile("programs")
dir.create(folder)
rounds <- as.integer(Sys.getenv("PJRT_BENCH_ROUNDS", "5"))

rival <- function() others(python, c("bench/jax_waiting.py", folder))

input <- function(line) {
  words <- strsplit(line, " ")[[1L]]
  values <- as.numeric(words[-1L])
  dtype <- switch(words[[1L]], float32 = "f32", uint32 = "ui32", int32 = "i32")
  if (length(values) == 1L) pjrt_scalar(values, dtype) else pjrt_buffer(values, dtype)
}

# Median time of one run in microseconds, from the call until the result is ready.
ours <- function(name, dispatch = "auto") {
  options(pjrt.dispatch = dispatch)
  run <- pjrt_compile(pjrt_program(path = file.path(folder, paste0(name, ".mlir"))))
  inputs <- lapply(readLines(file.path(folder, paste0(name, ".txt"))), input)
  x <- inputs[[1L]]
  if (length(inputs) == 1L) {
    median_time(400L, await(pjrt_execute(run, x)), 15L)
  } else {
    y <- inputs[[2L]]
    median_time(400L, await(pjrt_execute(run, x, y)), 15L)
  }
}

times <- lapply(seq_len(rounds), function(round) {
  jax <- rival()
  list(
    jax = jax,
    ours = vapply(names(jax), ours, 0),
    inline = vapply(names(jax), ours, 0, "inline"),
    thread = vapply(names(jax), ours, 0, "thread")
  )
})
fastest <- function(of) do.call(pmin, lapply(times, `[[`, of))

jax <- fastest("jax")
table <- data.frame(
  auto_us = fastest("ours"), jax_us = jax, inline_us = fastest("inline"), thread_us = fastest("thread")
)
table$auto_over_jax <- table$auto_us / jax
rownames(table) <- names(times[[1L]]$jax)
report(utils::capture.output(print(signif(table, 3))))
