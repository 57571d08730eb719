# Times transfers between R and the CPU device and measures their memory use. The same run also measures Rust without R
# (the floor, src/rust/core/examples/data_floor.rs) and, if PJRT_BENCH_PYTHON names a Python that has it, JAX (the
# rival, bench/jax_data.py, which describes each row).
#
#   Rscript bench/data.R [file for the tables]
#
# Uploads are timed until the device has the data, except rows that end in `_returns`, which are timed until the call
# returns.

library(pjrt)
source("bench/measure.R")

matrix_1e6 <- matrix(rnorm(1e6), 1000)
array_1e6 <- array(matrix_1e6, c(10, 10, 100, 100))
whole_1e6 <- matrix(as.double(seq_len(1e6)), 1000)
complex_1e6 <- matrix(as.complex(matrix_1e6), 1000)
matrix_1e7 <- matrix(rep_len(matrix_1e6, 1e7), 2000)
vector_1e7 <- rep_len(c(matrix_1e6), 1e7)
integer_1e7 <- rep_len(1:1000, 1e7)
integer_matrix_1e7 <- matrix(integer_1e7, 2000)

upload <- function(...) await(pjrt_buffer(...))
upload_time <- function(...) median_time(20L, upload(...))
download_time <- function(...) {
  buffer <- upload(...)
  median_time(20L, as_array(buffer))
}
# Skips dtypes to which R's values cannot be converted.
where_supported <- function(time) tryCatch(time, pjrt_error = function(e) NA_real_)

tiny <- upload(matrix(0, 2, 2))
big <- upload(matrix_1e6)
large <- upload(matrix_1e7)
lines <- function() utils::capture.output(print(big))

ours <- c(
  scalar = median_time(5000L, pjrt_scalar(1)),
  buffer_1 = median_time(5000L, pjrt_buffer(1)),
  shape = median_time(20000L, shape(tiny)),
  elt_type = median_time(20000L, elt_type(tiny)),
  device = median_time(20000L, device(tiny)),
  is_ready = median_time(20000L, is_ready(tiny)),
  as_array_2x2 = median_time(20000L, as_array(tiny)),
  upload_1e6_f32 = upload_time(matrix_1e6),
  upload_1e6_f32_returns = median_time(20L, pjrt_buffer(matrix_1e6)),
  upload_1e6_f64 = upload_time(matrix_1e6, "f64"),
  upload_1e7_f32_fresh = fresh_time(function() upload(matrix_1e7)),
  upload_1e7_f64_fresh = fresh_time(function() upload(matrix_1e7, "f64")),
  upload_1e7_f32_warm = median_time(2L, upload(matrix_1e7)),
  upload_1e7_f64_warm = median_time(2L, upload(matrix_1e7, "f64")),
  upload_1e7_i32_warm = median_time(2L, upload(integer_matrix_1e7)),
  upload_vector_1e7_f32_warm = median_time(2L, upload(vector_1e7)),
  alias_1e7_f64 = median_time(2L, upload(vector_1e7, "f64")),
  alias_1e7_i32 = median_time(2L, upload(integer_1e7)),
  download_1e6_f32 = download_time(matrix_1e6),
  download_1e6_f64 = download_time(matrix_1e6, "f64"),
  download_1e7_f32_warm = median_time(2L, as_array(large)),
  download_1e7_f32_fresh = fresh_time(function() as_array(large)),
  as_raw_1e7_f32_warm = median_time(2L, as_raw(large)),
  upload_4d_f32 = upload_time(array_1e6),
  download_4d_f32 = download_time(array_1e6),
  upload_1e6_f16 = upload_time(matrix_1e6, "f16"),
  download_1e6_f16 = download_time(matrix_1e6, "f16"),
  upload_1e6_bf16 = upload_time(matrix_1e6, "bf16"),
  download_1e6_bf16 = download_time(matrix_1e6, "bf16"),
  upload_1e6_f8e4m3fn = where_supported(upload_time(matrix_1e6, "f8e4m3fn")),
  download_1e6_f8e4m3fn = where_supported(download_time(matrix_1e6, "f8e4m3fn")),
  upload_1e6_c64 = where_supported(upload_time(complex_1e6, "c64")),
  download_1e6_c64 = where_supported(download_time(complex_1e6, "c64")),
  print_1e6 = median_time(200L, lines()),
  format_1e6 = median_time(1L, format_buffer(big), rounds = 9L)
)

