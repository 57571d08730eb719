# Devices and threads that read R's memory in place while R continues: changes by R must never reach a buffer.
# Slow: repeats uploads while R changes the data.

in_r_order <- function(x) if (is.raw(x)) x else writeBin(as.vector(unclass(x)), raw())

# Every way to change a variable after an upload. Each function returns the buffer. `x` is a promise for a new vector.
changes <- list(
  `an element` = function(x) {
    y <- in_place(x)
    x[1] <- x[2]
    y
  },
  `an element by two brackets` = function(x) {
    y <- in_place(x)
    x[[7]] <- x[[2]]
    y
  },
  `all elements` = function(x) {
    y <- in_place(x)
    x[] <- x[1]
    y
  },
  `chosen elements` = function(x) {
    y <- in_place(x)
    x[c(TRUE, FALSE)] <- x[1]
    y
  },
  `attributes, then an element` = function(x) {
    y <- in_place(x)
    attr(x, "note") <- "changed"
    dim(x) <- NULL
    names(x)[2] <- "b"
    x[1] <- x[2]
    y
  },
  `dimensions, then an element` = function(x) {
    y <- in_place(x)
    dim(x) <- c(2L, length(x) / 2L)
    x[2, 3] <- x[1, 1]
    y
  },
  `the length` = function(x) {
    y <- in_place(x)
    length(x) <- length(x) - 1L
    x[1] <- x[2]
    x[length(x) + 1L] <- x[1]
    x[5] <- x[2]
    y
  },
  `an element of a list` = function(x) {
    here <- list(x, 2)
    rm(x)
    y <- in_place(here[[1L]])
    here[[1L]][1] <- here[[1L]][2]
    y
  },
  `a field of an environment` = function(x) {
    here <- new.env()
    here$x <- x
    rm(x)
    y <- in_place(here$x)
    here$x[3] <- here$x[2]
    here$x <- NULL
    y
  },
  `a variable of the function around` = function(x) {
    y <- in_place(x)
    change <- function() x[1] <<- x[2]
    change()
    y
  },
  `what another function got` = function(x) {
    change <- function(z) {
      out <- in_place(z)
      z[1] <- z[2]
      out
    }
    change(x)
  },
  `another name for it` = function(x) {
    z <- x
    y <- in_place(z)
    x[1] <- x[2]
    z[2] <- z[3]
    rm(x, z)
    y
  },
  `what a wrapper stands for` = function(x) {
    z <- x
    dim(z) <- c(length(z) / 2L, 2L)
    y <- in_place(x)
    z[1] <- z[2]
    x[2] <- x[3]
    y
  },
  `a wrapper` = function(x) {
    z <- x
    attr(z, "note") <- "a wrapper"
    rm(x)
    y <- in_place(z)
    z[1] <- z[2]
    z[3] <- z[2]
    y
  },
  `a sorted vector` = function(x) {
    if (is.complex(x) || is.raw(x)) {
      return(in_place(x))
    }
    z <- sort(x)
    y <- in_place(z)
    z[1] <- z[2]
    x[1] <- x[2]
    y
  }
)

test_that("changing an R vector never changes a buffer that shares its memory", {
  for (type in aligned_types) {
    expected <- in_r_order(aligned(type))
    for (change in names(changes)) {
      # R byte-compiles a function on its second call
      for (round in 1:3) {
        y <- changes[[change]](aligned(type))
        expect(identical(as_raw(y, row_major = TRUE), expected), paste(change, "of type", type, "changes a buffer"))
      }
    }
  }
})

test_that("a large vector in the dtype's format is used in place and released with the buffer", {
  vectors <- lapply(stats::setNames(nm = aligned_types), aligned)
  before <- pinned_at_rest()
  for (type in aligned_types) {
    x <- vectors[[type]]
    y <- in_place(x)
    expect_identical(pinned(), before + 1, label = type)
    # a second buffer on the same memory
    z <- in_place(x)
    expect_identical(pinned(), before + 2, label = type)
    rm(y)
    expect_identical(pinned_at_rest(), before + 1, label = type)
    expect_identical(as_raw(z, row_major = TRUE), in_r_order(x), label = type)
    rm(z)
    expect_identical(pinned_at_rest(), before, label = type)
  }
})

