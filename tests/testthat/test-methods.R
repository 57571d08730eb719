test_that("dim() and length() of a buffer are its array's", {
  x <- pjrt_buffer(matrix(1:6, 2))
  expect_identical(dim(x), c(2L, 3L))
  expect_identical(c(nrow(x), ncol(x), length(x)), c(2L, 3L, 6L))
  expect_null(dim(pjrt_scalar(1)))
  expect_identical(length(pjrt_scalar(1)), 1L)
  expect_identical(dim(pjrt_empty("f32", c(0, 3))), c(0L, 3L))
  expect_identical(length(pjrt_empty("f32", c(0, 3))), 0L)
  expect_null(dimnames(pjrt_buffer(matrix(1:2, 1, dimnames = list("a", c("b", "c"))))))
})

test_that("as.array(), as.matrix() and as.vector() convert a buffer like its array", {
  for (dims in list(6, c(2, 3), c(1, 2, 3))) {
    x <- pjrt_buffer(1:6, shape = dims)
    array <- as_array(x)
    expect_identical(as.array(x), as.array(array))
    expect_identical(as.matrix(x), as.matrix(array))
    expect_identical(as.vector(x), as.vector(array))
    expect_identical(lapply(x, identity), lapply(array, identity))
  }
  expect_identical(as.array(pjrt_scalar(5)), array(5))
  expect_identical(as.matrix(pjrt_scalar(5)), matrix(5))
  expect_identical(apply(pjrt_buffer(matrix(1:6, 2)), 1, sum), c(9L, 12L))
  expect_identical(head(pjrt_buffer(matrix(1:6, 2)), 1), matrix(c(1L, 3L, 5L), 1))
  expect_identical(as.vector(tail(pjrt_buffer(1:5), 2)), 4:5)
})

test_that("a buffer becomes a data frame, or a column of one, like its array", {
  m <- matrix(1:6, 2)
  x <- pjrt_buffer(c(1.5, 2))
  expect_identical(as.data.frame(pjrt_buffer(m)), as.data.frame(m))
  expect_identical(as.data.frame(x), data.frame(x = c(1.5, 2)))
  expect_identical(as.data.frame(pjrt_scalar(2), nm = "one"), data.frame(one = 2))
  expect_identical(data.frame(id = 1:2, x, score = x), data.frame(id = 1:2, x = c(1.5, 2), score = c(1.5, 2)))
  expect_identical(cbind(data.frame(id = 1:2), pjrt_buffer(m)), cbind(data.frame(id = 1:2), m))
  expect_identical(as.data.frame(x, row.names = c("a", "b")), data.frame(x = c(1.5, 2), row.names = c("a", "b")))
  expect_identical(aggregate(pjrt_buffer(c(1, 2, 3)), list(group = c(7, 8, 7)), sum)$x, c(4, 2))
  expect_identical(as.data.frame(pjrt_buffer(array(1:8, c(2, 2, 2)))), as.data.frame(array(1:8, c(2, 2, 2))))
  big <- pjrt_buffer(bit64::as.integer64(c(-1, 2)))
  expect_bits(data.frame(big)$big, bit64::as.integer64(c(-1, 2)))
})

test_that("a buffer converts to a vector of every type", {
  for (dtype in c("i8", "ui16", "i32", "f16", "f32", "f64")) {
    x <- pjrt_buffer(c(0, 1.5, 2), dtype)
    values <- as.vector(as_array(x))
    for (mode in c("logical", "integer", "numeric", "double", "complex", "character", "list")) {
      expect_identical(as.vector(x, mode), as.vector(values, mode))
    }
    expect_identical(as.numeric(x), as.numeric(values))
    expect_identical(as.double(x), as.double(values))
    expect_identical(as.integer(x), as.integer(values))
    expect_identical(as.logical(x), as.logical(values))
    expect_identical(as.complex(x), as.complex(values))
  }
  for (dtype in c("ui8", "f32", "i64")) expect_identical(as.raw(pjrt_buffer(c(0, 7, 255), dtype)), as.raw(c(0, 7, 255)))
  pred <- pjrt_buffer(c(TRUE, FALSE))
  expect_identical(as.vector(pred), c(TRUE, FALSE))
  expect_identical(as.integer(pred), 1:0)
  expect_refused(as.vector(pred, "nonsense"), "invalid_input", "`mode` must be one of")
  expect_refused(as.vector(pred, NULL), "invalid_input", "`mode` must be one of")
})

