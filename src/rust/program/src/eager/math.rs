//! Functions of each element.

use super::arithmetic::{one_shape, real};
use super::body::{wide, Body, Value};
use super::{gamma, Operation};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_data::promote::promote;
use std::f64::consts::{LN_10, LN_2, PI};

/// The dtype that functions of a float are computed with, so that half floats are rounded once.
pub(super) fn working(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => wide(other),
    }
}

/// The dtype of a function that is not whole for whole numbers: integers and pred become the default float.
pub(super) fn floating(dtype: DType, float: DType) -> DType {
    if dtype.is_float() || dtype.is_complex() {
        dtype
    } else {
        float
    }
}

/// Functions that keep whole numbers whole, so that integers stay as they are. Pred becomes i32.
pub(super) fn whole(body: &mut Body, operation: Operation, x: &Value) -> Result<Value> {
    let dtype = if x.dtype == DType::Pred { DType::I32 } else { x.dtype };
    if operation == Operation::Abs && dtype.is_complex() {
        return Ok(modulus(body, x));
    }
    real(operation, dtype)?;
    let x = body.convert(x, dtype);
    let is_unsigned = dtype.is_integer() && !dtype.is_signed();
    let is_rounding = !matches!(operation, Operation::Abs | Operation::Sign);
    if (dtype.is_integer() && is_rounding) || (is_unsigned && operation == Operation::Abs) {
        return Ok(x);
    }
    let x = body.widened(&x);
    let result = match operation {
        Operation::Abs => body.same("abs", &[&x]),
        Operation::Sign if is_unsigned => {
            let one = body.constant(&x, 1.0);
            body.same("minimum", &[&x, &one])
        }
        Operation::Sign => body.same("sign", &[&x]),
        Operation::Floor => body.same("floor", &[&x]),
        Operation::Ceiling => body.same("ceil", &[&x]),
        _ => trunc(body, &x),
    };
    Ok(body.convert(&result, dtype))
}

fn trunc(body: &mut Body, x: &Value) -> Value {
    let (down, up) = (body.same("floor", &[x]), body.same("ceil", &[x]));
    let is_negative = body.compare_to("LT", x, 0.0);
    body.select(&is_negative, &up, &down)
}

fn modulus(body: &mut Body, x: &Value) -> Value {
    let part = super::complex::part(x.dtype);
    body.emit("stablehlo.abs", &[x], "", part, &x.dims)
}

/// The most digits that make a difference to a double.
const MOST_DIGITS: i64 = 308;

/// `round` to decimal digits, halves to even. Integers stay as they are if the digits are not negative.
pub(super) fn round(body: &mut Body, x: &Value, parameters: &[i64], float: DType) -> Result<Value> {
    real(Operation::Round, x.dtype)?;
    let digits = parameters.first().copied().unwrap_or(0).clamp(-MOST_DIGITS, MOST_DIGITS);
    let is_whole = !x.dtype.is_float();
    if is_whole && digits >= 0 {
        return whole(body, Operation::Trunc, x);
    }
    let dtype = floating(x.dtype, float);
    let x = body.convert(x, dtype);
    let x = body.convert(&x, working(dtype));
    let result = if digits == 0 { body.same("round_nearest_even", &[&x]) } else { round_digits(body, &x, digits) };
    Ok(body.convert(&result, dtype))
}

