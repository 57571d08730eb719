# Slow: compiles many programs.

# Stands for an empty subscript.
all_of_it <- "all of it"

# Expects x[...] to equal the same subset of the array, bit by bit.
expect_part <- function(x, arguments, array = as_array(x)) {
  arguments[vapply(arguments, identical, NA, all_of_it)] <- list(quote(expr = ))
  # without its class, because bit64 does not support matrix subscripts
  expected <- do.call("[", c(list(unclass(array)), arguments))
  oldClass(expected) <- oldClass(array)
  expect_bits(do.call("[", c(list(x), arguments)), expected)
}

# A random subscript of a random kind for `n` positions.
random_subscript <- function(n) {
  some <- function(replace) sample.int(n, sample.int(n, 1L), replace = replace)
  run <- sort(sample.int(n, 2L, replace = TRUE))
  switch(sample.int(9L, 1L),
    all_of_it, some(FALSE), some(TRUE), as.double(some(FALSE)) + 0.5, -some(FALSE), c(0, some(TRUE)),
    sample(c(TRUE, FALSE), n, replace = TRUE), run[[1L]]:run[[2L]], TRUE
  )
}

# A buffer of these dimensions, with distinct elements if the dtype has enough values.
numbered <- function(dtype, dims) {
  n <- prod(dims)
  raw <- switch(dtype,
    pred = as.raw(seq_len(n) %% 3L == 0L),
    c64 = ,
    f32 = bytes(seq_len(n * dtype_bytes(dtype) / 4L) / 8, 4L),
    c128 = ,
    f64 = bytes(seq_len(n * dtype_bytes(dtype) / 8L) / 3),
    bytes(as.integer(seq_len(n * dtype_bytes(dtype)) %% 119L), 1L)
  )
  pjrt_buffer(raw, dtype = dtype, shape = dims, row_major = TRUE)
}

test_that("subsetting a buffer equals subsetting its array, for every dtype", {
  for (dtype in names(mlir_types)) {
    x <- numbered(dtype, c(3, 4, 2))
    for (arguments in list(
      list(2, all_of_it, 1), list(all_of_it, 2:3, all_of_it), list(c(3, 1), -2, c(TRUE, FALSE)), list(1:5), list(24),
      list(c(2, 7, 7)), list(cbind(1:3, 2, 1)), list(2, 3, 1, drop = FALSE), list(0, 1, 1), list(all_of_it)
    )) {
      expect_part(x, arguments)
    }
    expect_bits(x[[2, 3, 1]], as_array(x)[[2, 3, 1]])
    expect_bits(x[[17]], as_array(x)[[17]])
  }
})

test_that("every kind of subscript selects the same elements as in an array, at every rank", {
  withr::local_seed(1)
  for (dims in list(7, 1, c(4, 5), c(1, 6), c(3, 1, 4), c(2, 3, 2, 3), c(2, 1, 3, 2, 2))) {
    x <- numbered("i32", dims)
    array <- as_array(x)
    for (round in 1:60) {
      arguments <- lapply(dims, random_subscript)
      expect_part(x, c(arguments, list(drop = sample(c(TRUE, FALSE), 1L))), array)
      expect_part(x, list(random_subscript(prod(dims))), array)
      if (length(dims) > 1L) {
        cells <- vapply(dims, function(n) sample(0:n, 5L, replace = TRUE), double(5))
        expect_part(x, list(cells), array)
      }
    }
  }
})

test_that("a scalar can be subset with 1", {
  x <- pjrt_scalar(3.5)
  expect_identical(x[], 3.5)
  expect_identical(x[1], 3.5)
  expect_identical(x[c(1, 1)], c(3.5, 3.5))
  expect_identical(x[-1], numeric())
  expect_identical(x[TRUE], 3.5)
  expect_identical(x[[1]], 3.5)
  expect_refused(x[2], "invalid_input", "out of bounds")
  expect_refused(x[1, 1], "invalid_input", "0 dimensions, but got 2 subscripts")
})

