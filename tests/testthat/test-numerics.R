# Every operation on floats and integers at the edge values of their types. helper-numerics.R computes the expected
# results. The tables below list known faults of the plugin; a plugin without them fails a test. The article on
# reliability documents them for users.
# Slow: compiles every operation for every type.

# Operations that treat subnormal numbers incorrectly: "flushed" if arguments and results become zero, "flushed by some"
# if they do with some C libraries, whose function the plugin calls (not glibc 2.36, but 2.43), otherwise "wrong". f16
# is mostly computed in f32, where its subnormal numbers are normal.
subnormals <- local({
  both <- c(
    ceil = "flushed", exponential = "flushed", floor = "flushed", log = "flushed", log_plus_one = "flushed",
    rsqrt = "flushed", sign = "flushed", sqrt = "flushed", cbrt = "wrong", add = "flushed", divide = "flushed",
    maximum = "flushed", minimum = "flushed", multiply = "flushed", subtract = "flushed", atan2 = "wrong",
    power = "wrong", remainder = "wrong"
  )
  list(
    f64 = c(both, tanh = "flushed"), f32 = c(both, logistic = "flushed", tan = "flushed by some"),
    f16 = c(logistic = "wrong"),
    bf16 = c(
      # a newer plugin flushes them for comparing only, on some processors
      replace(both, c("maximum", "minimum"), if (plugin_api(115)) "wrong" else "flushed"),
      logistic = "flushed", tan = "flushed by some"
    )
  )
})

# Conversions that flush subnormal arguments and results to zero.
subnormal_conversions <- c("f32 to f64", "bf16 to f64", "f64 to f32", "f64 to bf16")

# Checks results for the arguments `...`.
expect_operation <- function(got, operation, dtype, how, ...) {
  right <- function(...) as_float(suppressWarnings(how[[1L]](...)), dtype)
  wanted <- right(...)
  zeros <- lapply(list(...), flushed, dtype)
  treated <- if (operation %in% names(subnormals[[dtype]])) subnormals[[dtype]][[operation]] else "right"
  is_right <- all(ulps_apart(got, wanted, dtype) <= how[[2L]])
  if (treated == "flushed" || (treated == "flushed by some" && !is_right)) {
    wanted <- flushed(do.call(right, zeros), dtype)
  } else if (treated == "wrong") {
    is_edge <- Reduce(`|`, lapply(list(...), is_subnormal, dtype)) | is_subnormal(wanted, dtype)
    expect_true(any(ulps_apart(got, wanted, dtype)[is_edge] > how[[2L]]), label = paste(dtype, operation, "is wrong"))
    wanted[is_edge] <- got[is_edge]
  }
  expect_numbers(got, wanted, dtype, how[[2L]], operation, ...)
}

test_that("operations on one float are correct at edge values", {
  is_newer <- plugin_api(106)
  for (dtype in float_types_of_r) {
    x <- edges(dtype)
    type <- tensor(dtype, length(x))
    operations <- names(unary_operations)
    code <- stats::setNames(sprintf("stablehlo.%s %%x : %s", operations, type), rep(type, length(operations)))
    code <- c(code, stats::setNames(
      sprintf("stablehlo.is_finite %%x : (%s) -> %s", type, tensor("pred", length(x))), tensor("pred", length(x))
    ))
    results <- results_of(list(x = pjrt_buffer(x, dtype)), type, code)
    for (i in seq_along(operations)) {
      how <- unary_operations[[i]]
      # newer plugins compute it less exactly near the limits of f64
      if (is_newer && operations[[i]] == "cbrt" && dtype == "f64") how[[2L]] <- 200
      expect_operation(c(as_array(results[[i]])), operations[[i]], dtype, how, x)
    }
    expect_identical(c(as_array(results[[length(results)]])), is.finite(x), label = dtype)
  }
})

test_that("operations on two floats are correct at edge values", {
  for (dtype in float_types_of_r) {
    pairs <- pair_edges(dtype)
    type <- tensor(dtype, nrow(pairs))
    operations <- names(binary_operations)
    code <- stats::setNames(sprintf("stablehlo.%s %%x, %%y : %s", operations, type), rep(type, length(operations)))
    results <- results_of(lapply(pairs, pjrt_buffer, dtype), type, code)
    for (i in seq_along(operations)) {
      expect_operation(c(as_array(results[[i]])), operations[[i]], dtype, binary_operations[[i]], pairs$x, pairs$y)
    }
  }
})

