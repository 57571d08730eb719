#' Compute with operators
#'
#' R's operators and mathematical functions work on buffers: `x + y`, `x > 0`, `exp(x)`, `sum(x)`. They compute on the
#' buffers' device and return new buffers before the device has finished, as [pjrt_execute()] does.
#'
#' Each operation runs a small program, which is compiled when operands of these dtypes and shapes are first used. The
#' session keeps the 512 programs that were used last (`options(pjrt.operators_max = )`), and the [cache][pjrt_cache]
#' keeps programs on disk. [pjrt_cache_info()] counts them. Compiling takes milliseconds, so a loop with a new shape in
#' each iteration is slow.
#'
#' A computation of many steps is faster as one program: see `vignette("operators")` ([pjrt_articles] says where to read
#' it).
#'
#' @section What stays on the device:
#' Operators, mathematical functions, [summaries] such as `sum(x)`, [matrices] such as `x %*% y`, and `x[i, , as =
#' "buffer"]` return buffers: `identical(sum(x), 6)` is `FALSE`, and `as_array(sum(x))` is 6. Others read the buffer at
#' once, and return R values: `all()`, `any()`, `which()`, `x[i, j]`, `is.na()`, `order()`, `unique()`, `%in%` and more
#' functions of [vectors] and [buffer-methods].
#'
#' @section Operands:
#' At least one operand must be a buffer. All buffers must share a device and a shape. Only scalars are recycled: single
#' R numbers, and buffers without dimensions. R vectors and arrays are uploaded. An array must have the buffer's shape,
#' and a vector must have the buffer's shape or as many elements as the buffer.
#'
#' R numbers are converted to the buffer's dtype: `x + 1` and `x + 0.1` are `f32` if `x` is `f32`. There are four
#' exceptions:
#' * With integers, fractions become `options(pjrt.default_float = )`, by default `f32`. So do doubles with `pred`.
#' * With `pred`, integers become `options(pjrt.default_int = )`, by default `i32`.
#' * With narrower integers, [bit64::integer64] becomes `i64`.
#' * Complex numbers become `c64`, or `c128` with `f64` and `c128`.
#'
#' @section Dtypes:
#' Buffers of different dtypes are promoted to a common dtype, the narrowest that holds both if there is one:
#'
#' | one | other | result |
#' |---|---|---|
#' | `pred` | any | the other |
#' | signed | signed | the wider |
#' | unsigned | unsigned | the wider |
#' | signed | narrower unsigned | the signed |
#' | signed | other unsigned | a wider signed; `f64` for `ui64` |
#' | integer | float, complex | the float, complex |
#' | `f64` | other float | `f64` |
#' | `f32` | narrower float | `f32` |
#' | `f16` | `bf16` | `f32` |
#' | `f16` | `f8`, `f4` | `f16`; `f32` for `f8e8m0fnu` |
#' | `bf16` | `f8`, `f4` | `bf16` |
#' | `f8`, `f4` | other `f8`, `f4` | `bf16` |
#' | `c64` | `f64` | `c128` |
#' | `c64` | other real | `c64` |
#' | `c128` | any | `c128` |
#'
#' The dtype of the result is:
#' * `pred` for comparisons, `!`, `&` and `|`. Numbers other than zero count as `TRUE`.
#' * the common dtype for `+`, `-`, `*`, `%%` and `%/%`, or `i32` if that is `pred`. Integers wrap around.
#' * the default float for `/`, `^` and functions such as `sqrt()` and `exp()`, if the common dtype is an integer or
#'   `pred`; otherwise the common dtype.
#' * the dtype of `x` for `abs()`, `sign()`, `floor()`, `ceiling()`, `trunc()`, `round()` and, of integers, `signif()`,
#'   or `i32` if that is `pred`. `abs()` of complex numbers has the real dtype. Where `round()` and `signif()` of
#'   integers would exceed the dtype, they return the next smaller multiple.
#'
#' `%%` has the sign of the divisor, and `%/%` rounds down, as in R. Divisions by zero return NaN for floats, the
#' smallest number for `i32` and `i64`, which R reads as `NA`, and 0 for other integers.
#'
#' @section Unsupported operands: Devices have no missing values. With floats, `NA` becomes NaN. With integers, and in
#'   comparisons such as `x == NA`, it is an error. So are numbers that an integer dtype cannot hold, vectors that would
#'   be recycled, factors, dates and other objects with a class, S4 objects such as matrices of package Matrix, and
#'   buffers on different devices. To compute in R, read the buffer with [as_array()].
#'
#' If both operands have methods, such as a buffer and a date, R before 4.3 uses neither and raises an error.
#'
#' @param e1,e2,x Buffers. One of two operands can be an R number, vector or array.
#' @param ... For `round()` and `log()`, `digits` and `base`.
#' @return A `PJRTBuffer` on the device of the operands.
#' @section Errors:
#' `pjrt_error_operator`, and a more specific class: `pjrt_error_shape_mismatch`, `pjrt_error_device_mismatch`,
#' `pjrt_error_unsupported_dtype` or `pjrt_error_invalid_input`. `pjrt_error_deleted_buffer` for buffers that were
#' deleted or donated. Errors of a computation are raised when its result is read.
#' @seealso [buffer-methods], [buffer-slice], [pjrt_compile()] for your own programs
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' x <- pjrt_buffer(matrix(c(1.5, 2, 3, 4), 2))
#' x * 2 + 1
#' x > 2
#' exp(x) / (1 + exp(x))
#'
#' i <- pjrt_buffer(-3:3)
#' i %% 4L
#' i / 2L
#' i + 0.5
#' try(i + c(1, 2))
#' @name operators
NULL

