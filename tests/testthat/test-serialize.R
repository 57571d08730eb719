# Slow: compiles and loads damaged executables.

add2 <- function(...) compile(add_program("2xf32"), ...)

test_that("a serialized executable keeps its description", {
  compiled <- compile(add_program("2x2xf32", donates))
  data <- pjrt_serialize(compiled)
  expect_type(data, "raw")
  loaded <- pjrt_deserialize(data)
  expect_identical(class(loaded), "PJRTLoadedExecutable")
  expect_identical(executable_info(loaded)$inputs, executable_info(compiled)$inputs)
  expect_identical(executable_info(loaded)$inputs$name, c("%x", "%y"))
  expect_identical(executable_info(loaded)$inputs$donated, c(TRUE, FALSE))
  expect_identical(executable_info(loaded)$outputs, executable_info(compiled)$outputs)
  expect_identical(executable_cost(loaded), executable_cost(compiled))
  expect_identical(executable_info(loaded)$memory, executable_info(compiled)$memory)
  expect_identical(executable_info(loaded)$fingerprint, executable_info(compiled)$fingerprint)
  expect_identical(inspect_hlo(loaded)$after_optimizations, inspect_hlo(compiled)$after_optimizations)
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
  expect_refused(pjrt_deserialize(data, device = "cpu:0"), "invalid_input", "2 replicas")
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
    pred = c(TRUE, FALSE), i8 = c(1L, -1L), i64 = int64(c(3e9, -1)), ui32 = int64(c(3e9, 1)), f16 = c(1.5, NaN),
    bf16 = c(1.5, -2),
    f32 = c(1.5, -Inf), f64 = c(1 / 3, NA), c64 = c(1i, 2), i4 = c(-8L, 7L), f8e4m3fn = c(1, -448),
    f4e2m1fn = c(6, -0.5)
  )
  for (dtype in names(values)) {
    x <- pjrt_buffer(values[[dtype]], dtype)
    y <- pjrt_deserialize(pjrt_serialize(x))
    expect_identical(as.character(elt_type(y)), dtype)
    expect_bits(as_array(y), as_array(x))
  }
  for (x in list(
    pjrt_scalar(2.5, "f64"), pjrt_empty("f32", c(2, 0)), pjrt_buffer(array(1:24, 2:4), "i16"),
    pjrt_buffer(matrix(1:6 + 0, 2))
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
      expect_error(
        pjrt_deserialize(changed),
        class = if (i == 9) "pjrt_error_serialized_mismatch" else "pjrt_error_serialized_invalid"
      )
    }
    for (n in c(0, 7, 8, 15, 47, 60, length(data) - 1)) {
      expect_refused(pjrt_deserialize(head(data, n)), "serialized_invalid")
    }
    expect_refused(pjrt_deserialize(c(data, as.raw(0))), "serialized_invalid")
    expect_refused(
      pjrt_deserialize(data, compile_options = pjrt_compile_options()), "invalid_input", "executables only"
    )
  }
  program <- pjrt_serialize(pjrt_program(unary_program("f32")))
  expect_refused(pjrt_deserialize(program, device = "cpu"), "invalid_input", "`device` is for")
  gone <- pjrt_scalar(1)
  pjrt_delete(gone)
  expect_refused(pjrt_serialize(gone), "deleted_buffer")
  expect_refused(
    pjrt_serialize(1), "invalid_input", "`x` must be a `PJRTLoadedExecutable`, `PJRTBuffer` or `PJRTProgram`"
  )
})

test_that("a buffer waits for its content before it is serialized", {
  y <- pjrt_execute(compile(loop_program(5e6)), pjrt_scalar(1, "f64"))
  expect_identical(as_array(pjrt_deserialize(pjrt_serialize(y))), 2)
})

