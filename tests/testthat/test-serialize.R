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
  expect_refused(pjrt_serialize(1), "invalid_input", "`x` must be a")
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

test_that("buffers of every type and shape come back from bytes", {
  values <- list(
    pred = c(TRUE, FALSE), i8 = c(1L, -1L), i64 = int64(c(3e9, -1)), ui32 = int64(c(3e9, 1)), f16 = c(1.5, NaN), bf16 = c(1.5, -2),
    f32 = c(1.5, -Inf), f64 = c(1 / 3, NA), c64 = c(1i, 2), i4 = c(-8L, 7L), f8e4m3fn = c(1, -448), f4e2m1fn = c(6, -0.5)
  )
  for (dtype in names(values)) {
    x <- pjrt_buffer(values[[dtype]], dtype)
    y <- pjrt_deserialize(pjrt_serialize(x))
    expect_identical(as.character(elt_type(y)), dtype)
    expect_bits(as_array(y), as_array(x))
  }
  for (x in list(
    pjrt_scalar(2.5, "f64"), pjrt_empty("f32", c(2, 0)), pjrt_buffer(array(1:24, 2:4), "i16"), pjrt_buffer(matrix(1:6 + 0, 2))
  )) {
    y <- pjrt_deserialize(pjrt_serialize(x))
    expect_identical(shape(y), shape(x))
    expect_identical(as_array(y), as_array(x))
  }
  there <- devices("cpu")[[2L]]
  expect_identical(device(pjrt_deserialize(pjrt_serialize(pjrt_scalar(1)), device = there)), there)
  params <- list(a = pjrt_scalar(1), b = list(pjrt_buffer(1:2)))
  expect_identical(as_array(map_tree(map_tree(params, pjrt_serialize), pjrt_deserialize)), as_array(params))
})

test_that("programs of every format come back from bytes", {
  text <- pjrt_program(unary_program("2xf32"))
  bytecode <- pjrt_load_exported(system.file("exported", "network.jaxexport", package = "pjrt"))$program
  for (program in list(text, bytecode)) {
    again <- pjrt_deserialize(pjrt_serialize(program))
    expect_identical(as.character(again), as.character(program))
  }
  double <- pjrt_compile(pjrt_deserialize(pjrt_serialize(text)))
  expect_identical(as_array(pjrt_execute(double, pjrt_buffer(c(1, 2)))), array(c(2, 4)))
})

test_that("damaged bytes of buffers and programs are refused", {
  for (data in list(pjrt_serialize(pjrt_buffer(1:3)), pjrt_serialize(pjrt_program(unary_program("f32"))))) {
    # the first bytes say what it is
    for (i in c(5, 9, 13, 20, 40, 50, 55, length(data))) {
      changed <- data
      changed[i] <- xor(changed[i], as.raw(0x10))
      expect_error(pjrt_deserialize(changed), class = if (i == 9) "pjrt_error_serialized_mismatch" else "pjrt_error_serialized_invalid")
    }
    for (n in c(0, 7, 8, 15, 47, 60, length(data) - 1)) {
      expect_refused(pjrt_deserialize(head(data, n)), "serialized_invalid")
    }
    expect_refused(pjrt_deserialize(c(data, as.raw(0))), "serialized_invalid")
    expect_refused(pjrt_deserialize(data, compile_options = pjrt_compile_options()), "invalid_input", "executables only")
  }
  program <- pjrt_serialize(pjrt_program(unary_program("f32")))
  expect_refused(pjrt_deserialize(program, device = "cpu"), "invalid_input", "`device` is for")
  gone <- pjrt_scalar(1)
  pjrt_delete(gone)
  expect_refused(pjrt_serialize(gone), "deleted_buffer")
  expect_refused(pjrt_serialize(1), "invalid_input", "`x` must be a `PJRTLoadedExecutable`, `PJRTBuffer` or `PJRTProgram`")
})

test_that("a buffer waits for its content before it is serialized", {
  y <- pjrt_execute(compile(loop_program(5e6)), pjrt_scalar(1, "f64"))
  expect_identical(as_array(pjrt_deserialize(pjrt_serialize(y))), 2)
})

test_that("workers get buffers, programs and executables as bytes, and advice for objects sent as they are", {
  cluster <- parallel::makePSOCKcluster(1L)
  withr::defer(parallel::stopCluster(cluster))
  double <- add2()
  sent <- list(x = pjrt_buffer(c(1, 2)), program = pjrt_program(add_program("2xf32")), add = double)
  bytes <- map_tree(sent, pjrt_serialize)
  use <- function(bytes, libraries, plugin) {
    .libPaths(libraries)
    Sys.setenv(PJRT_PLUGIN_PATH_CPU = plugin, PJRT_CACHE = "0", PJRT_CPU_THREADS = "1")
    got <- lapply(bytes, pjrt::pjrt_deserialize)
    compiled <- pjrt::pjrt_compile(got$program)
    pjrt::pjrt_serialize(pjrt::pjrt_execute(got$add, pjrt::pjrt_execute(compiled, got$x, got$x), got$x))
  }
  environment(use) <- globalenv()
  back <- parallel::clusterCall(cluster, use, bytes, .libPaths(), real_plugin())[[1L]]
  expect_identical(as_array(pjrt_deserialize(back)), array(c(3, 6)))
  ask <- function(x) tryCatch(pjrt::as_array(x), error = conditionMessage)
  environment(ask) <- globalenv()
  expect_match(parallel::clusterCall(cluster, ask, sent$x)[[1L]], "use pjrt_serialize() there", fixed = TRUE)
})

test_that("serialization hooks by class, as mirai has them, move buffers, programs and executables", {
  # R calls a hook for each reference object, as mirai does; what it returns must be text, so the bytes go beside it
  stored <- list()
  classes <- c("PJRTBuffer", "PJRTProgram", "PJRTLoadedExecutable")
  put <- function(x) {
    if (inherits(x, classes)) {
      stored <<- c(stored, list(pjrt_serialize(x)))
      as.character(length(stored))
    }
  }
  get <- function(name) pjrt_deserialize(stored[[as.integer(name)]])
  sent <- list(a = pjrt_buffer(c(1, 2)), b = list(pjrt_program(unary_program("2xf32")), add2()), f = local({
    hidden <- pjrt_scalar(5)
    function() as_array(hidden)
  }))
  got <- unserialize(serialize(sent, NULL, refhook = put), refhook = get)
  expect_identical(as_array(got$a), array(c(1, 2)))
  expect_identical(as_array(pjrt_execute(pjrt_compile(got$b[[1L]]), got$a)), array(c(2, 4)))
  expect_identical(as_array(pjrt_execute(got$b[[2L]], got$a, got$a)), array(c(2, 4)))
  expect_identical(got$f(), 5)
})
