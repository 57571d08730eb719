//! The end of buffers and clients at the user's request.

use crate::arrays::{buffer, r#async};
use crate::clients::{device, memory_space};
use crate::execution::operators;
use crate::r::conditions::Result;
use crate::r::handle::sent;
use crate::r::{handle, sexp};
use crate::session::on_ready;
use extendr_api::prelude::*;
use extendr_ffi::{R_RegisterCFinalizerEx, Rboolean, SEXP};
use pjrt_base::error::{self, Kind};
use pjrt_base::{callbacks, console};
use pjrt_core::{Buffer, Client, Compiling, Device, Executable, MemorySpace};

/// `buffer_delete(buffer)`: frees its memory as soon as nothing needs it any more.
pub fn buffer_delete(buffer: SEXP) -> Result<SEXP> {
    if is_of_other_session(buffer) {
        sent::drop_content(buffer);
        return Ok(sexp::nil());
    }
    buffer::get(buffer)?.delete()?;
    // It counts no memory any more.
    sent::set_companion(buffer, sexp::nil());
    Ok(sexp::nil())
}

/// `buffer_is_deleted(buffer)`: whether it was deleted or donated, its client closed, or it is of another session and came
/// without its content.
pub fn buffer_is_deleted(buffer: SEXP) -> Result<SEXP> {
    if is_of_other_session(buffer) {
        return Ok(sexp::new_flag(!sent::has_bytes(buffer)));
    }
    let buffer = buffer::get(buffer)?;
    Ok(sexp::new_flag(buffer.is_dead() || buffer.client().is_closed()))
}

fn is_of_other_session(buffer: SEXP) -> bool {
    handle::is_null(buffer) && sexp::inherits(buffer, c"PJRTBuffer")
}

/// `object_fate(x)`: why an object cannot be used any more, as R/lifetime.R words it; "" if it can.
pub fn object_fate(x: SEXP) -> Result<SEXP> {
    Ok(sexp::new_string(fate(x)))
}

fn fate(x: SEXP) -> &'static str {
    if handle::is_null(x) {
        return if sent::content(x).is_some() { "sent" } else { "saved" };
    }
    let buffer = handle::find::<Buffer>(x);
    if let Some(buffer) = buffer.filter(|buffer| buffer.is_dead()) {
        return if buffer.is_donated() { "donated" } else { "deleted" };
    }
    let client = buffer.map(Buffer::client).or_else(|| handle::find(x));
    let client = client.or_else(|| handle::find(x).map(Device::client));
    let client = client.or_else(|| handle::find(x).map(MemorySpace::client));
    let client = client.or_else(|| handle::find(x).map(Executable::client));
    let outcome = if let Some(client) = client {
        client.check_open()
    } else if let Some(compiling) = handle::find::<Compiling>(x) {
        compiling.is_ready().map(drop)
    } else if let Some(promise) = handle::find::<r#async::Promise>(x) {
        promise.transfer.is_ready().map(drop)
    } else {
        Ok(())
    };
    match outcome.as_ref().map_err(error::Error::kind) {
        Err(Kind::ClientClosed) => "closed",
        Err(Kind::Forked) => "forked",
        _ => "",
    }
}

/// Closes a client, waiting for its pending work. Returns false if it was closed before.
pub fn client_close(client: &Client) -> Result<Robj> {
    if client.is_closed() {
        return Ok(false.into());
    }
    // They could start new work.
    let _pause = on_ready::Pause::start();
    // SAFETY: on R's main thread; threads of ours have nothing left to do when the wait is over.
    unsafe { client.close() }?;
    device::forget(client);
    memory_space::forget(client);
    operators::forget(client);
    Ok(true.into())
}

/// Makes R close every client when the session ends, before the process begins to exit: while clients work, nothing may
/// be torn down under them. `the` lives as long as the session.
pub fn close_at_end(the: SEXP) {
    unsafe extern "C" fn close(_: SEXP) {
        // A panic must not reach R.
        let _ = std::panic::catch_unwind(|| {
            callbacks::end();
            on_ready::end();
            pjrt_core::client::close_all();
            // An interrupt leaves the rest unwritten.
            let _ = console::flush();
        });
    }
    // SAFETY: on R's main thread; `the` is an environment, and `close` does not unwind.
    unsafe { R_RegisterCFinalizerEx(the, Some(close), Rboolean::TRUE) };
}
