//! Handles: R external pointers that own a value of ours.
//!
//! The pointer's protected slot holds a raw vector with an allocator of ours; when R collects the vector, the value is
//! dropped. That costs a fraction of a finalizer, and the vector's memory can be a buffer's own, so that R's
//! garbage collector knows how much there is.

use crate::conditions::{refuse, Outcome};
use crate::r#async::Promise;
use crate::sexp::{self, Allocator, Protected};
use extendr_ffi::*;
use pjrt_core::execute::ExecuteOptions;
use pjrt_core::{Buffer, Client, Device, Executable, HostMemory, Plugin, Program};
use std::ffi::{c_void, CStr};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::Arc;

/// A type that R can hold.
pub trait Owned: Sized + 'static {
    /// The handle's class in R, which is its tag, too.
    const CLASS: &'static CStr;
    /// The class attribute, made once.
    fn class_attribute() -> &'static AtomicPtr<SEXPREC>;
}

macro_rules! owned {
    ($($type:ty => $class:literal),* $(,)?) => {$(
        impl Owned for $type {
            const CLASS: &'static CStr = $class;
            fn class_attribute() -> &'static AtomicPtr<SEXPREC> {
                static ATTRIBUTE: AtomicPtr<SEXPREC> = AtomicPtr::new(std::ptr::null_mut());
                &ATTRIBUTE
            }
        }
    )*};
}

owned! {
    &'static Plugin => c"PJRTPlugin",
    Client => c"PJRTClient",
    Device => c"PJRTDevice",
    Buffer => c"PJRTBuffer",
    Program => c"PJRTProgram",
    Executable => c"PJRTLoadedExecutable",
    ExecuteOptions => c"PJRTExecuteOptions",
    Promise => c"PJRTTransfer",
}

/// What an external pointer points to.
struct Owner<T> {
    /// None between the making of the R objects and the filling of the handle.
    value: Option<T>,
    /// The memory of the raw vector, where the value uses it.
    memory: Option<Arc<HostMemory>>,
}

/// Bytes after a buffer's own that R may use: it rounds up to whole doubles, and never makes an empty vector.
const SLACK: usize = 16;

/// Bytes before the data of a vector with an allocator: the allocator and R's header.
static HEADROOM: AtomicUsize = AtomicUsize::new(0);

/// A handle that is made, but owns nothing yet: R has allocated all it needs, so filling it cannot fail.
pub struct Empty<T: Owned> {
    pointer: SEXP,
    owner: *mut Owner<T>,
}

impl<T: Owned> Empty<T> {
    /// Makes the R objects of a handle; not protected.
    pub fn new() -> Self {
        Self::over(None)
    }

    /// The same, with the raw vector lying in `memory`.
    fn over(memory: Option<Arc<HostMemory>>) -> Self {
        let len = memory.as_ref().map_or(0, |memory| memory.len() - SLACK);
        let owner = Box::into_raw(Box::new(Owner::<T> { value: None, memory }));
        let mut allocator =
            Allocator { alloc: allocate::<T>, free: release::<T>, reserved: std::ptr::null_mut(), data: owner.cast() };
        unsafe {
            let len = len.max(1) as R_xlen_t;
            let vector = Rf_protect(sexp::Rf_allocVector3(SEXPTYPE::RAWSXP, len, &mut allocator));
            let pointer = Rf_protect(R_MakeExternalPtr(owner.cast(), tag::<T>(), vector));
            Rf_setAttrib(pointer, R_ClassSymbol, class::<T>());
            Rf_unprotect(2);
            Empty { pointer, owner }
        }
    }

    /// The R object.
    pub fn sexp(&self) -> SEXP {
        self.pointer
    }

    /// Gives the handle its value.
    pub fn fill(self, value: T) -> SEXP {
        // SAFETY: the owner lives as long as the pointer, which the caller protects.
        unsafe { (*self.owner).value = Some(value) };
        self.pointer
    }
}

impl Empty<Buffer> {
    /// A handle whose raw vector is a buffer's memory, made by [`backing`]; not protected.
    pub fn backed(memory: Arc<HostMemory>) -> Self {
        Self::over(Some(memory))
    }
}

/// Memory for a buffer of `bytes` that a handle can put R's header into.
///
/// # Errors
/// The code of `RESOURCE_EXHAUSTED` when there is no memory.
pub fn backing(bytes: usize) -> pjrt_core::Result<Arc<HostMemory>> {
    HostMemory::new(bytes.saturating_add(SLACK), HEADROOM.load(Ordering::Relaxed))
}

