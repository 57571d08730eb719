# Slow: starts many sessions.

# A client that a test may close.
another_client <- function(devices = 2L) new_client(pjrt_plugin("cpu"), list(cpu_device_count = devices))

# x %*% x, slow enough that the device still reads x when the call returns.
product_program <- function(n = 700) {
  type <- sprintf("%dx%dxf32", n, n)
  sprintf("func.func @main(%%x: tensor<%s>) -> tensor<%s> {
  %%0 = stablehlo.dot_general %%x, %%x, contracting_dims = [1] x [0] : (tensor<%s>, tensor<%s>) -> tensor<%s>
  return %%0 : tensor<%s>
}", type, type, type, type, type, type)
}

live <- function() {
  gc()
  gc()
  stats <- pjrt_memory_stats()
  c(colSums(stats$clients[c("live_buffers", "live_bytes")]), pinned = stats$pinned)
}

test_that("a deleted buffer is refused by every reader but keeps its dtype and shape", {
  x <- pjrt_buffer(matrix(c(1.5, 2, 3, 4), 2))
  double <- compile(unary_program("2x2xf32"))
  expect_false(is_deleted(x))
  expect_invisible(pjrt_delete(x))
  expect_true(is_deleted(x))
  uses <- list(
    quote(as_array(x)), quote(as_raw(x)), quote(as_array_async(x)), quote(await(x)), quote(is_ready(x)), quote(print(x)),
    quote(format_buffer(x)), quote(copy_buffer(x, "cpu:1")), quote(copy_buffer(x, memory_spaces("cpu:0")[[2L]])),
    quote(memory_space(x)), quote(x[1, ]), quote(x[[1]]), quote(summary(x)), quote(as.vector(x)),
    quote(pjrt_execute(double, x)), quote(pjrt_execute_sharded(double, list(x))), quote(pjrt_unshard(list(x)))
  )
  for (use in uses) {
    error <- expect_refused(eval(use), "deleted_buffer", "called on deleted or donated buffer f32[2x2]")
    expect_match(conditionMessage(error), "pjrt_delete() has freed its memory", fixed = TRUE)
  }
  expect_identical(shape(x), c(2L, 2L))
  expect_identical(as.character(elt_type(x)), "f32")
  expect_identical(device(x), pjrt_device("cpu:0"))
  expect_identical(platform(x), "cpu")
  expect_identical(format(x), "<PJRTBuffer f32[2x2] on CpuDevice(id=0)>")
  expect_identical(length(x), 4L)
})

test_that("buffers can be deleted twice, in lists and after a donation", {
  x <- pjrt_buffer(1:3)
  for (i in 1:2) expect_true(identical(pjrt_delete(x), x))
  buffers <- list(pjrt_scalar(1), a = list(pjrt_scalar(2), list(pjrt_scalar(3))))
  expect_true(identical(pjrt_delete(buffers), buffers))
  expect_identical(vapply(list(buffers[[1L]], buffers$a[[1L]], buffers$a[[2L]][[1L]]), is_deleted, NA), c(TRUE, TRUE, TRUE))
  expect_identical(pjrt_delete(list()), list())
  y <- pjrt_buffer(c(1, 2))
  z <- pjrt_execute(compile(add_program("2xf32", donates)), y, pjrt_buffer(c(1, 2)))
  expect_true(is_deleted(y))
  pjrt_delete(y)
  expect_match(conditionMessage(expect_refused(as_array(y), "deleted_buffer")), "donates its input")
  expect_false(is_deleted(z))
  expect_identical(as_array(z), array(c(2, 4)))
})

test_that("pjrt_delete() checks all buffers before it deletes any", {
  x <- pjrt_scalar(1)
  for (bad in list(1, NULL, "x", list(x, 1), list(x, list(NULL)), pjrt_client("cpu"))) {
    expect_refused(pjrt_delete(bad), "invalid_pointer", "`buffer` must be a `PJRTBuffer`")
  }
  expect_false(is_deleted(x))
  expect_refused(is_deleted(list(x)), "invalid_pointer")
})

