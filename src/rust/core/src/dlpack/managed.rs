//! Arrays with the function that releases them: arrays that we export, and arrays of other libraries.

use crate::client;
use pjrt_base::error::Result;
use pjrt_base::process;
use pjrt_base::sync::Unpoisoned;
use pjrt_data::dlpack::{self as c, Lent};
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

/// An array in one of DLPack's two structs, owned. When dropped, it is released: at once if it is ours, otherwise by the
/// next [`release_pending`].
#[derive(Debug)]
pub struct Managed {
    raw: Raw,
    generation: u32,
}

/// What is used of either struct.
#[derive(Debug, Clone, Copy)]
struct Raw {
    address: NonNull<c_void>,
    tensor: NonNull<c::Tensor>,
    /// The array's own function, which takes the address.
    deleter: Option<*const ()>,
    /// `None` for the struct without a version.
    flags: Option<u64>,
}

// SAFETY: DLPack's arrays may be released from any thread.
unsafe impl Send for Managed {}
// SAFETY: only read until then.
unsafe impl Sync for Managed {}

/// Arrays of other libraries that nobody uses any more.
static UNUSED: Mutex<Vec<Managed>> = Mutex::new(Vec::new());
static ANY_UNUSED: AtomicBool = AtomicBool::new(false);

/// Releases the arrays of other libraries that are not used any more. Call it often, on a thread that may run code of these
/// libraries, and holds no lock that they may wait for.
#[inline]
pub fn release_pending() {
    if ANY_UNUSED.load(Ordering::Relaxed) {
        release_all();
    }
}

#[cold]
fn release_all() {
    ANY_UNUSED.store(false, Ordering::Relaxed);
    let unused = process::lock(&UNUSED).map(|mut unused| std::mem::take(&mut *unused)).unwrap_or_default();
    for managed in unused {
        if managed.generation == process::generation() {
            // SAFETY: an owned array, which nobody uses any more.
            unsafe { managed.raw.release() };
        }
        std::mem::forget(managed);
    }
}

impl Raw {
    /// # Safety
    /// The address is that of a struct of this kind, which is owned.
    unsafe fn of(address: NonNull<c_void>, is_versioned: bool) -> Raw {
        if is_versioned {
            let found = address.cast::<c::ManagedVersioned>().as_mut();
            let deleter = found.deleter.map(|function| function as *const ());
            return Raw { address, tensor: (&mut found.tensor).into(), deleter, flags: Some(found.flags) };
        }
        let found = address.cast::<c::Managed>().as_mut();
        let deleter = found.deleter.map(|function| function as *const ());
        Raw { address, tensor: (&mut found.tensor).into(), deleter, flags: None }
    }

    /// Calls the array's own function.
    ///
    /// # Safety
    /// The array is owned, and not used any more.
    unsafe fn release(self) {
        if let Some(deleter) = self.deleter {
            std::mem::transmute::<*const (), unsafe extern "C" fn(*mut c_void)>(deleter)(self.address.as_ptr());
        }
    }

    fn is_ours(self) -> bool {
        let ours = [delete::<c::Managed> as *const (), delete::<c::ManagedVersioned> as *const ()];
        self.deleter.is_some_and(|deleter| ours.contains(&deleter))
    }
}

impl Managed {
    /// Takes over the array at this address.
    ///
    /// # Errors
    /// `InvalidInput` for a null pointer, and for a version of DLPack that is not known; the array is then released.
    ///
    /// # Safety
    /// The address is null or that of a struct of this kind, which the caller owns.
    pub unsafe fn from_raw(address: *mut c_void, is_versioned: bool) -> Result<Managed> {
        let Some(address) = NonNull::new(address) else {
            bail!(InvalidInput, "A null pointer is not a DLPack array.");
        };
        let managed = Managed { raw: Raw::of(address, is_versioned), generation: process::generation() };
        if is_versioned {
            let c::Version { major, minor } = address.cast::<c::ManagedVersioned>().as_ref().version;
            if major != c::VERSION.0 {
                let expected = c::VERSION.0;
                bail!(
                    InvalidInput,
                    "The array has version {major}.{minor} of DLPack; this package knows {expected}.x."
                );
            }
        }
        Ok(managed)
    }

    /// The address of the struct, for another library to take over.
    pub fn into_raw(self) -> *mut c_void {
        let address = self.address();
        std::mem::forget(self);
        address
    }

    pub fn address(&self) -> *mut c_void {
        self.raw.address.as_ptr()
    }

    pub fn is_versioned(&self) -> bool {
        self.raw.flags.is_some()
    }

    /// Whether nobody may write to it. The struct without version does not say.
    pub fn is_read_only(&self) -> bool {
        self.raw.flags.is_some_and(|flags| flags & c::READ_ONLY != 0)
    }

    /// The array, after checks.
    ///
    /// # Errors
    /// As [`Lent::read`].
    pub fn array(&self) -> Result<Lent> {
        // SAFETY: an owned array, whose struct is as DLPack says.
        unsafe { Lent::read(self.raw.tensor.as_ref()) }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // In the child of a fork, other libraries may not work; at the end of the process, they may be gone.
        if self.generation != process::generation() || client::has_ended() {
            return;
        }
        if self.raw.is_ours() {
            // SAFETY: owned, and not used any more.
            return unsafe { self.raw.release() };
        }
        UNUSED.lock().unpoisoned().push(Managed { raw: self.raw, generation: self.generation });
        ANY_UNUSED.store(true, Ordering::Release);
    }
}

/// An array of ours: the struct, which comes first, its numbers, and the owner of the memory.
#[repr(C)]
struct Ours<M> {
    managed: M,
    _numbers: [Vec<i64>; 2],
    _owner: Box<dyn Send>,
}

/// Puts an array into one of the two structs.
///
/// `owner` keeps the memory at `tensor.data`, and is dropped when the consumer is done, on any thread. The tensor's shape and
/// strides are set from the numbers.
pub(super) fn managed(
    mut tensor: c::Tensor,
    mut numbers: [Vec<i64>; 2],
    flags: u64,
    is_versioned: bool,
    owner: Box<dyn Send>,
) -> Managed {
    fn leaked<M>(managed: M, numbers: [Vec<i64>; 2], owner: Box<dyn Send>) -> NonNull<c_void> {
        NonNull::from(Box::leak(Box::new(Ours { managed, _numbers: numbers, _owner: owner }))).cast()
    }
    [tensor.shape, tensor.strides] = numbers.each_mut().map(|numbers| numbers.as_mut_ptr());
    let context = std::ptr::null_mut();
    let address = if is_versioned {
        let version = c::Version { major: c::VERSION.0, minor: c::VERSION.1 };
        let managed = c::ManagedVersioned { version, context, deleter: Some(delete), flags, tensor };
        leaked(managed, numbers, owner)
    } else {
        leaked(c::Managed { tensor, context, deleter: Some(delete) }, numbers, owner)
    };
    // SAFETY: just made, and nobody else has it.
    Managed { raw: unsafe { Raw::of(address, is_versioned) }, generation: process::generation() }
}

unsafe extern "C" fn delete<M>(managed: *mut M) {
    let ours = Box::from_raw(managed.cast::<Ours<M>>());
    // A panic must not reach the other library.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(ours)));
}
