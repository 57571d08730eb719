//! Handles: R external pointers that own a Rust value, which is dropped when R collects the pointer. The pointer's
//! protected slot holds the memory that R counts for the value: see [`weight`]. For types that R's serialize() writes with
//! their content, a vector in this slot holds it: see `sent.rs`.

#[cfg_attr(r_before_4_5, path = "handle/allocated.rs")]
#[cfg_attr(not(r_before_4_5), path = "handle/finalized.rs")]
mod owner;
pub mod sent;

pub use owner::Known;

use crate::r::conditions::{Failure, Result};
use crate::r::describe::describe;
use crate::r::sexp::{self, Protected};
use extendr_api::Robj;
use extendr_ffi::*;
use pjrt_base::{error::Error, error::Kind, reason::Reason};
use pjrt_core::Client;
use std::cell::RefCell;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread::LocalKey;

/// A type that R can hold.
pub trait Owned: Sized + 'static {
    /// The handle's class in R.
    const CLASS: &'static CStr;
    /// The class of the R objects around its handles, for messages.
    const SHOWN: &'static CStr = Self::CLASS;
    /// A class that it inherits from.
    const PARENT_CLASS: Option<&'static CStr> = None;
    /// What messages call an argument of typed routines that must be one.
    const ARGUMENT: &'static str = "x";
    /// Whether R's serialize() writes a handle with its content.
    const IS_SENT: bool = false;
    /// The class attribute, made once.
    fn class_attribute() -> &'static AtomicPtr<SEXPREC>;
    /// The number of them in R.
    fn live() -> &'static AtomicUsize;
    /// The place for values that are freed together: see `finalized.rs`.
    #[cfg(not(r_before_4_5))]
    fn page() -> &'static AtomicPtr<SEXPREC>;

    /// Called before a new handle is made; R may leave it by a long jump.
    fn announce() {}
}

/// Implements [`Owned`] for a type whose handles have this class in R; with `sent`, R's serialize() writes their content.
macro_rules! owned {
    ($type:ty, $class:literal, sent $(, $($items:item)*)?) => {
        owned!($type, $class, const IS_SENT: bool = true; $($($items)*)?);
    };
    ($type:ty, $class:literal $(, $($items:item)*)?) => {
        impl $crate::r::handle::Owned for $type {
            $($($items)*)?
            const CLASS: &'static std::ffi::CStr = $class;
            fn class_attribute() -> &'static std::sync::atomic::AtomicPtr<extendr_ffi::SEXPREC> {
                static ATTRIBUTE: std::sync::atomic::AtomicPtr<extendr_ffi::SEXPREC> =
                    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
                &ATTRIBUTE
            }
            fn live() -> &'static std::sync::atomic::AtomicUsize {
                static LIVE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
                &LIVE
            }
            #[cfg(not(r_before_4_5))]
            fn page() -> &'static std::sync::atomic::AtomicPtr<extendr_ffi::SEXPREC> {
                static PAGE: std::sync::atomic::AtomicPtr<extendr_ffi::SEXPREC> =
                    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
                &PAGE
            }
        }
    };
}

/// As little as a handle's own R objects take.
const WEIGHTLESS: usize = 64;

/// The memory in bytes that any buffer takes besides its content.
const SMALL: usize = 1 << 10;

/// A handle without a value: R has allocated all memory for it, so filling it cannot fail. The caller protects it until
/// it is filled.
pub struct EmptyHandle<T: Owned> {
    pointer: SEXP,
    owned: PhantomData<T>,
}

impl<T: Owned> EmptyHandle<T> {
    /// Creates the R object of a handle; not protected. R may leave this by a long jump.
    pub fn new() -> Self {
        Self::over(sexp::nil())
    }

    /// The same for a value of this size in bytes. Small values may be freed together with others, later.
    pub fn sized(bytes: usize) -> Self {
        if bytes > SMALL {
            return Self::new();
        }
        T::announce();
        Self::with_companion(owner::make_small::<T>(), sexp::nil())
    }

