//! Functions of each element.

use super::arithmetic::{counted, meet, real};
use super::body::{wide, Value};
use super::{complex, gamma, wrong_count, Operation};
use pjrt_base::error::Result;
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

/// Functions that keep whole numbers whole, so that integers stay as they are. Pred becomes i32.
pub(super) fn whole<'b>(operation: Operation, x: &Value<'b>) -> Result<Value<'b>> {
    let dtype = counted(x.dtype);
    if operation == Operation::Abs && dtype.is_complex() {
        return Ok(x.apply_as("abs", complex::part(x.dtype)));
    }
    real(operation, dtype)?;
    let x = x.convert(dtype);
    let is_unsigned = dtype.is_integer() && !dtype.is_signed();
    let is_rounding = !matches!(operation, Operation::Abs | Operation::Sign);
    if (dtype.is_integer() && is_rounding) || (is_unsigned && operation == Operation::Abs) {
        return Ok(x);
    }
    let x = x.widened();
    let result = match operation {
        Operation::Abs => x.apply("abs"),
        Operation::Sign if is_unsigned => x.with("minimum", 1.0),
        Operation::Sign => x.apply("sign"),
        Operation::Floor => x.apply("floor"),
        Operation::Ceiling => x.apply("ceil"),
        _ => x.compare("LT", 0.0).select(x.apply("ceil"), &x.apply("floor")),
    };
    Ok(result.convert(dtype))
}

/// The most digits that make a difference to a double.
const MOST_DIGITS: i64 = 308;

/// `round` to decimal digits, halves to even. Integers stay as they are if the digits are not negative.
pub(super) fn round<'b>(x: &Value<'b>, parameters: &[i64]) -> Result<Value<'b>> {
    real(Operation::Round, x.dtype)?;
    // one more to the left of the point makes all numbers zero
    let digits = parameters.first().copied().unwrap_or(0).clamp(-MOST_DIGITS - 1, MOST_DIGITS);
    if !x.dtype.is_float() && digits >= 0 {
        return whole(Operation::Trunc, x);
    }
    let dtype = x.body.floating(x.dtype)?;
    let x = x.convert(dtype).convert(working(dtype));
    let result = if digits == 0 { x.apply("round_nearest_even") } else { round_digits(&x, digits) };
    Ok(result.convert(dtype))
}

/// The numbers with so many digits next to `x` below and above; the nearer one. Of equally near ones, the one whose last
/// digit is even.
fn round_digits<'b>(x: &Value<'b>, digits: i64) -> Value<'b> {
    let most = if x.dtype == DType::F64 { 308 } else { 38 };
    if digits > most {
        return x.clone();
    }
    if digits < -most {
        return is_finite(x).select(x * 0.0, x);
    }
    let scale = &x.constant(10f64.powi(digits.unsigned_abs() as i32));
    let scaled = if digits > 0 { x * scale } else { x / scale };
    let unscale = |whole: &Value<'b>| if digits > 0 { whole / scale } else { whole * scale };
    let (down, up) = (scaled.apply("floor"), scaled.apply("ceil"));
    let (low, high) = (unscale(&down), unscale(&up));
    let (below, above) = (x - &low, &high - x);
    let even = &down * 0.5;
    let is_even = even.compare("EQ", even.apply("floor"));
    let is_low = below.compare("LT", &above) | (below.compare("EQ", &above) & is_even);
    let result = is_low.select(low, &high);
    if digits < 0 {
        return is_finite(x).select(result, x);
    }
    // Numbers with as many digits before the point as the dtype has stay as they are, and infinities.
    let most = if x.dtype == DType::F64 { 15.0 } else { 7.0 };
    let bits = ((most - digits as f64) / 2f64.log10() - 0.5).floor() as i32;
    x.apply("abs").compare("LT", 2f64.powi(bits + 1)).select(result, x)
}

