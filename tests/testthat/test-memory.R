# Slow: repeats until memory that is not freed would show.

# Megabytes that R counts as used by vectors. The first collection frees unused buffers, the second frees their memory
# once the device is done with it.
vector_megabytes <- function() {
  gc()
  gc()["Vcells", 2L]
}

test_that("R counts a buffer's bytes and little more", {
  holds <- function(x, payload) {
    expect_gte(as.numeric(object.size(x)), payload)
    expect_lt(as.numeric(object.size(x)), payload + 1024)
  }
  for (n in c(1, 15, 16, 1000, 1e5)) {
    holds(pjrt_buffer(as.double(seq_len(n))), 4 * n)
    holds(pjrt_buffer(as.double(seq_len(n)), "f64"), 8 * n)
    holds(pjrt_buffer(seq_len(n)), 4 * n)
    holds(pjrt_buffer(bit64::as.integer64(seq_len(n))), 8 * n)
    holds(pjrt_buffer(raw(n), dtype = "ui8", shape = n, row_major = TRUE), n)
    holds(pjrt_empty("f64", n), 8 * n)
  }
  holds(pjrt_buffer(matrix(0, 100, 100), "f64"), 8e4)
  holds(pjrt_scalar(1), 4)
})

test_that("R's garbage collector counts buffers while they exist", {
  before <- vector_megabytes()
  buffers <- lapply(1:20, function(i) pjrt_empty("f32", 1e6))
  expect_gt(vector_megabytes() - before, 70)
  rm(buffers)
  expect_lt(vector_megabytes() - before, 10)
})

test_that("R's garbage collector counts uploaded buffers too", {
  data <- matrix(as.double(1:5e5), 1000)
  before <- vector_megabytes()
  buffers <- lapply(1:20, function(i) pjrt_buffer(data, "f64"))
  expect_gt(vector_megabytes() - before, 70)
  lapply(buffers, await)
  rm(buffers)
  expect_lt(vector_megabytes() - before, 10)
})

test_that("buffers keep their content under memory pressure", {
  buffers <- lapply(1:8, function(i) pjrt_buffer(rep(i, 5e5), "f64"))
  for (i in 1:3) {
    lapply(1:5, function(j) numeric(1e6))
    gc()
  }
  for (i in 1:8) expect_true(all(as_array(buffers[[i]]) == i))
})

test_that("a donated input's memory is counted once, with the output", {
  for (type in c("100000xf64", "400x250xf64")) {
    executable <- compile(add_program(type, donates))
    dims <- as.integer(strsplit(type, "x")[[1L]][-length(strsplit(type, "x")[[1L]])])
    x <- pjrt_empty("f64", dims)
    y <- pjrt_buffer(1, "f64", shape = dims)
    expect_gte(as.numeric(object.size(x)), 8e5)
    out <- pjrt_execute(executable, x, y)
    expect_gte(as.numeric(object.size(out)), 8e5)
    expect_lt(as.numeric(object.size(x)), 1024)
    rm(x)
    gc()
    expect_true(all(as_array(out) == 1))
  }
})

test_that("an output that is not aliased is not counted by R", {
  x <- pjrt_empty("f64", 1e5)
  out <- pjrt_execute(compile(unary_program("100000xf64")), x)
  expect_lt(as.numeric(object.size(out)), 1024)
  expect_gte(as.numeric(object.size(x)), 8e5)
})

test_that("a donatable buffer that is listed as not donatable keeps its memory", {
  executable <- compile(add_program("100000xf64", donates))
  x <- pjrt_empty("f64", 1e5)
  y <- pjrt_empty("f64", 1e5)
  out <- pjrt_execute(executable, x, y, execution_options = pjrt_execution_options(0L))
  expect_lt(as.numeric(object.size(out)), 1024)
  expect_gte(as.numeric(object.size(x)), 8e5)
})

test_that("memory passes along a chain of donations and is freed at its end", {
  executable <- compile(add_program("500000xf64", donates))
  one <- pjrt_buffer(1, "f64", shape = 5e5)
  before <- vector_megabytes()
  x <- pjrt_empty("f64", 5e5)
  for (i in 1:20) x <- pjrt_execute(executable, x, one)
  expect_identical(range(as_array(x)), c(20, 20))
  expect_lt(vector_megabytes() - before, 8)
  rm(x)
  expect_lt(vector_megabytes() - before, 1)
})

