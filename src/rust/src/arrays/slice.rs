//! Reads a part of a buffer, chosen by R's subscripts.

use crate::arrays::buffer::get;
use crate::arrays::transfer::{checks_by_default, fill, new_array};
use crate::r::conditions::Result;
use crate::r::describe::number;
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::counted::counted;
use pjrt_base::room;
use pjrt_core::buffer::read::HostView;
use pjrt_core::buffer::slice::{Axis, Slice};
use pjrt_data::array::Spec;

/// `buffer_slice(buffer, subscripts)`: some elements of the buffer as an R array. `subscripts` is a list with the positions
/// along each dimension, NULL for all, or a vector of positions in the whole array in R's order; these give an array of
/// one dimension. Positions count from 1. Waits for the buffer's content.
pub fn buffer_slice(buffer: SEXP, subscripts: SEXP) -> Result<SEXP> {
    let buffer = get(buffer)?;
    let ready = buffer.wait()?;
    // This needs memory, so it comes before anything is owned.
    items(subscripts).for_each(sexp::expand);
    let positions: usize = items(subscripts).map(sexp::len).sum();
    room::check_room(positions * size_of::<usize>(), "to find the elements")?;
    let host_type = buffer.dtype().info().host_type;
    let check = checks_by_default(buffer.dtype(), host_type)?;
    sexp::over_jumps(locate(buffer.spec(), subscripts)?, |(part, spec)| {
        let array = Protected::new(new_array(spec, host_type)?);
        fill(array.sexp(), spec, host_type, check, &HostView::Copied(ready.read_part(part)?))?;
        Ok(array.sexp())
    })
}

/// The items of a list; anything else counts as one item.
fn items(subscripts: SEXP) -> impl Iterator<Item = SEXP> {
    let list = sexp::kind(subscripts) == SEXPTYPE::VECSXP;
    let count = if list { sexp::len(subscripts) } else { 1 };
    (0..count).map(move |i| if list { sexp::at(subscripts, i) } else { subscripts })
}

/// The offsets of the part, and its dimensions as an array in R's order.
fn locate(spec: &Spec, subscripts: SEXP) -> Result<(Slice, Spec)> {
    let axes = if sexp::kind(subscripts) == SEXPTYPE::VECSXP {
        if sexp::len(subscripts) != spec.dims.len() {
            bail!(InvalidInput, "There must be a subscript for each of the {} dimensions.", spec.dims.len());
        }
        let along = items(subscripts).zip(spec.dims.iter().zip(spec.strides()));
        along
            .enumerate()
            .map(|(i, (x, (&dim, stride)))| {
                axis(x, dim as usize, || format!("dimension {} has", i + 1), |position| position * stride)
            })
            .collect::<Result<Vec<_>>>()?
    } else {
        let strides = spec.strides();
        let offset = |position| {
            let mut rest = position;
            spec.dims.iter().zip(&strides).fold(0, |offset, (&dim, stride)| {
                let along = rest % dim as usize;
                rest /= dim as usize;
                offset + along * stride
            })
        };
        vec![axis(subscripts, spec.len(), || "the buffer has".into(), offset)?]
    };
    let part = Slice::new(axes);
    let mut shape = Spec::new(spec.dtype, &part.dims())?;
    shape.minor_to_major = Some((0..shape.dims.len() as i64).collect());
    Ok((part, shape))
}

/// The axis of `x`, positions in `extent` or NULL for all of them, with the offset of each position, counted from 0. `owner`
/// says what has this extent.
fn axis(x: SEXP, extent: usize, owner: impl Fn() -> String, offset: impl Fn(usize) -> usize) -> Result<Axis> {
    let stray = match sexp::kind(x) {
        SEXPTYPE::NILSXP => return Ok(Axis::new(extent, offset)),
        SEXPTYPE::INTSXP => {
            // SAFETY: R protects the list of subscripts.
            let x = unsafe { sexp::integers(x) };
            match x.iter().find(|&&p| p < 1 || p as usize > extent) {
                None => return Ok(Axis::new(x.len(), |i| offset(x[i] as usize - 1))),
                Some(&p) => f64::from(p),
            }
        }
        SEXPTYPE::REALSXP => {
            // SAFETY: R protects the list of subscripts.
            let x = unsafe { sexp::doubles(x) };
            // Fractions are cut off, and NaN is outside any range.
            match x.iter().find(|&&p| !(p >= 1.0 && p < extent as f64 + 1.0)) {
                None => return Ok(Axis::new(x.len(), |i| offset(x[i] as usize - 1))),
                Some(&p) => p,
            }
        }
        _ => bail!(InvalidInput, "Positions must be numbers."),
    };
    let positions = counted(extent, "position");
    bail!(InvalidInput, "Subscript out of bounds: {}, where {} {positions}.", number(stray), owner())
}
