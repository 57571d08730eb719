//! The C interface: routines that other packages call from C or C++, declared in inst/include/pjrt/api.h.
//!
//! They never raise an R error. A failure is kept for `pjrt_c_last_error()`, and the routine returns a sentinel.

use crate::arrays::buffer;
use crate::clients::device;
use crate::execution::execute;
use crate::r::conditions::{Failure, Result};
use crate::r::entry::entry;
use crate::r::handle::{self, sent, Owned};
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::error::{Error, Kind};
use pjrt_core::{Buffer, Client, Device, Executable};
use pjrt_data::dtype::{self, DType};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::thread::ThreadId;

/// The version of this interface. It grows when a routine is added, and changes its hundreds when one changes.
const VERSION: c_int = 200;

static MAIN_THREAD: OnceLock<ThreadId> = OnceLock::new();

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
    /// The names of the data types, ended by zero bytes.
    static NAMES: Vec<CString> = dtype::ALL.iter().map(|dtype| without_zeros(dtype.name())).collect();
}

#[allow(improper_ctypes)]
extern "C-unwind" {
    fn R_RegisterCCallable(package: *const c_char, name: *const c_char, function: *const c_void);
}

/// Registers the routines with R when it loads the library.
pub fn register() {
    // R's main thread loads it.
    MAIN_THREAD.get_or_init(|| std::thread::current().id());
    macro_rules! routines {
        ($($routine:ident $(= $function:path)?),*) => {
            [$((concat!(stringify!($routine), "\0"), routines!(@function $routine $($function)?) as *const c_void)),*]
        };
        (@function $routine:ident) => { $routine };
        (@function $routine:ident $function:path) => { $function };
    }
    let routines = routines![
        pjrt_c_api_version,
        pjrt_c_last_error,
        pjrt_c_is_buffer = is::<Buffer>,
        pjrt_c_is_client = is::<Client>,
        pjrt_c_is_device = is::<Device>,
        pjrt_c_is_executable = is::<Executable>,
        pjrt_c_buffer_dtype,
        pjrt_c_buffer_dims,
        pjrt_c_buffer_address,
        pjrt_c_buffer_device_ptr,
        pjrt_c_buffer_api,
        pjrt_c_device_ptr,
        pjrt_c_client_api,
        pjrt_c_device_for_buffer,
        pjrt_c_device_canonical,
        pjrt_c_dtype_from_name,
        pjrt_c_dtype_name,
        pjrt_c_buffer_from_r,
        pjrt_c_buffer_empty,
        pjrt_c_buffer_copy_to_device,
        pjrt_c_execute,
        pjrt_c_execution_options
    ];
    for (name, routine) in routines {
        // SAFETY: R copies the names, which end with a zero byte, and the routines stay loaded.
        unsafe { R_RegisterCCallable(c"pjrt".as_ptr(), name.as_ptr().cast(), routine) };
    }
}

fn without_zeros(text: &str) -> CString {
    let bytes = text.bytes().filter(|&byte| byte != 0).collect::<Vec<_>>();
    CString::new(bytes).unwrap_or_default()
}

/// Runs the body of a routine: its value, or the sentinel after a failure.
fn routine<T>(sentinel: T, body: impl Fn() -> Result<T>) -> T {
    let checked = || {
        if MAIN_THREAD.get() != Some(&std::thread::current().id()) {
            bail!(InvalidInput, "The C interface works only on R's main thread.");
        }
        body()
    };
    let failure = match catch_unwind(AssertUnwindSafe(|| sent::with_needed(checked))) {
        Ok(Ok(value)) => return value,
        Ok(Err(Failure(error))) => without_zeros(error.message()),
        Err(_) => c"A fault inside pjrt was caught.".to_owned(),
    };
    // During the destruction of a thread it is gone.
    let _ = LAST_ERROR.try_with(|last| last.replace(failure));
    sentinel
}

/// The same for a routine whose value is made by R functions: `body` may leave by R's jump, and owns nothing then.
fn r_routine(body: impl Fn() -> Result<SEXP>) -> SEXP {
    routine(sexp::nil(), || {
        let mut made = Ok(sexp::nil());
        let mut raised = sexp::nil();
        let mut run = || {
            made = body();
            // R still runs code of its own before it comes back.
            made.iter().for_each(|&value| sexp::preserve(value));
        };
        sexp::interruptible(|| raised = sexp::caught(&mut run))?;
        if sexp::is_nil(raised) {
            made.iter().for_each(|&value| sexp::release(value));
            return made;
        }
        let raised = Protected::new(raised);
        let message = sexp::element(raised.sexp(), "message").unwrap_or(sexp::nil());
        // SAFETY: the condition is protected, and keeps its message.
        let message = unsafe { sexp::string(message) };
        Err(Failure(Error::new(Kind::InvalidInput, message.unwrap_or("R raised an error.").to_owned())))
    })
}

