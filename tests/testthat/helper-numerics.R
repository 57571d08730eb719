# Reference results of StableHLO's operations at the edges of floating point, computed in R as doubles and then rounded
# to the type. Needs helper-reference.R.

float_types_of_r <- c("f64", "f32", "f16", "bf16")

# The type's entry in `float_types`, or the same for f64.
float_format <- function(dtype) {
  if (dtype == "f64") list(digits = 52, low = -1022, max = .Machine$double.xmax) else float_types[[dtype]]
}

# NaN with a clear sign bit, on every processor.
positive_nan <- readBin(as.raw(c(0, 0, 0, 0, 0, 0, 0xf8, 0x7f)), "double", endian = "little")

# Numbers of the type at which operations may go wrong: NaN, infinities, zeros, subnormal and normal limits, halves, and
# numbers whose exponentials are subnormal.
edges <- function(dtype) {
  format <- float_format(dtype)
  least <- 2^(format$low - format$digits)
  normal <- 2^format$low
  positive <- c(
    Inf, 0, least, normal - least, normal, 2^-format$digits, 0.25, 0.5 - 2^-(format$digits + 2), 0.5, 1,
    1 + 2^-format$digits, 1.5, 2, 2.5, 3, 14, 88, 100, 740, 2^format$digits - 0.5, 2^format$digits + 1, 3e4, format$max
  )
  as_float(c(positive_nan, positive, -positive), dtype)
}

# Fewer edges, for operations with several arguments.
few_edges <- function(dtype, positive = c(0.5, 1, 1.5, 2, 3, 100)) {
  format <- float_format(dtype)
  positive <- c(Inf, 0, 2^(format$low - format$digits), 2^format$low, positive, format$max)
  c(positive_nan, positive, -positive)
}

pair_edges <- function(dtype) expand.grid(x = few_edges(dtype), y = few_edges(dtype))

triple_edges <- function() {
  few <- c(positive_nan, Inf, -Inf, 0, -0, 1, -1)
  expand.grid(low = few, x = few, high = few)
}

is_subnormal <- function(x, dtype) !is.na(x) & x != 0 & abs(x) < 2^float_format(dtype)$low

# Flushes subnormal numbers to zero, keeping the sign.
flushed <- function(x, dtype) ifelse(is_subnormal(x, dtype), copy_sign(0, x), x)

copy_sign <- function(size, sign) ifelse(is_negative(sign), -abs(size), abs(size))

# C's fmod(): the exact remainder of a division that rounds towards zero.
fmod <- function(x, y) {
  left <- abs(x)
  by <- abs(y)
  is_number <- is.finite(left) & !is.nan(by) & by > 0
  shift <- ifelse(is_number & is.finite(by) & left >= by & left > 0, exponent(left) - exponent(by), -1)
  for (s in rev(seq_len(max(shift) + 1) - 1)) {
    # 2^s may overflow
    part <- by * 2^(s %/% 2) * 2^(s - s %/% 2)
    take <- shift >= s & left >= part
    left[take] <- left[take] - part[take]
  }
  copy_sign(ifelse(is_number, left, NaN), x)
}

# C's pow(). R's `^` ignores the sign of zero and the limits of negative numbers.
power <- function(x, y) {
  is_odd <- is.finite(y) & abs(y) < 2^53 & y %% 2 == 1
  z <- abs(x)^y
  z[abs(x) == 1 & is.infinite(y)] <- 1
  is_root <- is.finite(x) & x < 0 & is.finite(y) & y != trunc(y)
  z[is_root | is.nan(x) & y != 0 | is.nan(y) & !(x %in% 1)] <- NaN
  flips <- is_odd & is_negative(x) & !is.nan(x)
  z[flips] <- -z[flips]
  z
}

# Treats -0 as less than 0, and propagates NaN.
maximum <- function(x, y) {
  z <- ifelse(x > y | (x == y & is_negative(y)), x, y)
  ifelse(is.nan(x) | is.nan(y), NaN, z)
}

minimum <- function(x, y) -maximum(-x, -y)