test_that("arrays without elements can be subset", {
  x <- pjrt_empty("f32", c(0, 3))
  for (arguments in list(
    list(all_of_it), list(all_of_it, 2), list(all_of_it, 1:2), list(integer(), 2), list(NULL, all_of_it),
    list(integer()), list(all_of_it, 2, drop = FALSE), list(-1, all_of_it)
  )) {
    expect_part(x, arguments)
  }
  expect_identical(pjrt_empty("i32", 0L)[], array(integer()))
  expect_refused(x[1, 1], "invalid_input", "out of bounds")
  expect_refused(x[4, integer()], "invalid_input", "out of bounds")
})

test_that("subsetting a vector keeps one dimension", {
  x <- pjrt_buffer(c(5L, 6L, 7L))
  for (arguments in list(list(2:3), list(2), list(integer()), list(2, drop = FALSE), list(cbind(2:3)), list(-1:-2))) {
    expect_part(x, arguments)
  }
  expect_part(pjrt_buffer(1L), list(all_of_it))
})

test_that("buffers with another memory layout are subset correctly", {
  program <- "module attributes {mhlo.layout_mode = \"default\"} {
    func.func public @main(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32> {mhlo.layout_mode = \"{1,0,2}\"}) {
      %0 = stablehlo.add %x, %x : tensor<2x3x4xf32>
      return %0 : tensor<2x3x4xf32>
    }
  }"
  array <- array(as.double(1:24), c(2, 3, 4))
  x <- pjrt_execute(compile(program), pjrt_buffer(array))
  withr::local_seed(2)
  for (round in 1:60) {
    expect_part(x, lapply(dim(array), random_subscript), 2 * array)
    expect_part(x, list(random_subscript(24)), 2 * array)
  }
  expect_identical(x[[2, 1, 3]], 2 * array[[2, 1, 3]])
})

test_that("integer64 keeps its class and bits in every kind of subset", {
  values <- bit64::as.integer64(c("9007199254740993", "-1", "9223372036854775807", NA, "0", "5"))
  x <- without_na_warning(pjrt_buffer(int64(values, c(2, 3))))
  expect_bits(x[1, ], values[c(1, 3, 5)])
  expect_bits(x[1, , drop = FALSE], int64(values[c(1, 3, 5)], c(1, 3)))
  expect_bits(x[4:2], values[4:2])
  expect_bits(x[[2, 2]], values[[4]])
  expect_bits(x[bit64::as.integer64(2)], values[2])
  expect_bits(x[int64(c(1, 2, 2, 3), c(2, 2))], values[c(3, 6)])
  expect_bits(x[integer()], values[integer()])
})

test_that("functions can pass on empty subscripts", {
  x <- pjrt_buffer(matrix(1:6, 2))
  pick <- function(i, j) x[i, j]
  expect_identical(pick(2), c(2L, 4L, 6L))
  expect_identical(pick(, 3), 5:6)
  expect_identical(x[i = 1, j = 2], 3L)
  expect_identical(do.call("[", list(x, 1, 2)), 3L)
})

test_that("subscripts out of bounds raise an error", {
  x <- pjrt_buffer(matrix(1:6, 2))
  for (bad in list(7, 7L, c(1, 1e300), Inf, rep(TRUE, 7), c(1, NaN), NA, NA_integer_, c(TRUE, NA))) {
    expect_refused(x[bad], "invalid_input", if (anyNA(bad)) "must not be NA" else "out of bounds")
  }
  expect_refused(x[3, 1], "invalid_input", "Subscript out of bounds: 3, where dimension 1 has 2 positions.")
  expect_identical(as.vector(as_array(x[2.7, 1.2, as = "buffer"])), as.vector(x[2, 1]))
  expect_identical(as.vector(pjrt_buffer(numeric())[FALSE]), numeric())
  expect_refused(x[1e5, 1, as = "buffer"], "invalid_input", "Subscript out of bounds: 100000, where")
  expect_refused(x[1e300, 1, as = "buffer"], "invalid_input", "Subscript out of bounds: 1e+300, where")
  expect_refused(x[1, 1:4], "invalid_input", "dimension 2 has 3 positions")
  expect_refused(x[c(TRUE, TRUE, FALSE), 1], "invalid_input", "out of bounds")
  expect_refused(x[cbind(c(1, 3), 1)], "invalid_input", "row 2 of a matrix of subscripts")
  expect_refused(x[cbind(NA, 1)], "invalid_input", "must not be NA")
  expect_refused(x[[7]], "invalid_input", "out of bounds")
  expect_refused(x[[1, 4]], "invalid_input", "out of bounds")
})

