# Megabytes that R counts as used by vectors. The first collection finds the buffers that nobody holds, the second the
# memory that their device is done with.
vector_megabytes <- function() {
  gc()
  gc()["Vcells", 2L]
}

test_that("R counts a buffer's bytes, and little more", {
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

test_that("R's garbage collector sees buffers come and go", {
  before <- vector_megabytes()
  buffers <- lapply(1:20, function(i) pjrt_empty("f32", 1e6))
  expect_gt(vector_megabytes() - before, 70)
  rm(buffers)
  expect_lt(vector_megabytes() - before, 10)
})

test_that("uploaded buffers come and go, too", {
  data <- matrix(as.double(1:5e5), 1000)
  before <- vector_megabytes()
  buffers <- lapply(1:20, function(i) pjrt_buffer(data, "f64"))
  expect_gt(vector_megabytes() - before, 70)
  lapply(buffers, await)
  rm(buffers)
  expect_lt(vector_megabytes() - before, 10)
})

test_that("buffers keep their content under pressure on memory", {
  buffers <- lapply(1:8, function(i) pjrt_buffer(rep(i, 5e5), "f64"))
  for (i in 1:3) {
    lapply(1:5, function(j) numeric(1e6))
    gc()
  }
  for (i in 1:8) expect_true(all(as_array(buffers[[i]]) == i))
})

test_that("a donated input's memory is counted with the output", {
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

test_that("a donated buffer that was kept all the same keeps its memory", {
  executable <- compile(add_program("100000xf64", donates))
  x <- pjrt_empty("f64", 1e5)
  y <- pjrt_empty("f64", 1e5)
  out <- pjrt_execute(executable, x, y, execution_options = pjrt_execution_options(0L))
  expect_lt(as.numeric(object.size(out)), 1024)
  expect_gte(as.numeric(object.size(x)), 8e5)
})

test_that("memory goes along a chain of donations and is given back at its end", {
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

test_that("dropping results does not fill memory that R cannot see", {
  executable <- compile(unary_program("1000000xf64"))
  x <- pjrt_empty("f64", 1e6)
  resident <- function() {
    status <- readLines("/proc/self/status")
    as.numeric(gsub("[^0-9]", "", grep("^VmRSS", status, value = TRUE))) / 1024
  }
  skip_if_not(file.exists("/proc/self/status"), "this system does not tell")
  before <- resident()
  most <- 0
  for (i in 1:300) {
    y <- pjrt_execute(executable, x)
    if (i %% 20 == 0) {
      await(y)
      most <- max(most, resident() - before)
    }
  }
  # 2400 MB were made
  expect_lt(most, 1100)
})

test_that("a buffer's memory space is known", {
  space <- pjrt_memory(pjrt_scalar(1))
  expect_s3_class(space, "PJRTMemory")
  expect_identical(space$kind, "device")
  expect_snapshot(space, cran = TRUE)
  expect_refused(pjrt_memory(1), "invalid_pointer", "PJRTBuffer")
})

test_that("an R vector is kept only while a device uses it", {
  pins <- function() {
    vector_megabytes()
    pjrt_memory_stats()$pinned
  }
  before <- pins()
  vectors <- lapply(1:20, function(i) rep(as.double(i), 1e5))
  buffers <- lapply(vectors, pjrt_buffer, dtype = "f64")
  # as many as lie where devices can use them
  expect_gt(pins() - before, 0)
  rm(vectors)
  for (i in 1:20) expect_true(all(as_array(buffers[[i]]) == i))
  rm(buffers)
  expect_identical(pins(), before)
})