    /// The same, with an R object that lives as long as the handle, which the caller protects.
    pub fn over(object: SEXP) -> Self {
        T::announce();
        Self::with_companion(owner::make::<T>(if T::IS_SENT { sexp::nil() } else { object }), object)
    }

    fn with_companion(pointer: SEXP, object: SEXP) -> Self {
        if T::IS_SENT {
            let pointer = Protected::new(pointer);
            sent::attach(pointer.sexp(), object);
        }
        EmptyHandle { pointer, owned: PhantomData }
    }

    /// The empty handle that this R object is.
    ///
    /// # Safety
    /// The object is [`EmptyHandle::sexp`] of a handle for this type, which was not filled.
    pub unsafe fn from_sexp(pointer: SEXP) -> Self {
        EmptyHandle { pointer, owned: PhantomData }
    }

    /// The R object.
    pub fn sexp(&self) -> SEXP {
        self.pointer
    }

    /// Moves a value into the handle, which this protects while `make` makes the value. Not protected.
    ///
    /// # Errors
    /// As `make`.
    pub fn filled<E>(self, make: impl FnOnce() -> std::result::Result<T, E>) -> std::result::Result<SEXP, E> {
        let _protected = Protected::new(self.pointer);
        let value = make()?;
        // SAFETY: protected since it was made.
        Ok(unsafe { self.fill(value) })
    }

