# Reference values of R data in every dtype, computed in plain R from the definitions of the formats, independently of
# the package. Whole numbers are doubles, floats are scaled and rounded, bytes come from arithmetic.

# The names of the dtypes in StableHLO's text.
mlir_types <- c(
  pred = "i1", i2 = "i2", i4 = "i4", i8 = "i8", i16 = "i16", i32 = "i32", i64 = "i64", ui2 = "ui2", ui4 = "ui4",
  ui8 = "ui8", ui16 = "ui16", ui32 = "ui32", ui64 = "ui64", f16 = "f16", bf16 = "bf16", f32 = "f32", f64 = "f64",
  c64 = "complex<f32>", c128 = "complex<f64>", f8e5m2 = "f8E5M2", f8e4m3fn = "f8E4M3FN",
  f8e4m3b11fnuz = "f8E4M3B11FNUZ", f8e5m2fnuz = "f8E5M2FNUZ", f8e4m3fnuz = "f8E4M3FNUZ", f8e4m3 = "f8E4M3",
  f8e3m4 = "f8E3M4", f8e8m0fnu = "f8E8M0FNU", f4e2m1fn = "f4E2M1FN"
)

whole_types <- grep("^u?i[0-9]+$", names(mlir_types), value = TRUE)

# Fraction bits, exponent of the smallest normal number, largest number, and the result of overflow.
float_types <- list(
  f32 = list(digits = 23, low = -126, max = (2 - 2^-23) * 2^127, beyond = Inf),
  f16 = list(digits = 10, low = -14, max = 65504, beyond = Inf),
  bf16 = list(digits = 7, low = -126, max = (2 - 2^-7) * 2^127, beyond = Inf),
  f8e5m2 = list(digits = 2, low = -14, max = 57344, beyond = Inf),
  f8e4m3fn = list(digits = 3, low = -6, max = 448, beyond = NaN),
  f8e4m3b11fnuz = list(digits = 3, low = -10, max = 30, beyond = NaN, one_zero = TRUE),
  f8e5m2fnuz = list(digits = 2, low = -15, max = 57344, beyond = NaN, one_zero = TRUE),
  f8e4m3fnuz = list(digits = 3, low = -7, max = 240, beyond = NaN, one_zero = TRUE),
  f8e4m3 = list(digits = 3, low = -6, max = 240, beyond = Inf),
  f8e3m4 = list(digits = 4, low = -2, max = 15.5, beyond = Inf),
  f8e8m0fnu = list(digits = 0, low = -127, max = 2^127, beyond = NaN, positive = TRUE),
  f4e2m1fn = list(digits = 1, low = 0, max = 6, beyond = 6)
)

dtype_bits <- function(dtype) {
  switch(dtype, pred = 8, bf16 = 16, c64 = 64, c128 = 128, as.numeric(sub("^(ui|[a-z])([0-9]+).*$", "\\2", dtype)))
}

# Bytes per element on the host, where types below 8 bits take one.
dtype_bytes <- function(dtype) as.integer(max(dtype_bits(dtype) / 8, 1))

# The range of an integer type. Beyond 2^53, the upper end is one too large.
whole_range <- function(dtype) {
  bits <- dtype_bits(dtype)
  if (startsWith(dtype, "u")) c(0, 2^bits - 1) else c(-2^(bits - 1), 2^(bits - 1) - 1)
}

# The exponent of positive numbers. log2() alone is wrong just below a power of two.
exponent <- function(x) {
  e <- floor(log2(x))
  e + (x >= 2^(e + 1)) - (x < 2^e)
}

# Rounds numbers to the precision of a float type, whatever their size.
rounded <- function(x, format) {
  size <- abs(x)
  step <- 2^(pmax(ifelse(size > 0 & is.finite(size), exponent(size), 0), format$low) - format$digits)
  sign <- ifelse(is.na(x) | 1 / x > 0 | x > 0, 1, -1)
  ifelse(is.finite(x), sign * round(size / step) * step, x)
}

# Whether the sign bit of doubles is set, even in NaN.
is_negative <- function(x) matrix(writeBin(as.vector(x), raw(), endian = "little"), 8L)[8L, ] >= as.raw(128)