test_that("deleting a buffer frees its memory and updates R's count", {
  before <- live()
  resident <- function() {
    status <- readLines("/proc/self/status")
    as.numeric(gsub("[^0-9]", "", grep("^VmRSS", status, value = TRUE))) / 1024
  }
  skip_if_not(file.exists("/proc/self/status"), "this system does not tell")
  withr::local_options(pjrt.staging_max = 0)
  start <- resident()
  most <- 0
  kept <- list()
  for (i in 1:30) {
    x <- pjrt_buffer(as.double(i), "f64", shape = 5e6)
    y <- pjrt_execute(compile(unary_program("5000000xf64")), x)
    if (i == 1) expect_identical(live() - before, c(live_buffers = 2, live_bytes = 8e7, pinned = 0))
    await(y)
    pjrt_delete(list(x, y))
    most <- max(most, resident() - start)
    kept <- c(kept, list(x), list(y))
  }
  expect_identical(live(), before)
  # 2400 MB in total, with all handles kept
  expect_lt(most, 400)
  expect_lt(as.numeric(object.size(kept[[1L]])), 1024)
})

test_that("deleting a buffer releases the R vector it used", {
  before <- pinned_at_rest()
  for (i in 1:3) {
    data <- aligned("double", 1e5)
    x <- pjrt_buffer(data, "f64")
    expect_identical(pjrt_memory_stats()$pinned, before + 1)
    y <- pjrt_execute(compile(unary_program("100000xf64")), x)
    promise <- as_array_async(x)
    pjrt_delete(x)
    expect_identical(as_array(y), array(data + data))
    expect_identical(value(promise), array(data))
    expect_identical(pinned_at_rest(), before)
  }
})

test_that("operations started before a deletion can still read the buffer", {
  n <- 700
  for (dispatch in c("auto", "inline", "thread")) {
    withr::local_options(pjrt.dispatch = dispatch)
    product <- compile(product_program(n))
    loop <- compile(loop_program(1e6))
    add_one <- compile(loop_program(2))
    for (i in 1:5) {
      x <- pjrt_buffer(i, "f32", shape = c(n, n))
      y <- pjrt_execute(product, x)
      copy <- copy_buffer(y, "cpu:1")
      promise <- as_array_async(y)
      z <- pjrt_execute(product, y)
      pjrt_delete(list(x, y))
      expect_true(is_deleted(y))
      expect_refused(pjrt_execute(product, y), "deleted_buffer")
      expect_identical(range(value(promise)), rep(i^2 * n, 2))
      expect_identical(range(as_array(copy)), rep(i^2 * n, 2))
      expect_equal(range(as_array(z)), rep(i^4 * n^3, 2), tolerance = 1e-5)

      # deleted before they are launched
      a <- pjrt_scalar(1, "f64")
      b <- pjrt_execute(loop, a)
      c <- pjrt_execute(loop, b)
      copy <- copy_buffer(b, "cpu:1")
      promise <- as_array_async(b)
      pjrt_delete(list(a, b))
      expect_identical(c(as_array(c), as_array(copy), value(promise)), c(3, 2, 2))
    }
  }
})

test_that("a buffer can be deleted during its upload", {
  before <- live()
  double <- compile(unary_program("1500x1500xf32"))
  for (i in 1:5) {
    data <- matrix(i + 0, 1500, 1500)
    x <- pjrt_buffer(data)
    if (i %% 2 == 0) y <- pjrt_execute(double, x)
    pjrt_delete(x)
    if (i %% 2 == 0) expect_identical(range(as_array(y)), c(2, 2) * i)
  }
  await(y)
  rm(x, y)
  expect_identical(live(), before)
})

test_that("a deleted buffer of one device does not end a launch on several", {
  sum <- pjrt_compile(pjrt_program(all_reduce_program("4xf32", 2)), pjrt_compile_options(num_replicas = 2L), devices = c("cpu:0", "cpu:1"))
  for (i in 1:20) {
    x <- list(pjrt_buffer(rep(i, 4), "f32", "cpu:0"), pjrt_buffer(rep(1, 4), "f32", "cpu:1"))
    y <- pjrt_execute_sharded(sum, x)
    pjrt_delete(x)
    expect_identical(as_array(y[[2L]]), array(rep(i + 1, 4)))
    pjrt_delete(y)
    expect_true(is_deleted(y[[1L]]))
  }
})

test_that("a forked child sees deletions but cannot delete", {
  child <- run_child(quote({
    x <- pjrt_buffer(c(1, 2))
    y <- pjrt_buffer(c(1, 2))
    pjrt_delete(x)
    seen <- parallel::mclapply(1:2, function(i) {
      kind <- function(code) tryCatch({ code; "nothing" }, error = function(e) class(e)[[1L]])
      c(is_deleted(x), is_deleted(y), kind(pjrt_delete(y)), kind(pjrt_delete(x)), kind(close(pjrt_client("cpu"))))
    }, mc.cores = 2)
    cat(seen[[1L]], "\n")
    cat(seen[[2L]], "\n")
    cat(as_array(y), "\n")
  }))
  said <- "TRUE FALSE pjrt_error_forked pjrt_error_forked pjrt_error_forked "
  expect_clean(child, c(said, said, "1 2 "))
})

