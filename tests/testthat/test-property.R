# Compares random data with the reference implementation in plain R (helper-reference.R), for every kind of upload and
# download: values, order, and results of checks. The seeds are fixed.
# Slow: tries thousands of random arrays.

# Numbers of all magnitudes, including halves and ties, and all special values.
random_doubles <- function(n) {
  special <- c(
    0, -0, 1, -1, 0.5, -0.5, 2.5, NA, NaN, Inf, -Inf, 127, 128, -128, -129, 255, 256, 448, 464, 480, 65504, 65520,
    2^31 - 1, 2^31, -2^31, -2^31 - 1, 2^32 - 1, 2^32, 2^53, 2^63, -2^63, 2^64, 1e300, -1e300, 5e-324, 2^-149, 2^-150
  )
  kind <- sample.int(4L, n, replace = TRUE)
  out <- sample(special, n, replace = TRUE)
  out[kind == 1L] <- stats::rnorm(sum(kind == 1L), sd = 50)
  out[kind == 2L] <- round(stats::rnorm(sum(kind == 2L), sd = 200)) / 8
  out[kind == 3L] <- stats::rnorm(sum(kind == 3L)) * 2^sample(-140:70, sum(kind == 3L), replace = TRUE)
  out
}

random_integers <- function(n) {
  small <- sample(-300:300, n, replace = TRUE)
  any <- c(sample.int(.Machine$integer.max, n, replace = TRUE) * sample(c(-1L, 1L), n, replace = TRUE))
  special <- sample(c(NA, .Machine$integer.max, -.Machine$integer.max, 0L, 65535L, 65536L), n, replace = TRUE)
  ifelse(stats::runif(n) < 0.5, small, ifelse(stats::runif(n) < 0.8, any, special))
}

random_values <- function(source, n) {
  switch(source,
    logical = sample(c(TRUE, FALSE, NA), n, replace = TRUE),
    integer = random_integers(n),
    double = random_doubles(n),
    complex = complex(real = random_doubles(n), imaginary = random_doubles(n)),
    integer64 = {
      bits <- readBin(as.raw(sample(0:255, 8L * n, replace = TRUE)), "double", n)
      x <- structure(bits, class = "integer64")
      some <- sample(c(TRUE, FALSE), n, replace = TRUE)
      x[some] <- bit64::as.integer64(sample(c(NA, -1, 0, 5, 2^31, 2^32 - 1, 2^32, 2^40), n, replace = TRUE))[some]
      x
    }
  )
}

# All conversions of R data.
all_but <- function(...) setdiff(names(mlir_types), c(...))
pairs <- do.call(rbind, Map(
  function(source, dtype) data.frame(source = source, dtype = dtype),
  c("double", "integer", "logical", "complex", "integer64"),
  list(all_but(), all_but("pred"), all_but(), c("c64", "c128"), c("i64", "ui64", "ui32", all_but(
    "pred", "c64", "c128", whole_types
  )))
))

random_dims <- function(rank, most) {
  dims <- rep(1L, rank)
  for (k in sample.int(rank)) dims[[k]] <- sample.int(max(min(40L, most %/% prod(dims)), 1L), 1L)
  dims
}

# Which values become NaN. The bits of a NaN are unspecified.
becomes_nan <- function(x, dtype) {
  if (is.complex(x)) {
    return(is.na(Re(x)) | is.na(Im(x)))
  }
  if (dtype %in% c("pred", whole_types)) logical(length(x)) else is.na(as_float(x, dtype))
}

# Expects the reference's values and bytes in both orders, and that a buffer made from these bytes is the same.
expect_arrival <- function(x, dtype, dims, label) {
  if (length(dims) > 0L && length(x) > 1L) dim(x) <- dims
  buffer <- without_na_warning(if (length(dims) == 0L) pjrt_scalar(x, dtype) else pjrt_buffer(x, dtype, shape = dims))
  expect_identical(shape(buffer), as.integer(dims), label = label)
  n <- as.integer(prod(dims))
  x <- by_way_of(rep_len(c(x), n), dtype)
  expect_values(as_array(buffer), reference_array(x, dtype, dims), label)
  columns <- reference_bytes(x, dtype)
  open <- becomes_nan(x, dtype)
  for (row_major in c(TRUE, FALSE)) {
    order <- if (row_major) by_row(dims) else seq_len(n)
    bytes <- as_raw(buffer, row_major = row_major)
    expect_identical(length(bytes), length(columns), label = label)
    known <- rep(!open[order], each = nrow(columns))
    same <- identical(bytes[known], as.vector(columns[, order])[known])
    expect(same, paste(label, "has other bytes, row_major =", row_major))
    again <- pjrt_buffer(bytes, dtype = dtype, shape = dims, row_major = row_major)
    expect(identical(as_raw(again, row_major = !row_major), as_raw(buffer, row_major = !row_major)), label)
    expect_values(as_array(again), as_array(buffer), label)
  }
}