/// The numbers with so many digits next to `x` below and above; the nearer one. Of equally near ones, the one whose last
/// digit is even.
fn round_digits(body: &mut Body, x: &Value, digits: i64) -> Value {
    let most = if x.dtype == DType::F64 { 308 } else { 38 };
    if digits > most {
        return x.clone();
    }
    let power = 10f64.powi(digits.unsigned_abs() as i32);
    let power = if digits < -most { f64::INFINITY } else { power };
    let scale = body.constant(x, power);
    let scaled = if digits > 0 { body.mul(x, &scale) } else { body.div(x, &scale) };
    let unscale = |body: &mut Body, whole: &Value| {
        if digits > 0 {
            body.div(whole, &scale)
        } else {
            body.mul(whole, &scale)
        }
    };
    let (down, up) = (body.same("floor", &[&scaled]), body.same("ceil", &[&scaled]));
    let (low, high) = (unscale(body, &down), unscale(body, &up));
    let (below, above) = (body.sub(x, &low), body.sub(&high, x));
    let half = body.constant(&down, 0.5);
    let even = body.mul(&down, &half);
    let even_floor = body.same("floor", &[&even]);
    let is_even = body.compare("EQ", &even, &even_floor);
    let (is_nearer, is_tie) = (body.compare("LT", &below, &above), body.compare("EQ", &below, &above));
    let is_even = body.and(&is_tie, &is_even);
    let is_low = body.or(&is_nearer, &is_even);
    let result = body.select(&is_low, &low, &high);
    if digits < 0 {
        let is_finite = is_finite(body, x);
        return body.select(&is_finite, &result, x);
    }
    // Numbers with as many digits before the point as the dtype has stay as they are, and infinities.
    let most = if x.dtype == DType::F64 { 15.0 } else { 7.0 };
    let bits = ((most - digits as f64) / 2f64.log10() - 0.5).floor() as i32;
    let size = body.same("abs", &[x]);
    let is_short = body.compare_to("LT", &size, 2f64.powi(bits + 1));
    body.select(&is_short, &result, x)
}

/// `signif`: as many significant digits, at least one.
pub(super) fn signif(body: &mut Body, x: &Value, parameters: &[i64], float: DType) -> Result<Value> {
    real(Operation::Signif, x.dtype)?;
    let digits = parameters.first().copied().unwrap_or(6).max(1);
    let dtype = floating(x.dtype, float);
    let x = body.convert(x, dtype);
    let x = body.convert(&x, working(dtype));
    let most = if x.dtype == DType::F64 { 16 } else { 8 };
    if digits > most {
        return Ok(body.convert(&x, dtype));
    }
    let size = body.same("abs", &[&x]);
    let log = logarithm(body, &size, LN_10, 10.0);
    let exponent = body.same("floor", &[&log]);
    // The scale is a positive power of ten, which is exact up to 10^22, to multiply or to divide by.
    let wanted = body.constant(&x, (digits - 1) as f64);
    let shift = body.sub(&wanted, &exponent);
    let shift_size = body.same("abs", &[&shift]);
    let ten = body.constant(&x, 10.0);
    // The smallest numbers need a scale beyond the range: in two steps.
    let bound = body.constant(&x, if x.dtype == DType::F64 { 308.0 } else { 38.0 });
    let first = body.same("minimum", &[&shift_size, &bound]);
    let second = body.sub(&shift_size, &first);
    let (first, second) = (body.same("power", &[&ten, &first]), body.same("power", &[&ten, &second]));
    // Compilers would multiply by the opposite powers, which round.
    let (first, second) = (body.hidden(&first), body.hidden(&second));
    let is_up = body.compare_to("GE", &shift, 0.0);
    let times = |body: &mut Body, x: &Value, is_up: &Value| {
        let up = body.mul(x, &first);
        let up = body.mul(&up, &second);
        let down = body.div(x, &first);
        // Nor may they divide by the product, which may be infinite.
        let down = body.hidden(&down);
        let down = body.div(&down, &second);
        body.select(is_up, &up, &down)
    };
    let scaled = times(body, &x, &is_up);
    let rounded = body.same("round_nearest_even", &[&scaled]);
    let is_down = body.not(&is_up);
    let result = times(body, &rounded, &is_down);
    let is_normal = is_finite(body, &x);
    let is_not_zero = body.compare_to("NE", &x, 0.0);
    let is_normal = body.and(&is_normal, &is_not_zero);
    let result = body.select(&is_normal, &result, &x);
    Ok(body.convert(&result, dtype))
}