test_that("invalid subscripts are refused", {
  x <- pjrt_buffer(matrix(1:6, 2))
  error <- expect_refused(x["a"], "invalid_input", "not of type <character>")
  expect_match(conditionMessage(error), "Buffers have no names", fixed = TRUE)
  expect_refused(x["a", ], "invalid_input", "not of type <character>")
  expect_refused(x[cbind("a", "b")], "invalid_input", "not of type <character>")
  for (bad in list(list(1), 1i, sum, globalenv(), as.raw(1))) {
    expect_refused(x[bad], "invalid_input", "must be numbers or logical values")
    expect_refused(x[[bad]], "invalid_input", "must be numbers or logical values")
  }
  expect_refused(x[c(-1, 1)], "invalid_input", "both negative and positive")
  expect_refused(x[cbind(-1, 1)], "invalid_input", "must not have negative numbers")
  expect_refused(x[1, 1, 1], "invalid_input", "2 dimensions, but got 3 subscripts")
  expect_refused(pjrt_buffer(1:3)[1, 1], "invalid_input", "1 dimension, but got 2 subscripts")
  expect_refused(x[1, drop = NA], "invalid_input", "`drop` must be TRUE or FALSE")
  for (bad in list(1:2, 0, -1, integer(), NULL, TRUE)) {
    expect_refused(x[[bad]], "invalid_input", "must be one positive number")
  }
  expect_refused(x[[]], "invalid_input", "must be one positive number")
  expect_refused(x[[1, ]], "invalid_input", "must be one positive number")
  expect_refused(x[[1, 1, 1]], "invalid_input", "got 3 subscripts")
})

test_that("errors in subsetting show the user's call", {
  x <- pjrt_buffer(matrix(1:6, 2))
  for (error in list(expect_error(x[NA, 1]), expect_error(x[3, 1]))) {
    expect_identical(as.character(conditionCall(error)[[1L]]), "[.PJRTBuffer")
  }
  expect_identical(as.character(conditionCall(expect_error(x[["a"]]))[[1L]]), "[[.PJRTBuffer")
})

test_that("subsetting a buffer that cannot be read is refused", {
  x <- pjrt_buffer(1)
  pjrt_execute(compile(add_program("1xf32", donates)), x, pjrt_buffer(2))
  expect_refused(x[1], "deleted_buffer", "donated buffer")
  expect_refused(unserialize(serialize(x, NULL))[1], "invalid_pointer")
})

test_that("subsetting waits for the content", {
  x <- pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64"))
  expect_identical(x[1], 2)
})

test_that("subsetting a large buffer needs memory only for the subset", {
  x <- pjrt_empty("ui8", 1e8)
  await(x)
  parts <- function() list(x[1:2], x[c(1e8, 5)], x[[7e7]], x[1e8:(1e8 - 1)])
  parts()
  before <- gc(reset = TRUE)
  parts()
  after <- gc()
  expect_lt(after["Vcells", ncol(after)] - before["Vcells", 2L], 5)
})

