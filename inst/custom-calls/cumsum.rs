//! A custom call in Rust: the running sums of a vector of f64.
//!
//! Build it without dependencies, and register it from R:
//!
//! ```sh
//! rustc --edition 2021 -O --crate-type cdylib -o cumsum.so cumsum.rs
//! ```
//! ```r
//! library <- dyn.load("cumsum.so")
//! pjrt_register_custom_call("cumsum", list(host = getNativeSymbolInfo("cumsum", library)$address))
//! ```

use std::ffi::{c_char, c_void};
use std::panic::catch_unwind;
use std::ptr::null_mut;

/// The structs of XLA's FFI, as in the header pjrt/ffi.h.
#[repr(C)]
pub struct Call {
    struct_size: usize,
    extensions: *mut c_void,
    api: *const Api,
    context: *mut c_void,
    stage: u32,
    arguments: Buffers,
    results: Buffers,
}

#[repr(C)]
pub struct Api {
    struct_size: usize,
    extensions: *mut c_void,
    version: [usize; 3],
    internal: *const c_void,
    create_error: unsafe extern "C" fn(*mut ErrorArgs) -> *mut c_void,
}

#[repr(C)]
pub struct Buffers {
    struct_size: usize,
    extensions: *mut c_void,
    size: i64,
    kinds: *const u32,
    values: *const *const Buffer,
}

#[repr(C)]
pub struct Buffer {
    struct_size: usize,
    extensions: *mut c_void,
    dtype: u32,
    data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

#[repr(C)]
pub struct ErrorArgs {
    struct_size: usize,
    extensions: *mut c_void,
    message: *const c_char,
    code: u32,
}

const F64: u32 = 12;
const INVALID_ARGUMENT: u32 = 3;
const INTERNAL: u32 = 13;

/// The handler. No panic may leave it.
///
/// # Safety
/// `call` is a call that a plugin makes.
#[no_mangle]
pub unsafe extern "C" fn cumsum(call: *mut Call) -> *mut c_void {
    let call = &*call;
    let outcome = catch_unwind(std::panic::AssertUnwindSafe(|| running_sums(call)));
    let (code, message) = match outcome {
        Ok(Ok(())) => return null_mut(),
        Ok(Err(message)) => (INVALID_ARGUMENT, message),
        Err(_) => (INTERNAL, c"cumsum: a panic"),
    };
    let mut args = ErrorArgs {
        struct_size: size_of::<ErrorArgs>(),
        extensions: null_mut(),
        message: message.as_ptr(),
        code,
    };
    ((*call.api).create_error)(&mut args)
}

unsafe fn running_sums(call: &Call) -> Result<(), &'static std::ffi::CStr> {
    let (x, y) = match (call.arguments.only(), call.results.only()) {
        (Some(x), Some(y)) => (x, y),
        _ => return Err(c"cumsum: expected 1 argument and 1 result"),
    };
    let (Some(from), Some(to)) = (x.vector(), y.vector()) else {
        return Err(c"cumsum: expected vectors of f64");
    };
    if from.1 != to.1 {
        return Err(c"cumsum: expected a result as long as the argument");
    }
    let mut sum = 0.0;
    for i in 0..from.1 {
        sum += *from.0.add(i);
        *to.0.add(i) = sum;
    }
    Ok(())
}

impl Buffers {
    unsafe fn only(&self) -> Option<&Buffer> {
        (self.size == 1 && *self.kinds == 1).then(|| &**self.values)
    }
}

impl Buffer {
    /// The elements and their number.
    unsafe fn vector(&self) -> Option<(*mut f64, usize)> {
        (self.dtype == F64 && self.rank == 1).then(|| (self.data.cast(), *self.dims as usize))
    }
}
