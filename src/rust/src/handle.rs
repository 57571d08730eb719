//! Handles: R external pointers that own a value of ours, which is dropped once R has no use for the pointer. The pointer's
//! protected slot holds what R counts for the value: see `memory::weight`.

#[cfg_attr(r_before_4_5, path = "handle/allocated.rs")]
#[cfg_attr(not(r_before_4_5), path = "handle/finalized.rs")]
mod owner;

use crate::conditions::{Failure, Result};
use crate::describe::describe;
use crate::memory;
use crate::r#async::Promise;
use crate::safetensors::Open;
use crate::sexp::{self, Protected};
use extendr_api::Robj;
use extendr_ffi::*;
use pjrt_base::{error::Error, error::Kind};
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::{Buffer, Client, Compiling, Device, Executable, Memory, Plugin};
use pjrt_program::program::Program;
use std::cell::RefCell;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::thread::LocalKey;

/// A type that R can hold.
pub trait Owned: Sized + 'static {
    /// The handle's class in R.
    const CLASS: &'static CStr;
    /// The class attribute, made once.
    fn class_attribute() -> &'static AtomicPtr<SEXPREC>;
    /// How many of them R holds.
    fn live() -> &'static AtomicUsize;
    /// Where values that are freed together are kept: see `finalized.rs`.
    #[cfg(not(r_before_4_5))]
    fn page() -> &'static AtomicPtr<SEXPREC>;

    /// Called before a new handle is made; R may leave it by a long jump.
    fn announce() {}
}

macro_rules! owned {
    ($($type:ty => $class:literal $({ $($methods:item)* })?),* $(,)?) => {
    $(
        impl Owned for $type {
            $($($methods)*)?
            const CLASS: &'static CStr = $class;
            fn class_attribute() -> &'static AtomicPtr<SEXPREC> {
                static ATTRIBUTE: AtomicPtr<SEXPREC> = AtomicPtr::new(std::ptr::null_mut());
                &ATTRIBUTE
            }
            fn live() -> &'static AtomicUsize {
                static LIVE: AtomicUsize = AtomicUsize::new(0);
                &LIVE
            }
            #[cfg(not(r_before_4_5))]
            fn page() -> &'static AtomicPtr<SEXPREC> {
                static PAGE: AtomicPtr<SEXPREC> = AtomicPtr::new(std::ptr::null_mut());
                &PAGE
            }
        }
    )*

    /// For each type the class and how many of them R holds.
    pub fn live() -> Vec<(&'static CStr, usize)> {
        vec![$(($class, <$type>::live().load(Ordering::Relaxed))),*]
    }
    };
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
    Open => c"PJRTSafetensors",
}

/// As many bytes as a buffer takes in any case, beside its content.
const SMALL: usize = 1 << 10;

/// A handle that is made, but owns nothing yet: R has allocated all it needs, so filling it cannot fail. Whoever fills it has
/// protected it since it was made.
pub struct Empty<T: Owned> {
    pointer: SEXP,
    owned: PhantomData<T>,
}

impl<T: Owned> Empty<T> {
    /// Makes the R object of a handle; not protected. R may leave this by a long jump.
    pub fn new() -> Self {
        Self::over(sexp::nil())
    }

    /// The same for a value that takes so many bytes of memory. Small ones may be freed together with others, later.
    pub fn sized(bytes: usize) -> Self {
        if bytes > SMALL {
            return Self::new();
        }
        T::announce();
        Self::made(owner::make_small::<T>())
    }

    /// The same, with an R object in the pointer's protected slot; the caller protects that.
    pub fn over(object: SEXP) -> Self {
        T::announce();
        Self::made(owner::make::<T>(object))
    }

    /// The empty handle that this R object is.
    ///
    /// # Safety
    /// The object is [`Empty::sexp`] of a handle for this type, which was not filled.
    pub unsafe fn again(pointer: SEXP) -> Self {
        Self::made(pointer)
    }

    fn made(pointer: SEXP) -> Self {
        Empty { pointer, owned: PhantomData }
    }

    /// The R object.
    pub fn sexp(&self) -> SEXP {
        self.pointer
    }

    /// Gives the handle its value.
    ///
    /// # Safety
    /// R's garbage collector was kept from the handle, by [`Protected`] or by a list that holds it, since it was made.
    pub unsafe fn fill(self, value: T) -> SEXP {
        // SAFETY: the handle is one of this type, and alive.
        unsafe { owner::fill(self.pointer, value) };
        T::live().fetch_add(1, Ordering::Relaxed);
        self.pointer
    }
}