test_that("the reference implementation covers all formats", {
  expect_identical(as_float(c(1 / 3, 65520, 65519, -0, 2^-25, NaN), "f16"), c(1365 / 4096, Inf, 65504, -0, 0, NaN))
  expect_identical(as_float(c(464, 465, -1e9), "f8e4m3fn"), c(448, NaN, NaN))
  expect_identical(as_float(c(7, -100, 2.5, 0.25, NaN), "f4e2m1fn"), c(6, -6, 2, 0, 0))
  expect_identical(as_float(c(1.5, 0, -1, 1e-300, Inf), "f8e8m0fnu"), c(2, NaN, NaN, 2^-127, NaN))
  expect_identical(as_float(1 / 3, "f32"), readBin(bytes(1 / 3, 4L), "double", size = 4L))
  expect_identical(as.vector(reference_bytes(c(1, -2, Inf), "f16")), as.raw(c(0, 0x3c, 0, 0xc0, 0, 0x7c)))
  expect_identical(as.vector(reference_bytes(c(2^63, -1), "ui64")), as.raw(c(rep(0, 7), 0x80, rep(0, 8))))
  expect_identical(as.vector(reference_bytes(-2L, "i4")), as.raw(14))
})

test_that("every conversion of R data matches the reference at every rank", {
  withr::local_seed(11)
  for (k in seq_len(nrow(pairs))) {
    pair <- pairs[k, ]
    for (rank in c(sample(0:4, 1L), sample(5:8, 1L))) {
      dims <- random_dims(rank, sample(c(1L, 30L, 700L, 3000L), 1L))
      label <- sprintf("%s to %s, %s", pair$source, pair$dtype, paste(dims, collapse = "x"))
      expect_arrival(random_values(pair$source, prod(dims)), pair$dtype, dims, label)
    }
  }
})

test_that("repeating a single value matches the reference", {
  withr::local_seed(12)
  for (k in seq_len(nrow(pairs))) {
    pair <- pairs[k, ]
    dims <- random_dims(sample(1:4, 1L), 1500L)
    label <- sprintf("one %s to %s, %s", pair$source, pair$dtype, paste(dims, collapse = "x"))
    expect_arrival(random_values(pair$source, 1L), pair$dtype, dims, label)
  }
})

test_that("uploads of medium arrays match the reference", {
  withr::local_seed(13)
  cases <- list(
    list("double", "f32", c(300L, 333L)), list("double", "f64", 1e5), list("double", "bf16", c(17L, 3L, 41L, 40L)),
    list("double", "i64", c(2L, 25000L)), list("integer", "ui8", c(99L, 1000L)), list("integer", "i32", 5e4),
    list("complex", "c64", c(200L, 100L)), list("complex", "c128", c(40L, 10L, 50L)),
    list("integer64", "ui32", c(123L, 321L)), list("integer64", "i64", 30000),
    list("logical", "pred", c(3L, 20000L)), list("double", "f4e2m1fn", c(100L, 200L)),
    list("integer", "i2", c(10L, 10L, 300L)), list("double", "ui4", 40000)
  )
  for (case in cases) {
    dims <- as.integer(case[[3L]])
    label <- paste(case[[1L]], "to", case[[2L]], paste(dims, collapse = "x"))
    expect_arrival(random_values(case[[1L]], prod(dims)), case[[2L]], dims, label)
  }
})