/// `signif`: as many significant digits, at least one.
pub(super) fn signif<'b>(x: &Value<'b>, parameters: &[i64]) -> Result<Value<'b>> {
    real(Operation::Signif, x.dtype)?;
    let digits = parameters.first().copied().unwrap_or(6).max(1);
    let dtype = x.body.floating(x.dtype)?;
    let x = x.convert(dtype).convert(working(dtype));
    let (most, bound) = if x.dtype == DType::F64 { (16, 308.0) } else { (8, 38.0) };
    if digits > most {
        return Ok(x.convert(dtype));
    }
    let exponent = logarithm(&x.apply("abs"), LN_10, 10.0).apply("floor");
    // The scale is a positive power of ten, which is exact up to 10^22, to multiply or to divide by.
    let shift = x.constant((digits - 1) as f64) - exponent;
    let size = shift.apply("abs");
    // The smallest numbers need a scale beyond the range: in two steps.
    let first = size.with("minimum", bound);
    let second = &size - &first;
    let ten = x.constant(10.0);
    // Compilers would multiply by the opposite powers, which round.
    let (first, second) = (ten.with("power", first).hidden(), ten.with("power", second).hidden());
    let times = |x: &Value<'b>, is_up: &Value<'b>| {
        let up = x * &first * &second;
        // Nor may they divide by the product, which may be infinite.
        is_up.select(up, &((x / &first).hidden() / &second))
    };
    let is_up = shift.compare("GE", 0.0);
    let rounded = times(&x, &is_up).apply("round_nearest_even");
    let result = times(&rounded, &is_up.apply("not"));
    let smallest = if x.dtype == DType::F64 { f64::MIN_POSITIVE } else { f32::MIN_POSITIVE.into() };
    let is_normal = is_finite(&x) & x.apply("abs").compare("GE", smallest);
    Ok(is_normal.select(result, &x).convert(dtype))
}

/// Functions with a float result: of complex numbers, those that compilers have.
pub(super) fn function<'b>(operation: Operation, x: &Value<'b>) -> Result<Value<'b>> {
    use Operation as Op;
    type Function<'b> = fn(&Value<'b>) -> Value<'b>;
    // The compilers' function, and another one that is used for real numbers.
    let (theirs, own): (&str, Option<Function<'b>>) = match operation {
        Op::Sqrt => ("sqrt", None),
        Op::Exp => ("exponential", None),
        Op::Log => ("log", None),
        Op::Cos => ("cosine", None),
        Op::Sin => ("sine", None),
        Op::Tan => ("tan", None),
        Op::Tanh => ("tanh", None),
        Op::Cosh => ("chlo.cosh", Some(cosh)),
        Op::Sinh => ("chlo.sinh", Some(sinh)),
        Op::Atanh => ("chlo.atanh", Some(atanh)),
        Op::Asin => ("chlo.asin", Some(|x| x.with("atan2", other_side(x)))),
        Op::Acos => ("chlo.acos", Some(|x| other_side(x).with("atan2", x))),
        // Some compilers' own function of one argument is wrong.
        Op::Atan => ("chlo.atan", Some(|x| x.with("atan2", x.constant(1.0).hidden()))),
        Op::Asinh => ("chlo.asinh", Some(asinh)),
        Op::Acosh => ("chlo.acosh", Some(acosh)),
        Op::Expm1 => ("", Some(|x| x.apply("exponential_minus_one"))),
        Op::Log1p => ("", Some(log1p)),
        Op::Log2 => ("", Some(|x| logarithm(x, LN_2, 2.0))),
        Op::Log10 => ("", Some(|x| logarithm(x, LN_10, 10.0))),
        Op::Cospi => ("", Some(cos_pi)),
        Op::Sinpi => ("", Some(sin_pi)),
        Op::Tanpi => ("", Some(tan_pi)),
        Op::Gamma => ("", Some(gamma::gamma)),
        Op::Lgamma => ("", Some(gamma::log_gamma)),
        Op::Digamma => ("", Some(gamma::digamma)),
        Op::Trigamma => ("", Some(gamma::trigamma)),
        _ => return Err(wrong_count(operation, 1)),
    };
    let dtype = x.body.floating(x.dtype)?;
    if theirs.is_empty() {
        real(operation, dtype)?;
    }
    let x = x.convert(dtype).convert(working(dtype));
    let result = match own {
        Some(own) if !dtype.is_complex() => own(&x),
        _ => x.apply(theirs),
    };
    Ok(result.convert(dtype))
}

