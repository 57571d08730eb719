# Compact vectors (ALTREP): sequences are uploaded in chunks and never expanded in memory, and wrappers are read as the
# vectors they wrap.
# Slow: moves large sequences.

# Whether R still only describes a sequence.
is_compact <- function(x) {
  any(grepl("(compact)", utils::capture.output(.Internal(inspect(x))), fixed = TRUE))
}

# The peak growth of R's vector memory while `code` runs, in megabytes. It includes buffers as R counts them.
most_megabytes <- function(code) {
  before <- gc(reset = TRUE)["Vcells", 2L]
  force(code)
  after <- gc()
  # the last column: there are more columns if R's memory is limited
  after["Vcells", ncol(after)] - before
}

test_that("a sequence converts to every dtype like an ordinary vector", {
  n <- 20000L
  integers <- 1:n
  doubles <- seq(3, by = 1, length.out = n)
  backwards <- n:1
  big <- 3e9:(3e9 + 19999)
  for (x in list(integers, backwards)) {
    whole <- c(x, 0L)[seq_len(n)]
    for (dtype in setdiff(names(mlir_types), c("pred", "c64", "c128"))) {
      expect_identical(as_raw(pjrt_buffer(x, dtype), TRUE), as_raw(pjrt_buffer(whole, dtype), TRUE), label = dtype)
    }
  }
  for (x in list(as.double(integers), big)) {
    whole <- c(x, 0)[seq_len(n)]
    for (dtype in setdiff(names(mlir_types), c("c64", "c128"))) {
      expect_identical(as_raw(pjrt_buffer(x, dtype), TRUE), as_raw(pjrt_buffer(whole, dtype), TRUE), label = dtype)
    }
  }
  expect_identical(as_array(pjrt_buffer(1:1e6)), array(c(1:1e6, 0L)[1:1e6]))
  expect_identical(as_array(pjrt_buffer(seq(1, 1e6), "f64")), array(c(seq(1, 1e6), 0)[1:1e6]))
  expect_identical(as_array(pjrt_buffer(big, "f64")), array(3e9 + 0:19999))
})

test_that("uploading a sequence does not expand it in R's memory", {
  n <- 1e7
  sources <- list(integer = function() 1:n, backwards = function() n:1, double = function() 1e10:(1e10 + n - 1))
  expect_true(is_compact(sources$integer()))
  for (source in names(sources)) {
    for (dtype in c("i32", "f32", "i8", "f64")) {
      x <- sources[[source]]()
      taken <- most_megabytes({
        await(pjrt_buffer(x, dtype))
        # until the next collection, R also counts the buffer itself (at most 80 MB)
        gc()
      })
      expect_true(is_compact(x), label = paste(source, dtype))
      expect_lt(taken, if (dtype == "f64") 85 else if (dtype == "i8") 15 else 45)
    }
    expect_identical(as.vector(pjrt_buffer(x, "f64")[c(1, n)]), as.double(c(x[1], x[n])))
  }
})

test_that("check = TRUE reads a sequence in chunks", {
  n <- 1e7
  x <- 1:n
  expect_refused(
    pjrt_buffer(x, "i8", check = TRUE), "invalid_input",
    "`data` has 9999873 values that i8 cannot hold; the first is element 128."
  )
  expect_refused(
    pjrt_buffer(x, "f16", check = TRUE), "invalid_input",
    "`data` has 9992833 values that f16 cannot hold; the first is element 2049."
  )
  expect_identical(as.vector(pjrt_buffer(x, "i32", check = TRUE)[c(1, n)]), c(1L, as.integer(n)))
  expect_identical(as.vector(pjrt_buffer(x, "f32", check = TRUE)[c(1, n)]), c(1, n))
  expect_true(is_compact(x))
  # the first invalid value is not in the first chunk
  y <- -100:1e6
  expect_refused(pjrt_buffer(y, "i16", check = TRUE), "invalid_input", "the first is element 32869.")
  z <- -5000000:5000000
  expect_refused(
    pjrt_buffer(z, "ui32", check = TRUE), "invalid_input",
    "`data` has 5000000 values that ui32 cannot hold; the first is element 1."
  )
  expect_true(is_compact(y) && is_compact(z))
})