test_that("workers get buffers, programs and executables as bytes", {
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

# A copy of R objects in the way that they come to another session.
sent <- function(x, ...) unserialize(serialize(x, NULL, ...))

test_that("R's own serialization keeps buffers, programs and executables wherever they are", {
  x <- pjrt_buffer(matrix(c(1, 2, 3, 4), 2), "bf16")
  program <- pjrt_program(unary_program("2xf32"))
  add <- add2()
  hidden <- pjrt_scalar(5)
  path <- withr::local_tempfile()
  saveRDS(
    list(x = x, nested = list(program, list(add, x)), f = function() as_array(hidden), env = list2env(list(x = x))),
    path
  )
  got <- readRDS(path)
  expect_identical(as_array(got$x), as_array(x))
  expect_identical(elt_type(got$x), elt_type(x))
  expect_identical(device(got$x), device(x))
  # one object stays one
  expect_true(identical(got$x, got$nested[[2]][[2]]) && identical(got$x, got$env$x))
  expect_identical(as_array(got$env$x), as_array(x))
  expect_identical(format(got$nested[[1]]), format(program))
  y <- pjrt_buffer(c(1, 2))
  expect_identical(as_array(pjrt_execute(pjrt_compile(got$nested[[1]]), y)), array(c(2, 4)))
  expect_identical(as_array(pjrt_execute(got$nested[[2]][[1]], y, y)), array(c(2, 4)))
  expect_identical(got$f(), 5)
  save(x, add, file = path)
  env <- new.env()
  load(path, env)
  expect_identical(as_array(env$x), as_array(x))
  expect_identical(executable_info(env$add)$inputs, executable_info(add)$inputs)
  # before its first use, an object can be sent on
  expect_identical(as_array(sent(sent(x))), as_array(x))
  for (ascii in c(TRUE, NA)) expect_identical(as_array(sent(x, ascii = ascii)), as_array(x))
  expect_identical(as_array(unserialize(serialize(x, NULL, xdr = FALSE))), as_array(x))
})

test_that("every dtype, shape and memory comes back, and R's collector sees to it", {
  objects <- lapply(names(mlir_types), function(dtype) pjrt_empty(dtype, c(2, 3)))
  objects <- c(objects, list(
    pjrt_scalar(1), pjrt_empty("f32", c(0, 3)), pjrt_buffer(runif(1e5), "f64"), pjrt_buffer(c(TRUE, FALSE)),
    pjrt_buffer(1:2, device = devices("cpu")[[1L]])
  ))
  got <- sent(objects)
  for (i in seq_along(objects)) {
    expect_identical(format(got[[i]]), format(objects[[i]]))
    expect_identical(as_raw(got[[i]], TRUE), as_raw(objects[[i]], TRUE), info = format(objects[[i]]))
  }
  count <- function() {
    # R frees buffers in groups
    for (i in 1:2) gc()
    pjrt_memory_stats()$objects[["PJRTBuffer"]]
  }
  before <- count()
  for (i in 1:20) lapply(sent(objects), as_raw, TRUE)
  expect_lt(count() - before, 10 * length(objects))
})

test_that("any function can be the first to use an object", {
  x <- pjrt_buffer(c(1, 2))
  add <- add2()
  path <- withr::local_tempfile(fileext = ".safetensors")
  uses <- list(
    as_array, as_raw = function(x) as_raw(x, TRUE), shape, elt_type, device, format, await, is_ready, is_deleted,
    platform,
    function(x) capture.output(print(x)), function(x) capture.output(str(x)), function(x) as_array(x + 1),
    function(x) as_array(1 + x),
    function(x) as_array(x * x), function(x) as_array(-x), function(x) x[2], length, dim, summary, as.vector, identity,
    function(x) value(as_array_async(x)), function(x) as_array(pjrt_execute(add, x, x)),
    function(x) as_array(copy_buffer(x, "cpu:0")),
    function(x) as_array(pjrt_execute(add, `%y` = x, `%x` = x)), function(x) pjrt_serialize(x),
    function(x) as_array(sum(x)),
    function(x) pjrt_save_safetensors(list(x = x), path), function(x) as_array(pjrt_function(add)(x, x)), format_buffer,
    function(x) as_array(pjrt_execute_sharded(add, list(list(x, x)))[[1]])
  )
  plain <- function(result) if (inherits(result, "PJRTBuffer")) as_array(result) else result
  for (use in uses) expect_identical(plain(use(sent(x))), plain(use(x)), info = deparse(use))
  program <- pjrt_program(unary_program("2xf32"))
  uses <- list(format, function(p) format(pjrt_compile(p)), function(p) capture.output(print(p)), pjrt_serialize)
  for (use in uses) expect_identical(use(sent(program)), use(program), info = deparse(use))
  uses <- list(
    format, function(e) executable_info(e)[c("inputs", "outputs", "fingerprint")], executable_cost, device,
    function(e) as_array(pjrt_execute(e, x, x)), function(e) as_array(pjrt_function(e)(x, x))
  )
  for (use in uses) expect_identical(use(sent(add)), use(add), info = deparse(use))
  # also one that a fast path answers
  expect_identical(attributes(sent(x)), attributes(x))
  own <- structure(pjrt_buffer(1), class = c("own", "PJRTBuffer"))
  got <- sent(own)
  expect_identical(as_array(got), array(1))
  expect_s3_class(got, c("own", "PJRTBuffer"), exact = TRUE)
  y <- sent(x)
  pjrt_delete(y)
  expect_true(is_deleted(y))
  expect_refused(as_array(y), "invalid_pointer", "null pointer")
  # a weight of the memory moves with a donated input
  large <- sent(pjrt_buffer(runif(1e6)))
  donating <- compile("func.func @main(%x: tensor<1000000xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1000000xf32> {
    %0 = stablehlo.add %x, %x : tensor<1000000xf32>
    return %0 : tensor<1000000xf32>
  }")
  expect_identical(shape(pjrt_execute(donating, large)), 1000000L)
  expect_refused(as_array(large), "deleted_buffer")
})

test_that("R can write every object, and its reader says what became of it", {
  lost <- function(x, why, ...) {
    got <- sent(x)
    expect_identical(
      format(got),
      sub(
        "^<?", if (inherits(x, "PJRTLoadedExecutable")) "" else "<",
        sprintf("%s of another session%s", class(x)[[1]], if (inherits(x, "PJRTLoadedExecutable")) "" else ">")
      )
    )
    if (inherits(x, "PJRTBuffer")) expect_true(is_deleted(got))
    use <- list(
      PJRTBuffer = as_array, PJRTProgram = pjrt_compile, PJRTLoadedExecutable = executable_info
    )[[class(x)[[1]]]]
    expect_refused(use(got), "invalid_pointer", why)
    expect_refused(use(sent(got)), "invalid_pointer", why)
  }
  x <- pjrt_buffer(c(1, 2))
  program <- pjrt_program(unary_program("2xf32"))
  deleted <- pjrt_buffer(1)
  pjrt_delete(deleted)
  lost(deleted, "deleted or donated buffer f32[1]")
  donated <- pjrt_buffer(c(1, 2))
  pjrt_execute(compile(add_program("2xf32", donates)), donated, x)
  lost(donated, "donated buffer f32[2]")
  client <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 1L))
  gone <- pjrt_buffer(1, device = devices(client)[[1L]])
  close(client)
  lost(gone, "closed")
  withr::local_options(pjrt.serialize = FALSE)
  for (object in list(x, program, add2())) lost(object, "options(pjrt.serialize = FALSE) was set.")
  withr::local_options(pjrt.serialize = 8)
  expect_identical(as_array(sent(x)), array(c(1, 2)))
  expect_identical(format(sent(program)), format(program))
  lost(pjrt_buffer(c(1, 2, 3)), "options(pjrt.serialize = 8) was set.")
  withr::local_options(pjrt.serialize = "8B")
  expect_identical(as_array(sent(x)), array(c(1, 2)))
  lost(pjrt_buffer(c(1, 2, 3)), "options(pjrt.serialize = \"8B\") was set.")
  # a wrong setting loses nothing, even if its warning is an error
  for (bad in list("a", NA, -1, c(1, 2), list())) {
    withr::local_options(pjrt.serialize = bad)
    expect_warning(got <- sent(x), "with their content, since .* must be TRUE, FALSE, a number of bytes, or a size")
    expect_identical(as_array(got), array(c(1, 2)))
    withr::with_options(list(warn = 2), expect_identical(as_array(sent(x)), array(c(1, 2))))
  }
  withr::local_options(pjrt.serialize = NULL)
  # a wrong setting of the cache loses nothing
  add <- add2()
  withr::with_options(list(pjrt.cache = TRUE, pjrt.cache_max_size = "a"), expect_no_warning(got <- sent(list(x, add))))
  for (object in got) expect_no_match(format(object), "of another session")
  # an error that nobody expects: the file of a mapped buffer has changed
  path <- withr::local_tempfile()
  writeBin(runif(1e4), path)
  mapped <- pjrt_map_file(path, "f64", NA)
  file.create(path)
  expect_warning(got <- sent(mapped), "A `PJRTBuffer` is saved without its content: .*has changed|was changed")
  expect_refused(as_array(got), "invalid_pointer", "without its content")
  # the old format has no place for it
  expect_refused(as_array(sent(x, version = 2)), "invalid_pointer", "was saved without its content")
})

