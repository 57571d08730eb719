//! Fast answers for R's generics: R takes longer to find the method for a buffer than the answer takes.

use crate::arrays::{buffer, dtype, r#async, transfer};
use crate::r::entry::{entry, waiting_entry};
use crate::r::handle;
use crate::r::sexp;
use extendr_ffi::SEXP;
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

/// `fast_await(x)`: see `buffer_await()`.
pub extern "C-unwind" fn fast_await(x: SEXP) -> SEXP {
    fast(x, |x| waiting_entry(&|| r#async::buffer_await(x)))
}

/// `fast_array(x)`: see `buffer_array()`, with R's defaults.
pub extern "C-unwind" fn fast_array(x: SEXP) -> SEXP {
    fast(x, |x| waiting_entry(&|| transfer::default_array(x)))
}