/// `log` with a base, and `atan2`.
pub(super) fn pair<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let dtype = x.body.floating(promote(x.dtype, y.dtype))?;
    let (x, y) = meet(operation, x, y, dtype)?;
    if operation == Operation::Atan2 {
        real(operation, dtype)?;
    }
    let (x, y) = (x.convert(working(dtype)), y.convert(working(dtype)));
    let quotient = || x.apply("log") / y.apply("log");
    let result = match operation {
        Operation::Atan2 => x.with("atan2", &y),
        _ if dtype.is_complex() => quotient(),
        _ => snapped(&x, &y, &quotient()),
    };
    Ok(result.convert(dtype))
}

/// The logarithm to a base, whose natural logarithm is `scale`.
fn logarithm<'b>(x: &Value<'b>, scale: f64, base: f64) -> Value<'b> {
    let quotient = x.apply("log") / x.constant(scale);
    snapped(x, &x.constant(base), &quotient)
}

/// A logarithm without its rounding error where `x` is a whole power of the base.
fn snapped<'b>(x: &Value<'b>, base: &Value<'b>, log: &Value<'b>) -> Value<'b> {
    let whole = log.apply("round_nearest_even");
    let is_power = base.with("power", &whole).compare("EQ", x) & is_finite(log);
    is_power.select(whole, log)
}

pub(super) fn is_finite<'b>(x: &Value<'b>) -> Value<'b> {
    x.apply_as("is_finite", DType::Pred)
}

/// log(1 + x): the rounding error of the sum is taken out by the quotient. Compilers' own loses digits in double precision.
pub(super) fn log1p<'b>(x: &Value<'b>) -> Value<'b> {
    if x.dtype != DType::F64 {
        return x.apply("log_plus_one");
    }
    let sum = (x + 1.0).hidden();
    let rest = &sum - 1.0;
    let result = sum.apply("log") * (x / &rest);
    let result = rest.compare("EQ", 0.0).select(x, &result);
    x.compare("EQ", f64::INFINITY).select(x, &result)
}

/// Half of the exponential, from that of half of the argument, which does not overflow before the result.
fn halves<'b>(size: &Value<'b>) -> Value<'b> {
    let root = (size * 0.5).apply("exponential");
    &root * 0.5 * &root
}

fn cosh<'b>(x: &Value<'b>) -> Value<'b> {
    let size = x.apply("abs");
    let exponential = size.apply("exponential");
    let small = (&exponential + x.constant(1.0) / &exponential) * 0.5;
    size.compare("GT", 40.0).select(halves(&size), &small)
}

fn sinh<'b>(x: &Value<'b>) -> Value<'b> {
    let size = x.apply("abs");
    let less = size.apply("exponential_minus_one");
    let small = (&less + &less / (&less + 1.0)) * 0.5;
    with_sign(&size.compare("GT", 40.0).select(halves(&size), &small), x)
}

/// An odd function of `x`, from its value at the absolute value of `x`.
fn with_sign<'b>(result: &Value<'b>, x: &Value<'b>) -> Value<'b> {
    let result = x.compare("LT", 0.0).select(result.apply("negate"), result);
    x.compare("EQ", 0.0).select(x, &result)
}

/// log1p(2 x / (1 - x)) / 2
fn atanh<'b>(x: &Value<'b>) -> Value<'b> {
    let size = x.apply("abs");
    let ratio = (&size + &size) / (x.constant(1.0) - &size);
    with_sign(&(log1p(&ratio) * 0.5), x)
}