test_that("damaged and foreign content is refused at the first use", {
  x <- pjrt_buffer(c(1, 2))
  stream <- serialize(x, NULL)
  bytes <- pjrt_serialize(x)
  content <- regexpr(
    rawToChar(bytes[2:8]), suppressWarnings(rawToChar(replace(stream, stream == 0 | stream > 127, as.raw(1)))),
    fixed = TRUE
  ) - 1L
  for (at in content + c(0L, 9L, 20L, length(bytes) - 1L)) {
    changed <- stream
    changed[at] <- xor(changed[at], as.raw(1))
    got <- unserialize(changed)
    expect_error(as_array(got), class = "pjrt_error")
    expect_identical(format(got), "<PJRTBuffer of another session>")
    expect_error(as_array(got), class = "pjrt_error")
  }
  # a pointer whose content is of another kind
  of_class <- function(x, class) structure(sent(x), class = class)
  expect_refused(as_array(of_class(pjrt_program("module {}"), "PJRTBuffer")), "serialized_invalid", "damaged")
  expect_refused(pjrt_compile(of_class(x, "PJRTProgram")), "serialized_invalid", "damaged")
  expect_refused(pjrt_execute(of_class(x, "PJRTLoadedExecutable")), "serialized_invalid", "damaged")
  # a class without content
  expect_refused(pjrt_buffer(1, device = of_class(x, "PJRTDevice")), "serialized_invalid", "damaged")
})

