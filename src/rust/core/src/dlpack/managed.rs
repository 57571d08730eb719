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

#[derive(Debug, Clone, Copy)]
enum Raw {
    Unversioned(NonNull<c::Managed>),
    Versioned(NonNull<c::ManagedVersioned>),
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
    /// Calls the array's own function.
    ///
    /// # Safety
    /// The array is owned, and not used any more.
    unsafe fn release(self) {
        match self {
            Raw::Unversioned(managed) => {
                if let Some(deleter) = managed.as_ref().deleter {
                    deleter(managed.as_ptr());
                }
            }
            Raw::Versioned(managed) => {
                if let Some(deleter) = managed.as_ref().deleter {
                    deleter(managed.as_ptr());
                }
            }
        }
    }

    fn is_ours(self) -> bool {
        // SAFETY: an owned array.
        unsafe {
            match self {
                Raw::Unversioned(managed) => {
                    managed.as_ref().deleter.is_some_and(|f| f as usize == delete as *const () as usize)
                }
                Raw::Versioned(managed) => {
                    managed.as_ref().deleter.is_some_and(|f| f as usize == delete_versioned as *const () as usize)
                }
            }
        }
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
        let raw = match (NonNull::new(address), is_versioned) {
            (Some(found), true) => Raw::Versioned(found.cast()),
            (Some(found), false) => Raw::Unversioned(found.cast()),
            (None, _) => bail!(InvalidInput, "A null pointer is not a DLPack array."),
        };
        let managed = Managed { raw, generation: process::generation() };
        if let Raw::Versioned(found) = raw {
            let c::Version { major, minor } = found.as_ref().version;
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

    /// The address of the struct.
    pub fn address(&self) -> *mut c_void {
        match self.raw {
            Raw::Unversioned(managed) => managed.as_ptr().cast(),
            Raw::Versioned(managed) => managed.as_ptr().cast(),
        }
    }

    pub fn is_versioned(&self) -> bool {
        matches!(self.raw, Raw::Versioned(_))
    }

    /// Whether nobody may write to it. The struct without version does not say.
    pub fn is_read_only(&self) -> bool {
        match self.raw {
            // SAFETY: an owned array.
            Raw::Versioned(managed) => unsafe { managed.as_ref().flags & c::READ_ONLY != 0 },
            Raw::Unversioned(_) => false,
        }
    }

    /// The array, after checks.
    ///
    /// # Errors
    /// As [`Lent::read`].
    pub fn array(&self) -> Result<Lent> {
        // SAFETY: an owned array, whose struct is as DLPack says.
        unsafe {
            match self.raw {
                Raw::Unversioned(managed) => Lent::read(&managed.as_ref().tensor),
                Raw::Versioned(managed) => Lent::read(&managed.as_ref().tensor),
            }
        }
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

/// What is behind an array of ours: the struct, its numbers, and the owner of the memory.
struct Behind<M> {
    managed: M,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    _owner: Box<dyn Send>,
}

/// Puts an array into one of the two structs.
///
/// `owner` keeps the memory at `tensor.data`, and is dropped when the consumer is done, on any thread. The tensor's shape and
/// strides are set from the numbers.
pub(super) fn managed(
    tensor: c::Tensor,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    flags: u64,
    is_versioned: bool,
    owner: Box<dyn Send>,
) -> Managed {
    let context = std::ptr::null_mut();
    let raw = if is_versioned {
        let version = c::Version { major: c::VERSION.0, minor: c::VERSION.1 };
        let managed = c::ManagedVersioned { version, context, deleter: Some(delete_versioned), flags, tensor };
        let behind = NonNull::from(Box::leak(Box::new(Behind { managed, shape, strides, _owner: owner })));
        // SAFETY: just made, and nobody else has it.
        let behind = unsafe { &mut *behind.as_ptr() };
        (behind.managed.tensor.shape, behind.managed.tensor.strides) =
            (behind.shape.as_mut_ptr(), behind.strides.as_mut_ptr());
        behind.managed.context = (&raw mut *behind).cast();
        Raw::Versioned(NonNull::from(&mut behind.managed))
    } else {
        let managed = c::Managed { tensor, context, deleter: Some(delete) };
        let behind = NonNull::from(Box::leak(Box::new(Behind { managed, shape, strides, _owner: owner })));
        // SAFETY: as above.
        let behind = unsafe { &mut *behind.as_ptr() };
        (behind.managed.tensor.shape, behind.managed.tensor.strides) =
            (behind.shape.as_mut_ptr(), behind.strides.as_mut_ptr());
        behind.managed.context = (&raw mut *behind).cast();
        Raw::Unversioned(NonNull::from(&mut behind.managed))
    };
    Managed { raw, generation: process::generation() }
}

unsafe extern "C" fn delete(managed: *mut c::Managed) {
    free::<c::Managed>((*managed).context);
}

unsafe extern "C" fn delete_versioned(managed: *mut c::ManagedVersioned) {
    free::<c::ManagedVersioned>((*managed).context);
}

unsafe fn free<M>(context: *mut c_void) {
    let behind = Box::from_raw(context.cast::<Behind<M>>());
    // A panic must not reach the other library.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(behind)));
}
