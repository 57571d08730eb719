# Slow: compiles and loads damaged executables.

add2 <- function(...) compile(add_program("2xf32"), ...)

test_that("a serialized executable keeps its description", {
  compiled <- compile(add_program("2x2xf32", donates))
  data <- pjrt_serialize(compiled)
  expect_type(data, "raw")
  loaded <- pjrt_deserialize(data)
  expect_identical(class(loaded), "PJRTLoadedExecutable")
  expect_identical(executable_inputs(loaded), executable_inputs(compiled))
  expect_identical(executable_inputs(loaded)$name, c("%x", "%y"))
  expect_identical(executable_inputs(loaded)$donated, c(TRUE, FALSE))
  expect_identical(executable_outputs(loaded), executable_outputs(compiled))
  expect_identical(executable_cost(loaded), executable_cost(compiled))
  expect_identical(executable_memory_stats(loaded), executable_memory_stats(compiled))
  expect_identical(executable_fingerprint(loaded), executable_fingerprint(compiled))
  expect_identical(executable_hlo(loaded), executable_hlo(compiled))
  expect_identical(format(loaded), format(compiled))
  expect_identical(device(loaded), device(compiled))
  x <- pjrt_buffer(matrix(1:4 / 2, 2))
  y <- pjrt_buffer(diag(2))
  expect_identical(as_array(pjrt_execute(loaded, x, y)), matrix(1:4 / 2, 2) + diag(2))
  expect_refused(as_array(x), "deleted_buffer")
  expect_refused(pjrt_execute(loaded, y, pjrt_buffer(1)), "shape_mismatch", "`%y`")
  expect_match(capture.output(print(loaded)), "^  loaded, compiled in [0-9.]+ s$", all = FALSE)
  expect_identical(summary(loaded)$origin$origin, "saved")
  expect_identical(summary(compiled)$origin$origin, "compiled")
  expect_output(print(summary(loaded)), "Origin: +loaded, compiled in")
})

