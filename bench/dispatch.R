# Times execution from R. The same run also measures the plugin driven from Rust (the floor,
# src/rust/core/examples/floor.rs) and, if PJRT_BENCH_PYTHON names a Python that has it, JAX (the rival).
#
#   Rscript bench/dispatch.R [file for the table]

library(pjrt)
source("bench/measure.R")

program <- function(body, size) {
  text <- sprintf("func.func @main(%%x: {T}, %%y: {T}) -> {T} {\n%s\n return %%r : {T}\n}", body)
  pjrt_program(text, types = list(T = sprintf("tensor<%dx%dxf32>", size, size)))
}
add <- pjrt_compile(program(" %r = stablehlo.add %x, %y : {T}", 2L))
step <- pjrt_compile(program(" %p = stablehlo.multiply %x, %y : {T}\n %r = stablehlo.add %p, %x : {T}", 100L))
x <- pjrt_buffer(matrix(0, 2, 2))
a <- pjrt_buffer(matrix(0, 100, 100))
matrix_1e6 <- matrix(rnorm(1e6), 1000)
big <- pjrt_buffer(matrix_1e6)
ready <- pjrt_execute(add, x, x)
await(ready)
two <- list(a = ready, b = list(ready))
exponential <- pjrt_compile(pjrt_program(
  "func.func @main(%x: tensor<10000000xf32>) -> tensor<10000000xf32> {
  %r = stablehlo.exponential %x : tensor<10000000xf32>
  return %r : tensor<10000000xf32>
}"
))
long <- pjrt_buffer(0.5, "f32", shape = 1e7)

# Median time until the launch of a program that takes many milliseconds returns.
launch_time <- function(rounds = 21L) {
  times <- numeric(rounds)
  for (i in seq_len(rounds)) {
    start <- now()
    result <- pjrt_execute(exponential, long)
    times[[i]] <- now() - start
    await(result)
  }
  median(times)
}

chain <- function() {
  value <- a
  for (i in seq_len(1000L)) value <- pjrt_execute(step, value, a)
  await(value)
}

chain_awaited <- function() {
  value <- a
  for (i in seq_len(1000L)) value <- await(pjrt_execute(step, value, a))
}

ours <- c(
  execute = median_time(20000L, pjrt_execute(add, x, x)),
  execute_unchecked = median_time(20000L, pjrt_execute(add, x, x, check = FALSE)),
  execute_read = median_time(20000L, as_array(pjrt_execute(add, x, x))),
  as_array_ready = median_time(20000L, as_array(ready)),
  as_array_list = median_time(20000L, as_array(two)),
  await_list = median_time(20000L, await(two)),
  scalar = median_time(20000L, pjrt_scalar(1)),
  shape = median_time(20000L, shape(x)),
  elt_type = median_time(20000L, elt_type(x)),
  device = median_time(20000L, device(x)),
  is_ready = median_time(20000L, is_ready(ready)),
  chain_1000 = median_time(1L, chain(), 15L),
  chain_1000_awaited = median_time(1L, chain_awaited(), 15L),
  print_2x2 = median_time(500L, utils::capture.output(print(x))),
  print_nothing = median_time(500L, utils::capture.output(invisible())),
  launch_exp_1e7 = launch_time(),
  upload_1e6_f32 = median_time(20L, pjrt_buffer(matrix_1e6)),
  download_1e6_f32 = median_time(20L, as_array(big)),
  library = 1e6 * fresh_session("t <- Sys.time(); library(pjrt); cat(as.numeric(Sys.time() - t, units = 'secs'))"),
  first_result = 1e6 * fresh_session(paste0(
    "t <- Sys.time(); library(pjrt); ",
    "f <- system.file('programs', 'add-2x2.mlir', package = 'pjrt'); x <- pjrt_buffer(matrix(0, 2, 2)); ",
    "y <- as_array(pjrt_execute(pjrt_compile(pjrt_program(path = f)), x, x)); ",
    "cat(as.numeric(Sys.time() - t, units = 'secs'))"
  ))
)
# Beside a floor that keeps as many results as R does between two collections of garbage.
ours[c("execute_kept", "chain_1000_kept")] <- ours[c("execute", "chain_1000")]
floor <- floor_of("floor")
reach <- c(
  execute = 2.8, execute_unchecked = 2.8, execute_read = 4.5, as_array_ready = 2, scalar = 2.5, shape = 1, elt_type = 1,
  device = 1, is_ready = 1, chain_1000 = 1.5 * floor[["chain_1000"]], launch_exp_1e7 = 100, upload_1e6_f32 = 300,
  download_1e6_f32 = 500, library = 40000, first_result = 90000
)

report(compare(ours, floor, rival_of("bench/jax_rival.py"), reach, "us"))