test_that("integer64 values stay numbers in every conversion", {
  values <- c(3, -2, NA, 0)
  x <- without_na_warning(pjrt_buffer(bit64::as.integer64(values)))
  expect_bits(as.vector(x), bit64::as.integer64(values))
  expect_bits(as.array(pjrt_scalar(bit64::as.integer64(3))), int64(3))
  expect_bits(as.matrix(x), int64(values, c(4, 1)))
  expect_identical(as.double(x), values)
  expect_identical(as.numeric(x), values)
  expect_identical(as.integer(x), as.integer(values))
  expect_identical(as.logical(x), as.logical(values))
  expect_identical(as.complex(x), as.complex(values))
  expect_identical(as.vector(x, "character"), as.character(values))
  expect_bits(as.list(x)[[2]], bit64::as.integer64(-2))
  expect_bits(lapply(x, identity)[[3]], bit64::as.integer64(NA))
  expect_identical(as.double(pjrt_buffer(2^32 - 1, "ui32")), 2^32 - 1)
  expect_warning(as.double(pjrt_buffer(bit64::as.integer64("9007199254740993"))), "precision")
  expect_warning(as.integer(pjrt_buffer(2^40, "i64")), "integer range")
  expect_identical(as.double(pjrt_buffer(c(1, 2^63, 2^64 - 2048), "ui64")), c(1, 2^63, 2^64 - 2048))
  expect_identical(suppressWarnings(as.integer(pjrt_buffer(2^40, "i64"))), NA_integer_)
})

test_that("unsigned integers are written as they are", {
  x <- pjrt_buffer(c(1, 2^63, 2^64 - 2048), "ui64")
  digits <- c("1", "9223372036854775808", "18446744073709549568")
  expect_identical(as.character(x), digits)
  expect_identical(paste0("id_", x), paste0("id_", digits))
  expect_identical(as.character(as.factor(x)), digits)
  expect_identical(as.integer(table(x)[digits]), c(1L, 1L, 1L))
})

test_that("options(pjrt.check = ) concerns reading, not tests and comparisons", {
  x <- pjrt_buffer(rep(.Machine$integer.max, 2)) + 1:2
  m <- pjrt_buffer(bit64::as.integer64("9223372036854775807")) + 1L
  withr::local_options(pjrt.check = TRUE)
  expect_identical(is.na(x), array(c(TRUE, FALSE)))
  expect_true(anyNA(x))
  expect_true(anyNA(m))
  expect_true(all.equal(x, x))
  expect_identical(unname(quantile(x, 1, na.rm = TRUE)), -2147483647)
  expect_identical(length(summary(x)), 7L)
  expect_length(waldo::compare(x, x), 0L)
  for (read in list(as_array, as.vector, function(x) x[1], function(x) x[[1]], function(x) value(as_array_async(x)))) {
    expect_refused(read(x), "invalid_input", "-2147483648, which R cannot distinguish from NA")
    expect_refused(read(m), "invalid_input", "-9223372036854775808, which R cannot distinguish from NA")
  }
  expect_identical(x[2], -2147483647L)
})

