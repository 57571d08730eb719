# Times compiles, and what spares them: the cache of compiled programs and executables as bytes. Beside them, where
# PJRT_BENCH_PYTHON names a Python that has it, JAX with its persistent cache.
#
#   Rscript bench/cache.R [file for the table]

Sys.setenv(R_USER_CACHE_DIR = tempfile("bench-cache"), PJRT_CACHE = "1")
library(pjrt)
source("bench/measure.R")

add <- pjrt_program(path = "inst/programs/add-2x2.mlir")
step <- pjrt_program(path = "tests/testthat/fixtures/mlp-step.mlir")
padding <- strrep("// a line of a comment, as long as those of StableHLO are: tensor<100x100xf32>\n", 127000)
large <- pjrt_program(paste0(padding, "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"))

# Median microseconds of an evaluation of `code`, `before` which no executable is alive that nobody holds.
timed <- function(code, before = NULL, rounds = 21L) {
  code <- substitute(code)
  before <- substitute(before)
  frame <- parent.frame()
  times <- replicate(rounds, {
    eval(before, frame)
    gc()
    gc()
    start <- now()
    made <- eval(code, frame)
    time <- now() - start
    rm(made)
    time
  })
  median(times[-1L])
}

uncached <- function(program) {
  options(pjrt.cache = FALSE)
  on.exit(options(pjrt.cache = NULL))
  pjrt_compile(program)
}

rows <- function(name, program, rounds) {
  data <- pjrt_serialize(pjrt_compile(program))
  times <- c(
    compile = timed(uncached(program), rounds = rounds),
    miss = timed(pjrt_compile(program), for (file in list.files(pjrt_cache_info()$dir, "pjrtx$", full.names = TRUE)) unlink(file), rounds),
    hit = timed(pjrt_compile(program)),
    serialize = timed(pjrt_serialize(kept), kept <- pjrt_compile(program)),
    deserialize = timed(pjrt_deserialize(data))
  )
  stats::setNames(times, paste(name, names(times), sep = "_"))
}

ours <- c(rows("add", add, 31L), rows("mlp", step, 11L))
kept <- list(pjrt_compile(add), pjrt_compile(large))
ours <- c(ours, add_shared = timed(pjrt_compile(add)), key_10MB = timed(pjrt_compile(large)))
reach <- c(
  add_hit = 1500, mlp_hit = 12000, key_10MB = 15000, add_miss = 1.05 * ours[["add_compile"]],
  mlp_miss = 1.05 * ours[["mlp_compile"]]
)

report(compare(ours, numeric(), rival_of("bench/jax_cache.py"), reach, "us"))
