//! The functions of the driver and of cuSOLVER. The libraries are loaded when a handler needs them first, and stay.

use crate::frame::{Failure, Outcome};
use libloading::Library;
use once_cell::sync::OnceCell;
use pjrt_base::error::{Error, Kind, RESOURCE_EXHAUSTED};
use pjrt_plugins::cuda;
use std::ffi::{c_char, c_int, c_uchar, c_void, CStr};
use std::ptr::null;

/// Memory on the device, a stream, a context, or cuSOLVER's handle.
pub(super) type Pointer = *mut c_void;

/// Functions that return a status, by the end of their name.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($field:ident = $name:literal ($($argument:ty),*);)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $table {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl $table {
            /// # Safety
            /// The library's functions of these names must have these types.
            unsafe fn load(library: &Library, prefix: &str) -> Result<$table, libloading::Error> {
                Ok($table {
                    $($field: *library.get(format!(concat!("{}", $name, "\0"), prefix).as_bytes())?,)*
                })
            }
        }
    };
}

functions! {
    /// The driver's functions.
    Driver {
        stream_context = "StreamGetCtx" (Pointer, *mut Pointer);
        push_context = "CtxPushCurrent_v2" (Pointer);
        pop_context = "CtxPopCurrent_v2" (*mut Pointer);
        synchronize = "StreamSynchronize" (Pointer);
        // Addresses on the device are 64-bit integers, as wide as pointers on all systems with CUDA.
        copy = "MemcpyDtoDAsync_v2" (Pointer, Pointer, usize, Pointer);
        read = "MemcpyDtoHAsync_v2" (*mut u8, Pointer, usize, Pointer);
        write = "MemcpyHtoDAsync_v2" (Pointer, *const u8, usize, Pointer);
        fill = "MemsetD8Async" (Pointer, c_uchar, usize, Pointer);
        error_name = "GetErrorName" (c_int, *mut *const c_char);
    }
}

functions! {
    /// cuSOLVER's functions for all types.
    Common {
        create = "Create" (*mut Pointer);
        destroy = "Destroy" (Pointer);
        set_stream = "SetStream" (Pointer, Pointer);
    }
}

functions! {
    /// cuSOLVER's functions for one type of elements. Sizes of workspaces are numbers of elements.
    Routines {
        geqrf_size = "geqrf_bufferSize" (Pointer, c_int, c_int, Pointer, c_int, *mut c_int);
        geqrf = "geqrf" (Pointer, c_int, c_int, Pointer, c_int, Pointer, Pointer, c_int, Pointer);
        orgqr_size = "orgqr_bufferSize" (Pointer, c_int, c_int, c_int, Pointer, c_int, Pointer, *mut c_int);
        orgqr = "orgqr" (Pointer, c_int, c_int, c_int, Pointer, c_int, Pointer, Pointer, c_int, Pointer);
        getrf_size = "getrf_bufferSize" (Pointer, c_int, c_int, Pointer, c_int, *mut c_int);
        getrf = "getrf" (Pointer, c_int, c_int, Pointer, c_int, Pointer, Pointer, Pointer);
        gesvd_size = "gesvd_bufferSize" (Pointer, c_int, c_int, *mut c_int);
        gesvd = "gesvd" (
            Pointer, i8, i8, c_int, c_int, Pointer, c_int, Pointer, Pointer, c_int, Pointer, c_int, Pointer, c_int, Pointer,
            Pointer
        );
        syevd_size = "syevd_bufferSize" (Pointer, c_int, c_int, c_int, Pointer, c_int, Pointer, *mut c_int);
        syevd = "syevd" (Pointer, c_int, c_int, c_int, Pointer, c_int, Pointer, Pointer, c_int, Pointer);
    }
}

/// cuSOLVER.
#[derive(Debug)]
pub(super) struct Solver {
    pub common: Common,
    pub single: Routines,
    pub double: Routines,
}

/// The driver; the first call loads it.
pub(super) fn driver() -> Outcome<&'static Driver> {
    static DRIVER: OnceCell<Driver> = OnceCell::new();
    // SAFETY: the types are as in NVIDIA's header.
    loaded(&DRIVER, cuda::driver_library, |library| unsafe { Driver::load(library, "cu") })
}

/// cuSOLVER; the first call loads it.
pub(super) fn solver() -> Outcome<&'static Solver> {
    static SOLVER: OnceCell<Solver> = OnceCell::new();
    // SAFETY: as above.
    loaded(&SOLVER, cuda::solver_library, |library| unsafe {
        Ok(Solver {
            common: Common::load(library, "cusolverDn")?,
            single: Routines::load(library, "cusolverDnS")?,
            double: Routines::load(library, "cusolverDnD")?,
        })
    })
}

/// The functions in `place`, which the first call loads from a library that stays.
fn loaded<T>(
    place: &'static OnceCell<T>,
    open: fn() -> Result<Library, Error>,
    load: fn(&Library) -> Result<T, libloading::Error>,
) -> Outcome<&'static T> {
    let init = || {
        let library = open()?;
        let lacking = |error| Error::new(Kind::LibraryMissing, format!("A library of CUDA is not usable: {error}."));
        let functions = load(&library).map_err(lacking)?;
        std::mem::forget(library);
        Ok(functions)
    };
    place.get_or_try_init(init).map_err(|error| Failure::of_library(&error))
}

impl Driver {
    /// A failure with the names of the function and of its status, unless this is success.
    pub fn check(&self, function: &str, status: c_int) -> Outcome {
        if status == 0 {
            return Ok(());
        }
        let mut name = null();
        // SAFETY: the place for the name is valid; names are constants of the library.
        let name = unsafe {
            let known = (self.error_name)(status, &mut name) == 0 && !name.is_null();
            known.then(|| CStr::from_ptr(name).to_string_lossy())
        };
        const OUT_OF_MEMORY: c_int = 2;
        let name = name.unwrap_or_else(|| status.to_string().into());
        Err(failed(function, &name, status == OUT_OF_MEMORY))
    }
}

/// The same for cuSOLVER.
pub(super) fn check(function: &str, status: c_int) -> Outcome {
    const NAMES: &str =
        "SUCCESS NOT_INITIALIZED ALLOC_FAILED INVALID_VALUE ARCH_MISMATCH MAPPING_ERROR EXECUTION_FAILED \
         INTERNAL_ERROR MATRIX_TYPE_NOT_SUPPORTED NOT_SUPPORTED ZERO_PIVOT INVALID_LICENSE";
    const ALLOC_FAILED: c_int = 2;
    if status == 0 {
        return Ok(());
    }
    let name = usize::try_from(status).ok().and_then(|status| NAMES.split(' ').nth(status));
    let name = name.map_or_else(|| status.to_string(), |name| format!("CUSOLVER_STATUS_{name}"));
    Err(failed(function, &name, status == ALLOC_FAILED))
}

#[cold]
fn failed(function: &str, status: &str, is_about_memory: bool) -> Failure {
    let failure = Failure::internal(format!("{function} failed: {status}."));
    Failure { code: if is_about_memory { RESOURCE_EXHAUSTED } else { failure.code }, ..failure }
}