test_that("R's own functions get the numbers of 64-bit integers, not their bits", {
  v <- c(3, 1, 2)
  m <- matrix(c(4, 1, 1, 3), 2)
  a <- array(1:24 + 0, c(2, 3, 4))
  double <- function(x) x * 2
  for (dtype in c("i64", "ui64", "ui32")) {
    x <- pjrt_buffer(v, dtype)
    y <- pjrt_buffer(m, dtype)
    expect_identical(sapply(x, double), v * 2)
    expect_identical(vapply(x, double, 0), v * 2)
    expect_identical(mapply(`+`, x, 1:3), v + 1:3)
    expect_identical(tapply(x, c("a", "b", "a"), sum), tapply(v, c("a", "b", "a"), sum))
    expect_identical(Reduce(`+`, x, accumulate = TRUE), cumsum(v))
    expect_identical(apply(y, 1, sum), c(5, 4))
    expect_identical(apply(pjrt_buffer(a, dtype), c(1, 3), sum), apply(a, c(1, 3), sum))
    expect_identical(outer(x, 1:2), outer(v, 1:2))
    expect_identical(matrix(x, 1), matrix(v, 1))
    expect_identical(array(x, c(1, 3)), array(v, c(1, 3)))
    expect_identical(kronecker(y, y), kronecker(m, m))
    expect_identical(union(3, x), c(3, 1, 2))
    expect_equal(scale(y), scale(m))
    for (f in list(solve, chol, svd, eigen, dist, function(x) qr.R(qr(x)))) {
      # calls are in the results
      expect_equal(f(y), f(m), ignore_attr = TRUE)
    }
    # users get integer64
    for (f in list(as.vector, as.matrix, as.array, as.list)) {
      for (all in list(lapply, function(X, FUN) Map(FUN, X))) expect_identical(all(list(x), f), list(f(x)))
    }
    for (of_user in list(lapply(x, identity)[[1L]], as.vector(x), x[[1]], split(x, 1:3)[[1L]])) {
      expect_s3_class(of_user, "integer64")
    }
  }
  none <- pjrt_empty("ui64", c(2, 0, 3))
  expect_identical(as.double(none), numeric())
  expect_identical(diff(none), bit64::integer64())
  expect_identical(levels(cut(none, 0:2)), c("(0,1]", "(1,2]"))
  expect_warning(apply(pjrt_buffer(bit64::as.integer64("9007199254740993"), shape = c(1, 1)), 1, sum), "precision")
})

test_that("is.numeric() is TRUE for integers and floats", {
  for (dtype in c("i2", "i4", "ui4", "i8", "i64", "ui32", "bf16", "f16", "f32", "f64", "f8e5m2", "f4e2m1fn")) {
    expect_true(is.numeric(pjrt_empty(dtype, 1L)))
  }
  for (dtype in c("pred", "c64", "c128")) {
    expect_false(is.numeric(pjrt_empty(dtype, 1L)))
  }
})

test_that("is.na(), is.nan() and the like find missing and infinite values", {
  values <- matrix(c(NA, NaN, Inf, -Inf, 1, 0), 2)
  x <- pjrt_buffer(values, "f64")
  for (test in list(is.na, is.nan, is.finite, is.infinite)) {
    expect_identical(test(x), test(values))
  }
  expect_true(anyNA(x))
  expect_false(anyNA(pjrt_buffer(1)))
  expect_identical(is.na(without_na_warning(pjrt_scalar(NA_integer_))), TRUE)
  wide <- without_na_warning(pjrt_buffer(int64(c(1, NA, -3, 4), c(2, 2))))
  expect_identical(is.na(wide), matrix(c(FALSE, TRUE, FALSE, FALSE), 2))
  expect_identical(is.finite(wide), matrix(c(TRUE, FALSE, TRUE, TRUE), 2))
  expect_identical(is.nan(wide), matrix(FALSE, 2, 2))
  expect_identical(is.infinite(wide), matrix(FALSE, 2, 2))
  expect_true(anyNA(wide))
  expect_false(anyNA(pjrt_buffer(bit64::as.integer64(c(-1, -3)))))
})