/// sqrt(1 - x^2), the other side of a right triangle.
fn other_side<'b>(x: &Value<'b>) -> Value<'b> {
    ((x.constant(1.0) - x) * (x + 1.0)).apply("sqrt")
}

/// From this size on, the 1 in asinh(x) = log(x + sqrt(x^2 + 1)), and in acosh(x), does not count.
const LARGE: f64 = 1e8;

fn asinh<'b>(x: &Value<'b>) -> Value<'b> {
    let size = x.apply("abs");
    let square = &size * &size;
    let small = log1p(&(&size + &square / ((&square + 1.0).apply("sqrt") + 1.0)));
    with_sign(&size.compare("GT", LARGE).select(size.apply("log") + LN_2, &small), x)
}

fn acosh<'b>(x: &Value<'b>) -> Value<'b> {
    let rest = x - 1.0;
    let root = rest.apply("sqrt") * (&rest + 2.0).apply("sqrt");
    let small = log1p(&(&rest + root));
    x.compare("GT", LARGE).select(x.apply("log") + LN_2, &small)
}

/// What is left of `x` beyond the nearest even number: from -1 to 1, exact.
fn beyond_even<'b>(x: &Value<'b>) -> Value<'b> {
    let rest = x.with("remainder", 2.0);
    let down = rest.compare("GT", 1.0).select(&rest - 2.0, &rest);
    rest.compare("LT", -1.0).select(&rest + 2.0, &down)
}

/// sin(pi x), exact at multiples of 1/2.
pub(super) fn sin_pi<'b>(x: &Value<'b>) -> Value<'b> {
    let rest = beyond_even(x);
    // sin(pi (1 - x)) = sin(pi x)
    let high = rest.compare("GT", 0.5).select(x.constant(1.0) - &rest, &rest);
    let rest = rest.compare("LT", -0.5).select(x.constant(-1.0) - &rest, &high);
    (rest * PI).apply("sine")
}

/// cos(pi x), exact at multiples of 1/2.
pub(super) fn cos_pi<'b>(x: &Value<'b>) -> Value<'b> {
    let rest = x.constant(0.5) - beyond_even(x).apply("abs");
    (rest * PI).apply("sine")
}

/// tan(pi x), exact at multiples of 1/4; NaN at the poles.
fn tan_pi<'b>(x: &Value<'b>) -> Value<'b> {
    let rest = x.with("remainder", 1.0);
    let down = rest.compare("GT", 0.5).select(&rest - 1.0, &rest);
    let rest = rest.compare("LT", -0.5).select(&rest + 1.0, &down);
    // tan(pi x) = 1 / tan(pi (1/2 - x)), as angles near the pole are not exact.
    let size = rest.apply("abs");
    let is_steep = size.compare("GT", 0.25);
    let angle = is_steep.select(x.constant(0.5) - &size, &size);
    let flat = (angle * PI).apply("tan");
    let result = is_steep.select(x.constant(1.0) / &flat, &flat);
    let result = size.compare("EQ", 0.25).select(1.0, &result);
    let result = size.compare("EQ", 0.5).select(f64::NAN, &result);
    with_sign(&result, &rest)
}

/// `is.nan`, `is.finite`, `is.infinite`.
pub(super) fn kind_of_number<'b>(operation: Operation, x: &Value<'b>) -> Result<Value<'b>> {
    real(operation, x.dtype)?;
    if !x.dtype.is_float() {
        let truth = f64::from(operation == Operation::IsFinite);
        return Ok(x.body.scalar(DType::Pred, truth).spread(&x.dims));
    }
    let x = x.widened();
    Ok(match operation {
        Operation::IsNan => x.compare("NE", &x),
        Operation::IsFinite => is_finite(&x),
        _ => x.apply("abs").compare("EQ", f64::INFINITY),
    })
}
