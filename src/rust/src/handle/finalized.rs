//! How R frees what a handle owns: a finalizer drops the value once R has found the pointer to be garbage. The pointer's tag
//! is the class attribute of its type, the very R object.

use super::{class, drop_weight, Owned};
use crate::sexp::Protected;
use extendr_ffi::*;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// A handle without a value, with an R object in its protected slot, which the caller protects. Not protected; R may leave
/// this by a long jump.
pub fn make<T: Owned>(object: SEXP) -> SEXP {
    let class = class::<T>();
    unsafe {
        let pointer = Protected::new(R_MakeExternalPtr(null_mut(), class, object));
        R_RegisterCFinalizerEx(pointer.sexp(), Some(release::<T>), Rboolean::FALSE);
        Rf_setAttrib(pointer.sexp(), R_ClassSymbol, class);
        pointer.sexp()
    }
}

/// Gives a handle that was made its value.
pub fn fill<T: Owned>(pointer: SEXP, value: T) {
    // SAFETY: the caller protects the pointer, whose finalizer takes the value back.
    unsafe { R_SetExternalPtrAddr(pointer, Box::into_raw(Box::new(value)).cast()) };
}

/// The value of an external pointer, if it is a handle of this type that was filled in this session.
pub fn value<'a, T: Owned>(pointer: SEXP) -> Option<&'a T> {
    // What was loaded from a file has another tag.
    let is_ours = unsafe { R_ExternalPtrTag(pointer) } == T::class_attribute().load(Ordering::Relaxed);
    if !is_ours {
        return None;
    }
    // SAFETY: pointers with our tag point to a value of this type, or nowhere.
    unsafe { R_ExternalPtrAddr(pointer).cast::<T>().as_ref() }
}

/// Called by R once the pointer is garbage.
unsafe extern "C" fn release<T: Owned>(pointer: SEXP) {
    let address = R_ExternalPtrAddr(pointer).cast::<T>();
    R_ClearExternalPtr(pointer);
    // R keeps the pointer itself, and what it holds, until the next collection.
    drop_weight(pointer);
    if !address.is_null() {
        T::live().fetch_sub(1, Ordering::Relaxed);
        // SAFETY: made by `fill`. A panic must not reach R.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(address))));
    }
}
