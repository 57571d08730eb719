//! How R before 4.5 frees a handle's value. The pointer's tag is a small raw vector with our allocator, which was in
//! R's API then; when R collects the vector, the value is dropped. That costs a fraction of a finalizer.

use super::{class, Owned};
use crate::r::sexp;
use extendr_ffi::*;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The memory functions behind a vector, as in R's `R_ext/Rallocators.h`.
#[repr(C)]
struct Allocator {
    alloc: unsafe extern "C" fn(*mut Allocator, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut Allocator, *mut c_void),
    reserved: *mut c_void,
    data: *mut c_void,
}

// R's own functions; the type for R objects is opaque, hence the allowance.
#[allow(improper_ctypes)]
extern "C" {
    fn R_MakeWeakRef(key: SEXP, value: SEXP, finalizer: SEXP, on_exit: Rboolean) -> SEXP;
    fn R_WeakRefKey(reference: SEXP) -> SEXP;
    fn Rf_allocVector3(kind: SEXPTYPE, len: R_xlen_t, allocator: *mut Allocator) -> SEXP;
}

/// The target of an external pointer; `None` between the creation of the R objects and the filling of the handle.
type Owner<T> = Option<T>;

/// The content of a handle's tag: a mark of the type, followed by the target of the pointer.
#[repr(C)]
struct Body<T> {
    mark: TypeMark,
    owner: Owner<T>,
}

/// Proof that a pointer belongs to this package, has its type, and is from this session.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct TypeMark {
    kind: *const AtomicPtr<SEXPREC>,
    owner: *const c_void,
}

impl TypeMark {
    fn new<T: Owned>(owner: *const c_void) -> Self {
        TypeMark { kind: T::class_attribute(), owner }
    }
}

/// The number of bytes that R puts before the data of a vector with an allocator; always the same, known after the
/// first.
static HEADROOM: AtomicUsize = AtomicUsize::new(0);

/// A handle without a value, with an R object in its protected slot, which the caller protects. Not protected; R may
/// leave this by a long jump.
pub fn make<T: Owned>(object: SEXP) -> SEXP {
    const { assert!(align_of::<Body<T>>() <= 8, "R aligns vectors for doubles") };
    let mut start: *mut c_void = null_mut();
    let note_start: *mut *mut c_void = &mut start;
    let mut allocator =
        Allocator { alloc: allocate, free: release::<T>, reserved: null_mut(), data: note_start.cast() };
    // SAFETY: the vector has room for a body, which is written before R allocates again and may free it.
    unsafe {
        let len = size_of::<Body<T>>() as R_xlen_t;
        let tag = Rf_protect(Rf_allocVector3(SEXPTYPE::RAWSXP, len, &mut allocator));
        let body = RAW(tag).cast::<Body<T>>();
        HEADROOM.store(body as usize - start as usize, Ordering::Relaxed);
        let owner = &raw mut (*body).owner;
        body.write(Body { mark: TypeMark::new::<T>(owner.cast()), owner: None });
        let pointer = Rf_protect(R_MakeExternalPtr(owner.cast(), tag, object));
        Rf_setAttrib(pointer, R_ClassSymbol, class::<T>());
        Rf_unprotect(2);
        pointer
    }
}

/// Finds the handle of a value as long as R has it, and does not keep it.
pub struct Known<T>(SEXP, PhantomData<T>);

impl<T: Owned> Known<T> {
    /// Finds this handle.
    ///
    /// # Safety
    /// The pointer is what [`make`] gave for this type, and the caller protects it.
    pub unsafe fn of(pointer: SEXP) -> Self {
        let reference = R_MakeWeakRef(pointer, sexp::nil(), sexp::nil(), Rboolean::FALSE);
        sexp::preserve(reference);
        Known(reference, PhantomData)
    }

    pub fn is_there(&self) -> bool {
        !sexp::is_nil(self.key())
    }

    /// The handle. Not protected.
    pub fn handle(&self) -> Option<SEXP> {
        Some(self.key()).filter(|&key| !sexp::is_nil(key))
    }

    fn key(&self) -> SEXP {
        // SAFETY: a weak reference, which is kept until this is dropped.
        unsafe { R_WeakRefKey(self.0) }
    }
}

impl<T> Drop for Known<T> {
    fn drop(&mut self) {
        sexp::release(self.0);
    }
}

/// The same for a small value.
pub fn make_small<T: Owned>() -> SEXP {
    make::<T>(sexp::nil())
}

/// Moves the value into a new handle.
///
/// # Safety
/// The pointer is what [`make`] or [`make_small`] gave for this type, and the caller protects it.
pub unsafe fn fill<T: Owned>(pointer: SEXP, value: T) {
    // SAFETY: the owner lives as long as the pointer, which the caller protects.
    unsafe { *R_ExternalPtrAddr(pointer).cast::<Owner<T>>() = Some(value) };
}

/// Moves the value of a handle to a null pointer.
///
/// # Safety
/// The caller protects both; `from` is a handle of this type, and `to` is null.
pub unsafe fn adopt<T: Owned>(to: SEXP, from: SEXP) {
    // The vector that owns the value, and the address in it.
    R_SetExternalPtrTag(to, R_ExternalPtrTag(from));
    R_SetExternalPtrAddr(to, R_ExternalPtrAddr(from));
    R_ClearExternalPtr(from);
    R_SetExternalPtrTag(from, sexp::nil());
}

/// The value of an external pointer if it is a handle of this type that was filled in this session.
pub fn value<'a, T: Owned>(pointer: SEXP) -> Option<&'a T> {
    // SAFETY: the caller gives an external pointer.
    let address = unsafe { R_ExternalPtrAddr(pointer) };
    // SAFETY: the same; the pointer keeps its tag.
    let tag = unsafe { sexp::raws(R_ExternalPtrTag(pointer)) };
    let is_marked = tag.len() == size_of::<Body<T>>()
        // SAFETY: the vector is as long as a body, which begins with the mark.
        && unsafe { tag.as_ptr().cast::<TypeMark>().read_unaligned() } == TypeMark::new::<T>(address);
    if !is_marked {
        return None;
    }
    // SAFETY: pointers with our mark point to an owner.
    unsafe { address.cast::<Owner<T>>().as_ref() }.and_then(Option::as_ref)
}

/// Called by R: allocates the memory for a vector, and records its address.
unsafe extern "C" fn allocate(allocator: *mut Allocator, size: usize) -> *mut c_void {
    let start = malloc(size);
    *(*allocator).data.cast::<*mut c_void>() = start;
    start
}

/// Called by R's garbage collector: must not call R.
unsafe extern "C" fn release<T: Owned>(_: *mut Allocator, start: *mut c_void) {
    let body = start.add(HEADROOM.load(Ordering::Relaxed)).cast::<Body<T>>();
    let owner = (*body).owner.take();
    free(start);
    if owner.is_some() {
        T::live().fetch_sub(1, Ordering::Relaxed);
    }
    // A panic must not reach R.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(owner)));
}

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(start: *mut c_void);
}
