# Times the main job from R beside two others, measured in the same run: the plugin driven from Rust (the floor,
# src/rust/core/examples/floor.rs) and, where PJRT_BENCH_PYTHON names a Python that has it, JAX (the rival).
#
#   Rscript bench/dispatch.R [file for the table]

library(pjrt)

median_time <- function(n, call) {
  call <- compiler::cmpfun(call)
  rounds <- replicate(6L, {
    start <- proc.time()[["elapsed"]]
    for (i in seq_len(n)) call()
    (proc.time()[["elapsed"]] - start) * 1e6 / n
  })
  median(rounds[-1L])
}

# Lines `name value` that a command prints, as a named vector; none when the command is missing.
others <- function(command, args) {
  if (!nzchar(Sys.which(command))) {
    return(numeric())
  }
  lines <- strsplit(system2(command, args, stdout = TRUE, stderr = FALSE), " ")
  stats::setNames(as.numeric(vapply(lines, `[`, "", 2L)), vapply(lines, `[`, "", 1L))
}

fresh_session <- function(code) {
  rscript <- file.path(R.home("bin"), "Rscript")
  median(replicate(5L, as.numeric(system2(rscript, c("-e", shQuote(code)), stdout = TRUE))))
}

program <- function(body, size) {
  type <- sprintf("tensor<%dx%dxf32>", size, size)
  pjrt_program(gsub("T", type, sprintf("func.func @main(%%x: T, %%y: T) -> T {\n%s\n return %%r : T\n}", body)))
}
add <- pjrt_compile(program(" %r = stablehlo.add %x, %y : T", 2L))
step <- pjrt_compile(program(" %p = stablehlo.multiply %x, %y : T\n %r = stablehlo.add %p, %x : T", 100L))
x <- pjrt_buffer(matrix(0, 2, 2))
a <- pjrt_buffer(matrix(0, 100, 100))
matrix_1e6 <- matrix(rnorm(1e6), 1000)
big <- pjrt_buffer(matrix_1e6)
ready <- pjrt_execute(add, x, x)
await(ready)

chain <- function() {
  value <- a
  for (i in seq_len(1000L)) value <- pjrt_execute(step, value, a)
  await(value)
}

ours <- c(
  execute = median_time(20000L, function() pjrt_execute(add, x, x)),
  execute_read = median_time(20000L, function() as_array(pjrt_execute(add, x, x))),
  as_array_ready = median_time(20000L, function() as_array(ready)),
  scalar = median_time(20000L, function() pjrt_scalar(1)),
  shape = median_time(20000L, function() shape(x)),
  elt_type = median_time(20000L, function() elt_type(x)),
  device = median_time(20000L, function() device(x)),
  is_ready = median_time(20000L, function() is_ready(ready)),
  chain_1000 = median_time(1L, chain),
  upload_1e6_f32 = median_time(20L, function() pjrt_buffer(matrix_1e6)),
  download_1e6_f32 = median_time(20L, function() as_array(big)),
  library = 1e6 * fresh_session("t <- Sys.time(); library(pjrt); cat(as.numeric(Sys.time() - t, units = 'secs'))"),
  first_result = 1e6 * fresh_session(paste0(
    "t <- Sys.time(); library(pjrt); ",
    "f <- system.file('programs', 'add-2x2.mlir', package = 'pjrt'); x <- pjrt_buffer(matrix(0, 2, 2)); ",
    "y <- as_array(pjrt_execute(pjrt_compile(pjrt_program(path = f)), x, x)); ",
    "cat(as.numeric(Sys.time() - t, units = 'secs'))"
  ))
)
reach <- c(
  execute = 2.8, execute_read = 4.5, as_array_ready = 2, scalar = 2.5, shape = 1, elt_type = 1, device = 1, is_ready = 1,
  upload_1e6_f32 = 300, download_1e6_f32 = 500, library = 40000, first_result = 90000
)

Sys.setenv(PJRT_PLUGIN_PATH_CPU = pjrt:::plugin_path("cpu"))
floor <- others("cargo", c("run --quiet --release --manifest-path src/rust/Cargo.toml -p pjrt-core --example floor"))
rival <- others(Sys.getenv("PJRT_BENCH_PYTHON"), "bench/jax_rival.py")

table <- data.frame(
  pjrt_us = ours, floor_us = floor[names(ours)], jax_us = rival[names(ours)], reach_us = reach[names(ours)],
  row.names = names(ours)
)
table$over_floor <- table$pjrt_us / table$floor_us
table$over_jax <- table$pjrt_us / table$jax_us
lines <- c(
  sprintf("%s, R %s, plugin API %s", Sys.Date(), getRversion(), paste(pjrt:::pjrt_api_version("cpu"), collapse = ".")),
  sprintf("%d CPU cores; medians, microseconds", parallel::detectCores()),
  "",
  utils::capture.output(print(format(table, digits = 3), quote = FALSE))
)
writeLines(lines)
output <- commandArgs(trailingOnly = TRUE)
if (length(output) > 0L) {
  writeLines(lines, output[[1L]])
}