test_that("threaded and background uploads match the reference", {
  withr::local_seed(14)
  # few different values, so that the reference is fast
  cases <- list(
    list("double", "f32", c(1500L, 1400L)), list("double", "f64", c(130L, 90L, 100L)),
    list("double", "f16", c(4L, 1100L, 1000L)), list("integer", "i8", c(3000L, 2800L)),
    list("integer64", "ui64", c(1100L, 1000L)), list("complex", "c64", c(1000L, 1100L)),
    list("logical", "pred", c(2900L, 2900L)), list("integer", "i4", c(3000L, 2800L))
  )
  for (case in cases) {
    dims <- case[[3L]]
    n <- prod(dims)
    few <- random_values(case[[1L]], 997L)
    which <- rep_len(seq_along(few), n)
    x <- few[which]
    dim(x) <- dims
    # the warning of missing values may come with any later call
    buffer <- without_na_warning(await(pjrt_buffer(x, case[[2L]])))
    few <- by_way_of(few, case[[2L]])
    label <- paste(case[[1L]], "to", case[[2L]])
    expected <- reference_array(few, case[[2L]], length(few))[which]
    dim(expected) <- dims
    expect_values(as_array(buffer), expected, label)
    places <- sort(sample.int(n, 2000L))
    columns <- reference_bytes(few, case[[2L]])
    open <- becomes_nan(few, case[[2L]])
    for (row_major in c(TRUE, FALSE)) {
      order <- which[if (row_major) by_row(dims)[places] else places]
      bytes <- matrix(as_raw(buffer, row_major), nrow(columns))[, places, drop = FALSE]
      expect_identical(bytes[, !open[order]], columns[, order, drop = FALSE][, !open[order]], label = label)
    }
  }
})

compiled <- new.env()

# Compiled once for each type.
identity_of <- function(dtype, dims = "") {
  type <- paste0(dims, mlir_types[[dtype]])
  if (is.null(compiled[[type]])) compiled[[type]] <- compile(identity_program(type))
  compiled[[type]]
}

test_that("programs accept and return every dtype", {
  withr::local_seed(15)
  for (k in seq_len(nrow(pairs))) {
    pair <- pairs[k, ]
    dtype <- pair$dtype
    label <- paste(pair$source, "to", dtype)
    x <- array(random_values(pair$source, 24L), c(2L, 3L, 4L))
    if (pair$source == "integer64") oldClass(x) <- "integer64"
    buffer <- pjrt_buffer(x, dtype)
    out <- pjrt_execute(identity_of(dtype, "2x3x4x"), buffer)
    expect_values(as_array(out), as_array(buffer), label)
    expect_values(value(as_array_async(out)), as_array(buffer), label)
    for (row_major in c(TRUE, FALSE)) expect_identical(as_raw(out, row_major), as_raw(buffer, row_major), label = label)
    expect_identical(format_buffer(out), format_buffer(buffer), label = label)
    expect_identical(dim(format_buffer(out)), c(2L, 3L, 4L), label = label)
    expect_identical(capture.output(print(out)), capture.output(print(buffer)), label = label)
    expect_identical(out[2, , 3], as_array(out)[2, , 3], label = label)
  }
})

test_that("every dtype has scalars, zeros, a name and a printed form", {
  scalar <- function(dtype) {
    switch(dtype, pred = TRUE, c64 = , c128 = 1 + 2i, i2 = , i4 = -2L, ui2 = , ui4 = 3L, 2)
  }
  for (dtype in names(mlir_types)) {
    name <- if (dtype == "pred") "bool" else dtype
    value <- scalar(dtype)
    x <- pjrt_scalar(value, dtype)
    out <- pjrt_execute(identity_of(dtype), x)
    expect_identical(as.character(elt_type(out)), dtype)
    expect_identical(as.character(dtype(out)), name)
    expect_true(as_array(out) == value, label = dtype)
    expect_identical(as_array(out), as_array(x), label = dtype)
    expect_identical(shape(out), integer())
    expect_match(capture.output(print(out)), sprintf("[ CPU%s{} ]", name), fixed = TRUE, all = FALSE)
    expect_identical(length(format_buffer(out)), 1L)
    zeros <- pjrt_empty(dtype, c(2L, 3L))
    expect_identical(as_raw(zeros, row_major = TRUE), raw(6L * dtype_bytes(dtype)), label = dtype)
    # in this dtype, zero bits are the smallest power of two
    zero <- if (dtype == "f8e8m0fnu") 2^-127 else 0
    expect_true(all(as_array(zeros) == zero), label = dtype)
    expect_identical(dim(as_array(pjrt_empty(dtype, c(0L, 3L)))), c(0L, 3L), label = dtype)
  }
})

