//! Arrays of Arrow, by the addresses of the structs of its C data interface, become buffers.

use crate::memory;
use crate::r::conditions::Result;
use crate::r::handle::EmptyHandle;
use crate::r::pins;
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::*;
use pjrt_core::arrow::{ArrowArray, ArrowSchema, Pair};
use pjrt_core::{Buffer, Device};
use std::mem::size_of;

/// Room for an array and a schema, which others fill, and the addresses of both as text.
pub fn arrow_room() -> Result<Robj> {
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

/// Moves the array and the schema at these addresses, in digits, to a device.
pub fn arrow_take(array: &str, schema: &str, device: &Device) -> Result<Robj> {
    let (array, schema) = (address(array)?, address(schema)?);
    memory::collect_under_pressure(device.client())?;
    let buffer = EmptyHandle::<Buffer>::new().filled(|| {
        // SAFETY: the caller says that they are there.
        let pair = unsafe { Pair::take(array as *mut ArrowArray, schema as *mut ArrowSchema) }?;
        Buffer::from_arrow(device, pair, pins::drop_later)
    })?;
    Ok(sexp::robj(buffer))
}

/// An address, in digits.
fn address(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => bail!(Internal, "'{text}' is not an address."),
    }
}
