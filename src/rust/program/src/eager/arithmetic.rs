//! Operators of two arrays, and of one: arithmetic, comparisons, logic.

use super::body::{wide, Body, Value};
use super::Operation;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_data::layout::format_type;
use pjrt_data::promote::promote;

/// Both operands with one shape and one dtype, which is wide enough to compute with, and that of the result.
fn meet(body: &mut Body, operation: Operation, x: &Value, y: &Value) -> Result<(Value, Value, DType)> {
    let dtype = promote(x.dtype, y.dtype);
    let (x, y) = one_shape(body, operation, x, y)?;
    let (x, y) = (body.convert(&x, dtype), body.convert(&y, dtype));
    Ok((body.widened(&x), body.widened(&y), dtype))
}

/// Both operands with one shape: a scalar is repeated.
pub(super) fn one_shape(body: &mut Body, operation: Operation, x: &Value, y: &Value) -> Result<(Value, Value)> {
    if x.dims != y.dims && !x.is_scalar() && !y.is_scalar() {
        let types = (format_type(x.dtype, &x.dims), format_type(y.dtype, &y.dims));
        let message =
            format!("`{}` needs arrays of one shape, or a scalar: got {} and {}.", operation.name(), types.0, types.1);
        return Err(Error::new(Kind::ShapeMismatch, message).hint("Reshape or repeat one of them first."));
    }
    let dims = if x.is_scalar() { y.dims.clone() } else { x.dims.clone() };
    Ok((body.spread(x, &dims), body.spread(y, &dims)))
}

/// `+`, `-`, `*`: of the dtype that both promote to, of pred as i32. Integers wrap around.
pub(super) fn ring(body: &mut Body, operation: Operation, x: &Value, y: &Value) -> Result<Value> {
    let (x, y, dtype) = meet(body, operation, x, y)?;
    let (x, y, dtype) = numbers(body, x, y, dtype);
    let name = match operation {
        Operation::Add => "add",
        Operation::Subtract => "subtract",
        _ => "multiply",
    };
    let result = body.same(name, &[&x, &y]);
    Ok(body.convert(&result, dtype))
}

/// Counts of truths are integers.
fn numbers(body: &mut Body, x: Value, y: Value, dtype: DType) -> (Value, Value, DType) {
    if dtype != DType::Pred {
        return (x, y, dtype);
    }
    (body.convert(&x, DType::I32), body.convert(&y, DType::I32), DType::I32)
}

/// Both operands as floats: integers become the default float.
fn meet_floats(
    body: &mut Body,
    operation: Operation,
    x: &Value,
    y: &Value,
    float: DType,
) -> Result<(Value, Value, DType)> {
    let (x, y) = one_shape(body, operation, x, y)?;
    let dtype = promote(x.dtype, y.dtype);
    let dtype = if dtype.is_float() || dtype.is_complex() { dtype } else { float };
    let (x, y) = (body.convert(&x, dtype), body.convert(&y, dtype));
    Ok((body.widened(&x), body.widened(&y), dtype))
}

/// `/` and `^`: integers and pred become the default float.
pub(super) fn floating(body: &mut Body, operation: Operation, x: &Value, y: &Value, float: DType) -> Result<Value> {
    let (x, y, dtype) = meet_floats(body, operation, x, y, float)?;
    let result = if operation == Operation::Divide { body.div(&x, &y) } else { power(body, &x, &y) };
    Ok(body.convert(&result, dtype))
}

/// Half floats are rounded once, after the power. Negative numbers have whole, finite powers only: others are NaN, also for
/// infinities, where the processor has limits.
fn power(body: &mut Body, x: &Value, y: &Value) -> Value {
    let (dtype, work) = (x.dtype, super::math::working(x.dtype));
    let (x, y) = (body.convert(x, work), body.convert(y, work));
    let result = body.same("power", &[&x, &y]);
    if dtype.is_complex() {
        return result;
    }
    // Squares are rounded once.
    let (is_two, square) = (body.compare_to("EQ", &y, 2.0), body.mul(&x, &x));
    let result = body.select(&is_two, &square, &result);
    let whole = body.same("floor", &[&y]);
    let (is_whole, is_finite) = (body.compare("EQ", &y, &whole), super::math::is_finite(body, &y));
    let is_whole = body.and(&is_whole, &is_finite);
    let is_broken = body.not(&is_whole);
    let is_negative = body.compare_to("LT", &x, 0.0);
    let is_undefined = body.and(&is_negative, &is_broken);
    let result = body.select_number(&is_undefined, f64::NAN, &result);
    body.convert(&result, dtype)
}

/// `%%` and `%/%`. The remainder has the sign of the divisor, and the quotient is rounded down. By an integer zero, both
/// are the smallest number for i32 and i64, which stands for a missing value, and 0 for other integers.
pub(super) fn modulo(body: &mut Body, operation: Operation, x: &Value, y: &Value) -> Result<Value> {
    let (x, y, dtype) = meet(body, operation, x, y)?;
    real(operation, dtype)?;
    let (x, y, dtype) = numbers(body, x, y, dtype);
    let result = match (dtype.is_float(), operation == Operation::Modulo) {
        (true, true) => float_remainder(body, &x, &y),
        (true, false) => float_quotient(body, &x, &y),
        (false, is_remainder) => integer_modulo(body, &x, &y, dtype, is_remainder),
    };
    Ok(body.convert(&result, dtype))
}