test_that("a part stays on the device with as = \"buffer\"", {
  values <- array(as.double(1:24), c(2, 3, 4))
  x <- pjrt_buffer(values, "f64")
  expect_part <- function(part, want) {
    expect_s3_class(part, "PJRTBuffer")
    expect_identical(device(part), device(x))
    expect_identical(as_array(part), if (is.null(dim(want))) array(want) else want)
  }
  expect_part(x[2, , , as = "buffer"], values[2, , ])
  expect_part(x[c(2, 1, 2), -1, 3:4, as = "buffer"], values[c(2, 1, 2), -1, 3:4])
  expect_part(x[2, , 1, drop = FALSE, as = "buffer"], values[2, , 1, drop = FALSE])
  expect_part(x[1, 1, 1, as = "buffer"], values[1, 1, 1])
  expect_part(x[c(24, 1), as = "buffer"], values[c(24, 1)])
  expect_part(x[cbind(1, 2, 3), as = "buffer"], values[cbind(1, 2, 3)])
  expect_part(x[integer(), , , as = "buffer"], values[integer(), , ])
  # the whole, too, is another buffer
  for (whole in list(quote(y[as = "buffer"]), quote(y[, , , as = "buffer"]), quote(y[TRUE, , , as = "buffer"]))) {
    y <- pjrt_buffer(values)
    part <- eval(whole)
    pjrt_delete(y)
    expect_part(part, values)
  }
  one <- pjrt_scalar(1)
  turned <- aperm(one)
  pjrt_delete(one)
  expect_identical(as_array(turned), 1)
  expect_part(x[, c(TRUE, FALSE, TRUE), , as = "buffer"], values[, c(TRUE, FALSE, TRUE), ])
  expect_identical(x[as = "buffer"], x)
  expect_identical(x[2, 3, 4, as = "array"], 24)
  # mini-batches of rows in any order
  rows <- sample(1000)
  data <- pjrt_buffer(matrix(1:5000, 1000))
  for (batch in split(rows, rep(1:4, 250))) {
    expect_identical(as_array(data[batch, , as = "buffer"]), as_array(data)[batch, ])
  }
  for (dtype in c("pred", "i4", "f8e5m2", "c64", "ui64", "bf16")) {
    narrow <- pjrt_buffer(c(1, 0, 1), dtype)
    expect_identical(as_array(narrow[c(3, 2), as = "buffer"]), as_array(narrow)[c(3, 2), drop = FALSE], info = dtype)
  }
  expect_refused(x[3, , , as = "buffer"], "invalid_input", "out of bounds: 3, where dimension 1 has 2 positions")
  expect_refused(x[1, , , as = "list"], "invalid_input", "`as` must be one of")
})

test_that("subscripts can be buffers", {
  values <- matrix(c(4, 1, 7, 2, 9, 3), 2)
  x <- pjrt_buffer(values)
  expect_identical(x[x > 3], values[values > 3])
  expect_identical(as_array(x[x > 3, as = "buffer"]), array(values[values > 3]))
  expect_identical(x[get("which.max", "package:pjrt")(x)], 9)
  expect_identical(x[[get("which.min", "package:pjrt")(x)]], 1)
  expect_identical(x[pjrt_scalar(2L), pjrt_buffer(c(3, 1), "i64")], values[2, c(3, 1)])
  expect_identical(x[pjrt_buffer(cbind(1:2, 3:2))], values[cbind(1:2, 3:2)])
  expect_refused(x[pjrt_buffer(FALSE), pjrt_buffer(NaN)], "invalid_input", "must not be NA")
  expect_refused(x[pjrt_scalar(7L)], "invalid_input", "out of bounds: 7")
  deleted <- pjrt_buffer(1L)
  pjrt_delete(deleted)
  expect_refused(x[deleted], "deleted_buffer")
})

test_that("an infinite subscript is refused", {
  x <- pjrt_buffer(1:4)
  expect_refused(x[-Inf], "invalid_input", "Subscript out of bounds: -Inf")
  expect_identical(x[-10], array(1:4))
})
