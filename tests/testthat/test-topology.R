test_that("topology() describes the system of a client", {
  seen <- list()
  for (n in c(1L, 2L, 4L)) {
    client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = n))
    found <- topology(client)
    expect_s3_class(found, "PJRTTopology")
    expect_identical(found$platform, "cpu")
    expect_identical(found$platform_version, platform_version(client))
    expect_length(found$devices, n)
    for (i in seq_len(n)) {
      facts <- c("id", "kind", "label", "debug", "process_index", "attributes")
      expect_identical(unclass(found$devices[[i]])[facts], unclass(device_info(devices(client)[[i]]))[facts])
    }
    expect_type(found$serialized, "raw")
    expect_identical(topology(client), found)
    seen <- c(seen, list(found$serialized))
  }
  expect_length(unique(seen), 3L)
  expect_identical(topology(), topology("cpu"))
  expect_refused(topology(1), "invalid_input", "Must be a PJRTClient or a platform name")
})

test_that("a topology and its devices print one fact per line", {
  found <- topology(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 12L)))
  found$serialized <- raw(1000)
  expect_snapshot(found, cran = TRUE)
  expect_snapshot(found$devices[[12L]], cran = TRUE)
})