test_that("a buffer goes to the device of its name, to its platform, or to the default device", {
  path <- withr::local_tempfile()
  there <- devices("cpu")[[2L]]
  add <- pjrt_compile(pjrt_program(unary_program("f32")), device = there)
  elsewhere <- rawToChar(serialize(pjrt_buffer(1, device = there), NULL, ascii = TRUE))
  elsewhere <- charToRaw(sub("cpu:1", "gpu:7", elsewhere, fixed = TRUE))
  saveRDS(list(x = pjrt_buffer(1, device = there), add = add, elsewhere = elsewhere), path)
  expect_identical(device(readRDS(path)$x), there)
  child <- run_child(bquote({
    got <- readRDS(.(path))
    print(device(got$x))
    print(device(unserialize(got$elsewhere)))
    cat(tryCatch(format(pjrt_execute(got$add, got$x)), error = function(e) class(e)[[1L]]), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "1", PJRT_INSTALL = "0"))
  expect_clean(child, c("<CpuDevice(id=0)>", "<CpuDevice(id=0)>", "pjrt_error_serialized_mismatch "))
})

test_that("a session without the package reads the rest", {
  path <- withr::local_tempfile()
  saveRDS(list(pjrt_buffer(1), "kept"), path)
  libraries <- Filter(function(library) !dir.exists(file.path(library, "pjrt")), .libPaths())
  out <- callr::r(function(path) {
    x <- suppressWarnings(readRDS(path))
    c(typeof(x[[1]]), x[[2]], isNamespaceLoaded("pjrt"))
  }, list(path), libpath = libraries, env = c(callr::rcmd_safe_env(), R_LIBS = "", R_LIBS_USER = "", R_LIBS_SITE = ""))
  expect_identical(out, c("externalptr", "kept", "FALSE"))
})

# Settings for workers that test packages start.
worker_env <- function() c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CACHE = "0", PJRT_CPU_THREADS = "1")

test_that("clusters of package parallel exchange objects as they are", {
  withr::local_envvar(worker_env())
  cluster <- parallel::makePSOCKcluster(2L)
  withr::defer(parallel::stopCluster(cluster))
  parallel::clusterCall(cluster, .libPaths, .libPaths())
  x <- pjrt_buffer(c(1, 2))
  add <- add2()
  program <- pjrt_program(unary_program("2xf32"))
  use <- function(i, x, add, program) {
    double <- pjrt::pjrt_compile(program)
    list(y = pjrt::pjrt_execute(add, pjrt::pjrt_execute(double, x), x), program = program, add = add)
  }
  environment(use) <- globalenv()
  got <- parallel::clusterApply(cluster, 1:4, use, x, add, program)
  for (each in got) {
    expect_identical(as_array(each$y), array(c(3, 6)))
    expect_identical(format(each$program), format(program))
    expect_identical(as_array(pjrt_execute(each$add, x, x)), array(c(2, 4)))
  }
  parallel::clusterExport(cluster, c("x", "add"), environment())
  got <- parallel::clusterEvalQ(cluster, pjrt::as_array(pjrt::pjrt_execute(add, x, x)))
  expect_identical(got, list(array(c(2, 4)), array(c(2, 4))))
  # in the environment of a function
  twice <- local({
    weights <- pjrt_buffer(c(5, 6))
    function(i) pjrt::as_array(weights)[i]
  })
  expect_identical(parallel::parSapply(cluster, 1:2, twice), c(5, 6))
})

test_that("callr and future exchange objects as they are", {
  withr::local_envvar(worker_env())
  x <- pjrt_buffer(c(1, 2))
  program <- pjrt_program(unary_program("2xf32"))
  y <- callr::r(function(x, program) pjrt::pjrt_execute(pjrt::pjrt_compile(program), x), list(x, program))
  expect_identical(as_array(y), array(c(2, 4)))
  skip_if_not_installed("future")
  old <- future::plan(future::multisession, workers = 2L)
  withr::defer(future::plan(old))
  f <- future::future(pjrt::pjrt_execute(pjrt::pjrt_compile(program), x))
  expect_identical(as_array(future::value(f)), array(c(2, 4)))
  expect_identical(future::value(future::future(pjrt::as_array(future::value(future::future(x))))), array(c(1, 2)))
})

test_that("forked children return programs and their own buffers, but not their parent's", {
  skip_on_os("windows")
  child <- run_child(quote({
    cat(
      as_array(parallel::mclapply(1, function(i) pjrt_buffer(c(1, 2)), mc.cores = 1, mc.preschedule = FALSE)[[1]]), "\n"
    )
  }), c(PJRT_CPU_DEVICE_COUNT = "1"))
  expect_clean(child, "1 2 ")
  child <- run_child(quote({
    own <- parallel::mclapply(1:2, function(i) pjrt_buffer(c(i, 2)), mc.cores = 2)
    cat(as_array(own[[2]]), "\n")
    x <- pjrt_buffer(c(1, 2))
    program <- pjrt_program("module {}")
    got <- parallel::mclapply(1:2, function(i) list(x, program), mc.cores = 2)[[1]]
    cat(format(got[[2]]) == format(program), format(got[[1]]), "\n")
    cat(tryCatch(as_array(got[[1]]), pjrt_error_invalid_pointer = conditionMessage), "\n")
    cat(as_array(x), "\n")
  }))
  expect_clean(child)
  expect_identical(child$out[1:2], c("2 2 ", "TRUE <PJRTBuffer of another session> "))
  expect_match(child$out[[4L]], "fork", fixed = TRUE)
})

test_that("saving a buffer of the parent in a forked child warns", {
  skip_on_os("windows")
  child <- run_child(quote({
    x <- pjrt_buffer(c(1, 2))
    saved <- parallel::mccollect(parallel::mcparallel({
      warned <- character()
      withCallingHandlers(serialize(x, NULL), pjrt_warning = function(w) {
        warned <<- conditionMessage(w)
        invokeRestart("muffleWarning")
      })
      options(warn = 2)
      c(warned, class(serialize(x, NULL)))
    }))[[1L]]
    cat(substr(saved, 1, 46), sep = "\n")
  }))
  expect_clean(child, c("A `PJRTBuffer` is saved without its content: T", "raw"))
})

test_that("a time limit ends the wait for a buffer's content", {
  y <- pjrt_execute(compile(waiting_program(6), device = "cpu:1"), pjrt_scalar(1, "f64", device = "cpu:1"))
  limited <- function() {
    setTimeLimit(elapsed = 0.3, transient = TRUE)
    on.exit(setTimeLimit())
    serialize(y, NULL)
  }
  expect_error(limited(), "time limit")
  pjrt_delete(y)
})

test_that("sending and first uses work with garbage collection at every allocation", {
  x <- pjrt_buffer(c(1, 2))
  program <- pjrt_program(unary_program("2xf32"))
  add <- add2()
  objects <- list(x, program, add, pjrt_buffer(runif(100)))
  torture(9)
  got <- tryCatch(sent(objects), finally = torture(0))
  torture(9)
  values <- tryCatch(
    list(as_array(got[[1]]), as_array(pjrt_execute(got[[3]], x, got[[1]])), shape(got[[4]]), format(got[[2]])),
    finally = torture(0)
  )
  expect_identical(values, list(array(c(1, 2)), array(c(2, 4)), 100L, format(program)))
})

test_that("a full disk leaves the existing file unchanged", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  path <- file.path(folder, "executable.pjrtx")
  writeLines("before", path)
  script <- withr::local_tempfile(fileext = ".R")
  writeLines(deparse(bquote({
    library(pjrt)
    executable <- pjrt_compile(pjrt_program(.(add_program("2xf32"))))
    error <- tryCatch(pjrt_save_executable(executable, .(path)), error = identity)
    cat(class(error)[[1L]], "\n")
  })), script)
  # files are limited to 1 kB
  limited <- sprintf("ulimit -f 2; exec '%s' --vanilla '%s'", rscript(), script)
  withr::local_envvar(R_LIBS = paste(.libPaths(), collapse = ":"), TMPDIR = tempdir(), PJRT_CACHE = "0")
  out <- suppressWarnings(system2("sh", c("-c", shQuote(limited)), stdout = TRUE, stderr = TRUE))
  expect_identical(out, "pjrt_error_io ")
  expect_identical(readLines(path), "before")
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "executable.pjrtx")
})
