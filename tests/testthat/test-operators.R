# Slow: compiles many programs.

integers <- c("i2", "i4", "i8", "i16", "i32", "i64", "ui2", "ui4", "ui8", "ui16", "ui32", "ui64")
floats <- c("f64", "f32", "f16", "bf16", "f8e5m2", "f8e4m3fn", "f4e2m1fn")

# The values of a buffer as doubles or logical values, with its dimensions.
values <- function(x) {
  array <- as_array(x)
  if (inherits(array, "integer64")) array(as.double(array), dim(array)) else array
}

# Expects a buffer of this dtype whose values are R's.
expect_values <- function(x, expected, dtype, tolerance = 0) {
  expect_s3_class(x, "PJRTBuffer")
  expect_identical(as.character(elt_type(x)), dtype)
  found <- values(x)
  expect_identical(dim(found), dim(expected))
  if (is.logical(expected) || tolerance == 0) {
    storage.mode(found) <- storage.mode(expected)
    expect_identical(found, expected)
  } else {
    expect_equal(found, expected, tolerance = tolerance)
  }
}

m <- matrix(c(1, 2, 1, 2, 1, 1), 2)
n <- matrix(c(1, 1, 2, 2, 2, 1), 2)

test_that("arithmetic of buffers is R's, for every dtype of numbers", {
  all <- c(integers, floats, "c64", "c128")
  for (i in seq_along(all)) {
    dtype <- all[[i]]
    x <- pjrt_buffer(m, dtype)
    y <- pjrt_buffer(n, dtype)
    as_dtype <- function(values) if (startsWith(dtype, "c")) values + 0i else values
    # in the suite, every other dtype for each of two groups of operators
    takes <- function(group) is_soak() || i %% 2L == group
    # beyond the two-bit types' range, numbers wrap around
    if (!dtype %in% c("i2", "ui2")) {
      if (takes(0L)) expect_values(x + y, as_dtype(m + n), dtype)
      if (takes(1L)) expect_values(x * y, as_dtype(m * n), dtype)
    }
    if (!grepl("^(ui|i2)", dtype)) {
      if (takes(1L)) expect_values(x - y, as_dtype(m - n), dtype)
      if (takes(0L)) expect_values(-x, as_dtype(-m), dtype)
    }
    if (dtype != "i2") expect_values(+x, as_dtype(m), dtype)
  }
})

# Every third in the suite.
some <- function(dtypes) times(dtypes[seq(1L, length(dtypes), 3L)], dtypes)

test_that("comparisons and logic give pred, for dtypes of every kind", {
  for (dtype in c(some(c(integers, floats)), "pred")) {
    # the narrowest integers hold 0 and 1 only
    a <- if (dtype == "pred") m > 1 else if (dtype %in% c("i2", "ui2")) m - 1 else m
    b <- if (dtype == "pred") n > 1 else if (dtype %in% c("i2", "ui2")) n - 1 else n
    x <- pjrt_buffer(a, dtype)
    y <- pjrt_buffer(b, dtype)
    for (operator in c("==", "!=", "<", "<=", ">", ">=", "&", "|")) {
      expect_values(do.call(operator, list(x, y)), do.call(operator, list(a, b)), "pred")
    }
    expect_values(!x, !a, "pred")
  }
  x <- pjrt_buffer(m + 1i, "c64")
  expect_values(x == x, m == m, "pred")
  expect_refused(x < x, "operator", "`<` is not defined for complex numbers")
})

test_that("%% and %/% have the signs of R's", {
  a <- c(-7, -6, -1, 0, 1, 6, 7, 7, -7)
  b <- c(3, 3, 3, 3, 3, 3, 3, -3, -3)
  for (dtype in c("i8", "i32", "i64", "f16", "f32", "f64")) {
    x <- pjrt_buffer(a, dtype)
    y <- pjrt_buffer(b, dtype)
    expect_values(x %% y, array(a %% b), dtype)
    expect_values(x %/% y, array(a %/% b), dtype)
  }
  x <- pjrt_buffer(c(5.5, -5.5, 1, -1), "f64")
  expect_values(x %% 2, array(c(1.5, 0.5, 1, 1)), "f64")
  expect_values(x %% Inf, array(c(5.5, Inf, 1, Inf)), "f64")
  expect_values(x %/% 2, array(c(2, -3, 0, -1)), "f64")
  expect_true(all(is.nan(as_array(x %% 0))))
  expect_identical(as_array(pjrt_buffer(c(5L, -5L)) %/% 0L), array(c(NA_integer_, NA_integer_)))
})