test_that("format() describes a buffer in one line", {
  x <- pjrt_buffer(matrix(0, 2, 3))
  expect_identical(format(x), "<PJRTBuffer f32[2x3] on CpuDevice(id=0)>")
  expect_identical(format(pjrt_scalar(TRUE)), "<PJRTBuffer pred[] on CpuDevice(id=0)>")
  line <- "PJRTBuffer f32[2x3] on CpuDevice(id=0)"
  expect_identical(capture.output(str(x)), paste0(" ", line))
  expect_identical(capture.output(str(list(a = x, b = 1))), c("List of 2", paste(" $ a:", line), " $ b: num 1"))
  env <- list2env(list(buffer = x))
  expect_identical(capture.output(utils::ls.str(env)), paste("buffer : ", line))
  restored <- without_content(x)
  expect_identical(format(restored), "<PJRTBuffer of another session>")
  expect_identical(capture.output(str(restored)), " PJRTBuffer of another session")
})

test_that("dtype, shape and device are available after a donation and without waiting", {
  x <- pjrt_buffer(c(1, 2))
  pjrt_execute(compile(add_program("2xf32", donates)), x, pjrt_buffer(c(3, 4)))
  expect_identical(format(x), "<PJRTBuffer f32[2], donated>")
  expect_identical(list(dim(x), length(x), is.numeric(x)), list(2L, 2L, TRUE))
  expect_refused(as.vector(x), "deleted_buffer")
  expect_refused(summary(x), "deleted_buffer")
  busy <- pjrt_execute(compile(loop_program(2e7)), pjrt_scalar(1, "f64"))
  capture.output(str(busy))
  described <- list(format(busy), length(busy), dim(busy), is.numeric(busy))
  expect_false(is_ready(busy))
  expect_length(described, 4L)
})

test_that("summary() summarizes the values", {
  values <- c(1, 2, 4, 9)
  found <- summary(pjrt_buffer(values))
  expect_identical(found[["Mean"]], 4)
  expect_identical(as.vector(found), as.vector(summary(values)))
  shown <- capture.output(print(found))
  expect_identical(shown, c("<PJRTBuffer f32[4] on CpuDevice(id=0)>", capture.output(print(summary(values)))))
  capture.output(expect_invisible(print(found)))
  expect_output(print(summary(pjrt_buffer(c(TRUE, FALSE)))), "logical")
  wide <- summary(pjrt_buffer(bit64::as.integer64(1:5)))
  expect_identical(as.double(wide)[[4]], 3)
  expect_output(print(wide), "i64[5]", fixed = TRUE)
})

test_that("all.equal() compares dtype, shape and values", {
  m <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  x <- pjrt_buffer(m)
  expect_true(all.equal(x, x))
  expect_true(all.equal(x, pjrt_buffer(m)))
  expect_true(all.equal(x, m))
  expect_identical(all.equal(x, NULL), "target is a PJRTBuffer, current is of type NULL")
  expect_identical(all.equal(x, pjrt_buffer(m, "f64")), "Data types: f32, f64")
  expect_identical(all.equal(x, t(m)), "Shapes: [2x3], [3x2]")
  expect_length(all.equal(x, pjrt_buffer(t(m), "f64")), 2L)
  expect_match(all.equal(x, pjrt_buffer(m + 1e-3)), "relative difference")
  expect_true(all.equal(x, pjrt_buffer(m + 1e-3), tolerance = 0.1))
  expect_true(all.equal(x, m + 1e-3, tolerance = 0.1))
  expect_true(isTRUE(all.equal(pjrt_buffer(1:3), c(a = 1L, b = 2L, c = 3L))))
  expect_true(all.equal(pjrt_scalar(1), 1))
  expect_true(all.equal(pjrt_buffer(1), 1))
  expect_match(all.equal(pjrt_scalar(1), pjrt_buffer(1)), "Shapes: [], [1]", fixed = TRUE)
  expect_true(all.equal(pjrt_buffer(c(TRUE, FALSE)), c(TRUE, FALSE)))
  expect_match(all.equal(x, mean), "current is of type closure")
  expect_match(all.equal(x, list(1)), "current is of type list")
  expect_false(isTRUE(all.equal(x, NULL)))
  expect_false(isTRUE(all.equal(m, x)))
  wide <- int64(c(1, 2, 2^60, 4), c(2, 2))
  expect_true(all.equal(pjrt_buffer(wide), wide))
  expect_true(all.equal(pjrt_buffer(wide), pjrt_buffer(wide)))
  expect_false(isTRUE(all.equal(pjrt_buffer(wide), pjrt_buffer(wide + 1L), tolerance = 0)))
  expect_true(all.equal(list(a = x), list(a = pjrt_buffer(m))))
})

