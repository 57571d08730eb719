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
    quote(as_array(x)), quote(as_raw(x)), quote(as_array_async(x)), quote(await(x)), quote(is_ready(x)),
    quote(format_buffer(x)), quote(copy_buffer(x, "cpu:1")), quote(copy_buffer(x, memory_spaces("cpu:0")[[2L]])),
    quote(memory_space(x)), quote(x[1, ]), quote(x[[1]]), quote(summary(x)), quote(as.vector(x)),
    quote(pjrt_execute(double, x)), quote(pjrt_execute_sharded(double, list(x))), quote(pjrt_unshard(list(x)))
  )
  for (use in uses) {
    error <- expect_refused(eval(use), "deleted_buffer", "called on deleted or donated buffer f32[2x2]")
    expect_match(conditionMessage(error), "pjrt_delete() has deleted it", fixed = TRUE)
  }
  expect_identical(shape(x), c(2L, 2L))
  expect_identical(as.character(elt_type(x)), "f32")
  expect_identical(device(x), pjrt_device("cpu:0"))
  expect_identical(platform(x), "cpu")
  expect_identical(format(x), "<PJRTBuffer f32[2x2], deleted>")
  expect_identical(length(x), 4L)
})

test_that("buffers can be deleted twice, in lists and after a donation", {
  x <- pjrt_buffer(1:3)
  for (i in 1:2) expect_true(identical(pjrt_delete(x), x))
  buffers <- list(pjrt_scalar(1), a = list(pjrt_scalar(2), list(pjrt_scalar(3))))
  expect_true(identical(pjrt_delete(buffers), buffers))
  expect_identical(
    vapply(list(buffers[[1L]], buffers$a[[1L]], buffers$a[[2L]][[1L]]), is_deleted, NA), c(TRUE, TRUE, TRUE)
  )
  expect_identical(pjrt_delete(list()), list())
  # deeper than R's stack
  x <- pjrt_scalar(1)
  pjrt_delete(Reduce(function(nested, i) list(nested), seq_len(20000), x))
  expect_true(is_deleted(x))
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
  for (i in seq_len(times(10, 30))) {
    x <- pjrt_buffer(as.double(i), "f64", shape = 5e6)
    y <- pjrt_execute(compile(unary_program("5000000xf64")), x)
    if (i == 1) expect_identical(live() - before, c(live_buffers = 2, live_bytes = 8e7, pinned = 0))
    await(y)
    pjrt_delete(list(x, y))
    most <- max(most, resident() - start)
    kept <- c(kept, list(x), list(y))
  }
  expect_identical(live(), before)
  # 800 MB in total, or 2400, with all handles kept
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
    for (i in seq_len(times(2, 5))) {
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
  sum <- pjrt_compile(
    pjrt_program(all_reduce_program("4xf32", 2)), pjrt_compile_options(num_replicas = 2L), devices = c("cpu:0", "cpu:1")
  )
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
      kind <- function(code) tryCatch({
        code
        "nothing"
      }, error = function(e) class(e)[[1L]])
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
  portable <- compile(
    unary_program("2xf32"), pjrt_compile_options(compile_portable_executable = TRUE), device = here[[1L]]
  )
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
      shape(x), elt_type(x), dtype(x), platform(x), dim(x), length(x), as.character(device(x)),
      as.character(here[[2L]]),
      platform(here[[1L]]), platform(client), client_info(client)$devices_in_all,
      as.character(device(double)), vapply(devices(double), as.character, ""), format(double),
      executable_info(double)$inputs, executable_info(double)$outputs,
      device_info(here[[1L]])$kind, summary(space)$kind, as.character(device_info(here[[1L]])$default_memory_space),
      length(devices(client)),
      is.numeric(x), utils::capture.output(print(double)), value(read), client_info(client)$platform_version
    )
  }
  before <- told()

  expect_invisible(close(client))
  expect_null(close(client))
  uses <- list(
    quote(as_array(x)), quote(as_raw(x)), quote(as_array_async(x)), quote(await(x)), quote(is_ready(x)),
    quote(format_buffer(x)), quote(summary(x)), quote(x[1]), quote(x[[1]]), quote(as.vector(x)), quote(memory_space(x)),
    quote(all.equal(x, c(1, 2))), quote(anyNA(x)), quote(copy_buffer(x, "cpu:0")),
    quote(copy_buffer(x, memory_spaces("cpu:0")[[2L]])),
    quote(copy_buffer(x, here[[2L]])), quote(copy_buffer(other, here[[1L]])), quote(copy_buffer(other, space)),
    quote(pjrt_buffer(1, device = here[[1L]])), quote(pjrt_buffer(1, device = client)),
    quote(pjrt_scalar(1L, device = here[[2L]])),
    quote(pjrt_buffer(numeric(1e7), "f32", device = here[[1L]])), quote(pjrt_empty("f32", 0, here[[1L]])),
    quote(pjrt_buffer(raw(4), dtype = "ui8", device = here[[1L]], shape = 4, row_major = TRUE)),
    quote(pjrt_shard(1:2, here)), quote(pjrt_unshard(list(x))), quote(as_array(dead)),
    quote(pjrt_execute(double, x)), quote(pjrt_execute(double, other)), quote(pjrt_execute(double)),
    quote(pjrt_execute_sharded(double, list(x))), quote(pjrt_execute(portable, x)),
    quote(executable_cost(double)), quote(inspect_hlo(double)),
    quote(pjrt_serialize(double)),
    quote(pjrt_save_executable(double, tempfile())), quote(pjrt_deserialize(saved, here[[1L]])),
    quote(pjrt_compile(program, device = here[[1L]])), quote(pjrt_compile(program, device = client)),
    quote(pjrt_compile_async(program, device = here[[1L]])), quote(inspect_hlo(program, here[[1L]])),
    quote(value(promise)), quote(as_array(promise)), quote(is_ready(promise)), quote(value(compiling)),
    quote(await(compiling)),
    quote(is_ready(compiling)), quote(pjrt_topology(client))
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
    cat(
      length(devices()), identical(client, first), identical(old[[1L]], devices()[[1L]]),
      identical(pjrt_client(), client), "\n"
    )
    cat(
      identical(the$canonical_devices[["CpuDevice(id=0)"]], devices()[[1L]]), the$platforms[["CpuDevice(id=3)"]], "\n"
    )
    x <- pjrt_buffer(c(1, 2), device = "cpu:3")
    add <- compile(unary_program("2xf32"), device = "cpu:3")
    cat(
      as_array(pjrt_execute(add, x)), as_array(pjrt_execute(compile(unary_program("2xf32")), pjrt_buffer(c(1, 2)))),
      "\n"
    )
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
    for (i in seq_len(times(6, 25))) {
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
    rm(list = setdiff(ls(), c("other", "comes_true")))
    # from R 4.5 on, small buffers are freed together, by the second collection
    for (i in 1:2) gc()
    # the thread of the other client may still be at its last copy
    used <- function() {
      stats <- pjrt_memory_stats()
      c(nrow(stats$clients), stats$clients$live_buffers, stats$pinned)
    }
    comes_true(function() sum(used()) == 1)
    cat(used(), as_array(pjrt_scalar(5)), "\n")
  }), timeout = 600)
  expect_clean(child, "1 0 0 5 ")
})

