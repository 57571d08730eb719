//! Functions of each element.

use super::arithmetic::real;
use super::body::{wide, Body, Value};
use super::Operation;
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;

/// The dtype that functions of a float are computed with, so that half floats are rounded once.
pub(super) fn working(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => wide(other),
    }
}

/// The dtype of a function that is not whole for whole numbers: integers and pred become the default float.
fn floating(dtype: DType, float: DType) -> DType {
    if dtype.is_float() || dtype.is_complex() {
        dtype
    } else {
        float
    }
}

/// Functions that keep whole numbers whole, so that integers stay as they are.
pub(super) fn whole(body: &mut Body, operation: Operation, x: &Value) -> Result<Value> {
    let dtype = if x.dtype == DType::Pred { DType::I32 } else { x.dtype };
    if operation != Operation::Abs {
        real(operation, dtype)?;
    }
    let x = body.convert(x, dtype);
    if dtype.is_integer() && !matches!(operation, Operation::Abs | Operation::Sign) {
        return Ok(x);
    }
    let x = body.widened(&x);
    let result = match operation {
        Operation::Abs if dtype.is_complex() => {
            let part = if dtype == DType::C64 { DType::F32 } else { DType::F64 };
            return Ok(body.emit("stablehlo.abs", &[&x], "", part, &x.dims.clone()));
        }
        // Of unsigned numbers, compilers know no absolute value.
        Operation::Abs if dtype.is_integer() && !dtype.is_signed() => x,
        Operation::Sign if dtype.is_integer() && !dtype.is_signed() => {
            let one = body.constant(&x, 1.0);
            body.same("minimum", &[&x, &one])
        }
        Operation::Abs => body.same("abs", &[&x]),
        Operation::Sign => body.same("sign", &[&x]),
        Operation::Floor => body.same("floor", &[&x]),
        Operation::Ceiling => body.same("ceil", &[&x]),
        Operation::Trunc => {
            let (down, up) = (body.same("floor", &[&x]), body.same("ceil", &[&x]));
            let is_negative = body.compare_to("LT", &x, 0.0);
            body.select(&is_negative, &up, &down)
        }
        _ => body.same("round_nearest_even", &[&x]),
    };
    Ok(body.convert(&result, dtype))
}

/// Functions with a float result.
pub(super) fn function(body: &mut Body, operation: Operation, x: &Value, float: DType) -> Result<Value> {
    let dtype = floating(x.dtype, float);
    let x = body.convert(x, dtype);
    let x = body.convert(&x, working(dtype));
    let result = match operation {
        Operation::Sqrt => body.same("sqrt", &[&x]),
        Operation::Exp => body.same("exponential", &[&x]),
        Operation::Expm1 => body.same("exponential_minus_one", &[&x]),
        Operation::Log => body.same("log", &[&x]),
        Operation::Log1p => body.same("log_plus_one", &[&x]),
        Operation::Log2 => scaled_log(body, &x, std::f64::consts::LN_2),
        Operation::Log10 => scaled_log(body, &x, std::f64::consts::LN_10),
        Operation::Cos => body.same("cosine", &[&x]),
        Operation::Sin => body.same("sine", &[&x]),
        Operation::Tan => body.same("tan", &[&x]),
        Operation::Acos => body.same("chlo.acos", &[&x]),
        Operation::Asin => body.same("chlo.asin", &[&x]),
        Operation::Atan => body.same("chlo.atan", &[&x]),
        Operation::Cosh => body.same("chlo.cosh", &[&x]),
        Operation::Sinh => body.same("chlo.sinh", &[&x]),
        Operation::Tanh => body.same("tanh", &[&x]),
        Operation::Acosh => body.same("chlo.acosh", &[&x]),
        Operation::Asinh => body.same("chlo.asinh", &[&x]),
        _ => body.same("chlo.atanh", &[&x]),
    };
    Ok(body.convert(&result, dtype))
}

fn scaled_log(body: &mut Body, x: &Value, scale: f64) -> Value {
    let log = body.same("log", &[x]);
    let scale = body.constant(&log, scale);
    body.div(&log, &scale)
}
