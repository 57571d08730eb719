//! The structs of Arrow's C data interface, and ownership of them.

use pjrt_base::error::Result;
use std::ffi::{c_char, c_void};
use std::ptr;

/// The type of an array.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowSchema {
    pub format: *const c_char,
    pub name: *const c_char,
    pub metadata: *const c_char,
    pub flags: i64,
    pub n_children: i64,
    pub children: *mut *mut ArrowSchema,
    pub dictionary: *mut ArrowSchema,
    pub release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub private_data: *mut c_void,
}

/// The data of an array.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArray {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut ArrowArray,
    pub dictionary: *mut ArrowArray,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub private_data: *mut c_void,
}

/// An array with its type. Its producer is told when it is dropped.
#[derive(Debug)]
pub struct Pair {
    pub(super) array: ArrowArray,
    pub(super) schema: ArrowSchema,
}

// SAFETY: the interface lets any thread use and release an array; who needs more drops it where it may.
unsafe impl Send for Pair {}
// SAFETY: as above; nobody writes to it.
unsafe impl Sync for Pair {}

impl Pair {
    /// Takes an array and its type over from whoever owns them; they are marked there as moved.
    ///
    /// # Errors
    /// `InvalidInput` for null addresses, and for structs that were released or moved before.
    ///
    /// # Safety
    /// Both point to such structs, or are null.
    pub unsafe fn take(array: *mut ArrowArray, schema: *mut ArrowSchema) -> Result<Pair> {
        if array.is_null() || schema.is_null() {
            bail!(InvalidInput, "The address of an Arrow array or schema is null.");
        }
        if (*array).release.is_none() || (*schema).release.is_none() {
            bail!(InvalidInput, "The Arrow array or its schema was released, or moved to another owner, before.");
        }
        let pair = Pair { array: ptr::read(array), schema: ptr::read(schema) };
        (*array).release = None;
        (*schema).release = None;
        Ok(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(release) = self.array.release {
            // SAFETY: it is ours, and released once.
            unsafe { release(&mut self.array) };
        }
        if let Some(release) = self.schema.release {
            // SAFETY: as above.
            unsafe { release(&mut self.schema) };
        }
    }
}