test_that("objects of a closed client are unusable but can still be described", {
  client <- another_client()
  here <- devices(client)
  x <- pjrt_buffer(c(1, 2), device = here[[1L]])
  other <- pjrt_buffer(c(1, 2))
  double <- compile(unary_program("2xf32"), device = here[[1L]])
  portable <- compile(unary_program("2xf32"), pjrt_compile_options(compile_portable_executable = TRUE), device = here[[1L]])
  saved <- pjrt_serialize(compile(unary_program("2xf32")))
  program <- pjrt_program(unary_program("2xf32"))
  promise <- as_array_async(x)
  read <- as_array_async(x)
  value(read)
  compiling <- pjrt_compile_async(program, device = here[[1L]])
  dead <- pjrt_buffer(1, device = here[[1L]])
  pjrt_delete(dead)
  space <- memory_spaces(client)[[1L]]
  told <- function() {
    list(
      shape(x), elt_type(x), dtype(x), platform(x), format(x), dim(x), length(x), format(device(x)), as.character(here[[2L]]),
      platform(here[[1L]]), platform(client), format(client), client_info(client)$devices_in_all, format(device(double)),
      vapply(devices(double), format, ""), format(double), executable_inputs(double), executable_outputs(double),
      device_info(here[[1L]])$kind, memory_space_info(space)$kind, as.character(default_memory_space(here[[1L]])), length(devices(client)),
      is.numeric(x), utils::capture.output(str(x)), utils::capture.output(print(client)), utils::capture.output(print(here[[1L]])),
      utils::capture.output(print(space)), utils::capture.output(print(double)), value(read), platform_version(client)
    )
  }
  before <- told()

  expect_invisible(close(client))
  expect_null(close(client))
  uses <- list(
    quote(as_array(x)), quote(as_raw(x)), quote(as_array_async(x)), quote(await(x)), quote(is_ready(x)), quote(print(x)),
    quote(format_buffer(x)), quote(summary(x)), quote(x[1]), quote(x[[1]]), quote(as.vector(x)), quote(memory_space(x)),
    quote(all.equal(x, c(1, 2))), quote(anyNA(x)), quote(copy_buffer(x, "cpu:0")), quote(copy_buffer(x, memory_spaces("cpu:0")[[2L]])),
    quote(copy_buffer(x, here[[2L]])), quote(copy_buffer(other, here[[1L]])), quote(copy_buffer(other, space)),
    quote(pjrt_buffer(1, device = here[[1L]])), quote(pjrt_buffer(1, device = client)), quote(pjrt_scalar(1L, device = here[[2L]])),
    quote(pjrt_buffer(numeric(1e7), "f32", device = here[[1L]])), quote(pjrt_empty("f32", 0, here[[1L]])),
    quote(pjrt_buffer(raw(4), dtype = "ui8", device = here[[1L]], shape = 4, row_major = TRUE)),
    quote(pjrt_shard(1:2, here)), quote(pjrt_unshard(list(x))), quote(as_array(dead)),
    quote(pjrt_execute(double, x)), quote(pjrt_execute(double, other)), quote(pjrt_execute(double)),
    quote(pjrt_execute_sharded(double, list(x))), quote(pjrt_execute(portable, x)), quote(summary(double)),
    quote(executable_cost(double)), quote(executable_memory_stats(double)), quote(executable_fingerprint(double)),
    quote(executable_hlo(double)), quote(executable_hlo(double, "bytes")), quote(pjrt_serialize(double)),
    quote(pjrt_save_executable(double, tempfile())), quote(pjrt_deserialize(saved, here[[1L]])),
    quote(pjrt_compile(program, device = here[[1L]])), quote(pjrt_compile(program, device = client)),
    quote(pjrt_compile_async(program, device = here[[1L]])), quote(inspect_hlo(program, here[[1L]])),
    quote(value(promise)), quote(as_array(promise)), quote(is_ready(promise)), quote(value(compiling)), quote(await(compiling)),
    quote(is_ready(compiling)), quote(print(compiling)), quote(topology(client)), quote(device_memory_stats(here[[1L]]))
  )
  for (use in uses) {
    error <- tryCatch(eval(use), error = identity)
    expect(inherits(error, "pjrt_error_client_closed"), paste(deparse(use), "gave", class(error)[[1L]]))
  }
  expect_match(conditionMessage(error), "Create a new client with pjrt_client(\"cpu\")", fixed = TRUE)
  expect_refused(pjrt_execute(compile(unary_program("2xf32")), x), "device_mismatch", "belong to different clients")
  expect_identical(told(), before)
  expect_true(is_deleted(x))
  expect_true(identical(pjrt_delete(x), x))
  expect_identical(as_array(other), array(c(1, 2)))
  expect_identical(as_array(pjrt_execute(compile(unary_program("2xf32")), other)), array(c(2, 4)))
})

