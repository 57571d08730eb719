# Measures the effect of `pjrt_client("cpu", threads = )`: runs a matmul and an elementwise program in new sessions with
# different numbers of threads, and with taskset for comparison.
#
#   Rscript bench/threads.R [file for the table]
#
# The rows alternate over several rounds, so that other load affects all of them equally. Each shows its fastest round.
# Compare the ratios. `busy` is the number of processors that the session used: processor time divided by elapsed time.

library(pjrt)
source("bench/measure.R")

child <- quote({
  library(pjrt)
  square <- pjrt_compile(pjrt_program(
    "func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      return %0 : tensor<1024x1024xf32>
    }"
  ))
  wave <- pjrt_compile(pjrt_program(
    "func.func @main(%x: tensor<4000000xf32>) -> tensor<4000000xf32> {
      %0 = stablehlo.exponential %x : tensor<4000000xf32>
      %1 = stablehlo.sine %0 : tensor<4000000xf32>
      return %1 : tensor<4000000xf32>
    }"
  ))
  matrix <- pjrt_buffer(matrix(rnorm(1024^2), 1024))
  vector <- pjrt_buffer(rnorm(4e6))
  measure <- function(executable, x) {
    run <- function() await(pjrt_execute(executable, x))
    run()
    used <- proc.time()
    times <- replicate(15L, {
      start <- Sys.time()
      run()
      as.numeric(Sys.time() - start, units = "secs")
    })
    used <- proc.time() - used
    c(1e3 * median(times), (used[["user.self"]] + used[["sys.self"]]) / used[["elapsed"]])
  }
  cat(measure(square, matrix), measure(wave, vector))
})

rscript <- shQuote(file.path(R.home("bin"), "Rscript"))
script <- tempfile(fileext = ".R")
writeLines(deparse(child), script)
session <- function(command) scan(text = system(paste(command, script), intern = TRUE), quiet = TRUE)

threads <- c(1L, 2L, 4L)
commands <- c(
  stats::setNames(sprintf("PJRT_CPU_THREADS=%d %s", threads, rscript), sprintf("threads = %d", threads)),
  default = rscript
)
if (nzchar(Sys.which("taskset"))) {
  commands <- c(commands, "taskset, 1 CPU" = paste("taskset --cpu-list 0", rscript))
}
rounds <- replicate(9L, vapply(commands, session, numeric(4L)))
# the fastest round of each program
matmul <- apply(rounds[1L, , ], 1L, which.min)
elementwise <- apply(rounds[3L, , ], 1L, which.min)
of <- function(row, round) rounds[row, , ][cbind(seq_along(commands), round)]

table <- data.frame(
  matmul_ms = of(1L, matmul), matmul_busy = of(2L, matmul), elementwise_ms = of(3L, elementwise),
  elementwise_busy = of(4L, elementwise), row.names = names(commands)
)
table$matmul_speedup <- table$matmul_ms[[1L]] / table$matmul_ms
table$elementwise_speedup <- table$elementwise_ms[[1L]] / table$elementwise_ms
options(width = 120L)
report(
  utils::capture.output(print(format(signif(table, 3), digits = 3))), "",
  "Speedups are relative to threads = 1. The rows alternate, and each shows the fastest of nine rounds."
)