test_that("powers and quotients of integers are floats", {
  x <- pjrt_buffer(matrix(1:6, 2))
  expect_values(x / 4L, matrix(1:6, 2) / 4, "f32")
  expect_values(x / x, matrix(1, 2, 3), "f32")
  expect_values(x^2L, matrix(1:6, 2)^2, "f32")
  expect_values(2L^x, 2^matrix(1:6, 2), "f32")
  withr::local_options(pjrt.default_float = "f64")
  expect_values(x / 3L, matrix(1:6, 2) / 3, "f64")
  expect_values(sqrt(x), sqrt(matrix(1:6, 2)), "f64", 1e-15)
  y <- pjrt_buffer(c(0.1, -2.5, 3), "f64")
  expect_values(y^2, array(c(0.1, -2.5, 3)^2), "f64")
  expect_values(y^3, array(c(0.1, -2.5, 3)^3), "f64", 1e-15)
})

test_that("R's numbers take the buffer's dtype, on either side", {
  for (dtype in some(c(integers[-c(1, 7)], floats))) {
    x <- pjrt_buffer(m, dtype)
    expect_values(x + 1, m + 1, dtype)
    expect_values(1L + x, m + 1, dtype)
    expect_values(x * TRUE, m, dtype)
    expect_values(3 - x, 3 - m, dtype)
    expect_values(x > 1, m > 1, "pred")
    expect_values(2 <= x, 2 <= m, "pred")
  }
  x <- pjrt_buffer(m)
  expect_values(x + 0.1, m + 0.1, "f32", 1e-6)
  expect_values(x + NaN, m + NaN, "f32")
  expect_true(all(is.nan(as_array(x * NA))))
  expect_values(x / Inf, m / Inf, "f32")
})

test_that("numbers of bit64 are operands on both sides, also before R 4.3", {
  two <- bit64::as.integer64(2)
  i <- pjrt_buffer(1:3)
  expect_values(pjrt_buffer(m) + two, m + 2, "f32")
  expect_values(i + two, array(3:5), "i64")
  expect_values(two - i, array(c(1, 0, -1)), "i64")
  expect_values(i == two, array(c(FALSE, TRUE, FALSE)), "pred")
  expect_values(i * bit64::as.integer64(1:3), array(c(1, 4, 9)), "i64")
  expect_values(-i, array(-(1:3)), "i32")
  expect_values(!(i > two), array(c(TRUE, TRUE, FALSE)), "pred")
  # bit64's own operators stay
  expect_identical(two + 1L, bit64::as.integer64(3))
  expect_identical(-two, bit64::as.integer64(-2))
  expect_identical(two > 1, TRUE)
  pair <- bit64::as.integer64(1:2)
  expect_identical(conditionCall(tryCatch(i + pair, error = identity)), quote(i + pair))
})

test_that("fractions beside integers, and numbers beside pred, become the default types", {
  x <- pjrt_buffer(1:3)
  expect_values(x + 0.5, array(1:3 + 0.5), "f32")
  expect_refused(x + 1e10, "operator", "`+` cannot take 10000000000 with a buffer of i32, which cannot hold it.")
  expect_values(x * Inf, array(1:3 * Inf), "f32")
  p <- pjrt_buffer(c(TRUE, FALSE))
  expect_values(p + 1L, array(c(2, 1)), "i32")
  expect_values(p + 1.5, array(c(2.5, 1.5)), "f32")
  expect_values(p + p, array(c(2, 0)), "i32")
  expect_values(p & TRUE, array(c(TRUE, FALSE)), "pred")
  expect_values(-p, array(c(-1, 0)), "i32")
  withr::local_options(pjrt.default_float = "f64", pjrt.default_int = "i64")
  expect_values(x + 0.5, array(1:3 + 0.5), "f64")
  expect_values(p + 1L, array(c(2, 1)), "i64")
})