test_that("Ctrl-C ends the wait of close() and leaves the client open", {
  child <- start_child(quote({
    client <- pjrt_client("cpu")
    y <- pjrt_execute(compile(loop_program(1e9)), pjrt_scalar(1, "f64"))
    end <- tryCatch(
      {
        cat("waiting\n")
        close(client)
        "closed"
      },
      interrupt = function(e) "interrupted"
    )
    cat(end, is_ready(y), as_array(pjrt_scalar(3)), identical(pjrt_client("cpu"), client), "\n")
    flush(stdout())
    tools::pskill(Sys.getpid(), 9L)
  }))
  withr::defer(child$kill())
  next_line <- line_reader(child)
  expect_identical(next_line(), "waiting")
  Sys.sleep(0.15)
  child$interrupt()
  expect_identical(next_line(), "interrupted FALSE 3 TRUE ")
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
      for (i in seq_len(times(10, 30))) cycle()
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
    # R reads a function from disk, and finds a method, at its first use, and fails if a finalizer needs it in the
    # middle of that
    for (used in list(asNamespace("pjrt"), baseenv())) {
      eapply(used, identity, all.names = TRUE)
      methods <- used[[".__S3MethodsTable__."]]
      for (method in ls(methods, all.names = TRUE)) force(methods[[method]])
    }
    for (i in 1:10) {
      client <- pjrt_client("cpu")
      handle <- new.env()
      reg.finalizer(handle, function(e) close(client))
      x <- pjrt_buffer(1:3)
      rm(handle)
      outcome <- tryCatch({
        for (j in 1:200) {
          y <- pjrt_buffer(as.double(1:1e5))
          z <- as_array(x)
        }
        "nothing"
      }, pjrt_error_client_closed = function(e) "closed")
      if (outcome == "nothing") close(client)
    }
    cat(as_array(pjrt_scalar(1)), "\n")
  }))
  expect_clean(child, "1 ")
})

