//! R vectors in memory from the pool: R asks for their address and length, and a finalizer returns the memory.

use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::error::Result;
use pjrt_core::host::pool::PoolBlock;
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The memory behind such a vector.
struct PooledMemory {
    block: PoolBlock,
    len: R_xlen_t,
}

/// For each kind of vector: the bytes of a value, and R's class.
static CLASSES: [(SEXPTYPE, usize, AtomicPtr<SEXPREC>); 5] = [
    (SEXPTYPE::RAWSXP, 1, AtomicPtr::new(null_mut())),
    (SEXPTYPE::LGLSXP, 4, AtomicPtr::new(null_mut())),
    (SEXPTYPE::INTSXP, 4, AtomicPtr::new(null_mut())),
    (SEXPTYPE::REALSXP, 8, AtomicPtr::new(null_mut())),
    (SEXPTYPE::CPLXSXP, 16, AtomicPtr::new(null_mut())),
];

/// Registers the classes with R when it loads the library.
///
/// # Safety
/// `library` is the `DllInfo` that R passes to `R_init_pjrt`.
pub unsafe fn register(library: *mut DllInfo) {
    let name = c"pooled".as_ptr();
    let package = c"pjrt".as_ptr();
    for (kind, _, place) in &CLASSES {
        let class = match *kind {
            SEXPTYPE::RAWSXP => R_make_altraw_class(name, package, library),
            SEXPTYPE::LGLSXP => R_make_altlogical_class(name, package, library),
            SEXPTYPE::INTSXP => R_make_altinteger_class(name, package, library),
            SEXPTYPE::REALSXP => R_make_altreal_class(name, package, library),
            _ => R_make_altcomplex_class(name, package, library),
        };
        match *kind {
            SEXPTYPE::RAWSXP => R_set_altraw_Elt_method(class, Some(element)),
            SEXPTYPE::LGLSXP => R_set_altlogical_Elt_method(class, Some(element)),
            SEXPTYPE::INTSXP => R_set_altinteger_Elt_method(class, Some(element)),
            SEXPTYPE::REALSXP => R_set_altreal_Elt_method(class, Some(element)),
            _ => R_set_altcomplex_Elt_method(class, Some(element)),
        }
        R_set_altrep_Length_method(class, Some(length));
        R_set_altvec_Dataptr_method(class, Some(address));
        R_set_altvec_Dataptr_or_null_method(class, Some(read_only_address));
        place.store(class.ptr, Ordering::Relaxed);
    }
}

/// A vector without memory: R has allocated everything else, so filling it cannot fail.
pub struct Pooled {
    vector: SEXP,
    /// Bytes of a value.
    width: usize,
}

impl Pooled {
    /// A vector of length 0, of a numeric type; not protected. R may leave this by a long jump.
    pub fn new(kind: SEXPTYPE) -> Self {
        let known = CLASSES.iter().find(|(of, ..)| *of == kind);
        let (width, class) = known.map_or((1, null_mut()), |(_, width, class)| (*width, class.load(Ordering::Relaxed)));
        // SAFETY: on R's main thread, after `register`. The address that `release` takes is null until `fill`.
        unsafe {
            let owner = Protected::new(R_MakeExternalPtr(null_mut(), sexp::nil(), sexp::nil()));
            R_RegisterCFinalizerEx(owner.sexp(), Some(release), Rboolean::FALSE);
            let vector = R_new_altrep(R_altrep_class_t { ptr: class }, owner.sexp(), sexp::nil());
            Pooled { vector, width }
        }
    }

    /// The R object.
    pub fn sexp(&self) -> SEXP {
        self.vector
    }

    /// Gives the vector its memory, where there is room for `len` values. Somebody has yet to write all of them.
    ///
    /// # Errors
    /// `Internal` when the memory has less room.
    ///
    /// # Safety
    /// The vector has been protected since it was made, and is not filled twice.
    pub unsafe fn fill(self, block: PoolBlock, len: usize) -> Result<SEXP> {
        if len.checked_mul(self.width).is_none_or(|bytes| bytes > block.size()) {
            bail!(Internal, "{} bytes cannot hold {len} values of {} bytes.", block.size(), self.width);
        }
        let content = Box::new(PooledMemory { block, len: len as R_xlen_t });
        // SAFETY: the caller protects the vector, whose owner's finalizer takes the content back.
        unsafe { R_SetExternalPtrAddr(R_altrep_data1(self.vector), Box::into_raw(content).cast()) };
        Ok(self.vector)
    }
}

/// # Safety
/// `x` is a vector of these classes, and the content is used while it is alive.
unsafe fn content<'a>(x: SEXP) -> Option<&'a PooledMemory> {
    R_ExternalPtrAddr(R_altrep_data1(x)).cast::<PooledMemory>().as_ref()
}

// R calls these: they must not unwind.

unsafe extern "C" fn length(x: SEXP) -> R_xlen_t {
    content(x).map_or(0, |content| content.len)
}

unsafe extern "C" fn address(x: SEXP, _writable: Rboolean) -> *mut c_void {
    content(x).map_or(null_mut(), |content| content.block.data().as_ptr().cast())
}

unsafe extern "C" fn read_only_address(x: SEXP) -> *const c_void {
    address(x, Rboolean::FALSE)
}

unsafe extern "C" fn element<T: Copy>(x: SEXP, index: R_xlen_t) -> T {
    *address(x, Rboolean::FALSE).cast::<T>().offset(index)
}

/// Called by R once the vector is garbage.
unsafe extern "C" fn release(owner: SEXP) {
    let content = R_ExternalPtrAddr(owner).cast::<PooledMemory>();
    R_ClearExternalPtr(owner);
    if !content.is_null() {
        // SAFETY: made by `fill`. A panic must not reach R.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(content))));
    }
}