test_that("a constant made from format_buffer() equals the buffer", {
  withr::local_seed(16)
  for (k in seq_len(nrow(pairs))) {
    pair <- pairs[k, ]
    x <- random_values(pair$source, 6L)
    if (pair$dtype %in% c("i64", "ui64") && pair$source == "integer64") x <- bit64::as.integer64(1:6)
    buffer <- pjrt_buffer(x, pair$dtype)
    type <- paste0("6x", mlir_types[[pair$dtype]])
    constant <- compile(sprintf(
      "func.func @main() -> tensor<%s> {
        %%0 = stablehlo.constant dense<[%s]> : tensor<%s>
        return %%0 : tensor<%s>
      }", type, paste(format_buffer(buffer), collapse = ", "), type, type
    ))
    expect_identical(as_raw(pjrt_execute(constant), TRUE), as_raw(buffer, TRUE), label = paste(pair$source, pair$dtype))
  }
})

test_that("every alias of a dtype means that dtype", {
  names <- list(
    pred = c("i1", "bool"), i8 = c("s8", "int8"), i16 = c("s16", "int16"), i32 = c("s32", "int32"),
    i64 = c("s64", "int64"), ui8 = c("u8", "uint8"), ui16 = c("u16", "uint16"), ui32 = c("u32", "uint32"),
    ui64 = c("u64", "uint64"), f16 = c("float16", "half"), f32 = c("float32", "float"), f64 = c("float64", "double"),
    bf16 = "bfloat16", c64 = "complex64", c128 = "complex128", i2 = c("s2", "int2"), i4 = c("s4", "int4"),
    ui2 = c("u2", "uint2"), ui4 = c("u4", "uint4")
  )
  for (dtype in names(mlir_types)) {
    for (name in c(dtype, names[[dtype]])) {
      expect_identical(as.character(elt_type(pjrt_empty(name, 1L))), dtype, label = name)
      x <- pjrt_buffer(raw(dtype_bytes(dtype)), dtype = name, shape = 1L, row_major = TRUE)
      expect_identical(as.character(elt_type(x)), dtype, label = name)
      expect_identical(pjrt_buffer(x, name), x, label = name)
    }
  }
})

number_of <- function(n, noun) paste0(n, " ", noun, if (n != 1L) "s")

check_message <- function(x, dtype) {
  bad <- misfits(x, dtype)
  problems <- c(
    if (any(bad$missing)) paste0(
      number_of(sum(bad$missing), "NA value"), ", which ", if (sum(bad$missing) == 1L) "has" else "have",
      " no representation at the XLA level"
    ),
    if (any(bad$out)) paste(number_of(sum(bad$out), "value"), "that", dtype, "cannot hold")
  )
  if (length(problems) > 0L) {
    first <- which(bad$missing | bad$out)[[1L]]
    sprintf("`data` has %s; the first is element %d.", paste(problems, collapse = " and "), first)
  }
}

# Expects the reference's message from a check, or the data without one.
expect_check <- function(x, dtype, label) {
  message <- check_message(x, dtype)
  if (is.null(message)) {
    buffer <- pjrt_buffer(x, dtype, check = TRUE)
    expect_identical(as_raw(buffer, TRUE), as_raw(pjrt_buffer(x, dtype), TRUE), label = label)
  } else {
    found <- tryCatch(pjrt_buffer(x, dtype, check = TRUE), pjrt_error_invalid_input = conditionMessage)
    # the hint depends on the type in R
    expect_identical(sub("\ni .*", "", found), message, label = label)
  }
  is.null(message)
}

test_that("check = TRUE counts and locates values like the reference", {
  withr::local_seed(17)
  passed <- 0L
  for (k in seq_len(nrow(pairs))) {
    pair <- pairs[k, ]
    label <- paste(pair$source, "to", pair$dtype)
    for (n in c(1L, 3L, 40L, 3000L)) {
      expect_check(random_values(pair$source, n), pair$dtype, label)
    }
    # values that fit, first alone, then with three that do not
    x <- random_values(pair$source, 5000L)
    bad <- misfits(x, pair$dtype)
    bad <- bad$missing | bad$out
    good <- rep_len(x[!bad], 9000L)
    passed <- passed + expect_check(good, pair$dtype, label)
    passed <- passed + expect_check(good[[1L]], pair$dtype, label)
    if (any(bad)) {
      places <- sort(sample.int(9000L, 3L))
      good[places] <- sample(x[bad], 3L, replace = TRUE)
      if (pair$source == "integer64") good[places] <- x[bad][c(1L, 1L, 1L)]
      expect_check(good, pair$dtype, label)
      dim(good) <- c(90L, 100L)
      if (pair$source == "integer64") oldClass(good) <- "integer64"
      expect_check(good, pair$dtype, paste(label, "matrix"))
    }
  }
  # the cases must include data that fit
  expect_gt(passed, nrow(pairs))
})