# What print(), format() and str() show of an object.
shown <- function(x) {
  list(print = capture.output(print(x)), format = format(x), str = capture.output(str(x)))
}

# The same for an object that cannot be used any more: one line everywhere.
expect_shown <- function(x, line) {
  found <- shown(x)
  found$print <- trimws(found$print)
  testthat::expect_identical(found, list(print = line, format = line, str = sub("^<(.*)>$", " \\1", line)))
  testthat::expect_identical(trimws(capture.output(print(list(x)))), c("[[1]]", line, ""))
}

test_that("deleted and donated buffers print as what they are", {
  x <- pjrt_buffer(1:3, "f32")
  pjrt_delete(x)
  expect_shown(x, "<PJRTBuffer f32[3], deleted>")
  y <- pjrt_buffer(c(1, 2))
  pjrt_execute(compile(add_program("2xf32", donates)), y, pjrt_buffer(c(3, 4)))
  expect_shown(y, "<PJRTBuffer f32[2], donated>")
  expect_refused(as_array(x), "deleted_buffer", "called on deleted or donated buffer f32[3]")
  expect_refused(as_array(y), "deleted_buffer", "called on deleted or donated buffer f32[2]")
  # with a layout of one's own, there is no line to print
  expect_refused(print(x, header = FALSE), "deleted_buffer", "called on deleted or donated buffer f32[3]")
  expect_refused(print(y, footer = "end"), "deleted_buffer", "called on deleted or donated buffer f32[2]")
})

test_that("objects of a closed client print as what they are", {
  client <- another_client()
  here <- devices(client)[[1L]]
  memory <- memory_spaces(here)[[1L]]
  x <- pjrt_buffer(matrix(0, 2, 3), device = here)
  promise <- as_array_async(x)
  read <- as_array_async(x)
  await(read)
  compiling <- pjrt_compile_async(pjrt_program(unary_program("2xf32")), device = here)
  await(compiling)
  kind <- as.character(memory)
  label <- as.character(here)
  close(client)
  expect_shown(client, "<PJRTClient:cpu, closed>")
  expect_shown(x, "<PJRTBuffer f32[2x3], of a closed client>")
  expect_shown(promise, "<PJRTArrayPromise f32[2x3], of a closed client>")
  expect_shown(compiling, "<PJRTExecutablePromise, of a closed client>")
  expect_identical(format(here), sprintf("<%s, of a closed client>", label))
  expect_identical(capture.output(print(here)), format(here))
  expect_identical(capture.output(str(here)), sprintf(" PJRTDevice %s, of a closed client", label))
  expect_shown(memory, sprintf("<PJRTMemory:%s, of a closed client>", kind))
  # what was read stays
  expect_identical(capture.output(print(read))[1:2], c("<PJRTArrayPromise>", "Status: Materialized"))
})