test_that("complex numbers make complex results", {
  x <- pjrt_buffer(m, "f32")
  expect_values(x + 2i, m + 2i, "c64")
  expect_values(pjrt_buffer(m, "f64") * (1 + 1i), m * (1 + 1i), "c128")
  z <- pjrt_buffer(m + 1i, "c128")
  expect_values(z * 2L, (m + 1i) * 2, "c128")
  expect_values(z - 0.5, m + 1i - 0.5, "c128")
  expect_values(z / z, m / m + 0i, "c128", 1e-15)
  expect_values(abs(z), Mod(m + 1i), "f64", 1e-15)
})

test_that("buffers of different dtypes meet as the table says", {
  of <- function(dtype) pjrt_buffer(c(1, 0), dtype)
  for (row in list(
    c("i8", "i32", "i32"), c("i8", "ui8", "i16"), c("i32", "ui32", "i64"), c("i64", "ui64", "f64"),
    c("i64", "f16", "f16"),
    c("f16", "bf16", "f32"), c("f32", "f64", "f64"), c("f8e5m2", "f8e4m3fn", "bf16"), c("c64", "f64", "c128")
  )) {
    expect_identical(as.character(elt_type(of(row[[1L]]) + of(row[[2L]]))), row[[3L]])
    expect_identical(as.character(elt_type(of(row[[2L]]) * of(row[[1L]]))), row[[3L]])
  }
  expect_values(pjrt_buffer(c(TRUE, FALSE)) + of("i8"), array(c(2, 0)), "i8")
})

test_that("scalars are recycled, and arrays of R become buffers of the same shape", {
  x <- pjrt_buffer(m)
  expect_values(x + pjrt_scalar(2), m + 2, "f32")
  expect_values(pjrt_scalar(2) / x, 2 / m, "f32", 1e-6)
  expect_identical(as_array(pjrt_scalar(2) + 1), 3)
  expect_identical(as_array(pjrt_scalar(2) + pjrt_scalar(3)), 5)
  expect_values(x + n, m + n, "f32")
  expect_values(n - x, n - m, "f32")
  expect_values(x + as.vector(n), m + as.vector(n), "f32")
  expect_values(pjrt_scalar(2) * c(1, 2), array(c(2, 4)), "f32")
  expect_values(pjrt_buffer(1:3) + c(1, 2, 3), array(c(2, 4, 6)), "i32")
  expect_values(pjrt_buffer(1:3) + c(0.5, 2, 3), array(c(1.5, 4, 6)), "f32")
  expect_values(x == n, m == n, "pred")
  large <- matrix(as.double(1:20000), 100)
  expect_values(pjrt_buffer(large) + large, large + large, "f32")
  expect_values(pjrt_buffer(numeric()) + 1, array(numeric()), "f32")
  empty <- pjrt_empty("f32", c(0, 3))
  expect_identical(dim(empty * empty), c(0L, 3L))
})

