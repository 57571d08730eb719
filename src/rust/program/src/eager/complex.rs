//! Parts of complex numbers. A real number is a complex one without an imaginary part.

use super::body::{wide, Value};
use super::math::whole;
use super::Operation;
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use std::f64::consts::PI;

/// The dtype of the parts of complex numbers.
pub(super) fn part(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        _ => DType::F64,
    }
}

/// `Re`, `Im`, `Mod`, `Arg`, `Conj`.
pub(super) fn function<'b>(operation: Operation, x: &Value<'b>) -> Result<Value<'b>> {
    use Operation as Op;
    let is_complex = x.dtype.is_complex();
    let part = |name| x.apply_as(name, part(x.dtype));
    Ok(match operation {
        Op::Mod => return whole(Op::Abs, x),
        Op::Re if is_complex => part("real"),
        Op::Im if is_complex => part("imag"),
        Op::Arg if is_complex => part("imag").with("atan2", part("real")),
        Op::Conj if is_complex => {
            let (re, im) = (part("real"), part("imag").apply("negate"));
            x.body.emit("complex", &[&re, &im], "", "", x.dtype, &x.dims)
        }
        Op::Im => x.constant(0.0),
        Op::Arg => {
            let dtype = x.body.floating(x.dtype)?;
            let work = x.convert(wide(dtype));
            let angle = work.compare("LT", 0.0).select(PI, &work.constant(0.0));
            work.compare("NE", &work).select(&work, &angle).convert(dtype)
        }
        _ => x.clone(),
    })
}