    /// Moves the value into the handle.
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

/// What stands for `bytes` of memory that R does not see: a vector as long, in which nobody ever writes, so that it takes
/// addresses and no memory. R's garbage collector counts it, and comes as often as for vectors of its own. Nil where
/// that would be too little to matter. Not protected.
pub fn weight(bytes: usize) -> SEXP {
    if bytes <= WEIGHTLESS {
        return sexp::nil();
    }
    sexp::vector(SEXPTYPE::RAWSXP, bytes)
}

/// A handle for `value`; not protected.
pub fn wrap<T: Owned>(value: T) -> SEXP {
    wrap_weighing(value, 0)
}

/// The same for a value of this size in bytes of host memory.
pub fn wrap_weighing<T: Owned>(value: T, bytes: usize) -> SEXP {
    // The value must not be owned by a frame that R may jump over.
    let value = ManuallyDrop::new(value);
    let weight = Protected::new(weight(bytes));
    let empty = EmptyHandle::<T>::over(weight.sexp());
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
/// `InvalidPointer` if `x` is not a handle of this type, or was saved and loaded.
pub fn get<'a, T: Owned>(x: SEXP, argument: &str) -> Result<&'a T> {
    find(x).ok_or_else(|| no_handle::<T>(x, &format!("`{argument}`")))
}

/// The value of a handle, or `None` if `x` is not one of this type and session.
pub fn find<'a, T: Owned>(x: SEXP) -> Option<&'a T> {
    if sexp::kind(x) == SEXPTYPE::EXTPTRSXP {
        owner::value(x)
    } else {
        None
    }
}

/// A class of handles, and how many of them R has.
pub type Class = (&'static CStr, &'static AtomicUsize);

/// The class of a type's handles.
pub fn class_of<T: Owned>() -> Class {
    (T::CLASS, T::live())
}

static CLASSES: OnceLock<Vec<Class>> = OnceLock::new();

/// Sets the classes that [`live`] counts, when R loads the library.
pub fn set_classes(classes: Vec<Class>) {
    // The first ones stay.
    let _ = CLASSES.set(classes);
}

/// For each class of handles, how many R has.
pub fn live() -> impl Iterator<Item = (&'static CStr, usize)> {
    CLASSES.get().into_iter().flatten().map(|(class, count)| (*class, count.load(Ordering::Relaxed)))
}

/// Whether this is a null pointer, such as a handle that was saved and loaded.
pub fn is_null(x: SEXP) -> bool {
    // SAFETY: asked of external pointers only.
    sexp::kind(x) == SEXPTYPE::EXTPTRSXP && unsafe { R_ExternalPtrAddr(x) }.is_null()
}

/// Lists of handles that R keeps until their client is closed, by the client's id.
pub type ClientLists = RefCell<Vec<(u64, SEXP)>>;

/// A client's list, so that its members are always the same R objects. The first call creates it with this length and
/// fills it. Each call creates a new one for a closed client. Not protected.
pub fn kept(
    lists: &'static LocalKey<ClientLists>,
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

/// Releases a client's list. Its members stay until [`release_forgotten`]: a finalizer may have closed the client in
/// the middle of a call that uses them.
pub fn forget(lists: &'static LocalKey<ClientLists>, client: &Client) {
    lists.with_borrow_mut(|lists| {
        let place = lists.iter().position(|(id, _)| *id == client.id());
        let list = place.map(|place| lists.swap_remove(place).1);
        FORGOTTEN.with_borrow_mut(|forgotten| forgotten.extend(list));
    });
}

/// Releases those members. Call it where no object of a closed client can be in use.
pub fn release_forgotten() {
    let forgotten = FORGOTTEN.take();
    forgotten.into_iter().for_each(sexp::release);
}

/// Whether `x` has only the class of this type's handles, so that no method for another class is skipped.
pub fn is_plain<T: Owned>(x: SEXP) -> bool {
    let class = T::class_attribute().load(Ordering::Relaxed);
    sexp::kind(x) == SEXPTYPE::EXTPTRSXP && !class.is_null() && sexp::class(x) == class
}

/// The error for an argument that is not a handle of this type.
#[cold]
pub fn no_handle<T: Owned>(x: SEXP, argument: &str) -> Failure {
    not_of_class(x, argument, T::CLASS, T::SHOWN, T::IS_SENT)
}

/// What needs no type, compiled once.
fn not_of_class(x: SEXP, argument: &str, wanted: &CStr, shown: &CStr, is_sent: bool) -> Failure {
    let class = shown.to_string_lossy();
    if wanted == c"PJRTLoadedExecutable" && sexp::inherits(x, c"PJRTExecutable") {
        let message =
            format!("{argument} is not loaded: it was compiled for a topology, whose devices may be elsewhere.");
        return Failure(Error::new(Kind::InvalidInput, message).hint(Reason::ExecutableUnloaded));
    }
    let message = if !sexp::inherits(x, wanted) {
        format!("{argument} must be a `{class}`, not {}.", describe(x))
    } else if is_null(x) {
        sent::note_needed(x);
        let fate = if is_sent { "was saved without its content" } else { "does not survive saving and loading" };
        format!("{argument} is a null pointer: a `{class}` {fate}. Create it again.")
    } else {
        let what = if sexp::kind(x) == SEXPTYPE::EXTPTRSXP { "pointer" } else { "object" };
        format!("{argument} must be a `{class}`: this {what} has the class, but this package did not make it.")
    };
    let error = Error::new(Kind::InvalidPointer, message);
    Failure(if is_sent && is_null(x) { error.hint(Reason::HandleLost) } else { error })
}

/// Moves the R object that counts memory from one buffer's handle to another's: from a donated buffer to the output that lives
/// in its memory. R vectors that back a buffer, which are in a list there, stay.
///
/// # Safety
/// Both are handles of buffers, which the caller protects.
pub unsafe fn move_weight(from: SEXP, to: SEXP) {
    let object = sent::companion(from);
    if sexp::kind(object) == SEXPTYPE::RAWSXP {
        sent::set_companion(to, object);
    }
    sent::set_companion(from, sexp::nil());
}

fn class<T: Owned>() -> SEXP {
    let made = T::class_attribute().load(Ordering::Relaxed);
    if !made.is_null() {
        return made;
    }
    let classes = [Some(T::CLASS), T::PARENT_CLASS];
    let classes: Vec<_> = classes.into_iter().flatten().map(CStr::to_string_lossy).collect();
    let attribute = Protected::new(sexp::vector(SEXPTYPE::STRSXP, classes.len()));
    classes.iter().enumerate().for_each(|(i, class)| sexp::set_text(attribute.sexp(), i, class));
    T::class_attribute().store(sexp::keep(attribute.sexp()), Ordering::Relaxed);
    attribute.sexp()
}