/// Whether a function is defined for complex numbers.
fn takes_complex(operation: Operation) -> bool {
    use Operation as Op;
    let is_circular = matches!(operation, Op::Cos | Op::Sin | Op::Tan | Op::Acos | Op::Asin | Op::Atan);
    let is_hyperbolic = matches!(operation, Op::Cosh | Op::Sinh | Op::Tanh | Op::Acosh | Op::Asinh | Op::Atanh);
    is_circular || is_hyperbolic || matches!(operation, Op::Sqrt | Op::Exp | Op::Log)
}

/// Functions with a float result.
pub(super) fn function(body: &mut Body, operation: Operation, x: &Value, float: DType) -> Result<Value> {
    use Operation as Op;
    let dtype = floating(x.dtype, float);
    if !takes_complex(operation) {
        real(operation, dtype)?;
    }
    let x = body.convert(x, dtype);
    let x = body.convert(&x, working(dtype));
    let is_real = !dtype.is_complex();
    let result = match operation {
        Op::Sqrt => body.same("sqrt", &[&x]),
        Op::Exp => body.same("exponential", &[&x]),
        Op::Expm1 => body.same("exponential_minus_one", &[&x]),
        Op::Log => body.same("log", &[&x]),
        Op::Log1p => log1p(body, &x),
        Op::Log2 => logarithm(body, &x, LN_2, 2.0),
        Op::Log10 => logarithm(body, &x, LN_10, 10.0),
        Op::Cos => body.same("cosine", &[&x]),
        Op::Sin => body.same("sine", &[&x]),
        Op::Tan => body.same("tan", &[&x]),
        Op::Cospi => cos_pi(body, &x),
        Op::Sinpi => sin_pi(body, &x),
        Op::Tanpi => tan_pi(body, &x),
        Op::Acos => body.same("chlo.acos", &[&x]),
        Op::Asin => body.same("chlo.asin", &[&x]),
        Op::Atan => body.same("chlo.atan", &[&x]),
        Op::Cosh if is_real => cosh(body, &x),
        Op::Sinh if is_real => sinh(body, &x),
        Op::Cosh => body.same("chlo.cosh", &[&x]),
        Op::Sinh => body.same("chlo.sinh", &[&x]),
        Op::Tanh => body.same("tanh", &[&x]),
        Op::Acosh => body.same("chlo.acosh", &[&x]),
        Op::Asinh => body.same("chlo.asinh", &[&x]),
        Op::Atanh if is_real => atanh(body, &x),
        Op::Atanh => body.same("chlo.atanh", &[&x]),
        _ => gamma::function(body, operation, &x),
    };
    Ok(body.convert(&result, dtype))
}

/// `log` with a base, and `atan2`.
pub(super) fn pair(body: &mut Body, operation: Operation, x: &Value, y: &Value, float: DType) -> Result<Value> {
    let (x, y) = one_shape(body, operation, x, y)?;
    let dtype = floating(promote(x.dtype, y.dtype), float);
    if operation == Operation::Atan2 {
        real(operation, dtype)?;
    }
    let (x, y) = (body.convert(&x, dtype), body.convert(&y, dtype));
    let (x, y) = (body.convert(&x, working(dtype)), body.convert(&y, working(dtype)));
    let result = if operation == Operation::Atan2 {
        body.same("atan2", &[&x, &y])
    } else {
        let (log, scale) = (body.same("log", &[&x]), body.same("log", &[&y]));
        let quotient = body.div(&log, &scale);
        if dtype.is_complex() {
            quotient
        } else {
            snapped(body, &x, &y, &quotient)
        }
    };
    Ok(body.convert(&result, dtype))
}

/// The logarithm to a base, whose natural logarithm is `scale`.
fn logarithm(body: &mut Body, x: &Value, scale: f64, base: f64) -> Value {
    let log = body.same("log", &[x]);
    let (scale, base) = (body.constant(x, scale), body.constant(x, base));
    let quotient = body.div(&log, &scale);
    snapped(body, x, &base, &quotient)
}

/// A logarithm without its rounding error where `x` is a whole power of the base.
fn snapped(body: &mut Body, x: &Value, base: &Value, log: &Value) -> Value {
    let whole = body.same("round_nearest_even", &[log]);
    let power = body.same("power", &[base, &whole]);
    let is_power = body.compare("EQ", &power, x);
    let is_finite = is_finite(body, log);
    let is_power = body.and(&is_power, &is_finite);
    body.select(&is_power, &whole, log)
}