test_that("objects of another session print as what they are, and count as deleted", {
  x <- pjrt_buffer(1:3)
  program <- pjrt_program(unary_program("2xf32"))
  file <- withr::local_tempfile()
  pjrt_save_safetensors(list(x = x), file)
  objects <- list(
    PJRTPlugin = pjrt_plugin("cpu"), PJRTClient = pjrt_client("cpu"), PJRTDevice = pjrt_device("cpu"),
    PJRTMemory = memory_space(x), PJRTBuffer = x, PJRTProgram = program, PJRTArrayPromise = as_array_async(x),
    PJRTExecutablePromise = pjrt_compile_async(program), PJRTExecutionOptions = pjrt_execution_options(),
    RTree = build_tree(list(1, 2)), Dispatcher = dispatcher(2, identity, default_device = function() "cpu"),
    PJRTSafetensors = pjrt_open_safetensors(file)
  )
  restored <- without_content(objects)
  for (class in names(restored)) expect_shown(restored[[class]], sprintf("<%s of another session>", class))
  expect_true(is_deleted(restored$PJRTBuffer))
  expect_true(identical(pjrt_delete(restored$PJRTBuffer), restored$PJRTBuffer))
  expect_output(str(restored), "PJRTBuffer of another session")
  # the text of plain R objects stays
  plain <- list(pjrt_compile_options(), elt_type(x), inspect_hlo(program), device_info("cpu"))
  expect_identical(lapply(unserialize(serialize(plain[1:3], NULL)), shown), lapply(plain[1:3], shown))
  expect_output(print(unserialize(serialize(plain[[4L]], NULL))), "PJRTMemory of another session")
  info <- executable_info(pjrt_compile(program))
  expect_output(print(unserialize(serialize(info, NULL))), "Devices: +<PJRTDevice of another session>")
})

test_that("objects print in a forked child as what they are", {
  child <- run_child(quote({
    x <- pjrt_buffer(c(1, 2))
    objects <- list(x, pjrt_client("cpu"), pjrt_device("cpu"), as_array_async(x), memory_space(x))
    text <- function(x) c(format(x), trimws(capture.output(print(x))), capture.output(str(x)))
    seen <- parallel::mclapply(1:2, function(i) lapply(objects, text))[[1L]]
    for (lines in seen) cat(unique(trimws(gsub("[<>]", "", lines))), sep = "\n")
  }))
  ends <- ", of the parent process"
  expect_clean(child)
  expect_true(all(endsWith(child$out, ends)))
  expect_true(all(paste0(c("PJRTBuffer f32[2]", "PJRTClient:cpu", "PJRTArrayPromise f32[2]"), ends) %in% child$out))
})

test_that("live objects print as before", {
  x <- pjrt_buffer(1:3)
  expect_identical(format(pjrt_client("cpu")), "cpu")
  expect_identical(format(pjrt_device("cpu:0")), "CpuDevice(id=0)")
  expect_identical(capture.output(str(pjrt_client("cpu"))), " PJRTClient cpu")
  expect_identical(capture.output(str(pjrt_device("cpu:0"))), " PJRTDevice CpuDevice(id=0)")
  expect_identical(format(as_array_async(x)), "<PJRTArrayPromise i32[3]>")
  expect_identical(format(pjrt_plugin("cpu")), "<PJRTPlugin:cpu>")
  expect_identical(
    format(pjrt_execution_options(1, 2, keep_inputs = "x")),
    c("<PJRTExecutionOptions: launch 2>", "  non_donatable_input_indices = 1", "  keep_inputs = x")
  )
  expect_output(str(pjrt_program(unary_program("2xf32"))), "^ PJRTProgram\\(format=mlir, code_size=[0-9]+\\)$")
})

