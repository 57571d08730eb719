test_that("a platform has one client", {
  client <- pjrt_client("cpu")
  expect_identical(class(client), "PJRTClient")
  expect_identical(typeof(client), "externalptr")
  expect_identical(pjrt_client("cpu"), client)
  expect_identical(plugin_client_create(pjrt_plugin("cpu"), "cpu"), client)
  expect_identical(the$clients[["cpu"]], client)
})

test_that("the default platform is PJRT_PLATFORM, or cpu", {
  withr::local_envvar(PJRT_PLATFORM = NA)
  expect_identical(pjrt_client(), pjrt_client("cpu"))
  expect_identical(as_pjrt_client(NULL), pjrt_client("cpu"))
  withr::local_envvar(PJRT_PLATFORM = "abc")
  expect_refused(pjrt_client(), "plugin_not_found", "Invalid platform 'abc'")
  expect_refused(pjrt_scalar(1), "plugin_not_found", "Invalid platform 'abc'")
})

test_that("as_pjrt_client() accepts only clients and platform names", {
  client <- pjrt_client("cpu")
  expect_identical(as_pjrt_client(client), client)
  expect_identical(as_pjrt_client("cpu"), client)
  for (bad in list(1, "", NA_character_, c("cpu", "cpu"), TRUE, list(), pjrt_device("cpu:0"))) {
    expect_refused(as_pjrt_client(bad), "invalid_input", "Must be a PJRTClient or a platform name")
  }
})

test_that("a client prints its platform", {
  client <- pjrt_client("cpu")
  expect_identical(platform(client), "cpu")
  expect_identical(as.character(client), "cpu")
  expect_identical(format(client), "cpu")
  expect_snapshot(client, cran = TRUE)
  utils::capture.output(expect_invisible(print(client)))
})

test_that("client options are accepted only by the first call for a platform", {
  pjrt_client("cpu")
  message <- "Can only specify client options the first time you create a client."
  expect_refused(pjrt_client("cpu", cpu_device_count = 3L), "invalid_input", message)
  expect_refused(plugin_client_create(pjrt_plugin("cpu"), "cpu", list(cpu_device_count = 3L)), "invalid_input", message)
  # what would be wrong the first time is said at once
  expect_refused(pjrt_client("cpu", devices = 3L), "invalid_input", "A cpu client has no option `devices`.")
})

test_that("options of the wrong type are refused and create no client", {
  create <- function(...) plugin_client_create(pjrt_plugin("cpu"), "unused", list(...))
  withr::defer(suppressWarnings(rm("unused", envir = the$clients)))
  for (bad in list("1", 1:2, integer(), NA_integer_, 1.5, TRUE, NULL, Inf, 2^60)) {
    expect_refused(create(cpu_device_count = bad), "invalid_input", "Client options must be integers of length 1")
  }
  expect_refused(create(1L), "invalid_input", "Client options must have unique names")
  expect_null(the$clients[["unused"]])
})

test_that("an invalid number of devices is refused", {
  for (bad in c(0, -1, 100000, 2^40)) {
    expect_refused(new_client(pjrt_plugin("cpu"), list(cpu_device_count = bad)), "invalid_input", "cpu_device_count")
  }
})

test_that("a plugin can have a second client beside the first", {
  plugin <- load_plugin(plugin_path("cpu"), "cpu")
  client <- new_client(plugin, list(cpu_device_count = 3L))
  expect_s3_class(client, "PJRTClient")
  expect_false(identical(client, pjrt_client("cpu")))
  expect_length(devices(client), 3L)
  expect_length(devices("cpu"), 2L)
  x <- pjrt_buffer(c(1, 2), device = devices(client)[[3L]])
  expect_identical(device(x), devices(client)[[3L]])
  add <- compile(add_program("2xf32"), device = devices(client)[[3L]])
  expect_equal(as_array(pjrt_execute(add, x, x)), array(c(2, 4)))
})

