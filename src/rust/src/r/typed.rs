//! Calls of routines with typed arguments: extendr converts R values to Rust values and back.

use extendr_api::{throw_r_error, GetSexp, Robj};
use extendr_ffi::SEXP;
use std::error::Error;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The value of a routine, or why an argument has another type.
type Converted = std::result::Result<Robj, Box<dyn Error>>;

/// Runs a routine, whose failures are values: see `call_native()` in R. What its arguments or a panic say becomes an R error.
pub fn run(body: impl Fn() -> Converted) -> SEXP {
    answer(&body)
}

/// The same, compiled once.
fn answer(body: &dyn Fn() -> Converted) -> SEXP {
    let text = match catch_unwind(AssertUnwindSafe(body)) {
        // SAFETY: on R's main thread; R protects the value that it gets.
        Ok(Ok(value)) => return unsafe { value.get() },
        Ok(Err(error)) => error.to_string(),
        Err(panic) => match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => text.clone(),
            (None, None) => "A fault inside pjrt was caught.".to_owned(),
        },
    };
    // R jumps, so this owns nothing else.
    throw_r_error(text)
}