test_that("what operators cannot do is an error that names as_array()", {
  x <- pjrt_buffer(m)
  i <- pjrt_buffer(1:3)
  refused <- function(object, kind, message) {
    error <- expect_refused(object, "operator", message)
    expect_s3_class(error, paste0("pjrt_error_", kind))
    expect_match(conditionMessage(error), "as_array()", fixed = TRUE)
  }
  refused(
    x + pjrt_buffer(t(m)), "shape_mismatch", "`+` needs arrays of one shape, or a scalar: got f32[2x3] and f32[3x2]."
  )
  refused(
    x + c(1, 2), "shape_mismatch",
    "`+` cannot combine f32[2x3] with a double vector of length 2: only scalars are recycled."
  )
  refused(x + t(m), "shape_mismatch", "`+` cannot combine f32[2x3] with an array of 3x2")
  expect_identical(conditionCall(tryCatch(x + t(m), error = identity)), quote(x + t(m)))
  refused(x * numeric(), "shape_mismatch", "a double vector of length 0")
  refused(x + "a", "invalid_type", "`+` takes buffers, and numbers of R, not \"a\".")
  refused(x + NULL, "invalid_type", "not NULL")
  refused(list(1) * x, "invalid_type", "not a list of length 1")
  refused(x + structure(1, class = "thing"), "invalid_type", "not an object of class <thing>")
  if (getRversion() >= "4.3.0") {
    refused(x + factor("a"), "invalid_type", "not an object of class <factor>")
    refused(Sys.Date() + x, "invalid_type", "not an object of class <Date>")
  }
  refused(x == NA, "invalid_input", "`==` cannot take NA")
  refused(x > c(1, NA, 1, 1, 1, 1), "invalid_input", "`>` cannot take NA")
  refused(i + NA, "invalid_input", "`+` cannot take NA with a buffer of i32")
  refused(i + c(1L, NA, 3L), "invalid_input", "`+` cannot take NA with a buffer of i32")
  refused(
    pjrt_buffer(1:2, "i8") + 300, "invalid_input", "`+` cannot take 300 with a buffer of i8, which cannot hold it."
  )
  refused(pjrt_buffer(1:2, "ui8") + -1L, "invalid_input", "cannot hold it")
  refused(pjrt_buffer(1:2, "i8") + c(1, 300), "invalid_input", "cannot hold element 2")
  refused(x + pjrt_buffer(m, device = "cpu:1"), "device_mismatch", "`+` takes buffers on one device")
  refused(sqrt(pjrt_buffer(1i)) %% 2, "unsupported_dtype", "complex")
  # no methods of theirs
  s4 <- methods::setClass("Measure", contains = "numeric", where = environment())
  refused(x + s4(1), "invalid_type", "<Measure>")
})

test_that("deleted, donated and dead buffers are refused by what they are", {
  x <- pjrt_buffer(c(1, 2))
  gone <- pjrt_buffer(c(1, 2))
  pjrt_delete(gone)
  expect_refused(x + gone, "deleted_buffer", "deleted or donated buffer f32[2]")
  expect_refused(gone * 2, "deleted_buffer", "deleted")
  expect_refused(exp(gone), "deleted_buffer", "deleted")
  donated <- pjrt_buffer(c(1, 2))
  pjrt_execute(compile(add_program("2xf32", donates)), donated, x)
  expect_refused(x - donated, "deleted_buffer", "donated buffer f32[2]")
  dead <- without_content(x)
  expect_refused(x + dead, "invalid_pointer", "null pointer")
  expect_refused(-dead, "invalid_pointer", "null pointer")
  client <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 1L))
  there <- pjrt_buffer(c(1, 2), device = devices(client)[[1L]])
  expect_refused(x + there, "device_mismatch", "different clients")
  expect_identical(as_array(there + 1), array(c(2, 3)))
  close(client)
  expect_refused(there + 1, "client_closed")
})

test_that("functions of each element are R's", {
  a <- c(-1.5, -0.5, 0.25, 0.5, 1.5, 2.5)
  x <- pjrt_buffer(a, "f64")
  for (name in c("abs", "sign", "floor", "ceiling", "trunc", "round")) {
    expect_values(do.call(name, list(x)), array(do.call(name, list(a))), "f64")
  }
  for (name in c("exp", "expm1", "cos", "sin", "tan", "atan", "cosh", "sinh", "tanh", "asinh")) {
    expect_values(do.call(name, list(x)), array(do.call(name, list(a))), "f64", 1e-14)
  }
  for (name in c("sqrt", "log", "log1p", "log2", "log10", "acosh")) {
    expect_values(do.call(name, list(abs(x) + 1)), array(do.call(name, list(abs(a) + 1))), "f64", 1e-14)
  }
  for (name in c("acos", "asin", "atanh")) {
    expect_values(do.call(name, list(x / 4)), array(do.call(name, list(a / 4))), "f64", 1e-14)
  }
  expect_values(log(abs(x), 2), array(log(abs(a), 2)), "f64", 1e-14)
  expect_values(log(abs(x), base = pjrt_scalar(3, "f64")), array(log(abs(a), 3)), "f64", 1e-14)
  expect_values(exp(pjrt_buffer(1:3)), array(exp(1:3)), "f32", 1e-6)
  expect_values(floor(pjrt_buffer(1:3)), array(1:3), "i32")
  expect_refused(log(x, "a"), "operator", "`log` takes buffers, and numbers of R, not \"a\".")
  expect_refused(trunc(x, 2), "invalid_input", "`trunc()` of a buffer takes no more arguments.")
  expect_refused(round(x, NA), "invalid_type", "`digits` must be a whole number")
})