test_that("all.equal() distinguishes different objects", {
  x <- pjrt_buffer(matrix(1, 2, 2))
  add <- pjrt_program(add_program("2x2xf32"))
  multiply <- pjrt_program(sub("stablehlo.add", "stablehlo.multiply", add_program("2x2xf32"), fixed = TRUE))
  made <- function(program, number) {
    executable <- pjrt_compile(program)
    list(
      executable, pjrt_compile_async(program), pjrt_function(executable), pjrt_execution_options(number),
      as_dlpack(x), build_tree(as.list(seq_len(number)))
    )
  }
  expect_true(all.equal(add, pjrt_program(add_program("2x2xf32"))))
  expect_identical(all.equal(add, multiply), "target and current are not the same PJRTProgram")
  expect_identical(all.equal(add, 1), "target is a PJRTProgram, current is a numeric")
  first <- made(add, 1)
  second <- made(multiply, 2)
  for (i in seq_along(first)) {
    expect_true(all.equal(first[[i]], first[[i]]))
    expect_match(all.equal(first[[i]], second[[i]]), "are not the same")
  }
  expect_true(all.equal(build_tree(list(1, a = 2)), build_tree(list(3, a = 4))))
  expect_true(all.equal(pjrt_execution_options(1), pjrt_execution_options(1)))
  expect_true(all.equal(pjrt_device("cpu:0"), pjrt_device("cpu:0")))
  expect_match(all.equal(list(pjrt_device("cpu:0")), list(pjrt_device("cpu:1"))), "not the same PJRTDevice")
  for (x in list(pjrt_device("cpu:0"), build_tree(list(1)), pjrt_execution_options(1))) {
    dead <- unserialize(serialize(x, NULL))
    expect_match(all.equal(dead, x), "not the same")
    expect_match(all.equal(x, dead), "not the same")
  }
})

test_that("a cached document with objects of this package renders a second time", {
  skip_if_not_installed("knitr")
  folder <- withr::local_tempdir()
  lines <- c(
    "```{r made, cache = TRUE}", "library(pjrt)", "x <- pjrt_buffer(1:3)", "objects <- list(x, y = list(x))",
    sprintf("add <- pjrt_compile(pjrt_program(%s))", encodeString(unary_program("2xf32"), quote = "\"")),
    "client <- pjrt_client()", "program <- pjrt_program(\"module {}\")", "promise <- as_array_async(x)", "```",
    "```{r shown}", "x", "objects", "add", "client", "program", "promise", "str(objects)", "is_deleted(x)", "```"
  )
  writeLines(lines, file.path(folder, "document.Rmd"))
  render <- quote({
    setwd(Sys.getenv("FOLDER"))
    # not every R can make bitmaps
    knitr::opts_chunk$set(dev = "pdf")
    knitr::knit("document.Rmd", "document.md", quiet = TRUE)
    cat(grep("PJRT|Error|TRUE|FALSE", readLines("document.md"), value = TRUE), sep = "\n")
  })
  first <- run_child(render, env = c(FOLDER = folder))
  expect_identical(first$status, 0L)
  expect_false(any(grepl("Error|another session", first$out)))
  second <- run_child(render, env = c(FOLDER = folder))
  expect_identical(second$status, 0L)
  expect_false(any(grepl("Error", second$out)))
  for (class in c("Client", "ArrayPromise")) {
    expect_true(any(grepl(sprintf("<PJRT%s of another session>", class), second$out, fixed = TRUE)), info = class)
  }
  of <- function(class) function(out) grep(class, out, value = TRUE)
  for (lines in list(of("PJRTBuffer"), of("PJRTProgram"), of("PJRTLoadedExecutable"))) {
    expect_identical(lines(second$out), lines(first$out))
    expect_gt(length(lines(second$out)), 0L)
  }
  expect_true("## [1] FALSE" %in% second$out)
})
