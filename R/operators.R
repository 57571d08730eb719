#' Compute with operators
#'
#' R's operators and functions of numbers compute with buffers on their device, at once, and return buffers: `x + y`,
#' `x > 0`, `exp(x)`, `sum(x)`. They return before the device has computed, as [pjrt_execute()] does.
#'
#' Each operation is a small program. It is compiled when it is first used with operands of these dtypes and shapes, and
#' kept for the session, and in the [cache][pjrt_cache] on disk. The session keeps the
#' `options(pjrt.operators_max = 512)` programs that were used last; [pjrt_cache_info()] counts them. The first use
#' takes milliseconds, so a loop with a new shape in each iteration is slow.
#'
#' A computation of many steps is faster as one program: see `vignette("operators")` ([pjrt_articles] says where to read
#' it).
#'
#' @section Operands:
#' One operand, at least, is a buffer. Buffers are on one device and of one shape. Only scalars are repeated: numbers of
#' R, and buffers without dimensions. R's vectors and arrays are uploaded: an array must have the buffer's shape, and a
#' vector as many elements as the buffer, or its shape.
#'
#' R's numbers take the buffer's dtype: `x + 1` and `x + 0.1` are `f32` if `x` is. There are three exceptions:
#' * Fractions beside integers, and doubles beside `pred`, take `options(pjrt.default_float = )`, by default `f32`.
#' * Integers beside `pred` take `options(pjrt.default_int = )`, by default `i32`.
#' * Complex numbers are `c64`, or `c128` beside `f64` and `c128`.
#'
#' @section Dtypes:
#' Buffers of different dtypes become the narrowest dtype that holds both, if there is one:
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
#' From there, the result of
#' * comparisons, `!`, `&` and `|` is `pred`; numbers other than zero count as `TRUE`;
#' * `+`, `-`, `*`, `%%` and `%/%` has that dtype, `i32` for `pred`. Integers wrap around;
#' * `/` and `^`, and of functions such as `sqrt()` and `exp()`, is the default float for integers and `pred`;
#' * `abs()`, `sign()`, `floor()`, `ceiling()`, `trunc()` and `round()` has the dtype of `x`, the real one for `abs()`
#'   of complex numbers, and `i32` for `pred`.
#'
#' `%%` has the sign of the divisor, and `%/%` rounds down, as in R. For a division by zero, these give NaN for floats,
#' the smallest number for `i32` and `i64`, which R reads as `NA`, and 0 for other integers.
#'
#' @section What is refused:
#' Missing values exist in R only. In floats, `NA` becomes NaN. Beside integers and in tests, such as `x == NA`, it is
#' refused. Also refused are numbers that an integer dtype cannot hold, vectors that would be repeated, factors, dates
#' and other objects with a class, S4 objects such as package Matrix's, and buffers on different devices. To compute in
#' R, read the buffer with [as_array()].
#'
#' If both operands have methods, as a buffer and an [bit64::integer64] or a date do, R before 4.3 uses neither, and
#' raises an error of its own. Since R 4.3, the left operand decides: put the buffer there.
#'
#' @param e1,e2,x Buffers, or R's numbers beside a buffer.
#' @param ... For `round()` and `log()`, `digits` and `base`.
#' @return A `PJRTBuffer` on the device of the operands.
#' @section Errors:
#' `pjrt_error_operator`, and a more specific class: `pjrt_error_shape_mismatch`, `pjrt_error_device_mismatch`,
#' `pjrt_error_unsupported_dtype` or `pjrt_error_invalid_input`. `pjrt_error_deleted_buffer` for buffers that were
#' deleted or donated. Errors of a computation are raised when its result is read.
#' @seealso [buffer-methods], [buffer-slice], [pjrt_compile()] for programs of your own
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

# R >= 4.3 has generics that earlier versions do not have.
register_new_methods <- function() {
  if (getRversion() >= "4.3.0") {
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
    return(.Call(ffi_operator_1, .Generic, x, if (.Generic == "signif") 6L))
  }
  switch(.Generic,
    round = .Call(ffi_operator_1, "round", x, digits_of(...)),
    signif = .Call(ffi_operator_1, "signif", x, digits_of(...)),
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
  if (!is_whole_number(digits)) {
    abort_type("`digits` must be a whole number, not ", given(digits), ".")
  }
  as.integer(digits)
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
