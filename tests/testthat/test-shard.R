both <- c("cpu:0", "cpu:1")

test_that("an array can be divided along any dimension and reassembled", {
  x <- array(as.double(1:48), c(4, 2, 6))
  for (dim in 1:3) {
    shards <- pjrt_shard(x, both, dim)
    expect_type(shards, "list")
    expect_identical(lapply(shards, device), devices("cpu"))
    halves <- split(seq_len(dim(x)[[dim]]), rep(1:2, each = dim(x)[[dim]] / 2))
    part <- function(i) switch(dim, x[i, , ], x[, i, , drop = FALSE], x[, , i])
    expect_identical(lapply(shards, as_array), unname(lapply(halves, part)))
    expect_identical(pjrt_unshard(shards, dim), x)
  }
})

test_that("a vector is divided along its only dimension", {
  shards <- pjrt_shard(c(1, 2, 3, 4), both)
  expect_identical(lapply(shards, as_array), list(array(c(1, 2)), array(c(3, 4))))
  expect_identical(pjrt_unshard(shards), array(c(1, 2, 3, 4)))
  expect_identical(pjrt_unshard(pjrt_shard(array(1:4), both)), array(1:4))
})

test_that("every R type can be divided and gets its default dtype", {
  values <- list(
    c(TRUE, FALSE, TRUE, TRUE), 1:4, c(0.5, NA, -Inf, 1), c(1i, 2 + 1i, 3, 4),
    bit64::as.integer64(c("9007199254740993", "-1", "0", "9223372036854775807"))
  )
  for (x in values) {
    dim(x) <- c(2, 2)
    for (dim in 1:2) {
      shards <- pjrt_shard(x, both, dim)
      expect_identical(elt_type(shards[[1L]]), elt_type(pjrt_buffer(x)))
      expect_bits(pjrt_unshard(shards, dim), as_array(pjrt_buffer(x)))
    }
  }
  expect_identical(as.character(elt_type(pjrt_shard(1:4, both, dtype = "i8")[[2L]])), "i8")
  expect_refused(pjrt_shard(c(1L, 2L, 3L, NA), both, check = TRUE), "invalid_input")
})

test_that("names are not kept", {
  x <- matrix(1:4, 2, dimnames = list(c("a", "b"), NULL))
  expect_identical(pjrt_unshard(pjrt_shard(x, both)), unname(x))
})

test_that("arrays without elements can be divided", {
  expect_identical(pjrt_unshard(pjrt_shard(numeric(), both)), array(numeric()))
  x <- matrix(0, 4, 0)
  expect_identical(lapply(pjrt_shard(x, both), shape), list(c(2L, 0L), c(2L, 0L)))
  expect_identical(dim(pjrt_unshard(pjrt_shard(x, both))), c(4L, 0L))
  expect_identical(dim(pjrt_unshard(pjrt_shard(matrix(0, 0, 3), both))), c(0L, 3L))
})

test_that("without a dimension every device gets the whole array", {
  x <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  copies <- pjrt_shard(x, both, dim = NULL)
  expect_identical(lapply(copies, device), devices("cpu"))
  for (copy in copies) expect_identical(as_array(copy), x)
  expect_identical(pjrt_unshard(copies, dim = NULL), x)
  scalars <- list(pjrt_scalar(1), pjrt_scalar(1, device = "cpu:1"))
  expect_identical(pjrt_unshard(scalars, dim = NULL), 1)
  expect_refused(pjrt_unshard(scalars), "invalid_input", "`dim = NULL`")
})

test_that("devices can be given as a list, names or an executable", {
  expect_identical(lapply(pjrt_shard(1:2, devices("cpu")), device), devices("cpu"))
  executable <- compile(
    unary_program("2xf32"), pjrt_compile_options(2L), devices = c("cpu:1", "cpu:0")
  )
  expect_identical(lapply(pjrt_shard(1:2, executable = executable), device), rev(devices("cpu")))
  expect_identical(device(pjrt_shard(1:2, devices("cpu")[[2L]])[[1L]]), devices("cpu")[[2L]])
  for (bad in list(list(), 1, pjrt_scalar(1))) {
    expect_refused(pjrt_shard(1:2, bad), "invalid_input", "`devices` must be a list of devices")
  }
  expect_refused(pjrt_shard(1:2), "invalid_input", "Either `devices` or `executable`")
  expect_refused(pjrt_shard(1:2, executable), "invalid_input", "Either `devices` or `executable`")
  expect_refused(pjrt_shard(1:2, "cpu:0", executable = executable), "invalid_input", "Either `devices` or")
  error <- expect_refused(pjrt_shard(1:2, c("cpu:0", "cpu:7")), "invalid_input", "Device index 7 out of range")
  expect_identical(error$call[[1L]], quote(pjrt_shard))
})

test_that("dimensions that do not divide equally are refused", {
  error <- expect_refused(pjrt_shard(matrix(0, 5, 2), both), "shape_mismatch", "Dimension 1 of `x` has 5 elements")
  expect_match(conditionMessage(error), "to get 4 or 6", fixed = TRUE)
  error <- expect_refused(pjrt_shard(1, both), "shape_mismatch", "has 1 element, which")
  expect_match(conditionMessage(error), "to get 2, or use fewer devices", fixed = TRUE)
})

test_that("dimensions that an array does not have are refused", {
  x <- matrix(1:4, 2)
  for (bad in list(0, 3, 1.5, "1", NA, 1:2, -1, factor("a"))) {
    expect_refused(pjrt_shard(x, both, bad), "invalid_input", "`dim` must be NULL or a number from 1 to 2")
    expect_refused(
      pjrt_unshard(pjrt_shard(x, both), bad), "invalid_input", "`dim` must be NULL or a number from 1 to 2"
    )
  }
})

test_that("objects that are not arrays are refused", {
  for (bad in list(NULL, list(1, 2), data.frame(a = 1:2), pjrt_buffer(1:2), quote(x))) {
    expect_refused(pjrt_shard(bad, both), "invalid_input", "`x` must be an R vector, matrix or array")
  }
})

test_that("buffers that do not fit together are refused", {
  a <- pjrt_buffer(matrix(1:4, 2))
  for (bad in list(a, list(), list(1), NULL, list(list(a), list(a)))) {
    expect_refused(pjrt_unshard(bad), "invalid_input", "must be a list of `PJRTBuffer`s")
  }
  b <- pjrt_buffer(matrix(1:6, 2))
  expect_refused(pjrt_unshard(list(a, b)), "shape_mismatch", "[2x2], [2x3]")
  expect_identical(pjrt_unshard(list(a, b), 2), cbind(matrix(1:4, 2), matrix(1:6, 2)))
  expect_refused(pjrt_unshard(list(a, b), NULL), "shape_mismatch", "[2x2], [2x3]")
  expect_refused(pjrt_unshard(list(a, pjrt_buffer(1:4))), "shape_mismatch", "[2x2], [4]")
  expect_refused(pjrt_unshard(list(a, pjrt_buffer(matrix(1, 2, 2)))), "dtype_mismatch", "i32, f32")
})
