//! How R frees a handle's value: a finalizer drops the value after R has found the pointer to be garbage. The pointer's
//! tag is the class attribute of its type, the same R object. Handles can share a value, which the last of them drops.
//!
//! A finalizer costs R more than a small program takes to run. So small values share the finalizer of a page: an
//! external pointer with the same tag, which is the tag of the pointers of its values. A page and all its values are
//! freed when none of them is in use. The page that is being filled is kept until the next garbage collection.

use super::{class, EmptyHandle, Owned};
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering;

/// The number of values on a page.
const PAGE: usize = 32;

/// The values of a page, `None` until they are filled in.
struct Page<T> {
    taken: usize,
    values: [Option<T>; PAGE],
}

/// A handle without a value, with an R object in its protected slot, which the caller protects. Not protected; R may
/// leave this by a long jump.
pub fn make<T: Owned>(object: SEXP) -> SEXP {
    let pointer = without_address::<T>(object);
    set_address(pointer, Rc::new(None::<T>));
    pointer
}

/// A handle that points nowhere yet, with its finalizer.
fn without_address<T: Owned>(object: SEXP) -> SEXP {
    let class = class::<T>();
    // SAFETY: on R's main thread.
    unsafe {
        let pointer = Protected::new(R_MakeExternalPtr(null_mut(), class, object));
        R_RegisterCFinalizerEx(pointer.sexp(), Some(release::<Option<T>>), Rboolean::FALSE);
        Rf_setAttrib(pointer.sexp(), R_ClassSymbol, class);
        pointer.sexp()
    }
}

/// Has a pointer whose finalizer is `release::<C>` own this. Allocates nothing in R.
fn set_address<C>(pointer: SEXP, content: Rc<C>) {
    // SAFETY: an external pointer that points nowhere.
    unsafe { R_SetExternalPtrAddr(pointer, Rc::into_raw(content).cast_mut().cast()) };
}

/// Finds the value of handles as long as one of them has it, and keeps none of them.
pub struct Known<T>(Weak<Option<T>>);

impl<T: Owned> Known<T> {
    /// Finds the value of this handle.
    ///
    /// # Safety
    /// The pointer is what [`make`] gave for this type, and the caller protects it.
    pub unsafe fn of(pointer: SEXP) -> Self {
        // SAFETY: the pointer owns what `set_address` got, and still does after this.
        let content = ManuallyDrop::new(unsafe { Rc::from_raw(R_ExternalPtrAddr(pointer).cast::<Option<T>>()) });
        Known(Rc::downgrade(&content))
    }

    pub fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Another handle of the value, `identical()` to the first. That one may be garbage whose finalizer R is about to
    /// run. Not protected; R may leave this by a long jump.
    pub fn handle(&self) -> Option<SEXP> {
        let pointer = Protected::new(without_address::<T>(sexp::nil()));
        EmptyHandle::<T>::with_companion(pointer.sexp(), sexp::nil());
        // Finalizers that ran meanwhile may have freed it.
        set_address(pointer.sexp(), self.0.upgrade()?);
        Some(pointer.sexp())
    }
}

/// The same for a small value, which is freed together with others.
pub fn make_small<T: Owned>() -> SEXP {
    let class = class::<T>();
    let page = Protected::new(page::<T>());
    // SAFETY: on R's main thread; `page` gives a page, which the pointer's tag keeps alive.
    unsafe {
        let pointer = Protected::new(R_MakeExternalPtr(null_mut(), page.sexp(), sexp::nil()));
        Rf_setAttrib(pointer.sexp(), R_ClassSymbol, class);
        // SAFETY: a page's address is that of its values, which live as long as it. Others of them may be in use.
        let page = R_ExternalPtrAddr(page.sexp()).cast::<Page<T>>();
        let place = (*page).taken;
        if place == PAGE {
            // Finalizers that ran meanwhile have filled it.
            return make::<T>(sexp::nil());
        }
        (*page).taken += 1;
        R_SetExternalPtrAddr(pointer.sexp(), (&raw mut (*page).values[place]).cast());
        pointer.sexp()
    }
}