# The resident memory of this process in megabytes.
resident <- function() {
  skip_if_not(file.exists("/proc/self/statm"), "this system does not tell")
  as.numeric(strsplit(readLines("/proc/self/statm"), " ", fixed = TRUE)[[1L]][[2L]]) * 4096 / 2^20
}

test_that("dropping results does not accumulate memory outside R", {
  executable <- compile(unary_program("1000000xf64"))
  x <- pjrt_empty("f64", 1e6)
  before <- resident()
  most <- 0
  for (i in seq_len(times(180, 300))) {
    y <- pjrt_execute(executable, x)
    if (i %% 20 == 0) {
      await(y)
      most <- max(most, resident() - before)
    }
  }
  # 1440 MB in total, or 2400
  expect_lt(most, 1100)
})

test_that("dropping array promises does not accumulate memory outside R", {
  total <- times(1.4e9, 3e9)
  for (n in c(4e4, 1e6)) {
    x <- await(pjrt_buffer(rep(1, n), "f64"))
    before <- resident()
    most <- 0
    for (i in seq_len(total / (8 * n))) {
      as_array_async(x)
      if (i %% 50 == 0) most <- max(most, resident() - before)
    }
    expect_lt(most, 1100)
  }
})

test_that("dropping executables does not accumulate memory outside R", {
  # 3 MB each; about 100 MB of them wait for R's garbage collector
  serialized <- pjrt_serialize(compile(chain_program(1000)))
  before <- resident()
  for (i in seq_len(times(200, 600))) pjrt_deserialize(serialized)
  expect_lt(resident() - before, times(500, 1100))
})

# The counts of all CPU clients.
cpu_stats <- function() {
  gc()
  gc()
  stats <- pjrt_memory_stats()
  c(colSums(stats$clients[stats$clients$platform == "cpu", c("live_buffers", "live_bytes")]), pinned = stats$pinned)
}

test_that("buffers are counted from creation until they are dropped or donated", {
  before <- cpu_stats()
  x <- aligned("double", 1e5)
  buffers <- list(
    pjrt_scalar(1), pjrt_buffer(matrix(0, 100, 50)), pjrt_empty("i8", 3e6), pjrt_buffer(x, "f64"),
    pjrt_empty("i4", 10L), pjrt_buffer(1, shape = 3e6)
  )
  expect_identical(
    cpu_stats() - before, c(live_buffers = 6, live_bytes = 4 + 2e4 + 3e6 + 8e5 + 10 + 12e6, pinned = 1)
  )
  # a thread that writes a buffer holds it, too
  lapply(buffers, await)
  rm(buffers)
  expect_identical(cpu_stats(), before)

  x <- pjrt_empty("f64", 1e5)
  y <- pjrt_empty("f64", 1e5)
  out <- pjrt_execute(compile(add_program("100000xf64", donates)), x, y)
  expect_identical(cpu_stats() - before, c(live_buffers = 2, live_bytes = 1.6e6, pinned = 0))
  rm(x, y, out)
  expect_identical(cpu_stats(), before)
})

# The number of objects of each class after garbage collection. Executables and what has them need two collections.
held <- function() {
  for (i in 1:2) gc()
  pjrt_memory_stats()$objects
}