test_that("a loop can upload and change a vector in every step", {
  for (type in aligned_types) {
    x <- aligned(type)
    kept <- list()
    buffers <- list()
    for (i in 1:8) {
      kept[[i]] <- in_r_order(x)
      buffers[[i]] <- in_place(x)
      x[i] <- x[i + 10L]
    }
    for (i in 1:8) expect(identical(as_raw(buffers[[i]], TRUE), kept[[i]]), paste("step", i, "of type", type))
    # each function call changes its own copy
    steps <- lapply(1:4, function(i) {
      x[i] <- x[i + 20L]
      list(in_r_order(x), in_place(x))
    })
    for (step in steps) expect(identical(as_raw(step[[2L]], TRUE), step[[1L]]), type)
  }
})

test_that("one-column matrices, explicit shapes and other devices share memory too", {
  x <- aligned("double")
  expected <- as.vector(x)
  y <- list(
    pjrt_buffer(x, "f64", shape = c(4e5, 1)), pjrt_buffer(x, "f64", shape = c(1, 4e5, 1)),
    pjrt_buffer(x, "f64", device = "cpu:1")
  )
  x[] <- 0
  for (buffer in y) expect_identical(as.vector(as_array(buffer)), expected)
})

test_that("a vector that only a buffer still uses keeps its content", {
  for (type in aligned_types) {
    expected <- in_r_order(aligned(type))
    y <- in_place(aligned(type))
    gc()
    # vectors of the same size, which would reuse its memory
    others <- lapply(1:5, function(i) {
      x <- aligned(type)
      x[] <- x[i]
      x
    })
    expect(identical(as_raw(y, TRUE), expected), paste("type", type))
    rm(others)
  }
})

test_that("the output of a donation does not keep the input's R vector alive", {
  add <- compile(add_program("400000xf64", donates))
  before <- pinned_at_rest()
  x <- in_place(aligned("double"))
  expect_gte(as.numeric(object.size(x)), 3.2e6)
  out <- pjrt_execute(add, x, pjrt_buffer(1, "f64", shape = 4e5))
  await(out)
  expect_lt(as.numeric(object.size(out)), 1024)
  expect_lt(as.numeric(object.size(x)), 1024)
  expect_identical(pinned_at_rest(), before)
  expect_identical(as_array(out)[4e5], 4e5 + 1)
})

test_that("donating a buffer does not change its R vector", {
  add <- compile(add_program("400000xf64", donates))
  x <- aligned("double")
  expected <- as.vector(x)
  one <- pjrt_buffer(1, "f64", shape = 4e5)
  for (i in 1:3) {
    y <- pjrt_execute(add, pjrt_buffer(x, "f64"), one)
    expect_identical(as.vector(as_array(y)), expected + 1)
    expect_identical(as.vector(x), expected)
  }
})

test_that("a program that returns its argument keeps the vector's content", {
  keep <- compile(identity_program("400000xf64"))
  for (i in 1:3) {
    x <- aligned("double")
    y <- pjrt_execute(keep, pjrt_buffer(x, "f64"))
    x[] <- 0
    rm(x)
    gc()
    other <- aligned("double")
    other[] <- 5
    expect_identical(as.vector(as_array(y)), as.double(1:4e5))
  }
})

test_that("buffers of one vector and arrays read from them are independent", {
  x <- aligned("double")
  y <- pjrt_buffer(x, "f64")
  z <- pjrt_buffer(x, "f64")
  back <- as_array(y)
  back[1] <- -1
  expect_identical(x[1], 1)
  expect_identical(y[1], 1)
  expect_identical(z[1], 1)
  bytes <- as_raw(y, row_major = TRUE)
  bytes[] <- as.raw(0)
  expect_identical(y[2], 2)
})