ours <- ours[!is.na(ours)]

checked <- c(
  check_1e6_f32 = upload_time(matrix_1e6, check = TRUE) / ours[["upload_1e6_f32"]],
  check_1e6_i32 = upload_time(whole_1e6, "i32", check = TRUE) / upload_time(whole_1e6, "i32")
)
rm(matrix_1e7, vector_1e7, integer_1e7, integer_matrix_1e7, large)

ours[c("upload_1e8_f32_returns", "upload_1e8_f32")] <- fresh_session(
  "library(pjrt); x <- rep_len(1.5, 1e8); await(pjrt_scalar(1)); start <- Sys.time()
  since <- function() as.numeric(Sys.time() - start, units = 'secs') * 1e6
  buffer <- pjrt_buffer(x); returns <- since(); await(buffer); cat(returns, since())",
  sessions = 3L
)

# Megabytes of resident memory: now (`VmRSS`), or the peak since the last reset (`VmHWM`).
resident <- "resident <- function(field) {
  line <- grep(field, readLines('/proc/self/status'), value = TRUE); as.numeric(gsub('[^0-9]', '', line)) / 1024
}; library(pjrt); x <- matrix(rep_len(rnorm(1000), 1e7), 2000); await(pjrt_scalar(1)); invisible(gc())"
memory <- c(
  stats::setNames(
    fresh_session(paste(
      resident, "writeLines('5', '/proc/self/clear_refs'); before <- resident('VmRSS'); buffer <- await(pjrt_buffer(x))
      cat(resident('VmRSS') - before, resident('VmHWM') - before)",
      sep = "; "
    )),
    c("upload_1e7_f32_stays", "upload_1e7_f32_peak")
  ),
  execute_1000_peak = fresh_session(paste(
    resident, "type <- 'tensor<2000x5000xf32>'; add <- pjrt_compile(pjrt_program(gsub('T', type,
    'func.func @main(%x: T, %y: T) -> T {\\n %r = stablehlo.add %x, %y : T\\n return %r : T\\n}')))
    x <- pjrt_buffer(x); invisible(gc())
    for (i in 1:1000) value <- pjrt_execute(add, x, x)
    await(value); cat(resident('VmHWM'))",
    sep = "; "
  ), sessions = 1L)
)

reach <- c(
  scalar = 2.5, buffer_1 = 2.5, shape = 1, elt_type = 1, device = 1, is_ready = 1, as_array_2x2 = 2,
  upload_1e6_f32 = 300, upload_1e6_f64 = 300, upload_1e7_f32_fresh = 15000, upload_1e7_f64_fresh = 20000,
  alias_1e7_f64 = 5, alias_1e7_i32 = 5, download_1e6_f32 = 500, download_1e6_f64 = 500,
  download_1e7_f32_warm = 16000, download_1e7_f32_fresh = 40000, print_1e6 = 400, format_1e6 = 120000,
  upload_1e7_f32_stays = 42, execute_1000_peak = 1024
)
floor <- floor_of("data_floor")
rival <- rival_of("bench/jax_data.py")
alone <- floor[!names(floor) %in% names(ours)]
report(
  compare(ours, floor, rival, reach, "us"), "",
  "Rust alone, microseconds", utils::capture.output(print(signif(alone, 3))), "",
  "Resident memory", compare(memory, floor, rival, reach, "mb"), "",
  "Time with check = TRUE over time without", utils::capture.output(print(signif(checked, 3)))
)
