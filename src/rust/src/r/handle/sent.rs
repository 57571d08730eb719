//! Handles that R's serialize() writes. R writes a pointer's protected slot, but not what the pointer points to. So this slot
//! holds an ALTREP vector of this package, whose method R asks for what to write: the content. In the session that reads it, the
//! slot holds this content, and the pointer is null. Its first use creates the value again: see `revive()` in R/serialize.R.
//!
//! The vector also keeps the handle's companion: the R object that counts the value's memory, or what the value needs.

use super::{class, is_null, owner, Owned};
use crate::r::conditions::{Failure, Result};
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::error::{Error, Kind};
use std::ffi::c_void;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

// Declared here since R may leave the methods by a long jump. The type for R objects is opaque, hence the allowance.
#[allow(improper_ctypes)]
extern "C" {
    fn R_set_altrep_Serialized_state_method(class: R_altrep_class_t, method: unsafe extern "C-unwind" fn(SEXP) -> SEXP);
    fn R_set_altrep_Unserialize_method(
        class: R_altrep_class_t,
        method: unsafe extern "C-unwind" fn(SEXP, SEXP) -> SEXP,
    );
}

/// R's class of these vectors.
static CLASS: AtomicPtr<SEXPREC> = AtomicPtr::new(null_mut());

/// A list with the handle whose value the current call needs, and whether there is one. Only this file knows them: a call notes
/// the handle with [`note_needed`] and fails; then [`is_needed`] is true, and who made the call revives the handle and repeats it.
static NEEDED: AtomicPtr<SEXPREC> = AtomicPtr::new(null_mut());
static IS_ANY_NEEDED: AtomicBool = AtomicBool::new(false);

/// Registers the class with R when it loads the library.
///
/// # Safety
/// `library` is the `DllInfo` that R passes to `R_init_pjrt`.
pub unsafe fn register(library: *mut DllInfo) {
    let class = R_make_altraw_class(c"sent".as_ptr(), c"pjrt".as_ptr(), library);
    R_set_altrep_Length_method(class, Some(length));
    R_set_altvec_Dataptr_method(class, Some(address));
    R_set_altvec_Dataptr_or_null_method(class, Some(read_only_address));
    R_set_altrep_Serialized_state_method(class, content_to_write);
    R_set_altrep_Unserialize_method(class, content_read);
    CLASS.store(class.ptr, Ordering::Relaxed);
    NEEDED.store(sexp::keep(sexp::vector(SEXPTYPE::VECSXP, 1)), Ordering::Relaxed);
}

fn altrep_class() -> R_altrep_class_t {
    R_altrep_class_t { ptr: CLASS.load(Ordering::Relaxed) }
}

/// Has R's serialize() write a handle with its content. The caller protects both; R may leave this by a long jump.
pub fn attach(handle: SEXP, companion: SEXP) {
    // SAFETY: on R's main thread, after `register`; the handle is an external pointer.
    unsafe { R_SetExternalPtrProtected(handle, R_new_altrep(altrep_class(), handle, companion)) };
}

/// The vector in a handle's protected slot; `None` where there is something else.
fn vector(handle: SEXP) -> Option<SEXP> {
    // SAFETY: handles are external pointers.
    unsafe {
        let vector = R_ExternalPtrProtected(handle);
        (ALTREP(vector) != 0 && R_altrep_inherits(vector, altrep_class()) != Rboolean::FALSE).then_some(vector)
    }
}

/// A handle's companion; nil for none.
pub fn companion(handle: SEXP) -> SEXP {
    // SAFETY: one of our vectors.
    vector(handle).map_or(sexp::nil(), |vector| unsafe { R_altrep_data2(vector) })
}

/// Sets or, with nil, removes a handle's companion. Allocates nothing.
pub fn set_companion(handle: SEXP, companion: SEXP) {
    if let Some(vector) = vector(handle) {
        // SAFETY: one of our vectors.
        unsafe { R_set_altrep_data2(vector, companion) };
    }
}

/// What came with a null pointer of another session: a list of class `PJRTContent`.
pub fn content(x: SEXP) -> Option<SEXP> {
    if !is_null(x) {
        return None;
    }
    // SAFETY: a null pointer is an external pointer.
    let list = unsafe { R_ExternalPtrProtected(x) };
    let content = if sexp::kind(list) == SEXPTYPE::VECSXP { sexp::at(list, 0) } else { return None };
    (sexp::kind(content) == SEXPTYPE::VECSXP && sexp::inherits(content, c"PJRTContent")).then_some(content)
}

/// Whether a null pointer came with the bytes of its value, rather than with the reason why there are none.
pub fn has_bytes(x: SEXP) -> bool {
    content(x).is_some_and(|content| sexp::element(content, "bytes").is_some())
}