test_that("closing a client frees its objects and removes them from the counts", {
  before <- live()
  rows <- nrow(pjrt_memory_stats()$clients)
  client <- another_client()
  data <- aligned("double", 1e5)
  x <- pjrt_buffer(data, "f64", device = client)
  y <- pjrt_empty("f64", 1e6, device = client)
  expect_identical(live() - before, c(live_buffers = 2, live_bytes = 8.8e6, pinned = 1))
  close(client)
  expect_identical(live(), before)
  expect_identical(nrow(pjrt_memory_stats()$clients), rows)
  rm(x, y)
  expect_identical(live(), before)
})

test_that("after close() a new client of the platform can have other options", {
  child <- run_child(quote({
    options(pjrt.cache = TRUE)
    first <- pjrt_client("cpu", cpu_device_count = 2)
    plugin_client_create(pjrt_plugin("cpu"), "second", list(cpu_device_count = 3))
    add <- compile(unary_program("2xf32"))
    x <- pjrt_buffer(c(1, 2))
    old <- devices()
    close(first)
    the <- pjrt:::the
    cat(names(the$clients), names(the$devices), sort(unlist(as.list(the$platforms))), "\n")
    cat(identical(the$canonical_devices[["CpuDevice(id=0)"]], devices(the$clients$second)[[1L]]), "\n")
    close(the$clients$second)
    cat(length(names(the$clients)), length(names(the$platforms)), length(names(the$canonical_devices)), "\n")
    client <- pjrt_client("cpu", cpu_device_count = 4)
    cat(length(devices()), identical(client, first), identical(old[[1L]], devices()[[1L]]), identical(pjrt_client(), client), "\n")
    cat(identical(the$canonical_devices[["CpuDevice(id=0)"]], devices()[[1L]]), the$platforms[["CpuDevice(id=3)"]], "\n")
    x <- pjrt_buffer(c(1, 2), device = "cpu:3")
    add <- compile(unary_program("2xf32"), device = "cpu:3")
    cat(as_array(pjrt_execute(add, x)), as_array(pjrt_execute(compile(unary_program("2xf32")), pjrt_buffer(c(1, 2)))), "\n")
    y <- pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64"))
    close(client)
    cat(length(devices()), as_array(pjrt_scalar(7)), "\n")
  }), c(PJRT_CPU_DEVICE_COUNT = "1", R_USER_CACHE_DIR = withr::local_tempdir(), PJRT_PLUGIN_PATH_CPU = real_plugin()))
  expect_clean(child, c(
    "second second second second second ", "TRUE ", "0 0 0 ", "4 FALSE FALSE TRUE ", "TRUE cpu ", "2 4 2 4 ", "1 7 "
  ))
})