/// A page with room for a value; not protected.
fn page<T: Owned>() -> SEXP {
    let current = T::page();
    // SAFETY: on R's main thread. The kept list has one element: nothing, or a page of this type.
    unsafe {
        if current.load(Ordering::Relaxed).is_null() {
            current.store(sexp::keep(sexp::vector(SEXPTYPE::VECSXP, 1)), Ordering::Relaxed);
        }
        let current = current.load(Ordering::Relaxed);
        let known = VECTOR_ELT(current, 0);
        if sexp::is_nil(known) {
            // Garbage from the start: its finalizer runs in the next collection.
            let notice = Protected::new(R_MakeExternalPtr(null_mut(), sexp::nil(), sexp::nil()));
            R_RegisterCFinalizerEx(notice.sexp(), Some(close_page::<T>), Rboolean::FALSE);
        } else if (*R_ExternalPtrAddr(known).cast::<Page<T>>()).taken < PAGE {
            return known;
        }
        let page = Protected::new(R_MakeExternalPtr(null_mut(), class::<T>(), sexp::nil()));
        R_RegisterCFinalizerEx(page.sexp(), Some(release::<Page<T>>), Rboolean::FALSE);
        set_address(page.sexp(), Rc::new(Page::<T> { taken: 0, values: [const { None }; PAGE] }));
        SET_VECTOR_ELT(current, 0, page.sexp());
        page.sexp()
    }
}

/// Called by R in a collection: releases the page that is being filled, except for the pointers on it.
unsafe extern "C" fn close_page<T: Owned>(_: SEXP) {
    SET_VECTOR_ELT(T::page().load(Ordering::Relaxed), 0, sexp::nil());
}

/// Moves the value into a new handle.
///
/// # Safety
/// The pointer is what [`make`] or [`make_small`] gave for this type, and the caller protects it.
pub unsafe fn fill<T: Owned>(pointer: SEXP, value: T) {
    // SAFETY: what the pointer points to lives as long as it, and the caller protects it.
    unsafe { *R_ExternalPtrAddr(pointer).cast::<Option<T>>() = Some(value) };
}

/// Moves the value of a handle to a null pointer. R may leave this by a long jump before it has changed anything.
///
/// # Safety
/// The caller protects both; `from` is a handle of this type, and `to` is null.
pub unsafe fn adopt<T: Owned>(to: SEXP, from: SEXP) {
    let tag = R_ExternalPtrTag(from);
    if tag == class::<T>() {
        R_RegisterCFinalizerEx(to, Some(release::<Option<T>>), Rboolean::FALSE);
    }
    R_SetExternalPtrTag(to, tag);
    R_SetExternalPtrAddr(to, R_ExternalPtrAddr(from));
    R_ClearExternalPtr(from);
}

/// The value of an external pointer if it is a handle of this type that was filled in this session.
pub fn value<'a, T: Owned>(pointer: SEXP) -> Option<&'a T> {
    let class = T::class_attribute().load(Ordering::Relaxed);
    // SAFETY: the caller gives an external pointer; a tag is looked into only when it is one, too.
    unsafe {
        // A pointer that was loaded from a file has another tag. A finalizer of R code may reach a pointer whose page
        // is freed.
        let tag = R_ExternalPtrTag(pointer);
        let is_on_page = || {
            sexp::kind(tag) == SEXPTYPE::EXTPTRSXP
                && R_ExternalPtrTag(tag) == class
                && !R_ExternalPtrAddr(tag).is_null()
        };
        if tag != class && !is_on_page() {
            return None;
        }
        // SAFETY: pointers with our tag point to a value of this type, or nowhere.
        R_ExternalPtrAddr(pointer).cast::<Option<T>>().as_ref().and_then(Option::as_ref)
    }
}

/// Values that are freed at once: a single one, or all of a page.
trait Finalized: Sized {
    fn forget_live(&self);
}

impl<T: Owned> Finalized for Option<T> {
    fn forget_live(&self) {
        T::live().fetch_sub(usize::from(self.is_some()), Ordering::Relaxed);
    }
}

impl<T: Owned> Finalized for Page<T> {
    fn forget_live(&self) {
        self.values.iter().for_each(Finalized::forget_live);
    }
}

/// Called by R once the pointer is garbage.
unsafe extern "C" fn release<C: Finalized>(pointer: SEXP) {
    let address: *mut c_void = R_ExternalPtrAddr(pointer);
    R_ClearExternalPtr(pointer);
    // R keeps the pointer itself, and its fields, until the next collection.
    R_SetExternalPtrProtected(pointer, sexp::nil());
    if address.is_null() {
        return;
    }
    // SAFETY: made by `make` or `page`.
    let content = Rc::from_raw(address.cast::<C>());
    if Rc::strong_count(&content) == 1 {
        content.forget_live();
    }
    // A panic must not reach R.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(content)));
}