pub(super) fn is_finite(body: &mut Body, x: &Value) -> Value {
    body.emit("stablehlo.is_finite", &[x], "", DType::Pred, &x.dims)
}

/// log(1 + x): the rounding error of the sum is taken out by the quotient. Compilers' own loses digits in double precision.
pub(super) fn log1p(body: &mut Body, x: &Value) -> Value {
    if x.dtype != DType::F64 {
        return body.same("log_plus_one", &[x]);
    }
    let one = body.constant(x, 1.0);
    let sum = body.add(x, &one);
    let sum = body.hidden(&sum);
    let rest = body.sub(&sum, &one);
    let log = body.same("log", &[&sum]);
    let ratio = body.div(x, &rest);
    let result = body.mul(&log, &ratio);
    let is_tiny = body.compare_to("EQ", &rest, 0.0);
    let result = body.select(&is_tiny, x, &result);
    let is_infinite = body.compare_to("EQ", x, f64::INFINITY);
    body.select(&is_infinite, x, &result)
}

/// Of the exponential of half of the argument, which does not overflow before the result.
fn halves(body: &mut Body, size: &Value) -> Value {
    let half = body.constant(size, 0.5);
    let root = body.mul(size, &half);
    let root = body.same("exponential", &[&root]);
    let large = body.mul(&root, &half);
    body.mul(&large, &root)
}

fn cosh(body: &mut Body, x: &Value) -> Value {
    let size = body.same("abs", &[x]);
    let exponential = body.same("exponential", &[&size]);
    let (one, half) = (body.constant(x, 1.0), body.constant(x, 0.5));
    let inverse = body.div(&one, &exponential);
    let sum = body.add(&exponential, &inverse);
    let small = body.mul(&sum, &half);
    let large = halves(body, &size);
    let is_large = body.compare_to("GT", &size, 40.0);
    body.select(&is_large, &large, &small)
}

fn sinh(body: &mut Body, x: &Value) -> Value {
    let size = body.same("abs", &[x]);
    let less = body.same("exponential_minus_one", &[&size]);
    let (one, half) = (body.constant(x, 1.0), body.constant(x, 0.5));
    let exponential = body.add(&less, &one);
    let quotient = body.div(&less, &exponential);
    let sum = body.add(&less, &quotient);
    let small = body.mul(&sum, &half);
    let large = halves(body, &size);
    let is_large = body.compare_to("GT", &size, 40.0);
    let result = body.select(&is_large, &large, &small);
    with_sign(body, &result, x)
}

/// An odd function of `x`, from its value at the absolute value of `x`.
fn with_sign(body: &mut Body, result: &Value, x: &Value) -> Value {
    let minus = body.same("negate", &[result]);
    let is_negative = body.compare_to("LT", x, 0.0);
    let result = body.select(&is_negative, &minus, result);
    let is_zero = body.compare_to("EQ", x, 0.0);
    body.select(&is_zero, x, &result)
}

/// log1p(2 x / (1 - x)) / 2
fn atanh(body: &mut Body, x: &Value) -> Value {
    let size = body.same("abs", &[x]);
    let (one, half) = (body.constant(x, 1.0), body.constant(x, 0.5));
    let rest = body.sub(&one, &size);
    let double = body.add(&size, &size);
    let ratio = body.div(&double, &rest);
    let log = log1p(body, &ratio);
    let result = body.mul(&log, &half);
    with_sign(body, &result, x)
}

/// What is left of `x` beyond the nearest even number: from -1 to 1, exact.
fn beyond_even(body: &mut Body, x: &Value) -> Value {
    let two = body.constant(x, 2.0);
    let rest = body.same("remainder", &[x, &two]);
    let is_high = body.compare_to("GT", &rest, 1.0);
    let is_low = body.compare_to("LT", &rest, -1.0);
    let (down, up) = (body.sub(&rest, &two), body.add(&rest, &two));
    let rest = body.select(&is_high, &down, &rest);
    body.select(&is_low, &up, &rest)
}