clamped <- function(low, x, high) minimum(maximum(x, low), high)

away_from_zero <- function(x) {
  up <- is.finite(x) & abs(x) - trunc(abs(x)) >= 0.5
  copy_sign(trunc(abs(x)) + up, x)
}

# Makes a function return a zero for the same zero: some versions of R lose its sign.
through_zero <- function(f) {
  function(x) {
    y <- f(x)
    y[x %in% 0] <- x[x %in% 0]
    y
  }
}

# The reference for each operation, and the error allowed in units in the last place of the type.
unary_operations <- list(
  abs = list(abs, 0), cbrt = list(function(x) copy_sign(abs(x)^(1 / 3), x), 20), ceil = list(ceiling, 0),
  cosine = list(cos, 2), exponential = list(exp, 2), exponential_minus_one = list(through_zero(expm1), 3),
  floor = list(floor, 0), log = list(log, 2), log_plus_one = list(through_zero(log1p), 3), logistic = list(plogis, 3),
  negate = list(function(x) -x, 0),
  round_nearest_afz = list(away_from_zero, 0), round_nearest_even = list(round, 0),
  rsqrt = list(function(x) 1 / sqrt(x), 2), sign = list(function(x) copy_sign(sign(x), x), 0),
  sine = list(through_zero(sin), 2),
  sqrt = list(through_zero(sqrt), 0), tan = list(through_zero(tan), 3), tanh = list(through_zero(tanh), 3)
)

binary_operations <- list(
  add = list(`+`, 0), atan2 = list(atan2, 4), divide = list(`/`, 0), maximum = list(maximum, 0),
  minimum = list(minimum, 0), multiply = list(`*`, 0), power = list(power, 4), remainder = list(fmod, 0),
  subtract = list(`-`, 0)
)

comparisons <- list(EQ = `==`, NE = `!=`, GE = `>=`, GT = `>`, LE = `<=`, LT = `<`)

# Ranks in the total order, in which -NaN is least, NaN is greatest, and -0 is less than 0.
total_order <- function(x) {
  sizes <- c(sort(unique(abs(x[is.finite(x)]))), Inf, NaN)
  copy_sign(match(abs(x), sizes), x)
}

# Wraps whole numbers around at the ends of the type's range.
wrapped <- function(x, dtype) {
  range <- whole_range(dtype)
  range[[1L]] + (x - range[[1L]]) %% (range[[2L]] - range[[1L]] + 1)
}

# The wrapped product, computed in two parts since a double may not hold it exactly.
wrapped_product <- function(x, y, dtype) {
  high <- floor(y / 65536)
  wrapped(wrapped(x * high, dtype) * 65536 + x * (y - 65536 * high), dtype)
}

# The operations as XLA defines them, including division by zero and the one quotient that overflows.
integer_operations <- function(dtype) {
  bits <- dtype_bits(dtype)
  is_signed <- startsWith(dtype, "i")
  unsigned <- function(x) ifelse(x < 0, x + 2^bits, x)
  shifted <- function(x, by, beyond, how) {
    by <- unsigned(by)
    ifelse(by >= bits, beyond, wrapped(floor(how(x, pmin(by, bits))), dtype))
  }
  list(
    add = function(x, y) wrapped(x + y, dtype), subtract = function(x, y) wrapped(x - y, dtype),
    multiply = function(x, y) wrapped_product(x, y, dtype),
    divide = function(x, y) ifelse(y == 0, if (is_signed) -1 else 2^bits - 1, wrapped(trunc(x / y), dtype)),
    remainder = function(x, y) ifelse(y == 0, x, x - y * trunc(x / y)),
    maximum = pmax, minimum = pmin,
    shift_left = function(x, y) {
      by <- pmin(unsigned(y), bits)
      # bit by bit, since products may have more than 53 bits
      for (i in seq_len(bits)) x <- ifelse(by >= i, wrapped(2 * x, dtype), x)
      x
    },
    shift_right_logical = function(x, y) shifted(unsigned(x), y, 0, function(x, by) x / 2^by),
    shift_right_arithmetic = function(x, y) {
      # the top bit counts as the sign, even of unsigned numbers
      x <- ifelse(unsigned(x) >= 2^(bits - 1), unsigned(x) - 2^bits, x)
      shifted(x, y, ifelse(x < 0, wrapped(-1, dtype), 0), function(x, by) x / 2^by)
    }
  )
}

