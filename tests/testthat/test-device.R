test_that("a platform's devices are listed in order", {
  found <- devices("cpu")
  expect_type(found, "list")
  expect_identical(vapply(found, as.character, ""), c("CpuDevice(id=0)", "CpuDevice(id=1)"))
  for (device in found) expect_identical(class(device), "PJRTDevice")
  expect_identical(devices(), found)
  expect_identical(devices(NULL), found)
  expect_identical(devices(pjrt_client("cpu")), found)
  expect_refused(devices(1), "invalid_input", "Must be a PJRTClient or a platform name")
})

test_that("each device is always the same R object", {
  first <- pjrt_device("cpu:0")
  expect_identical(pjrt_device("cpu:0"), first)
  expect_identical(pjrt_device("cpu"), first)
  expect_identical(devices("cpu")[[1L]], first)
  expect_identical(device(pjrt_scalar(1)), first)
  expect_identical(device(compile(unary_program("f32"))), first)
  gc()
  expect_identical(pjrt_device("cpu:0"), first)
  second <- devices("cpu")[[2L]]
  expect_false(identical(first, second))
  expect_identical(device(pjrt_scalar(1, device = "cpu:1")), second)
  # identical() compares the addresses of external pointers
  expect_identical(typeof(first), "externalptr")
})

test_that("a device can be a key of a hash table", {
  skip_if_not(exists("hashtab", asNamespace("utils")), "this R has no utils::hashtab()")
  table <- utils::hashtab("identical")
  utils::sethash(table, pjrt_device("cpu:0"), "first")
  utils::sethash(table, pjrt_device("cpu:1"), "second")
  expect_identical(utils::gethash(table, device(pjrt_scalar(1))), "first")
  expect_identical(utils::gethash(table, devices("cpu")[[2L]]), "second")
})

test_that("as_pjrt_device() accepts platforms, indexes, clients and devices", {
  found <- devices("cpu")
  expect_identical(as_pjrt_device(found[[2L]]), found[[2L]])
  expect_identical(pjrt_device(found[[2L]]), found[[2L]])
  expect_identical(as_pjrt_device("cpu"), found[[1L]])
  expect_identical(as_pjrt_device("cpu:1"), found[[2L]])
  expect_identical(as_pjrt_device(NULL), found[[1L]])
  expect_identical(as_pjrt_device(pjrt_client("cpu")), found[[1L]])
})

test_that("PJRT_PLATFORM sets the default device", {
  withr::local_envvar(PJRT_PLATFORM = "cpu")
  expect_identical(as_pjrt_device(NULL), devices("cpu")[[1L]])
  withr::local_envvar(PJRT_PLATFORM = "abc")
  expect_refused(as_pjrt_device(NULL), "plugin_not_found", "Invalid platform 'abc'")
})

test_that("a value that does not name a device is refused", {
  for (bad in list("cpu:-1", "cpu:", "cpu:x", "cpu:1.5", "cpu: 1", ":0", "cpu:0:1", "cpu:99999999999")) {
    expect_refused(as_pjrt_device(bad), "invalid_input", "is not a device's name")
  }
  message <- "Must be a PJRTDevice, a PJRTClient, a platform name, or NULL"
  for (bad in list(1, "", NA_character_, c("cpu", "cpu"), TRUE, list(), "cpu:\xff")) {
    expect_refused(as_pjrt_device(bad), "invalid_input", message)
  }
  for (bad in list(1, NULL, pjrt_client("cpu"))) {
    expect_refused(pjrt_device(bad), "invalid_input", "Must be a PJRTDevice or a platform name")
  }
  expect_refused(as_pjrt_device(strrep("a", 1e5)), "invalid_input", "must be the name of a platform")
  expect_refused(pjrt_client("\xff"), "invalid_input", "must be the name of a platform")
  expect_refused(as_pjrt_device("cpu:99"), "invalid_input", "Device index 99 out of range for platform cpu")
  expect_refused(as_pjrt_device("cpu:2"), "invalid_input", "Device index 2 out of range for platform cpu")
})

test_that("== compares devices and returns FALSE for other objects", {
  first <- pjrt_device("cpu:0")
  second <- pjrt_device("cpu:1")
  expect_true(first == first)
  expect_true(first == device(pjrt_scalar(1)))
  expect_false(first == second)
  expect_false(first != first)
  expect_true(first != second)
  expect_false(first == "CpuDevice(id=0)")
  expect_false("cpu" == first)
  expect_false(first == 1L)
  expect_true(first != "cpu")
})

test_that("devices of two clients are equal if their names are", {
  other <- devices(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 1L)))[[1L]]
  expect_false(identical(other, pjrt_device("cpu:0")))
  expect_true(other == pjrt_device("cpu:0"))
})

test_that("a device prints its name", {
  first <- pjrt_device("cpu:0")
  expect_identical(as.character(first), "CpuDevice(id=0)")
  expect_identical(format(first), "CpuDevice(id=0)")
  expect_identical(platform(first), "cpu")
  expect_snapshot(first, cran = TRUE)
  utils::capture.output(expect_invisible(print(first)))
})

test_that("devices() returns the devices that an executable was compiled for", {
  second <- devices("cpu")[[2L]]
  executable <- compile(unary_program("f32"), device = second)
  expect_identical(device(executable), second)
  expect_identical(devices(executable), list(second))
})

test_that("device() refuses objects without a device", {
  expect_refused(device(1), "invalid_input", "`x` must be a")
  expect_refused(platform(1), "invalid_input", "`x` must be a")
})

test_that("a client has the requested number of devices, all addressable", {
  for (n in c(1L, 2L, 4L)) {
    client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = n))
    found <- devices(client)
    expect_length(found, n)
    expect_identical(devices(client, addressable = FALSE), found)
    expect_identical(devices(client), found)
    expect_identical(length(unique(lapply(found, as.character))), n)
  }
  expect_identical(devices("cpu", addressable = FALSE), devices("cpu"))
  expect_identical(devices(addressable = TRUE), devices("cpu"))
  for (bad in list(NA, 1, "a", NULL, c(TRUE, TRUE))) {
    expect_refused(devices("cpu", addressable = bad), "invalid_input", "`addressable` must be TRUE or FALSE")
  }
})

test_that("device_info() describes a device", {
  for (n in c(1L, 2L, 4L)) {
    client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = n))
    for (i in seq_len(n)) {
      device <- devices(client)[[i]]
      info <- device_info(device)
      expect_s3_class(info, "PJRTDeviceInfo")
      expect_identical(info$platform, "cpu")
      expect_identical(info$id, i - 1L)
      expect_identical(info$local_hardware_id, i - 1L)
      expect_identical(info$process_index, 0L)
      expect_true(info$addressable)
      expect_identical(info$label, as.character(device))
      expect_match(info$debug, "CPU|^cpu:")
      expect_identical(info$kind, "cpu")
      expect_identical(info$default_memory_space, device_info(device)$default_memory_space)
      expect_identical(info$memory_spaces, memory_spaces(device))
      expect_type(info$attributes, "list")
    }
  }
  expect_identical(device_info("cpu:1"), device_info(devices("cpu")[[2L]]))
  expect_identical(device_info(), device_info("cpu:0"))
  expect_snapshot(device_info("cpu:1"), cran = TRUE, transform = old_labels)
  expect_refused(device_info(1), "invalid_input", "Must be a PJRTDevice")
})