/// The value of a handle, which may be a null pointer of C.
fn get<'a, T: Owned>(x: SEXP, argument: &str) -> Result<&'a T> {
    ensure!(!x.is_null(), InvalidPointer, "`{argument}` is a null pointer.");
    handle::get(x, argument)
}

unsafe extern "C-unwind" fn is<T: Owned>(x: SEXP) -> c_int {
    routine(0, || {
        // A failure may need the content of a handle.
        let found = if x.is_null() { None } else { Some(handle::get::<T>(x, "x")) };
        match found {
            Some(Err(failure)) if sent::is_needed(&failure.0) => Err(failure),
            found => Ok(c_int::from(matches!(found, Some(Ok(_))))),
        }
    })
}

/// Whether an optional argument is left out.
fn is_absent(x: SEXP) -> bool {
    x.is_null() || sexp::is_nil(x)
}

unsafe extern "C" fn pjrt_c_api_version() -> c_int {
    VERSION
}

unsafe extern "C" fn pjrt_c_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

unsafe extern "C-unwind" fn pjrt_c_buffer_dtype(buffer: SEXP) -> c_int {
    routine(-1, || Ok(get::<Buffer>(buffer, "buffer")?.dtype().info().code as c_int))
}

unsafe extern "C-unwind" fn pjrt_c_buffer_dims(buffer: SEXP, rank: *mut c_int) -> *const i64 {
    routine(null(), || {
        let dims = get::<Buffer>(buffer, "buffer")?.dims();
        ensure!(!rank.is_null(), InvalidPointer, "`rank` is a null pointer.");
        // SAFETY: the caller's variable.
        unsafe { *rank = dims.len() as c_int };
        Ok(dims.as_ptr())
    })
}

unsafe extern "C-unwind" fn pjrt_c_buffer_address(buffer: SEXP) -> *mut c_void {
    routine(null_mut(), || Ok(get::<Buffer>(buffer, "buffer")?.device_address()?))
}

unsafe extern "C-unwind" fn pjrt_c_buffer_device_ptr(buffer: SEXP) -> *mut c_void {
    routine(null_mut(), || Ok(get::<Buffer>(buffer, "buffer")?.device().raw()?.cast()))
}

unsafe extern "C-unwind" fn pjrt_c_buffer_api(buffer: SEXP) -> *const c_void {
    routine(null(), || Ok(get::<Buffer>(buffer, "buffer")?.client().plugin().api().raw().cast()))
}

unsafe extern "C-unwind" fn pjrt_c_device_ptr(device: SEXP) -> *mut c_void {
    routine(null_mut(), || Ok(get::<Device>(device, "device")?.raw()?.cast()))
}

unsafe extern "C-unwind" fn pjrt_c_client_api(client: SEXP) -> *const c_void {
    routine(null(), || Ok(get::<Client>(client, "client")?.plugin().api().raw().cast()))
}

unsafe extern "C-unwind" fn pjrt_c_device_for_buffer(buffer: SEXP) -> SEXP {
    r_routine(|| {
        let buffer = get::<Buffer>(buffer, "buffer")?;
        Ok(device::object(buffer.client(), buffer.device_index()))
    })
}

unsafe extern "C-unwind" fn pjrt_c_device_canonical(device: SEXP) -> SEXP {
    r_routine(|| {
        let device = get::<Device>(device, "device")?;
        Ok(device::object(device.client(), device.index()))
    })
}

unsafe extern "C-unwind" fn pjrt_c_dtype_from_name(name: *const c_char) -> c_int {
    routine(-1, || {
        ensure!(!name.is_null(), InvalidPointer, "`name` is a null pointer.");
        // SAFETY: the caller's string, which ends with a zero byte.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        Ok(DType::parse(&name)?.info().code as c_int)
    })
}

unsafe extern "C-unwind" fn pjrt_c_dtype_name(dtype: c_int) -> *const c_char {
    routine(null(), || {
        let dtype = dtype_of(dtype)?;
        Ok(NAMES.with(|names| names.get(dtype as usize).map_or(null(), |name| name.as_ptr())))
    })
}

fn dtype_of(code: c_int) -> Result<DType> {
    let found = u32::try_from(code).ok().and_then(|code| DType::from_code(code).ok());
    found.ok_or_else(|| Error::new(Kind::UnsupportedDtype, format!("Unknown element type: code {code}.")).into())
}