test_that("objects of each class are counted from creation until collection", {
  # small buffers are freed in groups: none may be dropped while others of its group are in use
  values <- as.double(1:200)
  x <- pjrt_buffer(values, "f64")
  program <- pjrt_program(add_program("200xf64", donates))
  add <- pjrt_compile(program)
  tree <- build_tree(list(a = 1))
  path <- withr::local_tempfile()
  pjrt_save_safetensors(list(x = x), path)
  exported <- function() pjrt_load_exported(system.file("exported", "iris-torch", package = "pjrt"))
  make <- function() list(
    PJRTPlugin = load_plugin(real_plugin(), "cpu"),
    PJRTBuffer = list(
      pjrt_scalar(1), pjrt_empty("i4", 3), pjrt_buffer(aligned("double"), "f64"),
      pjrt_execute(add, pjrt_buffer(values, "f64"), x), copy_buffer(x, devices()[[2L]]), exported()$weights
    ),
    PJRTProgram = list(pjrt_program(add_program("f32")), pjrt_program("func.func @f() { return }")),
    PJRTLoadedExecutable = list(pjrt_compile(program), pjrt_deserialize(pjrt_serialize(add))),
    PJRTExecutionOptions = pjrt_execution_options(0L),
    PJRTTransfer = list(as_array_async(x), as_array_async(pjrt_empty("i4", 4000)), value(as_array_async(x))),
    PJRTCompiling = pjrt_compile_async(program),
    PJRTSafetensors = pjrt_open_safetensors(path),
    RTree = list(build_tree(list(a = 2)), tree_concat(list(tree)), map_tree(list(a = 1), identity)),
    Dispatcher = dispatcher(1, identity, move_inputs = TRUE),
    PJRTCallable = list(pjrt_function(add), pjrt_step(add, c(x = 1))),
    PJRTDLPack = as_dlpack(x),
    PJRTSystem = pjrt_topology(topology_plugin(), "1x2"),
    PJRTExported = exported(),
    others = list(value(pjrt_compile_async(program)), pjrt_load_safetensors(path))
  )
  make()
  before <- held()
  made <- make()
  expected <- c(
    PJRTPlugin = 1, PJRTClient = 0, PJRTDevice = 0, PJRTMemory = 0,
    # 9 of its own, 4 of the exported program, 1 of the file
    PJRTBuffer = 14, PJRTProgram = 2, PJRTExported = 1,
    # 2, and what was compiled in the background
    PJRTLoadedExecutable = 3, PJRTExecutionOptions = 1, PJRTTransfer = 2, PJRTCompiling = 1, PJRTSafetensors = 1,
    # 2, and the one of a function's state
    RTree = 3, Dispatcher = 1, PJRTCallable = 2, PJRTDLPack = 1, PJRTSystem = 1
  )
  expect_identical(held() - before, expected)
  rm(made)
  expect_identical(held(), before)
  # repeated calls return the same objects
  kept <- c("PJRTClient", "PJRTDevice", "PJRTMemory")
  lapply(devices(), memory_spaces)
  before <- held()[kept]
  for (i in 1:3) list(pjrt_client("cpu"), devices(), lapply(devices(), memory_spaces), device(x), memory_space(x))
  expect_identical(held()[kept], before)
})

test_that("failed calls leave no objects behind", {
  x <- pjrt_buffer(c(1, 2), "f64")
  add <- compile(add_program("2xf64", donates))
  bad <- pjrt_program("func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> { return %y : tensor<2xf64> }")
  serialized <- pjrt_serialize(add)
  failures <- expression(
    pjrt_buffer(c(1, NA), "i8", check = TRUE), pjrt_buffer(rep(NA, 1e4), "i8", check = TRUE),
    pjrt_empty("f64", c(2^31, 2^31)), pjrt_buffer(1:3, shape = 4L), pjrt_execute(add, x), pjrt_execute(add, x, x, x),
    pjrt_execute(add, pjrt_buffer(c(1, 2), "f64"), pjrt_scalar(1)), pjrt_execute(add, x, stop("no input")),
    pjrt_compile(bad), value(pjrt_compile_async(bad)), pjrt_deserialize(serialized[-20]),
    pjrt_program("x", format = "y"),
    as_array(copy_buffer(x, "cpu:9")), new_client(pjrt_plugin("cpu"), list(cpu_device_count = 0L)),
    pjrt_execute_sharded(add, list(list(x, x), list(x, x)))
  )
  live <- function() c(held(), cpu_stats())
  fail <- function() for (failure in failures) try(eval(failure), silent = TRUE)
  fail()
  before <- live()
  fail()
  expect_identical(live(), before)
  for (failure in failures) expect_error(eval(failure), class = "error")
})

