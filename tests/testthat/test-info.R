test_that("client information prints one fact per line", {
  info <- client_info(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 4L)))
  # versions depend on the plugin
  info$api_version <- "0.81"
  info$attributes <- list(xla_version = 2L, stablehlo_current_version = c(1L, 13L, 3L))
  expect_snapshot(info, cran = TRUE)
  utils::capture.output(expect_invisible(print(info)))
})
