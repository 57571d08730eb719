//! Parts of complex numbers. A real number is a complex one without an imaginary part.

use super::body::{wide, Body, Value};
use super::math::{floating, whole};
use super::Operation;
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use std::f64::consts::PI;

/// The dtype of the parts of complex numbers.
pub(super) fn part(dtype: DType) -> DType {
    if dtype == DType::C64 {
        DType::F32
    } else {
        DType::F64
    }
}

/// `Re`, `Im`, `Mod`, `Arg`, `Conj`.
pub(super) fn function(body: &mut Body, operation: Operation, x: &Value, float: DType) -> Result<Value> {
    use Operation as Op;
    if operation == Op::Mod {
        return whole(body, Op::Abs, x);
    }
    if !x.dtype.is_complex() {
        return Ok(real(body, operation, x, float));
    }
    let of = part(x.dtype);
    let re = body.emit("stablehlo.real", &[x], "", of, &x.dims);
    if operation == Op::Re {
        return Ok(re);
    }
    let im = body.emit("stablehlo.imag", &[x], "", of, &x.dims);
    Ok(match operation {
        Op::Im => im,
        Op::Arg => body.same("atan2", &[&im, &re]),
        _ => {
            let minus = body.same("negate", &[&im]);
            body.emit("stablehlo.complex", &[&re, &minus], "", x.dtype, &x.dims)
        }
    })
}

fn real(body: &mut Body, operation: Operation, x: &Value, float: DType) -> Value {
    match operation {
        Operation::Im => body.constant(x, 0.0),
        Operation::Arg => {
            let dtype = floating(x.dtype, float);
            let work = body.convert(x, wide(dtype));
            let is_negative = body.compare_to("LT", &work, 0.0);
            let zero = body.constant(&work, 0.0);
            let angle = body.select_number(&is_negative, PI, &zero);
            let is_nan = body.compare("NE", &work, &work);
            let angle = body.select(&is_nan, &work, &angle);
            body.convert(&angle, dtype)
        }
        _ => x.clone(),
    }
}
