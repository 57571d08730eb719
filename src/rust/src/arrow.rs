//! Arrays of Arrow, by the addresses of the structs of its C data interface, become buffers.

use crate::conditions::Result;
use crate::describe::describe;
use crate::handle::{self, EmptyHandle};
use crate::memory;
use crate::pins;
use crate::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::*;
use pjrt_core::arrow::{ArrowArray, ArrowSchema, Pair};
use pjrt_core::{Buffer, Device};
use std::mem::size_of;

/// Room for an array and a schema, which others fill, and the addresses of both as text.
#[extendr]
fn arrow_room() -> Result<Robj> {
    let room = Protected::new(sexp::vector(SEXPTYPE::RAWSXP, size_of::<ArrowArray>() + size_of::<ArrowSchema>()));
    // SAFETY: a new vector, whose bytes are ours to write.
    let start = unsafe {
        let start = RAW(room.sexp());
        start.write_bytes(0, sexp::len(room.sexp()));
        start as usize
    };
    let addresses = [start.to_string(), (start + size_of::<ArrowArray>()).to_string()];
    Ok(list!(room = sexp::robj(room.sexp()), array = &addresses[0], schema = &addresses[1]).into())
}

/// Moves the array and the schema at these addresses to a device.
#[extendr]
fn arrow_take(array: Robj, schema: Robj, device: Robj) -> Result<Robj> {
    let device: &Device = handle::get(sexp::of(&device), "device")?;
    let (array, schema) = (address(sexp::of(&array), "array")?, address(sexp::of(&schema), "schema")?);
    memory::collect_under_pressure(device.client())?;
    let handle = EmptyHandle::<Buffer>::new();
    let _protected = Protected::new(handle.sexp());
    // SAFETY: the caller says that they are there.
    let pair = unsafe { Pair::take(array as *mut ArrowArray, schema as *mut ArrowSchema) }?;
    let buffer = Buffer::from_arrow(device, pair, |pair| pins::drop_later(pair))?;
    // SAFETY: protected above.
    Ok(sexp::robj(unsafe { handle.fill(buffer) }))
}

/// An address in any form in which R packages give one.
fn address(x: SEXP, name: &str) -> Result<usize> {
    let found = match sexp::kind(x) {
        // SAFETY: an external pointer, which is only read.
        SEXPTYPE::EXTPTRSXP => Some(unsafe { R_ExternalPtrAddr(x) } as usize),
        SEXPTYPE::REALSXP if sexp::inherits(x, c"integer64") && sexp::len(x) == 1 => {
            // SAFETY: a vector of one double, whose bits are an integer.
            let bits = unsafe { sexp::doubles(x) }[0].to_bits();
            usize::try_from(bits).ok()
        }
        SEXPTYPE::REALSXP => {
            sexp::number(x).filter(|x| x.fract() == 0.0 && *x >= 0.0 && *x <= 2f64.powi(53)).map(|x| x as usize)
        }
        // SAFETY: read at once.
        SEXPTYPE::STRSXP => unsafe { sexp::string(x) }.and_then(|text| match text.strip_prefix("0x") {
            Some(digits) => usize::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }),
        _ => None,
    };
    match found {
        Some(address) => Ok(address),
        None => bail!(
            InvalidType,
            "`{name}` must be an address: an external pointer, a string of digits or a number, not {}.",
            describe(x)
        ),
    }
}

extendr_module! {
    mod arrow;
    fn arrow_room;
    fn arrow_take;
}