test_that("a client under another name has the defaults of its plugin", {
  client <- plugin_client_create(pjrt_plugin("cpu"), "beside")
  withr::defer(close(client))
  expect_length(devices(client), as.integer(Sys.getenv("PJRT_CPU_DEVICE_COUNT")))
})

test_that("a second client does not replace the first one's devices", {
  first <- devices("cpu")
  pjrt_client("cpu")
  second <- plugin_client_create(pjrt_plugin("cpu"), "second", list(cpu_device_count = 4L))
  withr::defer({
    rm("second", envir = the$clients)
    rm("CpuDevice(id=2)", "CpuDevice(id=3)", envir = the$platforms)
    rm("CpuDevice(id=2)", "CpuDevice(id=3)", envir = the$canonical_devices)
  })
  expect_identical(the$canonical_devices[["CpuDevice(id=0)"]], first[[1L]])
  expect_identical(the$canonical_devices[["CpuDevice(id=1)"]], first[[2L]])
  expect_identical(the$canonical_devices[["CpuDevice(id=3)"]], devices(second)[[4L]])
  expect_identical(the$platforms[["CpuDevice(id=0)"]], "cpu")
  expect_identical(the$platforms[["CpuDevice(id=3)"]], "second")
  expect_identical(the$devices[["second"]], devices(second))
})

test_that("client_info() describes a client", {
  for (n in c(1L, 2L, 4L)) {
    client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = n))
    info <- client_info(client)
    expect_s3_class(info, "PJRTClientInfo")
    expect_identical(info$platform, "cpu")
    expect_identical(info$platform_version, client_info(client)$platform_version)
    expect_identical(info$api_version, paste(plugin_info("cpu")$api_version, collapse = "."))
    expect_identical(info$process_index, 0L)
    expect_identical(info$devices, devices(client))
    expect_identical(info$devices_in_all, n)
    expect_identical(info$memory_spaces, memory_spaces(client))
    expect_identical(info$attributes, plugin_attributes("cpu"))
  }
  expect_identical(client_info(), client_info("cpu"))
  expect_identical(client_info()$platform_version, "cpu")
  expect_refused(client_info(1), "invalid_input", "Must be a PJRTClient or a platform name")
  expect_refused(client_info(1)$platform_version, "invalid_input", "Must be a PJRTClient or a platform name")
})

test_that("a client runs MLIR and HLO programs", {
  square <- pjrt_compile(pjrt_program(path = fixture("square.hlo.pb"), format = "hlo"))
  expect_identical(as_array(pjrt_execute(square, pjrt_scalar(3))), 9)
  double <- compile(unary_program("f32"))
  expect_identical(as_array(pjrt_execute(double, pjrt_scalar(3))), 6)
})

test_that("a dense layer computes its output from an image", {
  layer <- compile("func.func @main(%image: tensor<28x28xf32>, %weights: tensor<784x10xf32>) -> tensor<1x10xf32> {
    %0 = stablehlo.reshape %image : (tensor<28x28xf32>) -> tensor<1x784xf32>
    %1 = stablehlo.dot_general %0, %weights, contracting_dims = [1] x [0]
      : (tensor<1x784xf32>, tensor<784x10xf32>) -> tensor<1x10xf32>
    return %1 : tensor<1x10xf32>
  }")
  image <- matrix(as.double(1:784), 28)
  zeros <- pjrt_execute(layer, pjrt_buffer(image), pjrt_buffer(matrix(0, 784, 10)))
  expect_identical(as_array(zeros), matrix(0, 1, 10))
  weights <- matrix(c(1, rep(0, 783)), 784, 10) + matrix(c(0, 1, rep(0, 782)), 784, 10) * 1000
  picked <- pjrt_execute(layer, pjrt_buffer(image), pjrt_buffer(weights))
  expect_identical(as_array(picked), matrix(image[1, 1] + 1000 * image[1, 2], 1, 10))
})
