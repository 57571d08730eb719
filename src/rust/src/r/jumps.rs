//! R's long jumps: where they end, and what is owned meanwhile.

use crate::r::sexp::{is_nil, nil, R_ToplevelExec, R_tryCatchError};
use extendr_ffi::{Rboolean, SEXP};
use pjrt_base::error::{Error, Kind, Result};
use std::ffi::c_void;
use std::mem::ManuallyDrop;

/// Runs `body`, whose allocations may fail. R's jump then ends here, so that the caller may own things. Returns false
/// without enough memory. `body` itself owns nothing that would need to be dropped.
///
/// # Errors
/// `Interrupted` if the user interrupts it: R's garbage collector jumps for that, too.
#[inline]
pub fn guarded<F: FnMut()>(mut body: F) -> Result<bool> {
    let mut error = nil();
    interruptible(|| error = caught(&mut body))?;
    Ok(is_nil(error))
}

/// Runs `body`, in which R may jump only for an interrupt; otherwise as [`guarded`].
///
/// # Errors
/// `Interrupted` if the user interrupts it.
#[inline]
pub fn interruptible<F: FnMut()>(mut body: F) -> Result<()> {
    unsafe extern "C-unwind" fn run<F: FnMut()>(body: *mut c_void) {
        (*body.cast::<F>())();
    }
    // SAFETY: `run` is for this type of `body`, which lives until R comes back.
    let went_on = unsafe { R_ToplevelExec(run::<F>, (&raw mut body).cast()) != Rboolean::FALSE };
    if went_on {
        Ok(())
    } else {
        Err(Error::new(Kind::Interrupted, "Interrupted."))
    }
}

/// Runs `body`, and returns the R error that it raises; nil for none. Not protected. Does not catch interrupts.
#[inline]
pub fn caught<F: FnMut()>(mut body: F) -> SEXP {
    unsafe extern "C-unwind" fn run<F: FnMut()>(body: *mut c_void) -> SEXP {
        (*body.cast::<F>())();
        nil()
    }
    unsafe extern "C-unwind" fn give(error: SEXP, _: *mut c_void) -> SEXP {
        error
    }
    // SAFETY: `run` is for this type of `body`, which lives until R comes back.
    unsafe { R_tryCatchError(run::<F>, (&raw mut body).cast(), give, std::ptr::null_mut()) }
}

/// Calls a function from which R may jump with a value that would need to be dropped: the value is then lost, rather than owned
/// by a frame that R jumps over.
pub fn over_jumps<T, R>(value: T, body: impl FnOnce(&mut T) -> R) -> R {
    let mut value = ManuallyDrop::new(value);
    let result = body(&mut value);
    drop(ManuallyDrop::into_inner(value));
    result
}