# Simplifications by the compiler that change results: x + 0 becomes x, also for -0, and x / 3 becomes x times a third,
# which rounds twice.
simplified <- list("x + 0" = float_types_of_r, "x / 3" = c("f64", "f32", "f16"))

test_that("operations with constants or equal operands are correct at edge values", {
  for (dtype in float_types_of_r) {
    x <- Filter(function(x) !is_subnormal(x, dtype), edges(dtype))
    type <- tensor(dtype, length(x))
    constants <- c(zero = 0, one = 1, two = 2, three = 3, half = 0.5, minus_one = -1)
    zero <- 0 * replace(x, !is.finite(x), 1)^0
    cases <- list(
      "x + 0" = list("add %x, %zero", x + 0), "x - 0" = list("subtract %x, %zero", x - 0),
      "0 - x" = list("subtract %zero, %x", 0 - x), "x * 1" = list("multiply %x, %one", x),
      "x * 0" = list("multiply %x, %zero", x * 0), "x * -1" = list("multiply %x, %minus_one", -x),
      "x / 1" = list("divide %x, %one", x), "x / 2" = list("divide %x, %two", x / 2),
      "x / 3" = list("divide %x, %three", x / 3), "0 / x" = list("divide %zero, %x", 0 / x),
      "x - x" = list("subtract %x, %x", x - x), "x / x" = list("divide %x, %x", x / x),
      "max(x, x)" = list("maximum %x, %x", x), "max(x, 0)" = list("maximum %x, %zero", maximum(x, zero)),
      "min(x, 0)" = list("minimum %x, %zero", minimum(x, zero)), "x^0" = list("power %x, %zero", power(x, 0)),
      "x^1" = list("power %x, %one", x), "x^2" = list("power %x, %two", x * x),
      "x^0.5" = list("power %x, %half", power(x, 0.5)), "x^-1" = list("power %x, %minus_one", power(x, -1)),
      "1^x" = list("power %one, %x", rep(1, length(x)))
    )
    code <- sprintf("stablehlo.%s : %s", vapply(cases, `[[`, "", 1L), type)
    before <- sprintf("%%%s = stablehlo.constant dense<%.1f> : %s", names(constants), constants, type)
    results <- results_of(list(x = pjrt_buffer(x, dtype)), type, stats::setNames(code, rep(type, length(code))), before)
    for (i in seq_along(cases)) {
      name <- names(cases)[[i]]
      wanted <- as_float(cases[[i]][[2L]], dtype)
      got <- c(as_array(results[[i]]))
      is_small <- is_subnormal(wanted, dtype) & dtype != "f16"
      wanted[is_small] <- flushed(wanted[is_small], dtype)
      if (dtype %in% simplified[[name]]) {
        expect_true(any(ulps_apart(got, wanted, dtype) > 0), label = paste(dtype, name, "is wrong"))
        wanted <- if (name == "x + 0") x else ifelse(ulps_apart(got, wanted, dtype) <= 1, got, wanted)
      }
      expect_numbers(got, wanted, dtype, if (grepl("^", name, fixed = TRUE)) 4 else 0, name, x)
    }
  }
})

test_that("comparisons of floats follow IEEE 754 and its total order", {
  for (dtype in float_types_of_r) {
    # subnormal numbers, which compare as zeros, are tested below
    few <- Filter(function(x) !is_subnormal(x, dtype), c(few_edges(dtype), -positive_nan))
    pairs <- expand.grid(x = few, y = few)
    type <- tensor(dtype, nrow(pairs))
    orders <- expand.grid(how = names(comparisons), kind = c("FLOAT", "TOTALORDER"), stringsAsFactors = FALSE)
    result <- tensor("pred", nrow(pairs))
    code <- sprintf("stablehlo.compare %s, %%x, %%y, %s : (%s, %s) -> %s", orders$how, orders$kind, type, type, result)
    results <- results_of(lapply(pairs, pjrt_buffer, dtype), type, stats::setNames(code, rep(result, length(code))))
    ranks <- matrix(total_order(c(pairs$x, pairs$y)), ncol = 2L)
    for (i in seq_along(code)) {
      compare <- comparisons[[orders$how[[i]]]]
      wanted <- if (orders$kind[[i]] == "FLOAT") compare(pairs$x, pairs$y) else compare(ranks[, 1L], ranks[, 2L])
      if (orders$kind[[i]] == "FLOAT") wanted[is.na(wanted)] <- orders$how[[i]] == "NE"
      expect_identical(c(as_array(results[[i]])), wanted, label = paste(dtype, code[[i]]))
    }
    least <- pjrt_buffer(few_edges(dtype)[[4L]], dtype)
    type <- tensor(dtype, 1)
    equal <- results_of(
      list(x = least), type,
      c("tensor<1xi1>" = sprintf("stablehlo.compare EQ, %%x, %%zero : (%s, %s) -> tensor<1xi1>", type, type)),
      sprintf("%%zero = stablehlo.constant dense<0.0> : %s", type)
    )
    label <- paste(dtype, "the least number equals zero")
    expect_identical(c(as_array(equal[[1L]])), dtype %in% c("f64", "f32", if (plugin_api(115)) "bf16"), label = label)
  }
})