/// A handle for `value`; not protected.
pub fn wrap<T: Owned>(value: T) -> SEXP {
    // The value must not be owned by a frame that R may jump over.
    let value = std::mem::ManuallyDrop::new(value);
    let empty = Empty::<T>::new();
    empty.fill(std::mem::ManuallyDrop::into_inner(value))
}

/// The value of a handle.
///
/// # Errors
/// `InvalidPointer` when `x` is no handle of this type, or one that was saved and loaded.
pub fn get<'a, T: Owned>(x: SEXP, argument: &str) -> Outcome<&'a T> {
    if sexp::kind(x) != SEXPTYPE::EXTPTRSXP || unsafe { R_ExternalPtrTag(x) } != tag::<T>() {
        refuse!(InvalidPointer, "`{argument}` must be a `{}`.", T::CLASS.to_string_lossy());
    }
    // SAFETY: pointers with our tag point to an owner, or nowhere once they were serialized.
    let owner = unsafe { R_ExternalPtrAddr(x).cast::<Owner<T>>().as_ref() };
    match owner.and_then(|owner| owner.value.as_ref()) {
        Some(value) => Ok(value),
        None => refuse!(
            InvalidPointer,
            "`{argument}` is a null pointer: a `{}` does not survive saving and loading, create it anew.",
            T::CLASS.to_string_lossy()
        ),
    }
}

/// Moves the memory of a donated buffer's handle to the handle of the output that took it over, so that R keeps it alive
/// and counts it there.
pub fn move_memory(donated: SEXP, output: SEXP) {
    unsafe {
        let (from, to) = (R_ExternalPtrAddr(donated), R_ExternalPtrAddr(output));
        let (from, to) = (from.cast::<Owner<Buffer>>(), to.cast::<Owner<Buffer>>());
        if from.is_null() || to.is_null() || from == to || (*from).memory.is_none() {
            return;
        }
        let (vector, spare) = (R_ExternalPtrProtected(donated), R_ExternalPtrProtected(output));
        Rf_protect(vector);
        Rf_protect(spare);
        std::mem::swap(&mut (*from).value, &mut (*to).value);
        R_SetExternalPtrAddr(output, from.cast());
        R_SetExternalPtrProtected(output, vector);
        R_SetExternalPtrAddr(donated, to.cast());
        R_SetExternalPtrProtected(donated, spare);
        Rf_unprotect(2);
    }
}

fn tag<T: Owned>() -> SEXP {
    unsafe { Rf_install(T::CLASS.as_ptr()) }
}

fn class<T: Owned>() -> SEXP {
    let made = T::class_attribute().load(Ordering::Relaxed);
    if !made.is_null() {
        return made;
    }
    let attribute = Protected::new(sexp::new_string(&T::CLASS.to_string_lossy()));
    T::class_attribute().store(sexp::keep(attribute.sexp()), Ordering::Relaxed);
    attribute.sexp()
}

unsafe extern "C" fn allocate<T>(allocator: *mut Allocator, size: usize) -> *mut c_void {
    let owner = (*allocator).data.cast::<Owner<T>>();
    match &(*owner).memory {
        None => malloc(size),
        Some(memory) => {
            let headroom = HEADROOM.load(Ordering::Relaxed);
            debug_assert!(size <= headroom + memory.len());
            memory.data().sub(headroom).cast()
        }
    }
}

/// Called by R's garbage collector: must not call R.
unsafe extern "C" fn release<T>(allocator: *mut Allocator, start: *mut c_void) {
    // The allocator lies in the memory that is freed here.
    let owner = Box::from_raw((*allocator).data.cast::<Owner<T>>());
    if owner.memory.is_none() {
        free(start);
    }
    // A panic must not reach R.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(owner)));
}

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(start: *mut c_void);
}

/// Finds out how many bytes R puts before the data of a vector with an allocator. Once, when the package is loaded.
pub fn measure_headroom() {
    unsafe extern "C" fn alloc(allocator: *mut Allocator, size: usize) -> *mut c_void {
        let start = malloc(size);
        *(*allocator).data.cast::<*mut c_void>() = start;
        start
    }
    unsafe extern "C" fn release(_: *mut Allocator, start: *mut c_void) {
        free(start);
    }
    let mut start: *mut c_void = std::ptr::null_mut();
    let data: *mut *mut c_void = &mut start;
    let mut allocator = Allocator { alloc, free: release, reserved: std::ptr::null_mut(), data: data.cast() };
    unsafe {
        let vector = sexp::Rf_allocVector3(SEXPTYPE::RAWSXP, 1, &mut allocator);
        HEADROOM.store(RAW(vector) as usize - start as usize, Ordering::Relaxed);
    }
}