/// sin(pi x), exact at multiples of 1/2.
pub(super) fn sin_pi(body: &mut Body, x: &Value) -> Value {
    let rest = beyond_even(body, x);
    // sin(pi (1 - x)) = sin(pi x)
    let (one, minus_one) = (body.constant(x, 1.0), body.constant(x, -1.0));
    let is_high = body.compare_to("GT", &rest, 0.5);
    let is_low = body.compare_to("LT", &rest, -0.5);
    let (high, low) = (body.sub(&one, &rest), body.sub(&minus_one, &rest));
    let rest = body.select(&is_high, &high, &rest);
    let rest = body.select(&is_low, &low, &rest);
    sine_of_half_turn(body, &rest)
}

/// cos(pi x), exact at multiples of 1/2.
pub(super) fn cos_pi(body: &mut Body, x: &Value) -> Value {
    let rest = beyond_even(body, x);
    let size = body.same("abs", &[&rest]);
    let half = body.constant(x, 0.5);
    let rest = body.sub(&half, &size);
    sine_of_half_turn(body, &rest)
}

fn sine_of_half_turn(body: &mut Body, rest: &Value) -> Value {
    let pi = body.constant(rest, PI);
    let angle = body.mul(rest, &pi);
    body.same("sine", &[&angle])
}

/// tan(pi x), exact at multiples of 1/4; NaN at the poles.
fn tan_pi(body: &mut Body, x: &Value) -> Value {
    let one = body.constant(x, 1.0);
    let rest = body.same("remainder", &[x, &one]);
    let is_high = body.compare_to("GT", &rest, 0.5);
    let is_low = body.compare_to("LT", &rest, -0.5);
    let (down, up) = (body.sub(&rest, &one), body.add(&rest, &one));
    let rest = body.select(&is_high, &down, &rest);
    let rest = body.select(&is_low, &up, &rest);
    // tan(pi x) = 1 / tan(pi (1/2 - x)), as angles near the pole are not exact.
    let size = body.same("abs", &[&rest]);
    let half = body.constant(x, 0.5);
    let other = body.sub(&half, &size);
    let is_steep = body.compare_to("GT", &size, 0.25);
    let angle = body.select(&is_steep, &other, &size);
    let pi = body.constant(x, PI);
    let angle = body.mul(&angle, &pi);
    let flat = body.same("tan", &[&angle]);
    let steep = body.div(&one, &flat);
    let result = body.select(&is_steep, &steep, &flat);
    let is_quarter = body.compare_to("EQ", &size, 0.25);
    let result = body.select(&is_quarter, &one, &result);
    let is_pole = body.compare_to("EQ", &size, 0.5);
    let result = body.select_number(&is_pole, f64::NAN, &result);
    with_sign(body, &result, &rest)
}

/// `is.nan`, `is.finite`, `is.infinite`.
pub(super) fn kind_of_number(body: &mut Body, operation: Operation, x: &Value) -> Result<Value> {
    real(operation, x.dtype)?;
    if !x.dtype.is_float() {
        let truth = f64::from(operation == Operation::IsFinite);
        let pred = body.literal(DType::Pred, if truth != 0.0 { "true" } else { "false" });
        return Ok(body.spread(&pred, &x.dims));
    }
    let x = body.widened(x);
    Ok(match operation {
        Operation::IsNan => body.compare("NE", &x, &x),
        Operation::IsFinite => is_finite(body, &x),
        _ => {
            let size = body.same("abs", &[&x]);
            body.compare_to("EQ", &size, f64::INFINITY)
        }
    })
}

/// # Errors
/// `UnsupportedDtype` if the default float is not f32 or f64.
pub(super) fn check_default(float: DType) -> Result<()> {
    if matches!(float, DType::F32 | DType::F64) {
        return Ok(());
    }
    let message = format!("The default float must be f32 or f64: got {float}.");
    Err(Error::new(Kind::UnsupportedDtype, message))
}
