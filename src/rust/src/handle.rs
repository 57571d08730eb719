//! Handles: R external pointers that own a value of ours.
//!
//! The pointer's tag is a small raw vector with an allocator of ours; when R collects it, the value is dropped. That costs
//! a fraction of a finalizer. The pointer's protected slot holds what R counts for the value: see `memory::weight`.

use crate::conditions::{Failure, Outcome};
use crate::memory;
use crate::r#async::Promise;
use crate::sexp::{self, Allocator, Protected};
use extendr_api::Robj;
use extendr_ffi::*;
use pjrt_core::execute::ExecuteOptions;
use pjrt_core::{Buffer, Client, Compiling, Device, Error, Executable, Kind, Memory, Plugin, Program};
use std::cell::RefCell;
use std::ffi::{c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::thread::LocalKey;

/// A type that R can hold.
pub trait Owned: Sized + 'static {
    /// The handle's class in R.
    const CLASS: &'static CStr;
    /// The class attribute, made once.
    fn class_attribute() -> &'static AtomicPtr<SEXPREC>;

    /// Called before a new handle is made; R may leave it by a long jump.
    fn announce() {}
}

macro_rules! owned {
    ($($type:ty => $class:literal $({ $($methods:item)* })?),* $(,)?) => {$(
        impl Owned for $type {
            $($($methods)*)?
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
    Memory => c"PJRTMemory",
    Buffer => c"PJRTBuffer" {
        fn announce() {
            memory::count_buffer();
        }
    },
    Program => c"PJRTProgram",
    Executable => c"PJRTLoadedExecutable",
    ExecuteOptions => c"PJRTExecuteOptions",
    Promise => c"PJRTTransfer",
    Compiling => c"PJRTCompiling",
}

/// What an external pointer points to; `None` between the making of the R objects and the filling of the handle.
type Owner<T> = Option<T>;

/// The content of a handle's tag: a seal and, right behind it, what the pointer points to.
#[repr(C)]
struct Body<T> {
    seal: Seal,
    owner: Owner<T>,
}

/// Proof that a pointer is one of ours, of its type, and of this session.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct Seal {
    kind: *const AtomicPtr<SEXPREC>,
    owner: *const c_void,
}

impl Seal {
    fn new<T: Owned>(owner: *const c_void) -> Self {
        Seal { kind: T::class_attribute(), owner }
    }
}

/// Bytes that R puts before the data of a vector with an allocator; the same for all, known after the first.
static HEADROOM: AtomicUsize = AtomicUsize::new(0);

/// A handle that is made, but owns nothing yet: R has allocated all it needs, so filling it cannot fail.
pub struct Empty<T: Owned> {
    pointer: SEXP,
    owner: *mut Owner<T>,
}

impl<T: Owned> Empty<T> {
    /// Makes the R objects of a handle; not protected.
    pub fn new() -> Self {
        Self::over(sexp::nil())
    }

    /// The same, with an R object in the pointer's protected slot; the caller protects that.
    pub fn over(object: SEXP) -> Self {
        const { assert!(align_of::<Body<T>>() <= 8, "R aligns vectors for doubles") };
        T::announce();
        let mut start: *mut c_void = std::ptr::null_mut();
        let note_start: *mut *mut c_void = &mut start;
        let mut allocator =
            Allocator { alloc: allocate, free: release::<T>, reserved: std::ptr::null_mut(), data: note_start.cast() };
        unsafe {
            let len = size_of::<Body<T>>() as R_xlen_t;
            let tag = Rf_protect(sexp::Rf_allocVector3(SEXPTYPE::RAWSXP, len, &mut allocator));
            let body = RAW(tag).cast::<Body<T>>();
            HEADROOM.store(body as usize - start as usize, Ordering::Relaxed);
            let owner = &raw mut (*body).owner;
            body.write(Body { seal: Seal::new::<T>(owner.cast()), owner: None });
            let pointer = Rf_protect(R_MakeExternalPtr(owner.cast(), tag, object));
            Rf_setAttrib(pointer, R_ClassSymbol, class::<T>());
            Rf_unprotect(2);
            Empty { pointer, owner }
        }
    }

    /// The empty handle that this R object is.
    pub fn again(pointer: SEXP) -> Self {
        Empty { pointer, owner: unsafe { R_ExternalPtrAddr(pointer) }.cast() }
    }

    /// The R object.
    pub fn sexp(&self) -> SEXP {
        self.pointer
    }

    /// Gives the handle its value.
    pub fn fill(self, value: T) -> SEXP {
        // SAFETY: the owner lives as long as the pointer, which the caller protects.
        unsafe { *self.owner = Some(value) };
        self.pointer
    }
}

/// A handle for `value`; not protected.
pub fn wrap<T: Owned>(value: T) -> SEXP {
    // The value must not be owned by a frame that R may jump over.
    let value = std::mem::ManuallyDrop::new(value);
    let empty = Empty::<T>::new();
    empty.fill(std::mem::ManuallyDrop::into_inner(value))
}

/// The same, for functions with typed arguments.
pub fn object<T: Owned>(value: T) -> Robj {
    unsafe { Robj::from_sexp(wrap(value)) }
}

/// The value of a handle.
///
/// # Errors
/// `InvalidPointer` when `x` is no handle of this type, or one that was saved and loaded.
pub fn get<'a, T: Owned>(x: SEXP, argument: &str) -> Outcome<&'a T> {
    if sexp::kind(x) == SEXPTYPE::EXTPTRSXP {
        let address = unsafe { R_ExternalPtrAddr(x) };
        let tag = sexp::raws(unsafe { R_ExternalPtrTag(x) });
        let sealed = tag.len() == size_of::<Body<T>>()
            // SAFETY: the vector is as long as a body, which begins with the seal.
            && unsafe { tag.as_ptr().cast::<Seal>().read_unaligned() } == Seal::new::<T>(address);
        if sealed {
            // SAFETY: pointers with our seal point to an owner.
            if let Some(value) = unsafe { address.cast::<Owner<T>>().as_ref() }.and_then(Option::as_ref) {
                return Ok(value);
            }
        }
    }
    Err(no_handle::<T>(x, argument))
}

/// Lists of handles that R keeps for the session, by the id of the client that they belong to.
pub type Kept = RefCell<Vec<(u64, SEXP)>>;

/// A client's list, so that its members are always the same R objects: made by the first call, of this length, and filled.
pub fn kept(
    lists: &'static LocalKey<Kept>,
    client: &Client,
    len: impl FnOnce() -> usize,
    fill: impl FnOnce(SEXP),
) -> SEXP {
    let known = lists.with_borrow(|lists| lists.iter().find(|(id, _)| *id == client.id()).map(|(_, list)| *list));
    known.unwrap_or_else(|| {
        let list = Protected::new(sexp::vector(SEXPTYPE::VECSXP, len()));
        fill(list.sexp());
        let list = sexp::keep(list.sexp());
        lists.with_borrow_mut(|lists| lists.push((client.id(), list)));
        list
    })
}

/// Whether `x` has the class of this type's handles and no other, so that no method for another class is passed over.
pub fn is_plain<T: Owned>(x: SEXP) -> bool {
    let class = T::class_attribute().load(Ordering::Relaxed);
    sexp::kind(x) == SEXPTYPE::EXTPTRSXP && !class.is_null() && unsafe { Rf_getAttrib(x, R_ClassSymbol) } == class
}

/// What is wrong with something that is no handle of this type.
#[cold]
fn no_handle<T: Owned>(x: SEXP, argument: &str) -> Failure {
    let class = T::CLASS.to_string_lossy();
    let message = if sexp::kind(x) != SEXPTYPE::EXTPTRSXP || !sexp::inherits(x, T::CLASS) {
        format!("`{argument}` must be a `{class}`.")
    } else if unsafe { R_ExternalPtrAddr(x) }.is_null() {
        format!("`{argument}` is a null pointer: a `{class}` does not survive saving and loading, create it anew.")
    } else {
        format!("`{argument}` must be a `{class}`: this pointer has the class, but this package did not make it.")
    };
    Failure(Error::new(Kind::InvalidPointer, message))
}

/// Moves the weight in one handle's protected slot to another's: that of a donated buffer to the output that lives in its
/// memory, so that R counts it there. R's own vectors, which a list holds there, are not taken over.
pub fn move_weight(from: SEXP, to: SEXP) {
    unsafe {
        let object = R_ExternalPtrProtected(from);
        if sexp::kind(object) == SEXPTYPE::RAWSXP {
            R_SetExternalPtrProtected(to, object);
        }
        R_SetExternalPtrProtected(from, sexp::nil());
    }
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

unsafe extern "C" fn allocate(allocator: *mut Allocator, size: usize) -> *mut c_void {
    let start = malloc(size);
    *(*allocator).data.cast::<*mut c_void>() = start;
    start
}

/// Called by R's garbage collector: must not call R.
unsafe extern "C" fn release<T>(_: *mut Allocator, start: *mut c_void) {
    let body = start.add(HEADROOM.load(Ordering::Relaxed)).cast::<Body<T>>();
    let owner = (*body).owner.take();
    free(start);
    // A panic must not reach R.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(owner)));
}

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(start: *mut c_void);
}