test_that("is.array() and is.matrix() agree with the shape", {
  expect_identical(lapply(list(pjrt_scalar(1), pjrt_buffer(1:3), pjrt_buffer(m)), is.array), list(FALSE, TRUE, TRUE))
  expect_identical(lapply(list(pjrt_scalar(1), pjrt_buffer(1:3), pjrt_buffer(m)), is.matrix), list(FALSE, FALSE, TRUE))
})

test_that("a session keeps a bounded number of programs, the last used ones", {
  count <- function() unlist(pjrt_cache_info()[c("operators", "operators_made", "operators_evicted")])
  withr::local_options(pjrt.operators_max = 20)
  x <- pjrt_buffer(c(1, 2, 3))
  x + x
  before <- count()
  for (size in 1:60) {
    value <- pjrt_empty("f32", size + 1000L)
    value + value
    # stays, since it is always among the last used
    x + x
  }
  after <- count()
  expect_lte(after[["operators"]], 20)
  expect_identical(after[["operators_made"]] - before[["operators_made"]], 60)
  expect_gte(after[["operators_evicted"]] - before[["operators_evicted"]], 40)
  expect_output(
    print(pjrt_cache_info()), sprintf("operators: +20 programs of 20, %.0f made", after[["operators_made"]])
  )
  withr::local_options(pjrt.operators_max = 0)
  value <- pjrt_empty("f32", 2001)
  expect_identical(dim(value + value), 2001L)
  expect_identical(pjrt_cache_info()$operators, 0)
  withr::local_options(pjrt.operators_max = "many")
  expect_refused(value - value, "invalid_type", "`options(pjrt.operators_max = )` must be a whole number")
  expect_refused(pjrt_cache_info(), "invalid_type", "`options(pjrt.operators_max = )` must be a whole number")
})

test_that("programs of operators are in the cache on disk", {
  withr::local_envvar(
    PJRT_CACHE = "1", R_USER_CACHE_DIR = withr::local_tempdir(), PJRT_PLUGIN_PATH_CPU = real_plugin()
  )
  code <- quote({
    x <- pjrt_buffer(c(1, 2, 3))
    stopifnot(all.equal(as_array((x + 1) / x), array(c(2, 1.5, 4 / 3)), tolerance = 1e-6))
    info <- pjrt_cache_info()
    cat(info$hits, info$misses, info$operators, "\n")
  })
  expect_clean(run_child(code), "0 2 2 ")
  expect_clean(run_child(code), "2 0 2 ")
})

test_that("an operator on the result of a program that fails raises its error when its own result is read", {
  local_handler("test_fails", "fails")
  withr::local_options(pjrt.dispatch = "thread")
  failing <- compile(calling_program("test_fails", 'code = 9 : i32, message = "not now"'))
  sum <- pjrt_execute(failing, pjrt_buffer(c(1, 2, 3, 4))) + 1
  expect_refused(as_array(sum * 2), "failed_precondition", "not now")
})

test_that("operators work with other threads, and in any order", {
  withr::local_options(pjrt.dispatch = "thread", pjrt.operators_max = 0)
  x <- pjrt_buffer(m)
  y <- x
  for (i in 1:5) y <- y * 2 + x
  expect_values(y, m * 63, "f32")
})
