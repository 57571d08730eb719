//! The end of buffers and clients at the user's request.

use crate::conditions::{entry, Result};
use crate::{buffer, client, device, handle, memory_space, sexp};
use extendr_api::prelude::*;
use extendr_ffi::SEXP;

/// `buffer_delete(buffer)`: frees its memory as soon as nothing needs it any more.
pub extern "C-unwind" fn buffer_delete(buffer: SEXP) -> SEXP {
    entry(|| {
        buffer::get(buffer)?.delete()?;
        handle::drop_weight(buffer);
        Ok(sexp::nil())
    })
}

/// `buffer_is_deleted(buffer)`: whether it was deleted or donated, or its client closed.
pub extern "C-unwind" fn buffer_is_deleted(buffer: SEXP) -> SEXP {
    entry(|| {
        let buffer = buffer::get(buffer)?;
        Ok(sexp::new_flag(buffer.is_dead() || buffer.client().is_closed()))
    })
}

/// Closes a client, waiting for its pending work. Returns false if it was closed before.
#[extendr]
fn client_close(client: Robj) -> Result<Robj> {
    let client = client::get(&client)?;
    if client.is_closed() {
        return Ok(false.into());
    }
    // SAFETY: on R's main thread; threads of ours have nothing left to do when the wait is over.
    unsafe { client.close() }?;
    device::forget(client);
    memory_space::forget(client);
    Ok(true.into())
}

extendr_module! {
    mod lifetime;
    fn client_close;
}
