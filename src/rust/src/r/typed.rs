//! Calls of routines with typed arguments: R values become Rust values, and results R values.

use crate::r::conditions::Failure;
use crate::r::handle::{self, Owned};
use crate::r::sexp;
use extendr_api::prelude::*;
use extendr_api::throw_r_error;
use extendr_ffi::SEXP;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Why an argument is not of the type that it must have.
pub enum Misfit {
    /// It is not a handle of this type.
    Handle(Failure),
    /// It is another kind of vector, which only a mistake in R's part can cause.
    Vector(extendr_api::Error),
}

/// A type of arguments.
pub trait Argument<'a>: Sized {
    /// # Errors
    /// If the R value is of another type.
    fn of(x: &'a Robj) -> std::result::Result<Self, Misfit>;
}

impl<'a, T: Owned> Argument<'a> for &'a T {
    fn of(x: &'a Robj) -> std::result::Result<Self, Misfit> {
        handle::get(sexp::of(x), T::ARGUMENT).map_err(Misfit::Handle)
    }
}

/// NULL stands for none.
impl<'a, T: Argument<'a>> Argument<'a> for Option<T> {
    fn of(x: &'a Robj) -> std::result::Result<Self, Misfit> {
        if x.is_null() {
            return Ok(None);
        }
        T::of(x).map(Some)
    }
}

impl Argument<'_> for Robj {
    fn of(x: &Robj) -> std::result::Result<Self, Misfit> {
        Ok(x.clone())
    }
}

macro_rules! converted_by_extendr {
    ($($type:ty),*) => {
        $(impl<'a> Argument<'a> for $type {
            fn of(x: &'a Robj) -> std::result::Result<Self, Misfit> {
                x.try_into().map_err(Misfit::Vector)
            }
        })*
    };
}

converted_by_extendr!(bool, f64, i32, &'a str, &'a [f64], &'a [u8], List, Strings, Vec<i32>, Vec<String>);

/// Runs a routine, whose failures are values: see `call_native()` in R. What a panic says becomes an R error.
pub fn run(body: &dyn Fn() -> std::result::Result<Robj, Misfit>) -> SEXP {
    let text = match catch_unwind(AssertUnwindSafe(body)) {
        // SAFETY: on R's main thread; R protects the value that it gets.
        Ok(Ok(value)) => return unsafe { value.get() },
        // SAFETY: as above.
        Ok(Err(Misfit::Handle(failure))) => return unsafe { Robj::from(Err::<Robj, Failure>(failure)).get() },
        Ok(Err(Misfit::Vector(error))) => error.to_string(),
        Err(panic) => match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => text.clone(),
            (None, None) => "A fault inside pjrt was caught.".to_owned(),
        },
    };
    // R jumps: nothing else waits to be dropped.
    throw_r_error(text)
}