test_that("an executable file can be loaded in another session", {
  path <- withr::local_tempfile(fileext = ".pjrtx")
  expect_identical(expect_invisible(pjrt_save_executable(add2(), path)), path)
  child <- run_child(bquote({
    add <- pjrt_load_executable(.(path))
    cat(as_array(pjrt_execute(add, pjrt_buffer(c(1, 2)), pjrt_buffer(c(3, 4)))), "\n")
    again <- pjrt_deserialize(pjrt_serialize(add))
    cat(as_array(pjrt_execute(again, pjrt_buffer(c(1, 2)), pjrt_buffer(c(3, 4)))), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "1"))
  expect_clean(child, c("4 6 ", "4 6 "))
})

test_that("an executable is loaded to the requested device", {
  data <- pjrt_serialize(add2())
  second <- devices("cpu")[[2L]]
  moved <- list(
    pjrt_deserialize(data, device = "cpu:1"), pjrt_deserialize(data, device = second),
    pjrt_deserialize(data, compile_options = pjrt_compile_options(device_assignment = 1L))
  )
  x <- pjrt_buffer(c(1, 2), device = second)
  for (executable in moved) {
    expect_identical(device(executable), second)
    expect_identical(as_array(pjrt_execute(executable, x, x)), array(c(2, 4)))
  }
  saved <- withr::local_tempfile()
  pjrt_save_executable(moved[[1L]], saved)
  child <- run_child(bquote({
    error <- tryCatch(pjrt_load_executable(.(saved)), error = identity)
    cat(class(error)[[1L]], sub("\n.*", "", conditionMessage(error)), "\n")
    add <- pjrt_load_executable(.(saved), device = "cpu:0")
    cat(as_array(pjrt_execute(add, pjrt_buffer(c(1, 2)), pjrt_buffer(c(3, 4)))), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "1"))
  expect_clean(child, c(
    "pjrt_error_serialized_mismatch The executable was saved for device 1, which does not exist here. ", "4 6 "
  ))
})

test_that("replicated and portable executables survive serialization", {
  two <- pjrt_compile_options(num_replicas = 2L)
  data <- pjrt_serialize(compile(all_reduce_program("2xf32", 2L), two))
  run <- function(sum) {
    inputs <- lapply(0:1, function(i) list(pjrt_buffer(c(1, 2) * (i + 1), device = devices(sum)[[i + 1L]])))
    lapply(pjrt_execute_sharded(sum, inputs), function(out) as_array(if (is.list(out)) out[[1L]] else out))
  }
  expect_identical(run(pjrt_deserialize(data)), list(array(c(3, 6)), array(c(3, 6))))
  turned <- pjrt_deserialize(data, device = c("cpu:1", "cpu:0"))
  expect_identical(devices(turned), rev(devices("cpu")))
  expect_identical(run(turned), list(array(c(3, 6)), array(c(3, 6))))
  expect_refused(pjrt_deserialize(data, device = "cpu:0"), "invalid_input", "2 replica(s)")
  expect_refused(
    pjrt_deserialize(data, compile_options = pjrt_compile_options(1L)), "invalid_input", "options cannot change that"
  )
  expect_identical(run(pjrt_deserialize(data, compile_options = pjrt_compile_options())), run(turned))
  portable <- pjrt_deserialize(pjrt_serialize(add2(pjrt_compile_options(compile_portable_executable = TRUE))))
  for (device in devices("cpu")) {
    x <- pjrt_buffer(c(1, 2), device = device)
    expect_identical(device(pjrt_execute(portable, x, x)), device)
  }
})

test_that("damaged and unrelated data are refused", {
  data <- pjrt_serialize(add2())
  for (bad in list(raw(), as.raw(1:100), data[-1L], data[1:40])) {
    expect_refused(pjrt_deserialize(bad), "serialized_invalid", "The data are not a serialized executable.")
  }
  for (bad in list(utils::head(data, -1L), c(data, as.raw(0)), replace(data, length(data) %/% 2L, as.raw(0)))) {
    if (!identical(bad, data)) expect_refused(pjrt_deserialize(bad), "serialized_invalid", "damaged or incomplete")
  }
  # a length of 4 GB
  expect_refused(pjrt_deserialize(replace(data, 13:16, as.raw(255))), "serialized_invalid", "damaged or incomplete")
  expect_refused(pjrt_deserialize(replace(data, 9L, as.raw(9))), "serialized_mismatch", "format 9")
  expect_refused(pjrt_deserialize("data"), "invalid_input", "`data` must be a raw vector")
  expect_refused(pjrt_serialize(1), "invalid_input", "`executable`")
})

test_that("flipping any byte never ends the session", {
  path <- withr::local_tempfile()
  pjrt_save_executable(add2(), path)
  child <- run_child(bquote({
    data <- readBin(.(path), "raw", file.size(.(path)))
    refused <- vapply(seq(1, length(data), by = 50), function(i) {
      data[i] <- xor(data[i], as.raw(255))
      inherits(tryCatch(pjrt_deserialize(data), error = identity), "pjrt_error")
    }, NA)
    cat(all(refused), "\n")
  }))
  expect_clean(child, "TRUE ")
})

test_that("missing files and invalid arguments are refused", {
  expect_refused(pjrt_load_executable("no/such/file"), "io", "no/such/file")
  expect_refused(pjrt_save_executable(add2(), "no/such/folder/file"), "io", "no/such/folder/file")
  expect_refused(pjrt_save_executable(add2(), 1), "invalid_input", "`path`")
  if (.Platform$OS.type == "unix") {
    pipe <- withr::local_tempfile()
    system2("mkfifo", pipe)
    expect_refused(pjrt_save_executable(add2(), pipe), "io", "it is not a file")
  }
  data <- pjrt_serialize(add2())
  expect_refused(pjrt_deserialize(data, compile_options = list()), "invalid_input", "`compile_options`")
  assigned <- pjrt_compile_options(device_assignment = 0L)
  expect_refused(pjrt_deserialize(data, "cpu:0", assigned), "invalid_input", "`device_assignment`")
  expect_refused(pjrt_deserialize(data, device = "cpu:7"), "invalid_input", "out of range")
})

test_that("loading with another build of the plugin raises an error that says so", {
  path <- withr::local_tempfile()
  pjrt_save_executable(add2(), path)
  other <- withr::local_tempfile(fileext = ".so")
  # the same code in a different file
  file.copy(real_plugin(), other)
  cat("x", file = other, append = TRUE)
  child <- run_child(bquote({
    error <- tryCatch(pjrt_load_executable(.(path)), error = identity)
    cat(class(error)[[1L]], "\n")
    cat(conditionMessage(error), "\n")
  }), c(PJRT_PLUGIN_PATH_CPU = other))
  expect_identical(child$status, 0L)
  expect_identical(child$out[[1L]], "pjrt_error_serialized_mismatch ")
  expect_match(child$out[[2L]], "saved for another environment")
  expect_match(child$out[[3L]], "^i plugin: made by another build, of SHA-256 [0-9a-f]{12}..., this is [0-9a-f]{12}...")
})