test_that("a copy on another device keeps the original content", {
  for (type in aligned_types) {
    x <- aligned(type)
    expected <- in_r_order(x)
    y <- in_place(x)
    copy <- copy_buffer(y, "cpu:1")
    back <- copy_buffer(copy, "cpu:0")
    rm(y)
    x[] <- x[3]
    gc()
    expect(identical(as_raw(copy, TRUE), expected), type)
    expect(identical(as_raw(back, TRUE), expected), type)
  }
})

test_that("unaligned and other unsuitable memory is copied", {
  for (shift in 0:8) {
    # vary the address of the vector
    x <- as.double(seq_len(4000 + shift))
    y <- pjrt_buffer(x, "f64")
    x[] <- 0
    expect_identical(as.vector(as_array(y)), as.double(seq_len(4000 + shift)))
  }
  before <- pinned_at_rest()
  x <- aligned("double")
  matrix <- x
  dim(matrix) <- c(1000, 400)
  buffers <- list(pjrt_buffer(x), pjrt_buffer(matrix, "f64"), pjrt_buffer(x, "f64", check = TRUE))
  expect_identical(pinned_at_rest(), before)
})

# More than 8 MB as f32: the upload continues in the background.
later_length <- 2.3e6

later <- function(from = 1) pjrt_buffer(seq(from, by = 1, length.out = later_length) + 0, "f32")

expect_later <- function(x, from = 1) {
  values <- as.vector(as_array(x))
  testthat::expect(
    length(values) == later_length && all(values == seq(from, by = 1, length.out = later_length)), "other values"
  )
}

test_that("an R object can be dropped right after pjrt_buffer() returns", {
  for (i in 1:4) {
    x <- as.double(seq_len(later_length))
    y <- pjrt_buffer(x)
    rm(x)
    gc()
    junk <- lapply(1:3, function(j) rep(-1, later_length))
    expect_later(y)
  }
})

test_that("an R object can be changed right after pjrt_buffer() returns", {
  x <- as.double(seq_len(later_length))
  n <- length(x)
  for (i in 1:3) {
    y <- pjrt_buffer(x)
    x[] <- 0
    x[n] <- -5
    z <- pjrt_buffer(x)
    x <- as.double(seq_len(later_length))
    expect_later(y)
    expect_identical(as.vector(z[c(1, n)]), c(0, -5))
  }
  integers <- matrix(seq_len(2200000), 1100)
  y <- pjrt_buffer(integers)
  integers[] <- 0L
  expect_identical(as_array(y), matrix(seq_len(2200000), 1100))
  bytes <- rep(as.raw(1:100), 1e5)
  y <- pjrt_buffer(bytes, dtype = "ui8", shape = c(100, 1e5), row_major = FALSE)
  bytes[] <- as.raw(0)
  expect_identical(as_array(y), matrix(rep(1:100, 1e5), 100))
})

test_that("many uploads can run at once and release R's vectors", {
  before <- pinned_at_rest()
  buffers <- lapply(1:8, later)
  for (i in 8:1) expect_later(buffers[[i]], i)
  expect_identical(pinned_at_rest(), before)
  rm(buffers)
})

test_that("zeros and repeated values of any size are uploaded", {
  empty <- pjrt_empty("f64", c(1500, 1000))
  filled <- pjrt_buffer(7, shape = c(1500, 1600))
  pattern <- pjrt_buffer(3L, "i8", shape = 9e6)
  expect_identical(range(as_array(empty)), c(0, 0))
  expect_identical(range(as_array(filled)), c(7, 7))
  expect_identical(range(as_array(pattern)), c(3L, 3L))
})

test_that("a buffer can be used during its upload", {
  double <- compile(unary_program("2300000xf32"))
  both <- compile(add_program("2300000xf32", donates))
  doubled <- pjrt_execute(double, later(1))
  promise <- as_array_async(later(2))
  copy <- copy_buffer(later(3), "cpu:1")
  parts <- later(4)[c(1, later_length)]
  first <- later(5)[[1]]
  shown <- capture.output(print(later(6), max_rows = 2))
  size <- shape(later(7))
  bytes <- as_raw(later(8), row_major = TRUE)
  sum <- pjrt_execute(both, later(1), later(0))
  expect_identical(as.vector(doubled[c(1, later_length)]), c(2, 2 * later_length))
  expect_identical(as.vector(value(promise))[c(1, later_length)], c(2, later_length + 1))
  expect_identical(device(copy), devices("cpu")[[2L]])
  expect_later(copy, 3)
  expect_identical(as.vector(parts), c(4, later_length + 3))
  expect_identical(first, 5)
  expect_match(shown, "^ *\\[1\\] +6 ", all = FALSE)
  expect_identical(size, as.integer(later_length))
  expect_identical(readBin(bytes, "double", 2L, size = 4L), c(8, 9))
  expect_identical(as.vector(as_array(sum))[c(1, 2, later_length)], c(1, 3, 2 * later_length - 1))
})

