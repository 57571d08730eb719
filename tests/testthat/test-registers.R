# The code paths for other vector registers. PJRT_TEST_REGISTERS selects them (see data/src/registers.rs).
# Slow: starts many sessions.

# Sends data of every size class through every conversion, and saves the bytes on the device and the arrays read back.
data_paths <- quote({
  doubles <- c(NA, NaN, Inf, -Inf, 0, -0, 0.5, 2.5, -2.5, 127.9, -129, 255, 65520, 2^31, 2^63, 1e300, 5e-324)
  dtypes <- c(
    "i2", "i4", "i8", "i16", "i32", "i64", "ui2", "ui4", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64",
    "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3", "f8e3m4", "f8e8m0fnu", "f4e2m1fn"
  )
  results <- list()
  for (shape in list(17L, c(3L, 5L), c(67L, 41L), c(7L, 34L, 35L), c(300L, 500L))) {
    x <- array(rep_len(doubles, prod(shape)), shape)
    for (dtype in dtypes) {
      buffer <- suppressWarnings(pjrt_buffer(x, dtype = dtype), classes = "pjrt_warning_na")
      results <- c(results, list(as_raw(buffer, row_major = TRUE), as_array(buffer)))
    }
    flags <- pjrt_buffer(!is.na(x) & x > 0)
    z <- pjrt_buffer(x + 1i * rev(x), dtype = "c64")
    results <- c(results, list(as_raw(flags, row_major = TRUE), as_array(flags), as_array(z)))
  }
  saveRDS(results, Sys.getenv("RESULTS"))
})

test_that("results are the same with every set of vector registers", {
  results <- lapply(c(widest = "", sse2 = "sse2", portable = "none"), function(registers) {
    file <- withr::local_tempfile()
    expect_clean(run_child(data_paths, env = c(PJRT_TEST_REGISTERS = registers, RESULTS = file), timeout = 600))
    readRDS(file)
  })
  expect_length(results$widest, 5L * (2L * 25L + 3L))
  expect_identical(results$sse2, results$widest)
  expect_identical(results$portable, results$widest)
})