/// Drops what came with a null pointer.
pub fn drop_content(x: SEXP) {
    if content(x).is_some() {
        // SAFETY: only external pointers have content.
        unsafe { R_SetExternalPtrProtected(x, sexp::nil()) };
    }
}

/// Notes a handle whose value the current call needs, if it came with content. Allocates nothing.
pub fn note_needed(x: SEXP) {
    if content(x).is_some() {
        sexp::set_at(NEEDED.load(Ordering::Relaxed), 0, x);
        IS_ANY_NEEDED.store(true, Ordering::Relaxed);
    }
}

/// Whether a call failed because it needs the value of such a handle.
pub fn is_needed(error: &Error) -> bool {
    error.kind() == Kind::InvalidPointer && IS_ANY_NEEDED.load(Ordering::Relaxed)
}

/// Takes this handle, which the caller protects; nil for none.
pub fn take_needed() -> SEXP {
    IS_ANY_NEEDED.store(false, Ordering::Relaxed);
    let needed = NEEDED.load(Ordering::Relaxed);
    let handle = sexp::at(needed, 0);
    sexp::set_at(needed, 0, sexp::nil());
    handle
}

/// Forgets what an earlier call needed, and did without.
#[inline]
pub fn forget_needed() {
    if IS_ANY_NEEDED.load(Ordering::Relaxed) {
        take_needed();
    }
}

/// Creates the value of this handle. R leaves this by a long jump if it cannot.
pub fn revive_needed() {
    // Takes no argument: what shows the stack of an error may use the arguments of calls.
    sexp::call_ours(c"revive_needed", sexp::nil());
}

/// Runs the body, and again after each handle of another session that it needs and that can be revived. For callers that R must
/// not jump out of.
///
/// # Errors
/// As the body.
pub fn with_needed<T>(body: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        let outcome = body();
        if !matches!(&outcome, Err(Failure(error)) if is_needed(error)) {
            return outcome;
        }
        let mut raised = sexp::nil();
        if sexp::interruptible(|| raised = sexp::caught(revive_needed)).is_err() || !sexp::is_nil(raised) {
            return outcome;
        }
    }
}

/// Moves the value of a new handle to a null pointer, which has this type's class. R may leave this by a long jump before it has
/// changed anything.
///
/// # Safety
/// The caller protects both. `from` has a value of this type, and `to` is null.
pub unsafe fn adopt<T: Owned>(to: SEXP, from: SEXP) {
    let vector = Protected::new(R_new_altrep(altrep_class(), to, companion(from)));
    let own = class::<T>();
    let given = sexp::class(to);
    let is_own = sexp::len(given) == sexp::len(own)
        && (0..sexp::len(own) as R_xlen_t).all(|i| STRING_ELT(given, i) == STRING_ELT(own, i));
    if is_own {
        // The same R object, by which fast paths know it.
        sexp::set_class(to, own);
    }
    owner::adopt::<T>(to, from);
    R_SetExternalPtrProtected(to, vector.sexp());
}

/// Called by R's serialize(). It must not fail, so `sent_content()` in R/serialize.R raises nothing but interrupts.
unsafe extern "C-unwind" fn content_to_write(vector: SEXP) -> SEXP {
    sexp::call_ours(c"sent_content", R_altrep_data1(vector))
}

/// Called by R's unserialize(): what it puts into the protected slot. A list, since R removes the attributes of what it gets.
unsafe extern "C-unwind" fn content_read(_class: SEXP, content: SEXP) -> SEXP {
    sexp::list([content])
}

/// What R counts for a handle: the address and the length in bytes of the companion, or of the one vector in it.
fn counted(vector: SEXP) -> (*const c_void, usize) {
    // SAFETY: one of our vectors, and what it keeps.
    unsafe {
        let companion = R_altrep_data2(vector);
        let is_list = sexp::kind(companion) == SEXPTYPE::VECSXP && sexp::len(companion) == 1;
        let counted = if is_list { sexp::at(companion, 0) } else { companion };
        let width = match sexp::kind(counted) {
            SEXPTYPE::RAWSXP => 1,
            SEXPTYPE::LGLSXP | SEXPTYPE::INTSXP => 4,
            SEXPTYPE::REALSXP => 8,
            SEXPTYPE::CPLXSXP => 16,
            _ => 0,
        };
        let data = if width > 0 { DATAPTR_OR_NULL(counted) } else { null_mut() };
        if data.is_null() {
            (NonNull::<u64>::dangling().as_ptr().cast(), 0)
        } else {
            (data, width * sexp::len(counted))
        }
    }
}

// R calls these: they must not unwind.

unsafe extern "C" fn length(vector: SEXP) -> R_xlen_t {
    counted(vector).1 as R_xlen_t
}

unsafe extern "C" fn address(vector: SEXP, _writable: Rboolean) -> *mut c_void {
    counted(vector).0.cast_mut()
}

unsafe extern "C" fn read_only_address(vector: SEXP) -> *const c_void {
    counted(vector).0
}