test_that("interrupted calls leave no objects behind", {
  skip_on_os("windows")
  child <- run_child(quote({
    interrupted <- function(code) {
      tryCatch(
        {
          system(sprintf("(sleep 0.2; kill -INT %d) &", Sys.getpid()))
          code
          FALSE
        },
        interrupt = function(e) TRUE
      )
    }
    long <- compile(loop_program(6e7))
    double <- compile(unary_program("f64"))
    x <- pjrt_scalar(1, "f64")
    live <- function() {
      for (i in 1:3) gc()
      stats <- pjrt_memory_stats()
      c(stats$objects, colSums(stats$clients[-1L]))
    }
    # all wait for y
    tries <- expression(
      as_array(pjrt_execute(double, y)), await(pjrt_execute(double, y)), value(as_array_async(pjrt_execute(double, y))),
      print(pjrt_execute(double, y)), pjrt_compile(pjrt_program(chain_program(5000)))
    )
    before <- live()
    y <- pjrt_execute(long, x)
    for (code in tries) cat(interrupted(eval(code)), "")
    # interrupted work is counted until it ends
    await(pjrt_execute(double, y))
    rm(y)
    value(pjrt_compile_async(pjrt_program(add_program("2xf64"))))
    end <- Sys.time() + 60
    while (!identical(live(), before) && Sys.time() < end) Sys.sleep(0.05)
    cat(identical(live(), before), "\n")
  }))
  # R prints a newline when it is interrupted
  expect_identical(child[c("status", "out")], list(status = 0L, out = "TRUE TRUE TRUE TRUE TRUE TRUE "))
})

test_that("a session without a client has no memory in use", {
  child <- run_child(quote({
    stats <- pjrt_memory_stats()
    cat(dim(stats$clients), stats$staging[c("in_use", "kept")], stats$pinned, "\n")
    cat(length(ls(pjrt:::the$clients)), "\n")
  }))
  expect_clean(child, c("0 4 0 0 0 ", "0 "))
})

test_that("an R vector is kept alive only while a device uses it", {
  before <- pinned_at_rest()
  x <- aligned("double")
  buffers <- lapply(1:100, function(i) pjrt_buffer(x, "f64"))
  expect_identical(pinned_at_rest(), before + 100)
  rm(buffers)
  expect_identical(pinned_at_rest(), before)
})

test_that("vectors waiting for their upload are released once they are read", {
  before <- pinned_at_rest()
  buffers <- lapply(1:3, function(i) pjrt_buffer(matrix(i + 0, 1500, 1500)))
  lapply(buffers, await)
  expect_identical(pjrt_memory_stats()$pinned, before)
  for (i in 1:3) expect_identical(range(as_array(buffers[[i]])), c(i, i) + 0)
})

test_that("free staging memory is kept up to the limit", {
  withr::defer(pjrt_memory_stats())
  x <- pjrt_empty("f64", 1e6)
  for (limit in c(0, 2e7, 256e6)) {
    withr::local_options(pjrt.staging_max = limit)
    expect_identical(pjrt_memory_stats()$staging[["max"]], limit)
    for (i in 1:6) {
      arrays <- lapply(1:i, function(j) as_array(x))
      gc()
      staging <- pjrt_memory_stats()$staging
      expect_gte(staging[["in_use"]], i * 8e6)
      expect_lte(staging[["kept"]], limit)
      rm(arrays)
      gc()
      expect_lte(pjrt_memory_stats()$staging[["kept"]], limit)
    }
    # of the six free blocks, as many as fit are kept
    expect_gte(pjrt_memory_stats()$staging[["kept"]], min(limit %/% 9e6, 6) * 8e6)
  }
  options(pjrt.staging_max = NULL)
  expect_identical(pjrt_memory_stats()$staging[["max"]], 256 * 2^20)
})

test_that("lowering the limit frees staging memory above it", {
  withr::defer(pjrt_memory_stats())
  x <- as_array(pjrt_empty("f64", 2e6))
  rm(x)
  gc()
  expect_gte(pjrt_memory_stats()$staging[["kept"]], 1.6e7)
  withr::local_options(pjrt.staging_max = 0)
  expect_identical(pjrt_memory_stats()$staging[["kept"]], 0)
})

