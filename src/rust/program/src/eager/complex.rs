//! Parts of complex numbers. A real number is a complex one without an imaginary part.

use super::body::{wide, Value};
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
pub(super) fn function<'b>(operation: Operation, x: &Value<'b>, float: DType) -> Result<Value<'b>> {
    use Operation as Op;
    if operation == Op::Mod {
        return whole(Op::Abs, x);
    }
    if !x.dtype.is_complex() {
        return Ok(real(operation, x, float));
    }
    let re = x.apply_as("real", part(x.dtype));
    if operation == Op::Re {
        return Ok(re);
    }
    let im = x.apply_as("imag", part(x.dtype));
    Ok(match operation {
        Op::Im => im,
        Op::Arg => im.with("atan2", re),
        _ => x.body().emit("stablehlo.complex", &[&re, &im.apply("negate")], "", "", x.dtype, &x.dims),
    })
}

fn real<'b>(operation: Operation, x: &Value<'b>, float: DType) -> Value<'b> {
    match operation {
        Operation::Im => x.constant(0.0),
        Operation::Arg => {
            let dtype = floating(x.dtype, float);
            let work = x.convert(wide(dtype));
            let angle = work.compare("LT", 0.0).select(PI, &work.constant(0.0));
            work.compare("NE", &work).select(&work, &angle).convert(dtype)
        }
        _ => x.clone(),
    }
}