test_that("clamp and select keep NaN, infinities and signs of zero", {
  triples <- triple_edges()
  for (dtype in float_types_of_r) {
    type <- tensor(dtype, nrow(triples))
    code <- c(
      sprintf("stablehlo.clamp %%low, %%x, %%high : %s", type),
      sprintf("stablehlo.select %%chosen, %%low, %%high : %s, %s", tensor("pred", nrow(triples)), type)
    )
    inputs <- c(
      lapply(triples, pjrt_buffer, dtype), list(chosen = pjrt_buffer(triples$x > 0 & !is.nan(triples$x), "pred"))
    )
    results <- results_of(inputs, c(rep(type, 3L), tensor("pred", nrow(triples))), stats::setNames(code, rep(type, 2L)))
    wanted <- clamped(triples$low, triples$x, triples$high)
    expect_numbers(results[[1L]], wanted, dtype, 0, "clamp", triples$low, triples$x, triples$high)
    expect_numbers(results[[2L]], ifelse(triples$x %in% c(1, Inf), triples$low, triples$high), dtype, 0, "select")
  }
})

test_that("floats convert to the nearest whole number in range and to the nearest float", {
  # a subnormal number is FALSE, except in f16, and in newer plugins in bf16
  keep_subnormal <- c("f16", if (plugin_api(106)) "bf16")
  whole <- c("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "pred")
  for (dtype in float_types_of_r) {
    limits <- c(
      -129, -128.9, 127.9, 128, 255.9, 256, 32767.9, 32768, 65536, 2^31 - 1, 2^31, 2^32, 2^63, -2^63, 2^64, 1e30,
      2^-140, 2^-130, 2^-20, 1e-7
    )
    x <- as_float(c(edges(dtype), limits), dtype)
    results <- setdiff(c(whole, float_types_of_r), dtype)
    types <- vapply(results, tensor, "", length(x))
    code <- stats::setNames(sprintf("stablehlo.convert %%x : (%s) -> %s", tensor(dtype, length(x)), types), types)
    got <- results_of(list(x = pjrt_buffer(x, dtype)), tensor(dtype, length(x)), code)
    for (i in seq_along(results)) {
      label <- paste(dtype, "to", results[[i]])
      if (results[[i]] %in% whole) {
        wanted <- as_whole(if (dtype %in% keep_subnormal) x else flushed(x, dtype), results[[i]])
        expect_identical(elements_of(got[[i]], results[[i]]), as.double(wanted), label = label)
      } else {
        wanted <- as_float(x, results[[i]])
        if (label %in% subnormal_conversions) wanted <- flushed(as_float(flushed(x, dtype), results[[i]]), results[[i]])
        expect_numbers(got[[i]], wanted, results[[i]], 0, label, x)
      }
    }
  }
})

# Rows with NaN, infinities and zeros in various positions.
rows_with_edges <- function() {
  rbind(
    c(1, NaN, 3, 2, 0.5), rep(NaN, 5), c(NaN, 1, 2, 3, 4), c(4, 3, 2, 1, NaN), c(-0, 0, -0, 0, -0), rep(-0, 5),
    c(Inf, -Inf, 1, 2, 3), rep(-Inf, 5), rep(Inf, 5), c(1, 2, 4, 8, 16), c(-1, -2, -4, -8, -16),
    c(NaN, Inf, -Inf, 0, -0)
  )
}

reducers <- list(
  maximum = list(maximum, -Inf), minimum = list(minimum, Inf), add = list(`+`, 0), multiply = list(`*`, 1)
)

start_of <- function(type) {
  words <- c(maximum = "0xNEGATIVE", minimum = "0xPOSITIVE", add = "0.0", multiply = "1.0")
  infinity <- c(f64 = "7FF0000000000000", f32 = "7F800000", f16 = "7C00", bf16 = "7F80")
  negative <- c(f64 = "FFF0000000000000", f32 = "FF800000", f16 = "FC00", bf16 = "FF80")
  words <- sub("POSITIVE", infinity[[type]], sub("NEGATIVE", negative[[type]], words))
  sprintf("%%%s = stablehlo.constant dense<%s> : tensor<%s>", names(reducers), words, type)
}

windowed <- function(operation, type, from, to, window, padding) {
  sprintf("\"stablehlo.reduce_window\"(%%x, %%%s)
    <{window_dimensions = array<i64: 1, %d>, padding = dense<[[0, 0], [%d, 0]]> : tensor<2x2xi64>}> ({
    ^bb0(%%a: tensor<%s>, %%b: tensor<%s>):
      %%c = stablehlo.%s %%a, %%b : tensor<%s>
      stablehlo.return %%c : tensor<%s>
  }) : (%s, tensor<%s>) -> %s", operation, window, padding, type, type, operation, type, type, from, type, to)
}

test_that("reductions, window and cumulative operations keep NaN and signs of zero", {
  rows <- rows_with_edges()
  n <- nrow(rows)
  for (dtype in float_types_of_r) {
    type <- mlir_types[[dtype]]
    x <- tensor(dtype, n, 5)
    names <- names(reducers)
    code <- c(
      sprintf(
        "stablehlo.reduce(%%x init: %%%s) applies stablehlo.%s across dimensions = [1] : (%s, tensor<%s>) -> %s",
        names, names, x, type, tensor(dtype, n)
      ),
      vapply(names, windowed, "", type, x, tensor(dtype, n, 4), 2, 0),
      vapply(names, windowed, "", type, x, x, 5, 4)
    )
    types <- rep(c(tensor(dtype, n), tensor(dtype, n, 4), x), each = length(names))
    results <- results_of(list(x = pjrt_buffer(rows, dtype)), x, stats::setNames(code, types), start_of(type))
    results <- lapply(results, as_array)
    for (i in seq_along(names)) {
      reduce <- function(values) Reduce(reducers[[i]][[1L]], values, reducers[[i]][[2L]])
      label <- paste("by", names[[i]])
      expect_numbers(results[[i]], apply(rows, 1L, reduce), dtype, 0, paste("reduced", label))
      pairs <- vapply(1:4, function(j) apply(rows[, j + 0:1], 1L, reduce), numeric(n))
      expect_numbers(results[[i + 4L]], pairs, dtype, 0, paste("windows", label))
      cumulative <- vapply(1:5, function(j) apply(rows[, seq_len(j), drop = FALSE], 1L, reduce), numeric(n))
      expect_numbers(results[[i + 8L]], cumulative, dtype, 0, paste("cumulative", label))
    }
  }
})

test_that("long reductions return NaN for a NaN at any position", {
  # a fault of newer plugins: their minima and maxima of many elements lose NaN
  keep <- !(names(reducers) %in% c("maximum", "minimum") & plugin_api(106))
  n <- 100003L
  for (dtype in float_types_of_r) {
    type <- mlir_types[[dtype]]
    code <- sprintf(
      "stablehlo.reduce(%%x init: %%%s) applies stablehlo.%s across dimensions = [0] : (%s, tensor<%s>) -> tensor<%s>",
      names(reducers), names(reducers), tensor(dtype, n), type, type
    )
    program <- sprintf(
      "func.func @main(%%x: %s) -> (%s) {\n%s\n%s\nreturn %%r1, %%r2, %%r3, %%r4 : %s\n}", tensor(dtype, n),
      toString(rep(sprintf("tensor<%s>", type), 4L)), paste(start_of(type), collapse = "\n"),
      paste0("%r", 1:4, " = ", code, collapse = "\n"), toString(rep(sprintf("tensor<%s>", type), 4L))
    )
    program <- compile(program)
    for (at in c(1L, 17L, 50000L, n)) {
      x <- replace(rep(c(1, -1), length.out = n), at, NaN)
      results <- pjrt_execute(program, pjrt_buffer(x, dtype))
      are_nan <- vapply(results[keep], function(y) is.nan(as_array(y)), NA)
      expect_identical(are_nan, rep(TRUE, sum(keep)), label = paste(dtype, at))
    }
  }
})

test_that("sorting in the total order puts NaN at the ends", {
  x <- c(1, positive_nan, -Inf, 0, -0, Inf, -1, -positive_nan, 2)
  for (dtype in float_types_of_r) {
    type <- tensor(dtype, length(x))
    element <- mlir_types[[dtype]]
    code <- sprintf("\"stablehlo.sort\"(%%x) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%%a: tensor<%s>, %%b: tensor<%s>):
      %%0 = stablehlo.compare LT, %%a, %%b, TOTALORDER : (tensor<%s>, tensor<%s>) -> tensor<i1>
      stablehlo.return %%0 : tensor<i1>
      }) : (%s) -> %s", element, element, element, element, type, type)
    got <- results_of(list(x = pjrt_buffer(x, dtype)), type, stats::setNames(code, type))
    expect_numbers(got[[1L]], c(NaN, -Inf, -1, -0, 0, 1, 2, Inf, NaN), dtype)
  }
})

test_that("matrix products keep NaN and infinities", {
  x <- rbind(c(1, NaN, 3), c(Inf, 1, -Inf), c(0, 1, 2), c(Inf, 1, 1))
  y <- rbind(c(0, 1), c(1, 1), c(1, 1))
  for (dtype in float_types_of_r) {
    types <- c(tensor(dtype, 4, 3), tensor(dtype, 3, 2))
    result <- tensor(dtype, 4, 2)
    dot <- "stablehlo.dot_general %%x, %%y, contracting_dims = [1] x [0] : (%s, %s) -> %s"
    code <- sprintf(dot, types[[1L]], types[[2L]], result)
    got <- results_of(list(x = pjrt_buffer(x, dtype), y = pjrt_buffer(y, dtype)), types, stats::setNames(code, result))
    expect_numbers(got[[1L]], x %*% y, dtype)
    # large enough for the compiler to call a library
    large <- tensor(dtype, 64, 64)
    code <- sprintf(dot, large, large, large)
    m <- replace(matrix(1, 64L, 64L), c(5L, 130L), c(NaN, Inf))
    got <- results_of(
      list(x = pjrt_buffer(m, dtype), y = pjrt_buffer(diag(64), dtype)), rep(large, 2L), stats::setNames(code, large)
    )
    expect_numbers(got[[1L]], m %*% diag(64), dtype)
  }
})

# As in JAX.
logsumexp_program <- function(type) {
  pjrt_program(types = list(TYPE = type), "
func.func @main(%x: tensor<6x3x{TYPE}>) -> (tensor<6x{TYPE}>, tensor<6x3x{TYPE}>) {
  %low = stablehlo.constant dense<-1.0> : tensor<{TYPE}>
  %none = stablehlo.constant dense<0.0> : tensor<{TYPE}>
  %one = stablehlo.constant dense<1.0> : tensor<{TYPE}>
  %minus_infinity = stablehlo.divide %low, %none : tensor<{TYPE}>
  %zero = stablehlo.constant dense<0.0> : tensor<6x{TYPE}>
  %top = stablehlo.reduce(%x init: %minus_infinity) applies stablehlo.maximum across dimensions = [1]
    : (tensor<6x3x{TYPE}>, tensor<{TYPE}>) -> tensor<6x{TYPE}>
  %is_finite = stablehlo.is_finite %top : (tensor<6x{TYPE}>) -> tensor<6xi1>
  %shift = stablehlo.select %is_finite, %top, %zero : tensor<6xi1>, tensor<6x{TYPE}>
  %shifts = stablehlo.broadcast_in_dim %shift, dims = [0] : (tensor<6x{TYPE}>) -> tensor<6x3x{TYPE}>
  %less = stablehlo.subtract %x, %shifts : tensor<6x3x{TYPE}>
  %odds = stablehlo.exponential %less : tensor<6x3x{TYPE}>
  %sum = stablehlo.reduce(%odds init: %none) applies stablehlo.add across dimensions = [1]
    : (tensor<6x3x{TYPE}>, tensor<{TYPE}>) -> tensor<6x{TYPE}>
  %log = stablehlo.log %sum : tensor<6x{TYPE}>
  %result = stablehlo.add %log, %shift : tensor<6x{TYPE}>
  %tops = stablehlo.broadcast_in_dim %top, dims = [0] : (tensor<6x{TYPE}>) -> tensor<6x3x{TYPE}>
  %lower = stablehlo.subtract %x, %tops : tensor<6x3x{TYPE}>
  %parts = stablehlo.exponential %lower : tensor<6x3x{TYPE}>
  %total = stablehlo.reduce(%parts init: %none) applies stablehlo.add across dimensions = [1]
    : (tensor<6x3x{TYPE}>, tensor<{TYPE}>) -> tensor<6x{TYPE}>
  %totals = stablehlo.broadcast_in_dim %total, dims = [0] : (tensor<6x{TYPE}>) -> tensor<6x3x{TYPE}>
  %softmax = stablehlo.divide %parts, %totals : tensor<6x3x{TYPE}>
  return %result, %softmax : tensor<6x{TYPE}>, tensor<6x3x{TYPE}>
}")
}

hypot_program <- function(type) {
  pjrt_program(types = list(TYPE = type), "
func.func @main(%x: {TYPE}, %y: {TYPE}) -> {TYPE} {
  %a = stablehlo.abs %x : {TYPE}
  %b = stablehlo.abs %y : {TYPE}
  %large = stablehlo.maximum %a, %b : {TYPE}
  %small = stablehlo.minimum %a, %b : {TYPE}
  %zero = stablehlo.constant dense<0.0> : {TYPE}
  %one = stablehlo.constant dense<1.0> : {TYPE}
  %none = stablehlo.compare EQ, %large, %zero, FLOAT : ({TYPE}, {TYPE}) -> tensor<5xi1>
  %by = stablehlo.select %none, %one, %large : tensor<5xi1>, {TYPE}
  %ratio = stablehlo.divide %small, %by : {TYPE}
  %square = stablehlo.multiply %ratio, %ratio : {TYPE}
  %sum = stablehlo.add %square, %one : {TYPE}
  %root = stablehlo.sqrt %sum : {TYPE}
  %result = stablehlo.multiply %large, %root : {TYPE}
  return %result : {TYPE}
}")
}

test_that("logsumexp, softmax and hypot return NaN for NaN", {
  x <- rbind(c(1, NaN, 3), rep(NaN, 3), c(NaN, 1, 1), rep(-Inf, 3), c(0, Inf, 1), c(0, 0, -Inf))
  softmax <- matrix(c(rep(NaN, 15L), 0.5, 0.5, 0), 6L, byrow = TRUE)
  for (dtype in float_types_of_r) {
    results <- pjrt_execute(pjrt_compile(logsumexp_program(mlir_types[[dtype]])), pjrt_buffer(x, dtype))
    expect_numbers(results[[1L]], as_float(c(NaN, NaN, NaN, -Inf, Inf, log(2)), dtype), dtype, 1, "logsumexp")
    expect_numbers(results[[2L]], softmax, dtype, 0, "softmax")
    hypot <- pjrt_compile(hypot_program(tensor(dtype, 5)))
    y <- pjrt_execute(hypot, pjrt_buffer(c(3, NaN, 1, 0, NaN), dtype), pjrt_buffer(c(4, 1, NaN, -0, NaN), dtype))
    expect_numbers(y, c(5, NaN, NaN, 0, NaN), dtype, 0, "hypot")
  }
})

test_that("integers wrap and division by zero returns XLA's results", {
  for (dtype in c("i8", "i16", "i32", "ui8", "ui16", "ui32")) {
    range <- whole_range(dtype)
    few <- unique(
      c(range[[1L]] + 0:1, if (range[[1L]] < 0) -2:-1, 0:3, 7, 8, dtype_bits(dtype) - 1:0, range[[2L]] - 1:0)
    )
    pairs <- expand.grid(x = few, y = few)
    type <- tensor(dtype, nrow(pairs))
    operations <- integer_operations(dtype)
    code <- c(
      sprintf("stablehlo.%s %%x, %%y : %s", names(operations), type), sprintf("stablehlo.negate %%x : %s", type),
      if (startsWith(dtype, "i")) sprintf(c("stablehlo.abs %%x : %s", "stablehlo.sign %%x : %s"), type)
    )
    # pjrt_buffer() does not convert the smallest integer to NA
    inputs <- lapply(pairs, function(x) pjrt_buffer(x, dtype))
    results <- results_of(inputs, type, stats::setNames(code, rep(type, length(code))))
    got <- lapply(results, elements_of, dtype)
    for (i in seq_along(operations)) {
      expect_identical(
        got[[i]], as.double(operations[[i]](pairs$x, pairs$y)), label = paste(dtype, names(operations)[[i]])
      )
    }
    expect_identical(
      got[[length(operations) + 1L]], as.double(wrapped(-pairs$x, dtype)), label = paste(dtype, "negate")
    )
    if (startsWith(dtype, "i")) {
      expect_identical(
        got[[length(operations) + 2L]], as.double(wrapped(abs(pairs$x), dtype)), label = paste(dtype, "abs")
      )
      expect_identical(got[[length(operations) + 3L]], as.double(sign(pairs$x)), label = paste(dtype, "sign"))
    }
  }
})

# 64-bit integers as bytes. The smallest has the bits of R's NA.
bytes_of_int64 <- function(x) {
  x[x == "-9223372036854775808"] <- NA
  writeBin(as.double(unclass(bit64::as.integer64(x))), raw(), endian = "little")
}

test_that("64-bit integers wrap and division by zero returns XLA's results", {
  least <- "-9223372036854775808"
  most <- "9223372036854775807"
  x <- c(least, least, least, most, "5", "-5", least, most)
  y <- c("-1", "0", "1", "1", "0", "0", least, most)
  wanted <- list(
    add = c(most, least, "-9223372036854775807", least, "5", "-5", "0", "-2"),
    multiply = c(least, "0", least, most, "0", "0", "0", "1"),
    divide = c(least, "-1", least, most, "-1", "-1", "1", "1"),
    remainder = c("0", least, "0", "0", "5", "-5", "0", "0")
  )
  result <- tensor("i64", length(x))
  code <- c(sprintf("stablehlo.%s %%x, %%y : %s", names(wanted), result), sprintf("stablehlo.abs %%x : %s", result))
  inputs <- lapply(list(x = x, y = y), function(x) {
    pjrt_buffer(bytes_of_int64(x), dtype = "i64", shape = length(x), row_major = TRUE)
  })
  results <- results_of(inputs, result, stats::setNames(code, rep(result, length(code))))
  wanted$abs <- c(least, least, least, most, "5", "5", least, most)
  for (i in seq_along(wanted)) {
    expect_identical(as_raw(results[[i]], row_major = TRUE), bytes_of_int64(wanted[[i]]), label = names(wanted)[[i]])
  }
})

test_that("minima and maxima across devices drop NaN, a known fault of the plugin", {
  for (dtype in float_types_of_r) {
    type <- sprintf("4x%s", mlir_types[[dtype]])
    for (operation in c("maximum", "minimum", "add")) {
      code <- gsub("stablehlo.add", paste0("stablehlo.", operation), all_reduce_program(type, 2), fixed = TRUE)
      program <- compile(code, pjrt_compile_options(num_replicas = 2L))
      parts <- list(c(NaN, 1, NaN, 2), c(1, NaN, NaN, Inf))
      inputs <- lapply(1:2, function(i) list(pjrt_buffer(parts[[i]], dtype, device = devices()[[i]])))
      results <- pjrt_execute_sharded(program, inputs)
      wanted <- switch(operation, add = c(NaN, NaN, NaN, Inf), maximum = c(1, 1, -Inf, Inf), minimum = c(1, 1, Inf, 2))
      for (result in results) expect_numbers(result, wanted, dtype, 0, operation)
    }
  }
})

test_that("a product with a mask drops NaN in programs, a known fault of the plugin, but not by operators", {
  mask <- pjrt_buffer(c(FALSE, FALSE, FALSE, TRUE))
  for (dtype in c("f64", "f32", "f16")) {
    x <- pjrt_buffer(c(NaN, Inf, -Inf, 2), dtype)
    program <- compile(gsub("TYPE", sprintf("tensor<4x%s>", mlir_types[[dtype]]), fixed = TRUE, "
func.func @main(%x: TYPE, %mask: tensor<4xi1>) -> TYPE {
  %0 = stablehlo.convert %mask : (tensor<4xi1>) -> TYPE
  %1 = stablehlo.multiply %x, %0 : TYPE
  return %1 : TYPE
}"))
    expect_equal(c(as_array(pjrt_execute(program, x, mask))), c(0, 0, 0, 2), info = dtype)
    expect_equal(c(as_array(x * mask)), c(NaN, NaN, NaN, 2), info = dtype)
  }
})
