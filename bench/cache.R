# Times compilation, the cache of compiled programs and serialized executables. If PJRT_BENCH_PYTHON names a Python that
# has JAX, it compares them with JAX and its persistent cache.
#
# `large` is a program of 10 MB.
#
#   Rscript bench/cache.R [file for the table]

Sys.setenv(R_USER_CACHE_DIR = tempfile("bench-cache"))
library(pjrt)
source("bench/measure.R")

read <- function(path) paste(readLines(path), collapse = "\n")
add <- read("inst/programs/add-2x2.mlir")
step <- read("tests/testthat/fixtures/mlp-step.mlir")
padding <- strrep("// a line of a comment, as long as lines of StableHLO are: tensor<100x100xf32>\n", 127000)
large <- pjrt_program(paste0(padding, add))

# Median time of a function over all `inputs`, in microseconds. All results stay alive.
each_time <- function(inputs, run) {
  kept <- vector("list", length(inputs))
  times <- numeric(length(inputs))
  for (i in seq_along(inputs)) {
    start <- now()
    kept[[i]] <- run(inputs[[i]])
    times[[i]] <- now() - start
  }
  median(times[-1L])
}

# Frees executables that are no longer used.
forget <- function() for (i in 1:2) gc()

# Compiles `n` programs that differ only by a space.
rows <- function(name, text, n) {
  programs <- lapply(seq_len(n), function(i) pjrt_program(paste0(text, strrep(" ", i))))
  options(pjrt.cache = FALSE)
  compile <- each_time(programs, pjrt_compile)
  options(pjrt.cache = TRUE)
  miss <- each_time(programs, pjrt_compile)
  forget()
  hit <- each_time(programs, pjrt_compile)
  executables <- lapply(programs[1:2], function(program) {
    options(pjrt.cache = FALSE)
    pjrt_compile(program)
  })
  options(pjrt.cache = TRUE)
  data <- pjrt_serialize(executables[[1L]])
  times <- c(
    compile = compile, miss = miss, hit = hit,
    serialize = each_time(rep(executables, n), pjrt_serialize),
    deserialize = each_time(rep(list(data), n), pjrt_deserialize)
  )
  stats::setNames(times, paste(name, names(times), sep = "_"))
}

ours <- c(rows("add", add, 41L), rows("mlp", step, 11L))
small <- pjrt_program(add)
kept <- lapply(list(small, large), pjrt_compile)
# the session has already compiled these programs, so this measures mostly the key
ours <- c(ours, add_known = median_time(100L, pjrt_compile(small)), large_known = median_time(10L, pjrt_compile(large)))
reach <- c(
  add_hit = 1500, mlp_hit = 12000, large_known = 15000, add_miss = 1.05 * ours[["add_compile"]],
  mlp_miss = 1.05 * ours[["mlp_compile"]]
)

report(compare(ours, numeric(), rival_of("bench/jax_cache.py"), reach, "us"))
