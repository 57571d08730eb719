//! Operators of two arrays, and of one: arithmetic, comparisons, logic.

use super::body::Value;
use super::math::{is_finite, working};
use super::Operation;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_data::promote::promote;

/// Two operands of one shape.
pub(super) type Pair<'b> = (Value<'b>, Value<'b>);

/// Both operands with one shape and of one dtype, or of the wider one that it is computed with.
pub(super) fn meet<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>, dtype: DType) -> Result<Pair<'b>> {
    let (x, y) = one_shape(operation, x, y)?;
    let (x, y) = (x.convert(dtype), y.convert(dtype));
    Ok((x.widened(), y.widened()))
}

/// Both operands with one shape: a scalar is repeated.
pub(super) fn one_shape<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>) -> Result<Pair<'b>> {
    if x.dims != y.dims && !x.is_scalar() && !y.is_scalar() {
        let message = format!("`{operation}` needs arrays of one shape, or a scalar: got {x} and {y}.");
        return Err(Error::new(Kind::ShapeMismatch, message).hint("Reshape or repeat one of them first."));
    }
    let dims = if x.is_scalar() { &y.dims } else { &x.dims };
    Ok((x.spread(dims), y.spread(dims)))
}

/// `+`, `-`, `*`: of the dtype that both promote to, of pred as i32. Integers wrap around.
pub(super) fn ring<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let dtype = counted(promote(x.dtype, y.dtype));
    // Compilers would select zero where a truth value is false, also of NaN.
    let is_mask = [x, y].map(|value| operation == Operation::Multiply && value.dtype == DType::Pred);
    let (x, y) = meet(operation, x, y, dtype)?;
    let x = if is_mask[0] { x.hidden() } else { x };
    let y = if is_mask[1] { y.hidden() } else { y };
    let result = match operation {
        Operation::Add => x + y,
        Operation::Subtract => x - y,
        _ => x * y,
    };
    Ok(result.convert(dtype))
}

/// The dtype, but for pred i32: counts of truths are integers.
pub(super) fn counted(dtype: DType) -> DType {
    match dtype {
        DType::Pred => DType::I32,
        other => other,
    }
}

/// `/` and `^`: integers and pred become the default float.
pub(super) fn floating<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let dtype = x.body.floating(promote(x.dtype, y.dtype))?;
    let (x, y) = meet(operation, x, y, dtype)?;
    // Half floats are rounded once, after the power.
    let work = working(x.dtype);
    let result = if operation == Operation::Divide { x / y } else { power(&x.convert(work), &y.convert(work)) };
    Ok(result.convert(dtype))
}

/// Negative numbers have whole, finite powers only: others are NaN, also for infinities, where the processor has limits.
fn power<'b>(x: &Value<'b>, y: &Value<'b>) -> Value<'b> {
    let result = x.with("power", y);
    if x.dtype.is_complex() {
        return result;
    }
    // Squares are rounded once.
    let result = y.compare("EQ", 2.0).select(x * x, &result);
    let is_whole = y.compare("EQ", y.apply("floor")) & is_finite(y);
    let is_undefined = x.compare("LT", 0.0) & is_whole.apply("not");
    // Also of R's NA, for which the plugin's function returns NaN.
    let is_one = y.compare("EQ", 0.0) | x.compare("EQ", 1.0);
    is_one.select(1.0, &is_undefined.select(f64::NAN, &result))
}

/// `%%` and `%/%`. The remainder has the sign of the divisor, and the quotient is rounded down. By an integer zero, both
/// are the smallest number for i32 and i64, which stands for a missing value, and 0 for other integers.
pub(super) fn modulo<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let dtype = counted(promote(x.dtype, y.dtype));
    let (x, y) = meet(operation, x, y, dtype)?;
    real(operation, dtype)?;
    let is_remainder = operation == Operation::Modulo;
    if !dtype.is_float() {
        return Ok(integer_modulo(&x, &y, dtype, is_remainder).convert(dtype));
    }
    let (x, y) = (x.convert(working(x.dtype)), y.convert(working(y.dtype)));
    let result = if is_remainder { float_remainder(&x, &y) } else { float_quotient(&x, &y) };
    Ok(result.convert(dtype))
}

