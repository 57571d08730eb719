# The measured limits of a device. No test expects a speed.

test_that("limits are measured once for each device and dtype", {
  the <- pjrt:::the
  old <- the$limits
  withr::defer(the$limits <- old)
  the$limits <- list()
  device <- pjrt_device("cpu:0")
  single <- pjrt:::device_limits(device, "f32")
  expect_named(single, c("dtype", "flops", "n", "bandwidth", "array_bytes"))
  expect_true(single$flops > 0 && single$bandwidth > 0)
  expect_gte(single$n, 512)
  expect_identical(pjrt:::device_limits(device, "f32"), single)
  expect_length(the$limits, 1L)
  # the bytes are not measured again
  none <- pjrt:::device_limits(device, NA_character_)
  expect_identical(none$flops, NA_real_)
  expect_identical(none[c("bandwidth", "array_bytes")], single[c("bandwidth", "array_bytes")])
  expect_length(the$limits, 2L)
})

test_that("every float type has a product, and a dtype without one has no limit", {
  device <- pjrt_device("cpu:0")
  for (dtype in c("f64", "bf16", "f16")) {
    expect_true(min(pjrt:::times_product(device, dtype, 64)) > 0, info = dtype)
  }
  expect_null(pjrt:::limit_run(pjrt:::times_product(device, "token", 64)))
  expect_true(all(pjrt:::times_triad(device, 1000) > 0))
})