# Rounds doubles to a float type. f4e2m1fn turns NaN into a zero of the opposite sign.
as_float <- function(x, dtype) {
  if (dtype == "f64") {
    return(x)
  }
  format <- float_types[[dtype]]
  y <- rounded(x, format)
  over <- !is.na(y) & abs(y) > format$max
  y[over] <- sign(y[over]) * format$beyond
  if (isTRUE(format$positive)) y[!is.nan(y)] <- ifelse(x > 0, pmax(y, 2^format$low), NaN)[!is.nan(y)]
  if (isTRUE(format$one_zero)) y[!is.na(y) & y == 0] <- 0
  if (dtype == "f4e2m1fn") y[is.na(x)] <- ifelse(is_negative(x[is.na(x)]), 0, -0)
  y[is.na(y)] <- NaN
  y
}

# R data as the R type that they are converted by: logical values by numbers, numbers in floats by doubles.
by_way_of <- function(x, dtype) {
  if (dtype %in% c("c64", "c128")) {
    return(if (is.complex(x)) x else complex(real = as.double(x), imaginary = 0))
  }
  if (is.logical(x) && dtype != "pred") x <- as.integer(x)
  # integer64 values that doubles round bring a warning
  if (dtype %in% c("pred", whole_types)) x else suppressWarnings(as.double(x))
}

# Which values a type cannot hold: NA (`missing`), and those out of range or, if they are integers, not exact (`out`).
misfits <- function(x, dtype) {
  if (is.logical(x) && dtype != "pred") x <- as.integer(x)
  if (!is.complex(x) && dtype %in% c("c64", "c128")) {
    return(misfits(x, c(c64 = "f32", c128 = "f64")[[dtype]]))
  }
  if ((is.integer(x) || inherits(x, "integer64")) && !dtype %in% c("pred", whole_types)) {
    back <- suppressWarnings(bit64::as.integer64(as_float(as.double(x), dtype)))
    return(list(missing = is.na(x), out = !is.na(x) & (is.na(back) | back != x)))
  }
  if (is.complex(x)) {
    part <- c(c64 = "f32", c128 = "f64")[[dtype]]
    re <- misfits(Re(x), part)
    im <- misfits(Im(x), part)
    missing <- re$missing | im$missing
    return(list(missing = missing, out = !missing & (re$out | im$out)))
  }
  if (inherits(x, "integer64")) {
    missing <- is.na(x)
    # numbers that are not exact as doubles are far from the limits
    numbers <- suppressWarnings(as.double(x))
    limits <- switch(dtype, i64 = c(-Inf, Inf), ui64 = c(0, Inf), ui32 = c(0, 2^32 - 1))
    return(list(missing = missing, out = !missing & (numbers < limits[[1L]] | numbers > limits[[2L]])))
  }
  if (dtype == "pred") {
    return(list(missing = is.na(x), out = logical(length(x))))
  }
  if (dtype %in% whole_types) {
    range <- whole_range(dtype)
    numbers <- trunc(as.double(x))
    # the largest 64-bit integers are not exact as doubles
    over <- if (range[[2L]] > 2^53) numbers >= range[[2L]] else numbers > range[[2L]]
    return(list(missing = is.na(x), out = !is.na(x) & (numbers < range[[1L]] | over)))
  }
  missing <- is.na(x) & !is.nan(x)
  x <- as.double(x)
  if (dtype == "f64") {
    return(list(missing = missing, out = logical(length(x))))
  }
  format <- float_types[[dtype]]
  out <- is.finite(x) & abs(rounded(x, format)) > format$max
  out <- out | (is.infinite(x) & !identical(format$beyond, Inf))
  out <- out | (isTRUE(format$positive) & !is.na(x) & x <= 0)
  out <- out | (dtype == "f4e2m1fn" & is.nan(x))
  list(missing = missing, out = out & !missing)
}

# Little-endian bytes of whole numbers up to 2^32, one column for each.
word_bytes <- function(x, size = 4L) {
  out <- matrix(raw(), size, length(x))
  for (i in seq_len(size)) {
    out[i, ] <- as.raw(x %% 256)
    x <- x %/% 256
  }
  out
}

# The bytes of whole numbers up to 2^64, given as doubles. They may be negative.
whole_bytes <- function(x, size) {
  if (size <= 4L) {
    return(word_bytes(x %% 2^(8 * size), size))
  }
  high <- floor(x / 2^32)
  rbind(word_bytes(x - high * 2^32), word_bytes(high %% 2^32))
}

# The bit patterns, as numbers, of a float type of at most 16 bits. Exponent and significand form one counter.
float_bits <- function(x, dtype) {
  format <- float_types[[dtype]]
  size <- abs(x)
  size[is.infinite(size)] <- 2^(exponent(format$max) + 1)
  size[is.na(size)] <- 0
  e <- pmax(ifelse(size > 0, exponent(size), -Inf), format$low)
  steps <- 2^format$digits
  code <- ifelse(size < 2^format$low, size / 2^format$low * steps, (e - format$low + size / 2^e) * steps)
  if (isTRUE(format$positive)) {
    code <- e - format$low
  }
  code + ifelse(!is.na(x) & (x < 0 | 1 / x < 0), 2^(dtype_bits(dtype) - 1), 0)
}