# Converts floats to whole numbers: truncates, clamps to the range, and turns NaN into 0.
as_whole <- function(x, dtype) {
  if (dtype == "pred") {
    return(is.nan(x) | x != 0)
  }
  range <- whole_range(dtype)
  # adding zero turns -0 into 0
  ifelse(is.nan(x), 0, pmin(pmax(trunc(x), range[[1L]]), range[[2L]])) + 0
}

# The distance in units in the last place; Inf where NaN, infinities or the signs of zeros differ.
ulps_apart <- function(got, wanted, dtype) {
  format <- float_format(dtype)
  is_plain <- is.finite(wanted) & is.finite(got) & !(got == 0 & wanted == 0)
  at <- ifelse(is_plain & wanted != 0, exponent(abs(wanted)), format$low)
  apart <- abs(got - wanted) / 2^(pmax(at, format$low) - format$digits)
  is_same <- is.nan(got) & is.nan(wanted) |
    !is.nan(got) & !is.nan(wanted) & got == wanted & is_negative(got) == is_negative(wanted)
  ifelse(is_same, 0, ifelse(is_plain, apart, Inf))
}

# Expects these numbers, up to `ulps` units in the last place. `...` holds the operands, which a failure shows.
expect_numbers <- function(got, wanted, dtype, ulps = 0, label = "", ...) {
  if (inherits(got, "PJRTBuffer")) got <- as_array(got)
  got <- c(got)
  wrong <- which(!(ulps_apart(got, c(wanted), dtype) <= ulps))
  given <- vapply(
    wrong, function(i) paste(vapply(list(...), function(x) sprintf("%.9g", x[[i]]), ""), collapse = ", "), ""
  )
  lines <- sprintf("  (%s): %.17g instead of %.17g", given, got[wrong], c(wanted)[wrong])
  expect(length(got) == length(wanted) && length(wrong) == 0L, paste(c(paste(dtype, label), lines), collapse = "\n"))
}

# Compiles a program and executes it on `inputs`, whose names it uses. Each element of `code` computes one result; its
# name is the result's type.
results_of <- function(inputs, types, code, before = character(), options = pjrt_compile_options()) {
  ids <- sprintf("%%result%d", seq_along(code))
  arguments <- sprintf("%%%s: %s", names(inputs), types)
  text <- c(
    sprintf("func.func @main(%s) -> (%s) {", paste(arguments, collapse = ", "), paste(names(code), collapse = ", ")),
    before, sprintf("%s = %s", ids, code),
    sprintf("return %s : %s", paste(ids, collapse = ", "), paste(names(code), collapse = ", ")), "}"
  )
  program <- pjrt_compile(pjrt_program(paste(text, collapse = "\n")), options)
  do.call(pjrt_execute, c(list(program), unname(as.list(inputs)), simplify = FALSE))
}

# The elements of a buffer as doubles, including integers beyond R's range.
elements_of <- function(x, dtype) {
  if (!dtype %in% whole_types) {
    return(as.double(c(as_array(x))))
  }
  size <- dtype_bytes(dtype)
  bytes <- matrix(as.double(as.integer(as_raw(x, row_major = TRUE))), size)
  numbers <- colSums(bytes * 256^(seq_len(size) - 1))
  is_negative <- startsWith(dtype, "i") & bytes[size, ] > 127
  # use the complement: subtracting 2^64 would lose small numbers
  ifelse(is_negative, -(colSums((255 - bytes) * 256^(seq_len(size) - 1)) + 1), numbers)
}

tensor <- function(dtype, ...) sprintf("tensor<%s%s>", paste0(c(...), "x", collapse = ""), mlir_types[[dtype]])