test_that("an invalid limit is refused by every function that uses staging memory", {
  x <- pjrt_empty("f64", 1e5)
  for (bad in list(-1, NA_real_, "1", NaN, c(1, 2), TRUE, list(1))) {
    withr::local_options(pjrt.staging_max = bad)
    for (use in list(pjrt_memory_stats, function() as_array(x), function() as_raw(x))) {
      expect_refused(use(), "invalid_input", "`options(pjrt.staging_max = )` must be a number of bytes, 0 or more, not")
    }
  }
  withr::local_options(pjrt.staging_max = NULL)
  expect_identical(range(as_array(x)), c(0, 0))
})

# A large array read from the device, in staging memory.
arrived <- function(from = 1, n = 1e5) as_array(pjrt_buffer(seq(from, by = 1, length.out = n), "f64"))

test_that("an array read from a device behaves like R's own arrays", {
  for (limit in list(NULL, 0)) {
    withr::local_options(pjrt.staging_max = limit)
    x <- arrived()
    own <- array(as.double(1:1e5))
    expect_identical(x, own)
    y <- x
    y[3] <- 0
    expect_identical(x, own)
    expect_identical(as.vector(y[1:4]), c(1, 2, 0, 4))
    x[5] <- -1
    own[5] <- -1
    attr(x, "note") <- "mine"
    attr(own, "note") <- "mine"
    expect_identical(x, own)
    dim(x) <- c(100L, 1000L)
    dim(own) <- c(100L, 1000L)
    expect_identical(x, own)
    expect_identical(unserialize(serialize(x, NULL)), own)
    file <- withr::local_tempfile()
    saveRDS(x, file)
    expect_identical(readRDS(file), own)
    expect_identical(t(x) %*% x, t(own) %*% own)
    expect_identical(c(x, 1), c(own, 1))
    expect_identical(sort(x, decreasing = TRUE), sort(own, decreasing = TRUE))
    dim(x) <- NULL
    length(x) <- 10L
    expect_identical(x, c(1, 2, 3, 4, -1, 6, 7, 8, 9, 10))
    x[11] <- 5
    expect_identical(x[9:11], c(9, 10, 5))
  }
})

test_that("arrays of every R type are equal in both kinds of memory", {
  for (limit in list(NULL, 0)) {
    withr::local_options(pjrt.staging_max = limit)
    n <- 3e5
    expect_identical(as_array(pjrt_buffer(seq_len(n))), array(seq_len(n)))
    expect_identical(as_array(pjrt_buffer(seq_len(n) %% 3 == 0)), array(seq_len(n) %% 3 == 0))
    expect_identical(as_array(pjrt_buffer(complex(real = 1:n), "c128")), array(complex(real = 1:n)))
    expect_bits(as_array(pjrt_buffer(bit64::as.integer64(1:n))), int64(1:n))
    expect_identical(as_raw(pjrt_buffer(rep(1:250, 2000), "ui8"), TRUE), rep(as.raw(1:250), 2000))
  }
})

test_that("many arrays can be read, changed and dropped independently", {
  withr::local_seed(21)
  kept <- list()
  for (i in 1:150) {
    # few different sizes, so that memory is reused
    n <- sample(c(4e4, 4e4 + 1, 1e5, 3e5), 1L)
    place <- paste(sample.int(12L, 1L))
    x <- arrived(i, n)
    x[1] <- -i
    kept[[place]] <- list(i, n, x)
    if (i %% 10 == 0) {
      gc()
      for (one in kept) {
        expected <- array(c(-one[[1L]], seq(one[[1L]] + 1, by = 1, length.out = one[[2L]] - 1)))
        expect(identical(one[[3L]], expected), paste("the array of step", one[[1L]], "changed"))
      }
    }
  }
})

test_that("an array sent back to the device keeps its content after R drops it", {
  for (limit in list(NULL, 0)) {
    withr::local_options(pjrt.staging_max = limit)
    x <- arrived()
    y <- pjrt_buffer(x, "f64")
    z <- pjrt_buffer(arrived(7), "f64")
    rm(x)
    gc()
    # overwrite all free staging memory
    for (i in 1:10) {
      other <- arrived(-i)
      other[] <- 0
    }
    expect(identical(as_array(y), array(as.double(1:1e5))), "the array that was dropped changed")
    expect(identical(as_array(z), array(as.double(7:(1e5 + 6)))), "the array that never had a name changed")
  }
})