test_that("assignments are refused with advice", {
  x <- pjrt_buffer(matrix(1:6, 2))
  for (assignment in expression(
    x[1] <- 0L, x[1, ] <- 0L, x[] <- 0L, x[[1]] <- 0L, x$a <- 1, names(x) <- letters[1:6],
    dimnames(x) <- NULL, length(x) <- 2L, is.na(x) <- 1
  )) {
    error <- expect_refused(eval(assignment), "invalid_input", "Buffers are immutable.")
    expect_match(conditionMessage(error), "as_array()", fixed = TRUE)
  }
  expect_identical(as_array(x), matrix(1:6, 2))
  expect_identical(attributes(x), list(class = "PJRTBuffer"))
  expect_refused(x$shape, "invalid_input", "Buffers have no components: `$shape` does not exist.")
})

test_that("lists of buffers behave like other lists", {
  x <- pjrt_buffer(matrix(1:6, 2))
  y <- pjrt_scalar(1)
  both <- list(x, y)
  expect_identical(lapply(both, identity), both)
  expect_identical(sapply(both, identity), both)
  expect_identical(sapply(list(x, x), identity), list(x, x))
  expect_identical(mapply(function(a, b) a, both, 1:2), both)
  expect_identical(Map(function(a) a, both), both)
  expect_identical(vapply(both, length, 1L), c(6L, 1L))
  expect_identical(vapply(both, function(b) as.character(elt_type(b)), ""), c("i32", "f32"))
  expect_identical(lengths(both), c(6L, 1L))
  expect_identical(Filter(function(b) length(b) > 1L, both), list(x))
  expect_identical(Reduce(function(a, b) b, both), y)
  expect_identical(do.call(list, both), both)
  expect_identical(c(x, y), both)
  expect_identical(unlist(both), both)
  expect_identical(rapply(both, function(b) 1, how = "unlist"), c(1, 1))
  expect_equal(both, list(pjrt_buffer(matrix(1:6, 2)), pjrt_scalar(1)))
  expect_failure(expect_equal(both, list(x, pjrt_scalar(2))))
  expect_true(identical(both, list(x, y)))
  expect_length(capture.output(print(both)), 6L)
  expect_silent(stopifnot(identical(x, x), is.numeric(x)))
  names <- stats::setNames(both, c("a", "b"))
  expect_identical(modifyList(names, list(b = x)), list(a = x, b = x))
  expect_identical(attributes(x), list(class = "PJRTBuffer"))
})

test_that("buffers survive being stored in environments, and saving", {
  x <- pjrt_buffer(1:3)
  env <- list2env(list(x = x))
  expect_identical(mget("x", env), list(x = x))
  expect_identical(as.list(env), list(x = x))
  expect_length(capture.output(utils::ls.str(env)), 1L)
  file <- withr::local_tempfile()
  saveRDS(list(x, 1), file)
  expect_identical(readRDS(file)[[2]], 1)
  expect_identical(dim(readRDS(file)[[1]]), 3L)
  rm("x", envir = env)
  expect_length(ls(env), 0L)
})