# The bytes of R data as elements of a dtype, one column each. NaN's bytes are meaningful in f64 only.
reference_bytes <- function(x, dtype) {
  size <- dtype_bytes(dtype)
  columns <- function(bytes, size) matrix(bytes, size, length(bytes) / size)
  if (is.complex(x)) {
    part <- if (dtype == "c64") 4L else 8L
    return(columns(writeBin(as.vector(rbind(Re(x), Im(x))), raw(), size = part), 2L * part))
  }
  if (inherits(x, "integer64")) {
    bits <- columns(writeBin(as.vector(unclass(x)), raw()), 8L)
    return(bits[seq_len(size), , drop = FALSE])
  }
  if (dtype == "pred") {
    return(columns(as.raw(is.na(x) | x != 0), 1L))
  }
  if (is.integer(x)) {
    # in memory, an integer NA is -2^31
    x <- ifelse(is.na(x), -2^31, as.double(x))
    bits <- dtype_bits(dtype)
    return(whole_bytes(if (bits < 8) x %% 2^bits else x, size))
  }
  if (dtype %in% whole_types) {
    range <- whole_range(dtype)
    cut <- pmin(pmax(trunc(ifelse(is.na(x), range[[1L]], x)), range[[1L]]), range[[2L]])
    bits <- dtype_bits(dtype)
    out <- whole_bytes(if (bits < 8) cut %% 2^bits else cut, size)
    if (size == 8L) out[, cut == range[[2L]]] <- as.raw(c(rep(255, 7), if (startsWith(dtype, "u")) 255 else 127))
    return(out)
  }
  if (size >= 4L) {
    return(columns(writeBin(as.vector(x), raw(), size = size), size))
  }
  word_bytes(float_bits(as_float(x, dtype), dtype), size)
}

# The R array that reading these data back must return.
reference_array <- function(x, dtype, dims) {
  values <- if (dtype %in% c("c64", "c128")) {
    part <- if (dtype == "c64") "f32" else "f64"
    complex(real = as_float(Re(x), part), imaginary = as_float(Im(x), part))
  } else if (dtype == "pred") {
    reference_bytes(x, dtype)[1L, ] != as.raw(0)
  } else if (dtype %in% c("i64", "ui64", "ui32")) {
    bits <- reference_bytes(x, dtype)
    if (dtype == "ui32") bits <- rbind(bits, matrix(raw(), 4L, ncol(bits)))
    structure(readBin(as.vector(bits), "double", ncol(bits)), class = "integer64")
  } else if (dtype %in% whole_types) {
    bits <- dtype_bits(dtype)
    size <- dtype_bytes(dtype)
    signed <- !startsWith(dtype, "u")
    bytes <- as.vector(reference_bytes(x, dtype))
    numbers <- readBin(bytes, "integer", length(bytes) / size, size = size, signed = signed || size > 2L)
    if (bits < 8 && signed) ifelse(numbers >= 2^(bits - 1), numbers - as.integer(2^bits), numbers) else numbers
  } else {
    as_float(x, dtype)
  }
  if (length(dims) > 0L) dim(values) <- dims
  values
}

# Row-major positions of an array's elements.
by_row <- function(dims) {
  if (length(dims) < 2L) seq_len(prod(dims)) else as.vector(aperm(array(seq_len(prod(dims)), dims)))
}

# Expects bitwise equality except for NaN payloads.
expect_values <- function(object, expected, label) {
  plain <- function(x) {
    if (is.complex(x)) {
      return(list(plain(Re(x)), plain(Im(x)), dim(x)))
    }
    if (is.double(x) && !inherits(x, "integer64")) x[is.na(x)] <- NaN
    x
  }
  same <- identical(plain(object), plain(expected), num.eq = FALSE, single.NA = FALSE)
  difference <- if (!same) {
    wrong <- which(!mapply(identical, c(unclass(object)), c(unclass(expected)), MoreArgs = list(num.eq = FALSE)))
    first <- utils::head(wrong, 5L)
    shown <- function(x) toString(format(c(x)[first], digits = 17))
    sprintf(
      "%s: %d of %d elements differ: number %s, %s instead of %s", label, length(wrong), length(expected),
      toString(first), shown(object), shown(expected)
    )
  }
  expect(same, as.character(difference))
  invisible(object)
}