fn integer_modulo(body: &mut Body, x: &Value, y: &Value, dtype: DType, is_remainder: bool) -> Value {
    let is_zero = body.compare_to("EQ", y, 0.0);
    let divisor = body.select_number(&is_zero, 1.0, y);
    let remainder = body.same("remainder", &[x, &divisor]);
    let result = if dtype.is_signed() {
        let off = opposite(body, &remainder, &divisor);
        if is_remainder {
            let shifted = body.add(&remainder, &divisor);
            body.select(&off, &shifted, &remainder)
        } else {
            let quotient = body.div(x, &divisor);
            let one = body.constant(&quotient, 1.0);
            let below = body.sub(&quotient, &one);
            body.select(&off, &below, &quotient)
        }
    } else if is_remainder {
        remainder
    } else {
        body.div(x, &divisor)
    };
    let missing = match dtype {
        DType::I32 => f64::from(i32::MIN),
        DType::I64 => i64::MIN as f64,
        _ => 0.0,
    };
    body.select_number(&is_zero, missing, &result)
}

/// Whether a remainder is not zero and has not the sign of the divisor.
fn opposite(body: &mut Body, remainder: &Value, divisor: &Value) -> Value {
    let (below, is_negative) = (body.compare_to("LT", remainder, 0.0), body.compare_to("LT", divisor, 0.0));
    let differs = body.same("xor", &[&below, &is_negative]);
    let is_not_zero = body.compare_to("NE", remainder, 0.0);
    body.and(&differs, &is_not_zero)
}

/// Exact, as the remainder of floats is: rounded at most once, where the divisor is added.
fn float_remainder(body: &mut Body, x: &Value, y: &Value) -> Value {
    let (dtype, work) = (x.dtype, super::math::working(x.dtype));
    let (x, y) = (body.convert(x, work), body.convert(y, work));
    let remainder = body.same("remainder", &[&x, &y]);
    let off = opposite(body, &remainder, &y);
    let shifted = body.add(&remainder, &y);
    let result = body.select(&off, &shifted, &remainder);
    let is_zero = body.compare_to("EQ", &result, 0.0);
    let result = body.select_number(&is_zero, 0.0, &result);
    body.convert(&result, dtype)
}

fn float_quotient(body: &mut Body, x: &Value, y: &Value) -> Value {
    let (dtype, work) = (x.dtype, super::math::working(x.dtype));
    let (x, y) = (body.convert(x, work), body.convert(y, work));
    let quotient = body.div(&x, &y);
    let remainder = float_remainder(body, &x, &y);
    // The difference is a multiple of the divisor but for rounding.
    let whole = body.sub(&x, &remainder);
    let whole = body.div(&whole, &y);
    let whole = body.same("round_nearest_even", &[&whole]);
    // An infinite divisor has no multiples.
    let size = body.same("abs", &[&quotient]);
    let is_small = body.compare_to("LT", &size, 1.0);
    let (x_below, y_below) = (body.compare_to("LT", &x, 0.0), body.compare_to("LT", &y, 0.0));
    let differs = body.same("xor", &[&x_below, &y_below]);
    let is_not_zero = body.compare_to("NE", &x, 0.0);
    let below = body.and(&differs, &is_not_zero);
    let zero = body.constant(&x, 0.0);
    let small = body.select_number(&below, -1.0, &zero);
    let result = body.select(&is_small, &small, &whole);
    let is_finite = body.emit("stablehlo.is_finite", &[&quotient], "", DType::Pred, &quotient.dims.clone());
    let result = body.select(&is_finite, &result, &quotient);
    body.convert(&result, dtype)
}

/// Comparisons, as pred.
pub(super) fn comparison(body: &mut Body, operation: Operation, x: &Value, y: &Value) -> Result<Value> {
    let (x, y, dtype) = meet(body, operation, x, y)?;
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
    Ok(body.compare(direction, &x, &y))
}

/// `pmax` and `pmin`: NaN if one of both is.
pub(super) fn extreme(body: &mut Body, operation: Operation, x: &Value, y: &Value) -> Result<Value> {
    let (x, y, dtype) = meet(body, operation, x, y)?;
    real(operation, dtype)?;
    let (x, y, dtype) = numbers(body, x, y, dtype);
    let result = body.same(if operation == Operation::Pmax { "maximum" } else { "minimum" }, &[&x, &y]);
    Ok(body.convert(&result, dtype))
}

/// `&`, `|` and `xor`: numbers other than zero are true.
pub(super) fn logic(body: &mut Body, operation: Operation, x: &Value, y: &Value) -> Result<Value> {
    let (x, y) = (body.convert(x, DType::Pred), body.convert(y, DType::Pred));
    let (x, y) = one_shape(body, operation, &x, &y)?;
    Ok(match operation {
        Operation::And => body.and(&x, &y),
        Operation::Or => body.or(&x, &y),
        _ => body.same("xor", &[&x, &y]),
    })
}

pub(super) fn not(body: &mut Body, x: &Value) -> Value {
    let x = body.convert(x, DType::Pred);
    body.not(&x)
}

/// Unary `+` and `-`; pred becomes i32.
pub(super) fn sign(body: &mut Body, operation: Operation, x: &Value) -> Value {
    let dtype = if x.dtype == DType::Pred { DType::I32 } else { x.dtype };
    let x = body.convert(x, dtype);
    if operation == Operation::Add {
        return x;
    }
    let work = body.convert(&x, wide(dtype));
    let result = body.same("negate", &[&work]);
    body.convert(&result, dtype)
}

/// # Errors
/// `UnsupportedDtype` for complex numbers, which have no order.
pub(super) fn real(operation: Operation, dtype: DType) -> Result<()> {
    if dtype.is_complex() {
        let message = format!("`{}` is not defined for complex numbers ({dtype}).", operation.name());
        return Err(Error::new(Kind::UnsupportedDtype, message).hint("Take the real part or the absolute value first."));
    }
    Ok(())
}
