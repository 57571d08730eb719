//! Arrays in files of plain numbers become buffers.

use crate::arrays::dtype;
use crate::files::stored;
use crate::memory;
use crate::r::conditions::Result;
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::SEXPTYPE;
use pjrt_core::map::{Mapping, Part};
use pjrt_core::stored::Loading;
use pjrt_core::Device;
use std::path::Path;

/// Maps an array of a file. `shape` is NULL or checked whole numbers. Number `unknown` of them, from 1, is to be found
/// out; none if it is 0. A NULL `dtype` means a `.npy` file.
pub fn map_array(
    path: &str,
    dtype: Robj,
    shape: Robj,
    unknown: i32,
    offset: f64,
    row_major: bool,
    device: &Device,
) -> Result<Robj> {
    let dtype = if dtype.is_null() { None } else { Some(dtype::parse(sexp::of(&dtype), None)?) };
    memory::collect_under_pressure(device.client())?;
    let part = Part {
        dtype,
        dims: sexp::whole_numbers(sexp::of(&shape)),
        unknown: usize::try_from(unknown - 1).ok(),
        offset: offset as u64,
        is_column_major: !row_major,
    };
    let mapping = Mapping::open(Path::new(path), &part)?;
    let loading = Loading::new(vec![mapping.stored()], device)?;
    let list = Protected::new(sexp::vector(SEXPTYPE::VECSXP, 1));
    stored::load(list.sexp(), 0, &loading, device, &mut |_| {})?;
    Ok(sexp::robj(sexp::at(list.sexp(), 0)))
}
