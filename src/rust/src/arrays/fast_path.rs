//! Fast answers for R's generics: R takes longer to find the method for a buffer than the answer takes.

use crate::arrays::{buffer, dtype, r#async, transfer};
use crate::r::conditions::Result;
use crate::r::entry::{entry, waiting_entry};
use crate::r::handle;
use crate::r::sexp::{self, Protected};
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_base::error::Kind;
use pjrt_core::Buffer;

/// The answer for a buffer without other classes; nil for anything else, for which R must find a method.
fn fast(x: SEXP, answer: impl FnOnce(SEXP) -> SEXP) -> SEXP {
    if handle::is_plain::<Buffer>(x) {
        answer(x)
    } else {
        sexp::nil()
    }
}

/// `fast_dtype(x)`: the data type of the buffer's dtype, if it was created already.
pub extern "C-unwind" fn fast_dtype(x: SEXP) -> SEXP {
    fast(x, |x| entry(&|| Ok(dtype::data_type(buffer::get(x)?.dtype()))))
}

/// `fast_shape(x)`: see `buffer_shape()`.
pub extern "C-unwind" fn fast_shape(x: SEXP) -> SEXP {
    fast(x, |x| entry(&|| buffer::buffer_shape(x)))
}

/// `fast_device(x)`: see `buffer_device()`.
pub extern "C-unwind" fn fast_device(x: SEXP) -> SEXP {
    fast(x, |x| entry(&|| buffer::buffer_device(x)))
}

/// `fast_is_ready(x)`: see `buffer_is_ready()`.
pub extern "C-unwind" fn fast_is_ready(x: SEXP) -> SEXP {
    fast(x, |x| waiting_entry(&|| r#async::buffer_is_ready(x)))
}

/// The answers for a list of buffers alone, such as the results of a program, in a list with its names. Nil for other lists, and
/// where a buffer has no answer: R's methods, which take ten times as long, say which it is.
fn fast_list(x: SEXP, answer: fn(SEXP) -> Result<SEXP>) -> SEXP {
    let names = sexp::names(x);
    // SAFETY: the list protects its names.
    let has_no_name = unsafe { sexp::texts(names) }.any(|name| name.is_none());
    if has_no_name || sexp::is_object(x) || !sexp::elements(x).all(handle::is_plain::<Buffer>) {
        return sexp::nil();
    }
    waiting_entry(&|| {
        let answers = Protected::new(sexp::vector(SEXPTYPE::VECSXP, sexp::len(x)));
        for (i, buffer) in sexp::elements(x).enumerate() {
            let found = match answer(buffer) {
                Err(failure) if failure.0.kind() != Kind::Interrupted => sexp::nil(),
                found => found?,
            };
            if sexp::is_nil(found) {
                return Ok(found);
            }
            sexp::set_at(answers.sexp(), i, found);
        }
        sexp::set_names(answers.sexp(), names);
        Ok(answers.sexp())
    })
}

/// `fast_await(x)`: see `buffer_await()`. `x` can also be a list of buffers.
pub extern "C-unwind" fn fast_await(x: SEXP) -> SEXP {
    match sexp::kind(x) {
        SEXPTYPE::VECSXP => fast_list(x, r#async::buffer_await),
        _ => fast(x, |x| waiting_entry(&|| r#async::buffer_await(x))),
    }
}

/// The array of a buffer in the host's memory; nil for others: R's method starts all transfers before it waits for one.
fn host_array(buffer: SEXP) -> Result<SEXP> {
    match buffer::get(buffer)?.client().shares_host_memory() {
        true => transfer::default_array(buffer),
        false => Ok(sexp::nil()),
    }
}

/// `fast_array(x)`: see `buffer_array()`, with R's defaults. `x` can also be a list of buffers in the host's memory.
pub extern "C-unwind" fn fast_array(x: SEXP) -> SEXP {
    match sexp::kind(x) {
        SEXPTYPE::VECSXP => fast_list(x, host_array),
        _ => fast(x, |x| waiting_entry(&|| transfer::default_array(x))),
    }
}
