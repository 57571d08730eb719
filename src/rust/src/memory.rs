//! Memory: which space a buffer lies in, and garbage collection when device memory fills that R cannot see.

use crate::conditions::Outcome;
use crate::{handle, pins, sexp};
use extendr_api::prelude::*;
use extendr_ffi::{RAW, SEXP, SEXPTYPE};
use pjrt_core::error::RESOURCE_EXHAUSTED;
use pjrt_core::{host, Buffer, Client, HostMemory, Kind};
use std::ptr::NonNull;
use std::sync::Arc;

/// New bytes below which nobody asks how much memory is free.
const FEW_BYTES: usize = 64 << 20;

/// New bytes above which garbage is collected in any case.
const MANY_BYTES: usize = 512 << 20;

/// The kind of memory space that a buffer lies in, and the plugin's string for it.
#[extendr]
fn buffer_memory(buffer: Robj) -> Outcome<Robj> {
    let buffer: &Buffer = handle::get(unsafe { buffer.get() }, "buffer")?;
    let memory = buffer.memory()?;
    Ok(memory.map_or(().into(), |m| list!(id = m.id(), kind = m.kind(), label = m.label()).into()))
}

/// Collects garbage when the client's new buffers have taken a quarter of the free memory, so that a loop which drops
/// its results runs in bounded memory although R does not see their size.
pub fn relieve_pressure(client: &Client) {
    let new = client.new_bytes();
    if new < FEW_BYTES {
        return;
    }
    let quarter = host::available_memory().map_or(MANY_BYTES, |free| (free / 4).min(MANY_BYTES));
    if new >= quarter {
        unsafe { sexp::R_gc() };
        client.reset_new_bytes();
    }
}

/// Runs `make`; when memory is exhausted, collects garbage, finalizers included, and tries once more.
pub fn with_retry<T>(client: &Client, make: impl Fn() -> pjrt_core::Result<T>) -> pjrt_core::Result<T> {
    match make() {
        Err(error) if error.kind() == Kind::Pjrt(RESOURCE_EXHAUSTED) => {
            unsafe { sexp::R_gc() };
            client.reset_new_bytes();
            make()
        }
        made => made,
    }
}

/// A raw vector with room for `bytes` aligned ones, so that R knows of the memory and counts it. Not protected.
pub fn vector(client: &Client, bytes: usize) -> Outcome<SEXP> {
    let size = HostMemory::lent_size(bytes);
    if size >= FEW_BYTES {
        // R's own error would be of no class: see first whether there is as much, which touches none of it.
        drop(with_retry(client, || HostMemory::new(size))?);
    }
    Ok(sexp::vector(SEXPTYPE::RAWSXP, size))
}

/// The memory of a raw vector made by [`vector`], which R keeps until nobody uses it; there must be room among the pins.
pub fn of_vector(vector: SEXP, bytes: usize) -> Option<Arc<HostMemory>> {
    if sexp::is_nil(vector) {
        return None;
    }
    let place = pins::pin(vector)?;
    // SAFETY: the vector was made for this many bytes and is kept until the release.
    let start = unsafe { NonNull::new_unchecked(RAW(vector)) };
    Some(unsafe { HostMemory::lent(start, bytes, move || pins::release(place)) })
}

/// How many R vectors are kept because a device uses them.
#[extendr]
fn pin_count() -> i32 {
    pins::count() as i32
}

extendr_module! {
    mod memory;
    fn buffer_memory;
    fn pin_count;
}
