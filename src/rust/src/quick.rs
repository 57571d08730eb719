//! Fast answers for R's generics: R takes longer to find the method for a buffer than the answer takes.

use crate::conditions::entry;
use crate::handle;
use crate::sexp;
use crate::{buffer, dtype, r#async, transfer};
use extendr_ffi::SEXP;
use pjrt_core::Buffer;

/// The answer for a buffer without other classes; nil for anything else, for which R must find a method.
fn quick(x: SEXP, answer: impl FnOnce(SEXP) -> SEXP) -> SEXP {
    if handle::is_plain::<Buffer>(x) {
        answer(x)
    } else {
        sexp::nil()
    }
}

/// `quick_dtype(x)`: the data type of the buffer's dtype, if it was created already.
pub extern "C" fn quick_dtype(x: SEXP) -> SEXP {
    quick(x, |x| entry(|| Ok(dtype::data_type(buffer::get(x)?.dtype()))))
}

/// `quick_shape(x)`: see `buffer_shape()`.
pub extern "C" fn quick_shape(x: SEXP) -> SEXP {
    quick(x, |x| buffer::buffer_shape(x))
}

/// `quick_device(x)`: see `buffer_device()`.
pub extern "C" fn quick_device(x: SEXP) -> SEXP {
    quick(x, |x| buffer::buffer_device(x))
}

/// `quick_is_ready(x)`: see `buffer_is_ready()`.
pub extern "C" fn quick_is_ready(x: SEXP) -> SEXP {
    quick(x, |x| r#async::buffer_is_ready(x))
}

/// `quick_await(x)`: see `buffer_await()`.
pub extern "C" fn quick_await(x: SEXP) -> SEXP {
    quick(x, |x| r#async::buffer_await(x))
}

/// `quick_array(x)`: see `buffer_array()`, with R's defaults.
pub extern "C" fn quick_array(x: SEXP) -> SEXP {
    quick(x, transfer::default_array)
}
