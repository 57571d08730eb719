//! Waiting, and transfers to R that go on while R works.

use crate::arrays::buffer::get;
use crate::arrays::transfer;
use crate::memory;
use crate::r::conditions::Result;
use crate::r::handle::{self, EmptyHandle};
use crate::r::sexp::{self, Protected};
use extendr_ffi::SEXP;
use pjrt_base::callbacks;
use pjrt_core::buffer::read::Transfer;
use pjrt_data::dtype::HostType;
use std::ffi::CStr;

/// A transfer and what it brings.
pub struct Promise {
    pub transfer: Transfer,
    host_type: HostType,
}

owned!(Promise, c"PJRTTransfer", const SHOWN: &'static CStr = c"PJRTArrayPromise";);

/// `buffer_await(buffer)`: waits for the buffer's content.
pub fn buffer_await(buffer: SEXP) -> Result<SEXP> {
    let awaited = get(buffer)?;
    awaited.wait()?;
    memory::collect_under_pressure(awaited.client())?;
    Ok(buffer)
}

/// `buffer_is_ready(buffer)`: whether its content is complete.
pub fn buffer_is_ready(buffer: SEXP) -> Result<SEXP> {
    callbacks::serve()?;
    Ok(sexp::new_flag(get(buffer)?.is_ready()?))
}

/// `transfer_start(buffer, int64)`: starts a transfer to the host.
pub fn transfer_start(buffer: SEXP, int64: SEXP) -> Result<SEXP> {
    let buffer = get(buffer)?;
    let host_type = transfer::host_type(buffer.dtype(), int64)?;
    let weight = Protected::new(memory::room_for_copy(buffer.client(), buffer.spec().bytes())?);
    EmptyHandle::over(weight.sexp()).filled(|| Ok(Promise { transfer: buffer.start_read()?, host_type }))
}

/// `transfer_is_ready(transfer)`: whether it is done.
pub fn transfer_is_ready(transfer: SEXP) -> Result<SEXP> {
    callbacks::serve()?;
    Ok(sexp::new_flag(handle::get::<Promise>(transfer, "x")?.transfer.is_ready()?))
}

/// `transfer_value(transfer)`: waits for it and gives the R array.
pub fn transfer_value(transfer: SEXP) -> Result<SEXP> {
    let promise: &Promise = handle::get(transfer, "x")?;
    let arrived = promise.transfer.wait()?;
    let check = transfer::checks_by_default(arrived.spec().dtype, promise.host_type)?;
    let array = Protected::new(transfer::new_array(arrived.spec(), promise.host_type)?);
    transfer::fill(array.sexp(), arrived.spec(), promise.host_type, check, &arrived.view())?;
    Ok(array.sexp())
}