test_that("close() waits for pending work and leaves nothing that could crash later", {
  child <- run_child(quote({
    other <- pjrt_client("cpu")
    objects <- list()
    for (i in 1:25) {
      client <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 2L))
      options(pjrt.dispatch = c("auto", "thread", "inline")[[i %% 3 + 1]])
      d <- devices(client)
      loop <- compile(loop_program(if (i %% 3 == 2) 10 else 1e5), device = d[[1L]])
      x <- pjrt_buffer(1, shape = c(300, 300), device = d[[1L]])
      product <- compile("func.func @main(%x: tensor<300x300xf32>) -> tensor<300x300xf32> {
        %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
          : (tensor<300x300xf32>, tensor<300x300xf32>) -> tensor<300x300xf32>
        return %0 : tensor<300x300xf32>
      }", device = d[[1L]])
      # results that are kept and results that are dropped
      kept <- lapply(1:10, function(j) pjrt_execute(product, x))
      for (j in 1:10) pjrt_execute(product, x)
      y <- pjrt_execute(loop, pjrt_scalar(1, "f64", device = d[[1L]]))
      z <- pjrt_execute(loop, y)
      promises <- c(lapply(kept, as_array_async), as_array_async(z))
      copies <- c(lapply(kept, copy_buffer, device = d[[2L]]), lapply(kept, copy_buffer, device = devices(other)[[1L]]))
      uploads <- lapply(1:3, function(j) pjrt_buffer(matrix(0, 1200, 1200), device = d[[2L]]))
      # the other client's thread makes this copy after this client is closed
      late <- pjrt_execute(compile(loop_program(1e5)), pjrt_scalar(1, "f64"))
      foreign <- copy_buffer(late, d[[1L]])
      if (i %% 2 == 0) rm(foreign)
      compiles <- lapply(1:2, function(j) pjrt_compile_async(pjrt_program(loop_program(i * 10 + j)), device = d[[1L]]))
      close(client)
      stopifnot(identical(as_array(copies[[20L]])[[1L]], 300), identical(as_array(late), 2))
      if (i %% 4 > 0) objects <- c(objects, kept, promises, uploads, product, compiles)
      if (i %% 5 == 0) {
        objects <- objects[sample(length(objects), length(objects) %/% 2)]
        gc()
      }
    }
    rm(list = setdiff(ls(), "other"))
    gc()
    stats <- pjrt_memory_stats()
    cat(nrow(stats$clients), stats$clients$live_buffers, stats$pinned, as_array(pjrt_scalar(5)), "\n")
  }), timeout = 600)
  expect_clean(child, "1 0 0 5 ")
})

test_that("Ctrl-C ends the wait of close() and leaves the client open", {
  child <- start_child(quote({
    client <- pjrt_client("cpu")
    y <- pjrt_execute(compile(loop_program(1e9)), pjrt_scalar(1, "f64"))
    cat("waiting\n")
    end <- tryCatch({ close(client); "closed" }, interrupt = function(e) "interrupted")
    cat(end, is_ready(y), as_array(pjrt_scalar(3)), identical(pjrt_client("cpu"), client), "\n")
    flush(stdout())
    tools::pskill(Sys.getpid(), 9L)
  }))
  withr::defer(child$kill())
  next_line <- line_reader(child)
  expect_identical(next_line(), "waiting")
  Sys.sleep(0.15)
  child$interrupt()
  expect_identical(next_line(5), "interrupted FALSE 3 TRUE ")
})

test_that("clients can be created and closed repeatedly without leaks", {
  child <- run_child(quote({
    resident <- function() {
      status <- readLines("/proc/self/status")
      as.numeric(gsub("[^0-9]", "", grep("^(VmRSS|Threads)", status, value = TRUE)))
    }
    cycle <- function() {
      client <- pjrt_client("cpu", cpu_device_count = 2)
      x <- pjrt_buffer(matrix(0, 300, 300), device = "cpu:1")
      y <- pjrt_execute(compile(unary_program("300x300xf32"), device = "cpu:1"), x)
      stopifnot(as_array(y)[[1]] == 0, length(memory_spaces("cpu:0")) == 3, length(devices()) == 2)
      close(client)
    }
    resident_after_cycles <- function() {
      for (i in 1:30) cycle()
      gc()
      resident()
    }
    after <- replicate(3, resident_after_cycles())
    grown <- apply(after, 1L, diff)
    # the allocator may keep memory once, but a leak grows every time
    cat(min(grown[, 1L]) < 16000, sum(grown[, 2L]), "\n")
  }))
  expect_clean(child, "TRUE 0 ")
})

test_that("a finalizer can close a client, even during a call", {
  child <- run_child(quote({
    # R reads a function from disk at its first use, and fails if a finalizer needs it in the middle of that
    invisible(eapply(asNamespace("pjrt"), identity, all.names = TRUE))
    for (i in 1:10) {
      client <- pjrt_client("cpu")
      handle <- new.env()
      reg.finalizer(handle, function(e) close(client))
      x <- pjrt_buffer(1:3)
      rm(handle)
      outcome <- tryCatch({
        for (j in 1:200) { y <- pjrt_buffer(as.double(1:1e5)); z <- as_array(x) }
        "nothing"
      }, pjrt_error_client_closed = function(e) "closed")
      if (outcome == "nothing") close(client)
    }
    cat(as_array(pjrt_scalar(1)), "\n")
  }))
  expect_clean(child, "1 ")
})