test_that("methods of a user's subclass take precedence", {
  x <- pjrt_buffer(1:3)
  class(x) <- c("pjrt_test_own", "PJRTBuffer")
  expect_identical(
    list(shape(x), as_array(x), is_ready(x), device(x)), list(3L, array(1:3), TRUE, devices("cpu")[[1L]])
  )
  for (generic in c("shape", "as_array", "is_ready", "device")) {
    registerS3method(generic, "pjrt_test_own", function(x, ...) "own")
    expect_identical(do.call(generic, list(x)), "own")
  }
  expect_identical(shape(pjrt_buffer(1:2)), 2L)
})

test_that("a buffer whose class was changed says how to restore it, and lists wrap buffers", {
  x <- pjrt_buffer(c(1, 2))
  y <- x
  # R changes the buffer, not a copy
  z <- structure(x, class = "mine")
  expect_false(inherits(y, "PJRTBuffer"))
  for (
    use in expression(as_array(y), shape(y), dtype(y), device(y), await(y), is_ready(y), as_array_async(y), platform(y))
  ) {
    error <- expect_refused(eval(use), "invalid_type", "`x` is a buffer whose class was changed to <mine>.")
  }
  expect_match(conditionMessage(error), "structure(list(buffer = x), class = \"mine\")", fixed = TRUE)
  class(y) <- "PJRTBuffer"
  expect_identical(as_array(x), array(c(1, 2)))
  class(x) <- c("mine", "PJRTBuffer")
  expect_identical(as_array(y), array(c(1, 2)))
  class(x) <- "PJRTBuffer"
  wrapped <- structure(list(buffer = x, unit = "m"), class = "mine")
  registerS3method("as_array", "mine", function(x, ...) as_array(x$buffer, ...), envir = asNamespace("pjrt"))
  expect_identical(as_array(wrapped), array(c(1, 2)))
  expect_identical(attributes(x), list(class = "PJRTBuffer"))
  expect_refused(levels(x) <- "a", "invalid_input", "Buffers are immutable.")
})

test_that("readers refuse arguments that they do not have", {
  x <- pjrt_buffer(c(1, 2))
  promise <- as_array_async(x)
  client <- pjrt_client()
  executable <- compile(unary_program("2xf32"))
  compiling <- pjrt_compile_async(pjrt_program(unary_program("2xf32")))
  uses <- expression(
    await(x, nonsense = 2), is_ready(x, nonsense = 2), value(x, nonsense = 2), as_array(x, nonsense = 2),
    as_raw(x, nonsense = 2), as_array_async(x, nonsense = 2), shape(x, nonsense = 2), device(x, nonsense = 2),
    platform(x, nonsense = 2), await(promise, nonsense = 2), is_ready(promise, nonsense = 2),
    value(promise, nonsense = 2),
    as_array(promise, nonsense = 2), await(compiling, nonsense = 2), is_ready(compiling, nonsense = 2),
    value(compiling, nonsense = 2), device(executable, nonsense = 2), devices(executable, nonsense = 2),
    devices(nonsense = 2), platform(pjrt_client(), nonsense = 2), platform(device(x), nonsense = 2),
    as_dot(executable, nonsense = 2), as_array(list(x), nonsense = 2), await(list(x), nonsense = 2),
    mean(x, nonsense = 2), sort(x, nonsense = 2), aperm(x, nonsense = 2), as.array(x, nonsense = 2),
    as.matrix(x, nonsense = 2), as.double(x, nonsense = 2), as.integer(x, nonsense = 2), close(client, nonsense = 2),
    summary(executable, nonsense = 2), summary(memory_space(x), nonsense = 2), as.character(client, nonsense = 2)
  )
  for (use in uses) expect_refused(eval(use), "invalid_input", "Unused arguments: nonsense.")
  expect_refused(await(x, 2, 3), "invalid_input", "Unused arguments: <unnamed>.")
})