test_that("a buffer can be donated during its upload", {
  both <- compile(add_program("2300000xf32", donates))
  x <- later(1)
  y <- later(0)
  out <- pjrt_execute(both, x, y)
  expect_refused(as_array(x), "deleted_buffer")
  expect_refused(await(x), "deleted_buffer")
  expect_refused(is_ready(x), "deleted_buffer")
  rm(x)
  gc()
  expect_identical(as.vector(as_array(out))[1:2], c(1, 3))
  expect_later(y, 0)
})

test_that("programs on any thread wait for an upload", {
  for (mode in c("auto", "thread", "inline")) {
    withr::local_options(pjrt.dispatch = mode)
    double <- compile(unary_program("2300000xf32"))
    both <- compile(add_program("2300000xf32", donates))
    twice <- pjrt_execute(double, later(2))
    sum <- pjrt_execute(both, pjrt_execute(both, later(1), later(1)), later(-1))
    expect_identical(as.vector(twice[c(1, 2)]), c(4, 6), label = mode)
    expect_identical(as.vector(sum[c(1, 2, later_length)]), c(1, 4, 3 * later_length - 2), label = mode)
  }
})

test_that("await() waits for an upload", {
  for (i in 1:4) {
    x <- later(i)
    expect_true(is_ready(x) %in% c(TRUE, FALSE))
    expect_identical(await(x), x)
    expect_true(is_ready(x))
    expect_later(x, i)
  }
})

test_that("R does not wait for the uploads of dropped buffers", {
  before <- pinned_at_rest()
  for (i in 1:10) later(i)
  gc()
  # arrays are uploaded one after the other
  x <- later(11)
  expect_later(x, 11)
  expect_identical(pinned_at_rest(), before)
})

test_that("a session exits cleanly during uploads", {
  code <- quote({
    x <- matrix(as.double(1:4e6), 2000)
    kept <- lapply(1:6, function(i) pjrt_buffer(x + i))
    y <- pjrt_execute(compile(unary_program("2000x2000xf32")), kept[[6L]])
    promise <- as_array_async(y)
    copy <- copy_buffer(kept[[5L]], "cpu:1")
    for (i in 1:6) pjrt_buffer(x - i)
    rm(kept)
    cat("leaving\n")
    if (Sys.getenv("QUIT") == "yes") quit("no")
  })
  for (quit in c("yes", "no")) {
    expect_clean(run_child(code, c(QUIT = quit, PJRT_CPU_DEVICE_COUNT = "2")), "leaving")
  }
})

test_that("a session that fails during uploads exits with R's own status", {
  child <- run_child(quote({
    kept <- lapply(1:4, function(i) pjrt_buffer(matrix(i + 0, 2000, 2000)))
    stop("for a reason")
  }))
  expect_identical(child$status, 1L)
  expect_identical(child$err, c("Error: for a reason", "Execution halted"))
})

test_that("forks that do not use pjrt do not disturb uploads", {
  child <- run_child(quote({
    x <- as.double(1:3e6)
    kept <- lapply(1:4, function(i) pjrt_buffer(x + i))
    squares <- parallel::mclapply(1:4, function(i) {
      y <- x
      y[1] <- i
      gc()
      sum(y[1:2])
    }, mc.cores = 2)
    cat(unlist(squares), vapply(kept, function(b) b[[3e6]], 0) - 3e6, "\n")
  }))
  expect_clean(child, "3 4 5 6 1 2 3 4 ")
})
