# Rust tests of the same with arrays of another library: src/rust/core/tests/dlpack.rs. Python runs in child processes.

test_that("a buffer of each type and shape comes back", {
  types <- c(
    "pred", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "f32", "f64", "bf16", "c64", "c128",
    "f8e5m2",
    "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3", "f8e3m4", "f8e8m0fnu"
  )
  for (type in types) {
    for (shape in list(integer(), 0L, 3L, c(2L, 0L), c(2L, 3L, 4L))) {
      size <- length(as_raw(pjrt_empty(type, shape), row_major = TRUE))
      x <- pjrt_buffer(as.raw(seq_len(size) %% 2L), dtype = type, shape = shape, row_major = TRUE)
      for (versioned in c(TRUE, FALSE)) {
        y <- pjrt_from_dlpack(as_dlpack(x, versioned = versioned))
        expect_identical(elt_type(y), elt_type(x))
        expect_identical(shape(y), shape)
        expect_identical(as_raw(y, row_major = TRUE), as_raw(x, row_major = TRUE), info = type)
      }
    }
  }
  expect_refused(as_dlpack(pjrt_empty("i4", 2L)), "unsupported_dtype", "narrower than a byte")
})

test_that("an array in place keeps its values when its buffer is dropped, deleted or donated", {
  double <- doubling()
  ends <- list(
    dropped = function(x) NULL,
    deleted = pjrt_delete,
    donated = function(x) expect_identical(as_array(pjrt_execute(double, x)), array(2, 1e5))
  )
  for (end in ends) {
    x <- ones()
    lent <- as_dlpack(x)
    end(x)
    rm(x)
    reuse_memory()
    # the import of an array that is used in place is donated, too: to a copy
    y <- pjrt_from_dlpack(lent, copy = FALSE)
    expect_identical(as_array(y), array(1, 1e5))
    again <- as_dlpack(y)
    expect_identical(as_array(pjrt_execute(double, y)), array(2, 1e5))
    expect_identical(as_array(pjrt_from_dlpack(again)), array(1, 1e5))
  }
  x <- ones()
  pjrt_delete(x)
  expect_refused(as_dlpack(x), "deleted_buffer")
})

test_that("a pending buffer is awaited", {
  loop <- pjrt_compile(pjrt_program(loop_program(1e5)))
  x <- pjrt_execute(loop, pjrt_scalar(1, "f64"))
  expect_identical(as_array(pjrt_from_dlpack(as_dlpack(x))), as_array(x))
})

test_that("an array is used once, and released if nobody uses it", {
  held <- function() {
    # the second collection frees the pages that the first one emptied
    for (i in 1:2) gc()
    pjrt_memory_stats()$objects[c("PJRTBuffer", "PJRTDLPack")]
  }
  before <- held()
  x <- ones()
  lent <- as_dlpack(x)
  y <- pjrt_from_dlpack(lent)
  expect_refused(pjrt_from_dlpack(lent), "invalid_input", "was used already")
  as_dlpack(x)
  rm(x, y, lent)
  expect_identical(held(), before)
})

test_that("copies are made if asked for", {
  x <- ones()
  copy <- as_dlpack(x, copy = TRUE)
  expect_output(print(copy), "<PJRTDLPack: f32[100000] in CPU memory>", fixed = TRUE)
  expect_output(print(as_dlpack(x)), "<PJRTDLPack: f32[100000] in CPU memory, read-only>", fixed = TRUE)
  old <- as_dlpack(x, versioned = FALSE)
  expect_output(print(old), "<PJRTDLPack: f32[100000] in CPU memory, without version>", fixed = TRUE)
  expect_identical(as_array(pjrt_from_dlpack(copy)), as_array(x))
  expect_identical(as_array(pjrt_from_dlpack(old, copy = TRUE, device = "cpu:1")), as_array(x))
  expect_output(print(old), "<PJRTDLPack: used>", fixed = TRUE)
  restored <- unserialize(serialize(as_dlpack(x), NULL))
  expect_output(print(restored), "<PJRTDLPack of another session>", fixed = TRUE)
})

test_that("memory stays bounded without calls of gc()", {
  skip_on_os(c("mac", "windows"))
  x <- pjrt_buffer(rep(1, 2e6), "f32")
  for (i in 1:50) pjrt_from_dlpack(as_dlpack(x), copy = TRUE)
  before <- resident()
  for (i in 1:500) pjrt_from_dlpack(as_dlpack(x), copy = i %% 2L == 0L)
  # 2 GB of copies
  expect_lt(resident() - before, 4e8)
})

test_that("other objects are refused", {
  expect_refused(as_dlpack(1), "invalid_input")
  expect_refused(pjrt_from_dlpack(1), "invalid_type", "must be a `PJRTDLPack` or a Python array")
  expect_refused(as_dlpack(ones(), copy = NA), "invalid_type", "`copy` must be TRUE or FALSE")
  expect_refused(as_dlpack(ones(), versioned = "1"), "invalid_type", "`versioned` must be TRUE or FALSE")
  expect_refused(as_dlpack(ones(), 1), "invalid_input", "Unused arguments")
  lent <- as_dlpack(ones())
  expect_refused(pjrt_from_dlpack(lent, copy = 1), "invalid_type", "`copy` must be TRUE or FALSE")
  expect_refused(pjrt_from_dlpack(lent, device = "cpu:9"), "invalid_input")
  # it was not used
  expect_identical(shape(pjrt_from_dlpack(lent)), 100000L)
  saved <- unserialize(serialize(as_dlpack(ones()), NULL))
  expect_refused(pjrt_from_dlpack(saved), "invalid_pointer", "does not survive saving")
})