/// A handle for `value`; not protected.
pub fn wrap<T: Owned>(value: T) -> SEXP {
    wrap_weighing(value, 0)
}

/// The same for a value that takes so many bytes of host memory.
pub fn wrap_weighing<T: Owned>(value: T, bytes: usize) -> SEXP {
    // The value must not be owned by a frame that R may jump over.
    let value = ManuallyDrop::new(value);
    let weight = Protected::new(memory::weight(bytes));
    let empty = Empty::<T>::over(weight.sexp());
    // SAFETY: nothing was allocated since it was made.
    unsafe { empty.fill(ManuallyDrop::into_inner(value)) }
}

/// The same, for functions with typed arguments.
pub fn object<T: Owned>(value: T) -> Robj {
    sexp::robj(wrap(value))
}

/// The value of a handle.
///
/// # Errors
/// `InvalidPointer` when `x` is no handle of this type, or one that was saved and loaded.
pub fn get<'a, T: Owned>(x: SEXP, argument: &str) -> Result<&'a T> {
    if sexp::kind(x) == SEXPTYPE::EXTPTRSXP {
        if let Some(value) = owner::value(x) {
            return Ok(value);
        }
    }
    Err(no_handle::<T>(x, &format!("`{argument}`")))
}

/// Lists of handles that R keeps until their client is closed, by its id.
pub type Kept = RefCell<Vec<(u64, SEXP)>>;

/// A client's list, so that its members are always the same R objects: made by the first call, of this length, and filled.
/// That of a closed client is made anew by every call. Not protected.
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
        if !client.is_closed() {
            sexp::keep(list.sexp());
            lists.with_borrow_mut(|lists| lists.push((client.id(), list.sexp())));
        }
        list.sexp()
    })
}

thread_local! {
    static FORGOTTEN: RefCell<Vec<SEXP>> = const { RefCell::new(Vec::new()) };
}

/// Lets go of a client's list. Its members stay until [`release_forgotten`]: a finalizer may have closed the client in the
/// middle of a call that uses them.
pub fn forget(lists: &'static LocalKey<Kept>, client: &Client) {
    lists.with_borrow_mut(|lists| {
        let place = lists.iter().position(|(id, _)| *id == client.id());
        let list = place.map(|place| lists.swap_remove(place).1);
        FORGOTTEN.with_borrow_mut(|forgotten| forgotten.extend(list));
    });
}

/// To be called where nothing of a closed client can be in use.
pub fn release_forgotten() {
    let forgotten = FORGOTTEN.take();
    forgotten.into_iter().for_each(sexp::release);
}

/// Whether `x` has the class of this type's handles and no other, so that no method for another class is passed over.
pub fn is_plain<T: Owned>(x: SEXP) -> bool {
    let class = T::class_attribute().load(Ordering::Relaxed);
    sexp::kind(x) == SEXPTYPE::EXTPTRSXP && !class.is_null() && sexp::class(x) == class
}

/// What is wrong with an argument that is no handle of this type.
#[cold]
pub fn no_handle<T: Owned>(x: SEXP, argument: &str) -> Failure {
    let class = T::CLASS.to_string_lossy();
    // SAFETY: asked of external pointers only.
    let is_null = || unsafe { R_ExternalPtrAddr(x) }.is_null();
    let message = if sexp::kind(x) != SEXPTYPE::EXTPTRSXP || !sexp::inherits(x, T::CLASS) {
        format!("{argument} must be a `{class}`, not {}.", describe(x))
    } else if is_null() {
        format!("{argument} is a null pointer: a `{class}` does not survive saving and loading, create it anew.")
    } else {
        format!("{argument} must be a `{class}`: this pointer has the class, but this package did not make it.")
    };
    Failure(Error::new(Kind::InvalidPointer, message))
}

/// Moves the weight in one handle's protected slot to another's: that of a donated buffer to the output that lives in its
/// memory, so that R counts it there. R's own vectors, which a list holds there, are not taken over.
///
/// # Safety
/// Both are handles, which the caller protects.
pub unsafe fn move_weight(from: SEXP, to: SEXP) {
    // SAFETY: handles are external pointers.
    unsafe {
        let object = R_ExternalPtrProtected(from);
        if sexp::kind(object) == SEXPTYPE::RAWSXP {
            R_SetExternalPtrProtected(to, object);
        }
        R_SetExternalPtrProtected(from, sexp::nil());
    }
}

/// Takes what weighs a handle's memory in R off it.
pub fn drop_weight(pointer: SEXP) {
    // SAFETY: a handle, so an external pointer.
    unsafe { R_SetExternalPtrProtected(pointer, sexp::nil()) };
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