test_that("a sequence can be given a shape, or repeated to fill one", {
  for (dims in list(c(1L, 1000L), c(1000L, 1L), c(10L, 100L), c(10L, 10L, 10L))) {
    x <- 1:1000
    expect_identical(as_array(pjrt_buffer(x, shape = dims)), array(c(x), dims))
    expect_identical(as_array(pjrt_buffer(seq(1, 1000), "f64", shape = dims)), array(as.double(1:1000), dims))
  }
  expect_identical(as_array(pjrt_scalar((5:6)[2])), 6L)
  expect_identical(as_array(pjrt_buffer(7:7, shape = c(2, 5000))), matrix(7L, 2, 5000))
  expect_refused(pjrt_buffer(1:3, shape = 4), "shape_mismatch")
})

test_that("a sequence that R has expanded is used like any other vector", {
  x <- 1:1e5
  y <- pjrt_buffer(x)
  x[2] <- 0L
  z <- pjrt_buffer(x)
  expect_identical(as.vector(y[1:3]), 1:3)
  expect_identical(as.vector(z[1:3]), c(1L, 0L, 3L))
})

test_that("wrapped vectors are read as the vectors they wrap", {
  x <- aligned("double", 1e5)
  wrapped <- x
  attr(wrapped, "note") <- "changed"
  expect_identical(as_array(pjrt_buffer(wrapped, "f64")), as_array(pjrt_buffer(x, "f64")))
  expect_identical(as_array(pjrt_buffer(sort(c(3, 1, 2)[rep(1:3, 1e4)]), "f64")), array(rep(c(1, 2, 3), each = 1e4)))
  expect_identical(as_array(pjrt_buffer(rev(1:1e4))), array(1e4:1 + 0L))
})

test_that("a large array read from a buffer behaves like any other vector", {
  n <- 300000L
  arrays <- list(
    logical = pjrt_buffer(rep(c(TRUE, FALSE, FALSE), length.out = n)), integer = pjrt_buffer(c(n:2, 7L)),
    double = pjrt_buffer(c(seq_len(n - 1L), 0.5), "f64"), complex = pjrt_buffer(complex(n, 1:n, n:1), "c128")
  )
  arrays <- c(lapply(arrays, as_array), raw = list(as_raw(arrays$integer)))
  for (type in names(arrays)) {
    x <- arrays[[type]]
    expect_identical(typeof(x), type)
    # memory that R itself allocated
    own <- vector(type, length(x))
    own[] <- x
    dim(own) <- dim(x)
    for (f in list(
      identity, function(x) x[[5]], function(x) x[c(1, length(x))], rev, as.character,
      function(x) unserialize(serialize(x, NULL)),
      function(x) identical(x, own), function(x) match(x[[9]], x), function(x) x == x[[3]], unique, object.size
    )) {
      expect_identical(f(x), f(own), label = type)
    }
    # changing a copy leaves the original alone
    y <- x
    y[2:3] <- y[[7]]
    y[[4]] <- y[[7]]
    expect_identical(x, own, label = type)
    own[2:4] <- own[[7]]
    expect_identical(y, own, label = type)
  }
})

test_that("the memory of a large array is freed with the array", {
  in_use <- function() {
    gc()
    pjrt_memory_stats()$staging[["in_use"]]
  }
  x <- pjrt_buffer(as.double(1:1e5), "f64")
  await(x)
  before <- in_use()
  arrays <- lapply(1:5, function(i) as_array(x))
  expect_gte(in_use() - before, 5 * 8e5)
  rm(arrays)
  expect_identical(in_use(), before)
})