test_that("check = TRUE on a large array counts every value and locates the first, with several threads", {
  x <- matrix(1, 1500, 1500)
  expect_identical(dim(as_array(pjrt_buffer(x, "i8", check = TRUE))), c(1500L, 1500L))
  x[c(2000000, 70001, 1234567, 2249999)] <- c(NA, 300, -129, NaN)
  expect_refused(
    pjrt_buffer(x, "i8", check = TRUE), "invalid_input",
    paste(
      "`data` has 2 NA values, which have no representation at the XLA level and 2 values that i8 cannot hold;",
      "the first is element 70001."
    )
  )
})

test_that("64-bit integers are read as doubles or integers, or refused if a value does not fit", {
  withr::local_seed(18)
  wholes <- function(dtype, numbers) {
    bytes <- as.vector(whole_bytes(numbers, dtype_bytes(dtype)))
    pjrt_buffer(bytes, dtype = dtype, shape = length(numbers), row_major = TRUE)
  }
  fit <- list(
    i64 = c(-2^62, 2^53 - 1, -2^53, 2^53 + 2, 0, 5, -2^63), ui64 = c(2^63, 2^64 - 2^11, 2^53, 0, 7),
    ui32 = c(2^32 - 1, 2^31, 0, 12)
  )
  for (dtype in names(fit)) {
    numbers <- sample(fit[[dtype]], 3000L, replace = TRUE)
    x <- wholes(dtype, numbers)
    expect_bits(as_array(x, int64 = "double"), array(numbers))
    expect_bits(value(as_array_async(x, int64 = "double")), array(numbers))
    expect_refused(as_array(x, int64 = "integer"), "invalid_input", paste(
      number_of(sum(numbers < -2^31 + 1 | numbers > 2^31 - 1), "value"), "that an R integer cannot hold"
    ))
    expect_refused(value(as_array_async(x, int64 = "integer")), "invalid_input", "an R integer cannot hold")
    small <- sample(c(0, 1, 2^31 - 1, if (dtype == "i64") c(-1, -2^31 + 1)), 3000L, replace = TRUE)
    expect_identical(as_array(wholes(dtype, small), int64 = "integer"), array(as.integer(small)))
    expect_identical(as_array(wholes(dtype, small), int64 = "double"), array(small))
    expect_bits(as_array(wholes(dtype, small), int64 = "integer64"), int64(small))
    matrix <- pjrt_buffer(as_raw(wholes(dtype, small), TRUE), dtype = dtype, shape = c(30L, 100L), row_major = FALSE)
    expect_identical(as_array(matrix, int64 = "integer"), matrix(as.integer(small), 30L))
  }
  # -2^31 is NA as an R integer
  expect_refused(as_array(wholes("i64", c(0, -2^31)), int64 = "integer"), "invalid_input", "holds 1 value")
  odd <- pjrt_buffer(bit64::as.integer64(c("9007199254740993", "1", "9223372036854775807")))
  expect_refused(as_array(odd, int64 = "double"), "invalid_input", "holds 2 values that a double cannot hold exactly")
  # integer64 cannot hold it either
  largest <- pjrt_buffer(-1L, "ui64")
  expect_refused(as_array(largest, int64 = "double"), "invalid_input", "format_buffer() gives all digits")
  unsigned <- pjrt_buffer(as.raw(rep(255, 8)), dtype = "ui64", shape = 1L, row_major = TRUE)
  expect_refused(as_array(unsigned, int64 = "double"), "invalid_input", "holds 1 value that a double cannot hold")
  expect_refused(as_array(unsigned, int64 = "integer"), "invalid_input", "holds 1 value that an R integer cannot")
  # other dtypes ignore the argument
  expect_identical(as_array(pjrt_buffer(1:3), int64 = "double"), array(1:3))
  expect_identical(as_array(pjrt_buffer(1.5), int64 = "integer"), array(1.5))
  for (bad in list("int", NA_character_, 1, NULL, character())) {
    expect_refused(as_array(odd, int64 = bad), "invalid_input", "`int64` must be")
  }
})