/// The dimensions of a new array as an R vector; not protected. R may leave this by a long jump.
///
/// # Safety
/// `dims` is null, or the address of `rank` numbers.
unsafe fn shape(dims: *const i64, rank: c_int) -> Result<SEXP> {
    let rank = match usize::try_from(rank) {
        Ok(rank) if rank == 0 || !dims.is_null() => rank,
        Ok(_) => bail!(InvalidPointer, "`dims` is a null pointer, but `rank` is {rank}."),
        Err(_) => bail!(InvalidInput, "`rank` must not be negative: got {rank}."),
    };
    // SAFETY: by the contract of this function.
    let dims = if rank == 0 { &[] } else { unsafe { std::slice::from_raw_parts(dims, rank) } };
    Ok(sexp::new_whole_numbers(dims))
}

/// The R object of the device that a client and a device mean. Either may be left out. Not protected. R may leave
/// this by a long jump.
fn device_of(client: SEXP, device: SEXP) -> Result<SEXP> {
    if is_absent(device) {
        return if is_absent(client) { Ok(sexp::nil()) } else { Ok(device::object(get(client, "client")?, 0)) };
    }
    let found = get::<Device>(device, "device")?;
    if !is_absent(client) && !found.client().same(get(client, "client")?) {
        bail!(DeviceMismatch, "`device` belongs to another client than `client`.");
    }
    Ok(device)
}

unsafe extern "C-unwind" fn pjrt_c_buffer_from_r(
    client: SEXP,
    device: SEXP,
    data: SEXP,
    dims: *const i64,
    rank: c_int,
    dtype: c_int,
) -> SEXP {
    r_routine(|| {
        ensure!(!data.is_null(), InvalidPointer, "`data` is a null pointer.");
        let device = Protected::new(device_of(client, device)?);
        // SAFETY: the caller's numbers.
        let shape = Protected::new(unsafe { shape(dims, rank)? });
        let name = Protected::new(sexp::new_string(dtype_of(dtype)?.name()));
        let make = if sexp::kind(data) == SEXPTYPE::RAWSXP { buffer::buffer_from_raw } else { buffer::buffer_new };
        Ok(entry(&|| make(data, name.sexp(), device.sexp(), shape.sexp(), sexp::new_flag(false))))
    })
}

unsafe extern "C-unwind" fn pjrt_c_buffer_empty(
    client: SEXP,
    device: SEXP,
    dims: *const i64,
    rank: c_int,
    dtype: c_int,
) -> SEXP {
    r_routine(|| {
        let device = Protected::new(device_of(client, device)?);
        // SAFETY: the caller's numbers.
        let shape = Protected::new(unsafe { shape(dims, rank)? });
        let name = Protected::new(sexp::new_string(dtype_of(dtype)?.name()));
        Ok(entry(&|| buffer::buffer_empty(name.sexp(), shape.sexp(), device.sexp())))
    })
}

unsafe extern "C-unwind" fn pjrt_c_buffer_copy_to_device(
    buffer: SEXP,
    device: SEXP,
    client: SEXP,
    cross_client: c_int,
) -> SEXP {
    r_routine(|| {
        let source = get::<Buffer>(buffer, "buffer")?;
        let target = Protected::new(device_of(client, device)?);
        let found = get::<Device>(target.sexp(), "device")?;
        if cross_client == 0 && !found.client().same(source.client()) {
            bail!(DeviceMismatch, "`device` belongs to another client than the buffer, and `cross_client` is 0.");
        }
        Ok(entry(&|| buffer::buffer_copy(buffer, target.sexp())))
    })
}

unsafe extern "C-unwind" fn pjrt_c_execute(executable: SEXP, inputs: SEXP, options: SEXP) -> SEXP {
    r_routine(|| {
        get::<Executable>(executable, "executable")?;
        if inputs.is_null() || sexp::kind(inputs) != SEXPTYPE::VECSXP {
            bail!(InvalidInput, "`inputs` must be a list of buffers.");
        }
        let options = if is_absent(options) { sexp::nil() } else { options };
        Ok(execute::executable_execute(executable, inputs, options, sexp::new_flag(false), sexp::new_flag(true)))
    })
}

unsafe extern "C-unwind" fn pjrt_c_execution_options(non_donatable: SEXP, launch_id: c_int) -> SEXP {
    r_routine(|| {
        let given = if non_donatable.is_null() { sexp::nil() } else { non_donatable };
        let numbers = if sexp::is_nil(given) { Some(Vec::new()) } else { sexp::whole_numbers(given) };
        let indices = numbers.map(|numbers| numbers.into_iter().map(c_int::try_from).collect());
        match indices {
            Some(Ok(indices)) => execute::new_options(indices, launch_id, None, None),
            _ => bail!(InvalidInput, "`non_donatable` must be a vector of indices, from 0, or NULL."),
        }
    })
}
