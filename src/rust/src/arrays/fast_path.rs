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

/// How deep lists are looked into.
const DEEP: usize = 8;

/// Whether a list holds buffers that fit, NULL and such lists alone, as the results of programs do.
fn is_result(x: SEXP, fits: fn(SEXP) -> bool, deep: usize) -> bool {
    match sexp::kind(x) {
        SEXPTYPE::NILSXP => true,
        SEXPTYPE::VECSXP => {
            // SAFETY: the list protects its names.
            let has_no_name = || unsafe { sexp::texts(sexp::names(x)) }.any(|name| name.is_none());
            let is_plain = deep > 0 && !sexp::is_object(x) && !has_no_name();
            is_plain && sexp::elements(x).all(|element| is_result(element, fits, deep - 1))
        }
        _ => handle::is_plain::<Buffer>(x) && fits(x),
    }
}

/// The answers for such a list, in a list of the same structure.
fn answers(x: SEXP, answer: fn(SEXP) -> Result<SEXP>) -> Result<SEXP> {
    match sexp::kind(x) {
        SEXPTYPE::NILSXP => Ok(x),
        SEXPTYPE::VECSXP => {
            let found = Protected::new(sexp::vector(SEXPTYPE::VECSXP, sexp::len(x)));
            for (i, element) in sexp::elements(x).enumerate() {
                sexp::set_at(found.sexp(), i, answers(element, answer)?);
            }
            sexp::set_names(found.sexp(), sexp::names(x));
            Ok(found.sexp())
        }
        _ => answer(x),
    }
}

/// The same, or nil for other lists, and where a buffer has no answer: R's methods, which take ten times as long, say which it is.
fn fast_list(x: SEXP, fits: fn(SEXP) -> bool, answer: fn(SEXP) -> Result<SEXP>) -> SEXP {
    if !is_result(x, fits, DEEP) {
        return sexp::nil();
    }
    waiting_entry(&|| match answers(x, answer) {
        Err(failure) if failure.0.kind() != Kind::Interrupted => Ok(sexp::nil()),
        found => found,
    })
}

/// `fast_await(x)`: see `buffer_await()`. `x` can also be a list of buffers.
pub extern "C-unwind" fn fast_await(x: SEXP) -> SEXP {
    match sexp::kind(x) {
        SEXPTYPE::VECSXP => fast_list(x, |_| true, r#async::buffer_await),
        _ => fast(x, |x| waiting_entry(&|| r#async::buffer_await(x))),
    }
}

/// Whether a buffer is in the host's memory. R's methods start all transfers from elsewhere before they wait for one.
fn is_on_host(buffer: SEXP) -> bool {
    buffer::get(buffer).is_ok_and(|buffer| buffer.client().shares_host_memory())
}

/// `fast_array(x)`: see `buffer_array()`, with R's defaults. `x` can also be a list of buffers in the host's memory.
pub extern "C-unwind" fn fast_array(x: SEXP) -> SEXP {
    match sexp::kind(x) {
        SEXPTYPE::VECSXP => fast_list(x, is_on_host, transfer::default_array),
        _ => fast(x, |x| waiting_entry(&|| transfer::default_array(x))),
    }
}