#' @rdname operators
#' @export
Ops.PJRTBuffer <- function(e1, e2) {
  if (missing(e2)) .Call(ffi_operator_1, .Generic, e1, NULL) else .Call(ffi_operator_2, .Generic, e1, e2)
}

# R >= 4.3 has generics that earlier versions do not have. Comparing versions would take 0.4 ms of library(pjrt).
has_new_generics <- function() exists("chooseOpsMethod", baseenv(), inherits = FALSE)

register_new_methods <- function() {
  if (has_new_generics()) {
    registerS3method("chooseOpsMethod", "PJRTBuffer", choose_ours, baseenv())
    registerS3method("matrixOps", "PJRTBuffer", multiply, baseenv())
  }
}

# If both operands have methods, ours takes or refuses the other one.
choose_ours <- function(x, y, mx, my, cl, reverse) {
  TRUE
}

#' @rdname operators
#' @export
Math.PJRTBuffer <- function(x, ...) {
  if (...length() == 0L) {
    return(if (.Generic == "signif") significant(x, 6L) else .Call(ffi_operator_1, .Generic, x, NULL))
  }
  switch(.Generic,
    round = rounded_at(x, digits_of(...)),
    signif = significant(x, digits_of(...)),
    log = .Call(ffi_operator_2, "log", x, base_of(...)),
    abort_input("`", .Generic, "()` of a buffer takes no more arguments.")
  )
}

#' @rdname operators
#' @param z A `PJRTBuffer`.
#' @export
Complex.PJRTBuffer <- function(z) {
  .Call(ffi_operator_1, .Generic, z, NULL)
}

digits_of <- function(digits = 0L) {
  is_number <- is.numeric(digits) && !is.object(digits) && length(digits) == 1L && !is.na(digits)
  if (!is_number || abs(digits) > 1e6) {
    abort_type("`digits` must be a whole number, not ", given(digits), ".")
  }
  # as base's functions do
  as.integer(floor(digits + 0.5))
}

is_integer_type <- function(dtype) grepl("^u?i[0-9]", as.character(dtype))

rounded_at <- function(x, digits) {
  if (digits >= 0L || !is_integer_type(elt_type(x))) {
    return(.Call(ffi_operator_1, "round", x, digits))
  }
  most <- largest_power(x)
  dtype <- elt_type(x)
  if (-digits == most + 1L && dtype %in% c("i4", "i64")) {
    abort_operator("`round()` of ", dtype, " takes no `digits` of ", digits, ": its numbers would not fit.")
  }
  # other numbers are less than half of the next power
  if (-digits > most) x * 0L else to_multiple(x, 10^-digits)
}

# Significant digits of integers: exactly, where floats are not.
significant <- function(x, digits) {
  if (!is_integer_type(elt_type(x))) {
    return(.Call(ffi_operator_1, "signif", x, digits))
  }
  digits <- max(digits, 1L)
  places <- seq_len(max(0L, largest_power(x) - digits + 1L))
  if (length(places) == 0L) {
    return(x + 0L)
  }
  unit <- x * 0L + 1L
  for (place in places) {
    unit <- unit + unit * is_beyond(x, 10^(digits + place - 1L)) * 9L
  }
  to_multiple(x, unit)
}

# The exponent of the largest power of 10 that the integers of a buffer hold.
largest_power <- function(x) {
  dtype <- as.character(elt_type(x))
  bits <- as.integer(sub("^u?i", "", dtype)) - !startsWith(dtype, "u")
  as.integer(floor(bits * log10(2)))
}

# Whether integers have an absolute value of at least `least`; abs() of the smallest number would be negative.
is_beyond <- function(x, least) {
  if (startsWith(as.character(elt_type(x)), "u")) x >= least else x >= least | x <= -least
}

# The multiples of `unit` nearest to integers, ties to even.
to_multiple <- function(x, unit) {
  count <- x %/% unit
  rest <- x - count * unit
  half <- unit %/% 2
  is_up <- rest > half | (rest == half & rest > 0L & count %% 2L != 0L)
  nearest <- (count + is_up) * unit
  # a multiple that does not fit has wrapped around: the next one towards zero
  (count + is_up - (is_up & nearest < x) + (!is_up & nearest > x)) * unit
}

base_of <- function(base = exp(1)) {
  base
}

# How many programs of operators a session keeps.
operators_max <- function() {
  most <- getOption("pjrt.operators_max", 512)
  if (!is_whole_number(most) || most < 0 || most > .Machine$integer.max) {
    abort_type("`options(pjrt.operators_max = )` must be a whole number, 0 or more, not ", given(most), ".")
  }
  most
}

# What the native side asks for before it makes a program.
operator_settings <- function(unused) {
  list(cache = cache_settings(), most = operators_max())
}

#' @rdname buffer-methods
#' @export
is.array.PJRTBuffer <- function(x) {
  length(shape(x)) > 0L
}

#' @rdname buffer-methods
#' @export
is.matrix.PJRTBuffer <- function(x) {
  length(shape(x)) == 2L
}