fn integer_modulo<'b>(x: &Value<'b>, y: &Value<'b>, dtype: DType, is_remainder: bool) -> Value<'b> {
    let is_zero = y.compare("EQ", 0.0);
    let divisor = is_zero.select(1.0, y);
    let remainder = x.with("remainder", &divisor);
    let result = match (dtype.is_signed(), is_remainder) {
        (true, true) => opposite(&remainder, &divisor).select(&remainder + &divisor, &remainder),
        (true, false) => {
            let quotient = x / &divisor;
            opposite(&remainder, &divisor).select(&quotient - 1.0, &quotient)
        }
        (false, true) => remainder,
        (false, false) => x / &divisor,
    };
    let missing = match dtype {
        DType::I32 => f64::from(i32::MIN),
        DType::I64 => i64::MIN as f64,
        _ => 0.0,
    };
    is_zero.select(missing, &result)
}

/// Whether a remainder is not zero and has not the sign of the divisor.
fn opposite<'b>(remainder: &Value<'b>, divisor: &Value<'b>) -> Value<'b> {
    (remainder.compare("LT", 0.0) ^ divisor.compare("LT", 0.0)) & remainder.compare("NE", 0.0)
}

/// Exact, as the remainder of floats is: rounded at most once, where the divisor is added.
fn float_remainder<'b>(x: &Value<'b>, y: &Value<'b>) -> Value<'b> {
    let remainder = x.with("remainder", y);
    let result = opposite(&remainder, y).select(&remainder + y, &remainder);
    result.compare("EQ", 0.0).select(0.0, &result)
}

fn float_quotient<'b>(x: &Value<'b>, y: &Value<'b>) -> Value<'b> {
    let quotient = x / y;
    // The difference is a multiple of the divisor but for rounding.
    let whole = ((x - float_remainder(x, y)) / y).apply("round_nearest_even");
    // An infinite divisor has no multiples.
    let is_small = quotient.apply("abs").compare("LT", 1.0);
    let below = (x.compare("LT", 0.0) ^ y.compare("LT", 0.0)) & x.compare("NE", 0.0);
    let result = is_small.select(below.select(-1.0, &x.constant(0.0)), &whole);
    is_finite(&quotient).select(result, &quotient)
}

/// Comparisons, as pred.
pub(super) fn comparison<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let dtype = promote(x.dtype, y.dtype);
    let (x, y) = meet(operation, x, y, dtype)?;
    let direction = match operation {
        Operation::Equal => "EQ",
        Operation::NotEqual => "NE",
        Operation::Less => "LT",
        Operation::LessEqual => "LE",
        Operation::Greater => "GT",
        _ => "GE",
    };
    if !matches!(operation, Operation::Equal | Operation::NotEqual) {
        real(operation, dtype)?;
    }
    Ok(x.compare(direction, y))
}

/// `pmax` and `pmin`: NaN if one of both is.
pub(super) fn extreme<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let dtype = counted(promote(x.dtype, y.dtype));
    let (x, y) = meet(operation, x, y, dtype)?;
    real(operation, dtype)?;
    let result = x.with(if operation == Operation::Pmax { "maximum" } else { "minimum" }, &y);
    // Beside a converted integer, which is not NaN, compilers may drop R's NA, a signalling NaN.
    let or = |x: &Value<'b>, result: &Value<'b>| x.compare("NE", x).select(x, result);
    let result = if dtype.is_float() { or(&x, &or(&y, &result)) } else { result };
    Ok(result.convert(dtype))
}

/// `&`, `|` and `xor`: numbers other than zero are true.
pub(super) fn logic<'b>(operation: Operation, x: &Value<'b>, y: &Value<'b>) -> Result<Value<'b>> {
    let (x, y) = one_shape(operation, &x.convert(DType::Pred), &y.convert(DType::Pred))?;
    Ok(match operation {
        Operation::And => x & y,
        Operation::Or => x | y,
        _ => x ^ y,
    })
}

/// Unary `+` and `-`; pred becomes i32.
pub(super) fn sign<'b>(operation: Operation, x: &Value<'b>) -> Value<'b> {
    let x = x.convert(counted(x.dtype));
    match operation {
        Operation::Add => x,
        _ => x.widened().apply("negate").convert(x.dtype),
    }
}

/// Refuses complex numbers, which have no order.
pub(super) fn real(operation: Operation, dtype: DType) -> Result<()> {
    if dtype.is_complex() {
        let message = format!("`{operation}` is not defined for complex numbers ({dtype}).");
        return Err(Error::new(Kind::UnsupportedDtype, message).hint("Take the real part or the absolute value first."));
    }
    Ok(())
}
