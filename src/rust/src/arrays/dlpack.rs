//! DLPack: arrays that other libraries and pjrt use in common.
//!
//! Python takes buffers without R, on any thread: it gets the addresses of functions for that, see inst/python/pjrt_dlpack.py.

use crate::arrays::buffer;
use crate::clients::device;
use crate::memory;
use crate::r::conditions::{flag, Result};
use crate::r::handle::{self, EmptyHandle};
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use pjrt_base::error::Kind;
use pjrt_core::buffer::borrowed::is_borrowed;
use pjrt_core::dlpack::{place, Copies, Managed, Wanted};
use pjrt_core::{Buffer, Device};
use pjrt_data::dlpack::Lent;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;

/// R does not count buffers above this size by a vector of the same size: it would collect all garbage first.
const WEIGHED: usize = 8 << 20;

/// An array on its way, until somebody takes it.
pub struct Capsule(RefCell<Option<Managed>>);

owned!(Capsule, c"PJRTDLPack");

impl Capsule {
    /// The array's properties.
    fn array(&self) -> Result<Lent> {
        match &*self.0.borrow() {
            Some(managed) => Ok(managed.array()?),
            None => bail!(InvalidInput, "The DLPack array was used already: each can be used once."),
        }
    }
}

/// `dlpack_export(buffer, versioned, copy)`: a buffer's array for another library.
pub fn dlpack_export(buffer: SEXP, versioned: SEXP, copy: SEXP) -> Result<SEXP> {
    let wanted = Wanted { is_versioned: flag(versioned, "versioned")?, copy: flag(copy, "copy")? };
    let buffer = buffer::get(buffer)?;
    capsule(|| memory::with_retry(|| buffer::needs(buffer.spec()), || buffer.export(wanted)))
}

/// `dlpack_import(capsule, device, copy)`: a buffer of another library's array. `copy` is nil if needed only.
pub fn dlpack_import(capsule: SEXP, device: SEXP, copy: SEXP) -> Result<SEXP> {
    let copies = match sexp::is_nil(copy) {
        true => Copies::IfNeeded,
        false if flag(copy, "copy")? => Copies::Always,
        false => Copies::Never,
    };
    let capsule_of = handle::get::<Capsule>(capsule, "x")?;
    let (size, is_host, is_borrowed) = {
        let array = capsule_of.array()?;
        (array.spec.bytes(), array.place.is_host(), copies != Copies::Always && is_borrowed(array.data))
    };
    let device: &Device = match sexp::is_nil(device) && !is_host {
        true => handle::get(sexp::call_ours(c"device_of_dlpack", capsule), "device")?,
        false => device::resolve(device)?,
    };
    memory::collect_under_pressure(device.client())?;
    let is_weighed = device.client().shares_host_memory() && size <= WEIGHED && !is_borrowed;
    let weight = Protected::new(memory::weight(if is_weighed { size } else { 0 }));
    EmptyHandle::over(weight.sexp()).filled(|| {
        let stream = if is_host { None } else { device.stream_for_external_arrays()? };
        let made = Buffer::import(&mut capsule_of.0.borrow_mut(), device, copies, stream)?;
        if is_weighed {
            device.client().usage().subtract_new_bytes(size);
        }
        Ok(made)
    })
}

/// `dlpack_take(address, versioned)`: takes over the array at an address, which is a decimal number as text.
pub fn dlpack_take(address: SEXP, versioned: SEXP) -> Result<SEXP> {
    let is_versioned = flag(versioned, "versioned")?;
    let Some(address) = parsed(address) else { bail!(InvalidType, "`address` must be a whole number as text.") };
    // SAFETY: the caller says that there is an array, and gives it up.
    capsule(|| unsafe { Managed::from_raw(address as *mut c_void, is_versioned) })
}

/// An address, which is a decimal number as text.
fn parsed(address: SEXP) -> Option<usize> {
    // SAFETY: R protects the argument.
    unsafe { sexp::string(address) }?.parse().ok()
}

/// The handle of an array that `make` obtains; not protected. R may leave this by a long jump before that.
fn capsule(make: impl FnOnce() -> pjrt_base::error::Result<Managed>) -> Result<SEXP> {
    EmptyHandle::new().filled(|| Ok(Capsule(RefCell::new(Some(make()?)))))
}

/// `dlpack_take_object(address)`: the same for the Python object at an address; NULL if it does not lend its array.
pub fn dlpack_take_object(address: SEXP) -> Result<SEXP> {
    let (Some(object @ 1..), Some(python)) = (parsed(address), python()) else { return Ok(sexp::nil()) };
    let handle = EmptyHandle::<Capsule>::new();
    let _protected = Protected::new(handle.sexp());
    // SAFETY: the address of a Python object that the caller keeps.
    let taken = unsafe { (python.take)(object as *mut c_void) };
    if taken == 0 {
        return Ok(sexp::nil());
    }
    // SAFETY: Python has given the array up.
    let managed = unsafe { Managed::from_raw((taken & !1) as *mut c_void, taken & 1 == 1)? };
    // SAFETY: protected above.
    Ok(unsafe { handle.fill(Capsule(RefCell::new(Some(managed)))) })
}

/// `dlpack_give(capsule)`: the address of the array, which the caller now owns.
pub fn dlpack_give(capsule: SEXP) -> Result<SEXP> {
    let capsule: &Capsule = handle::get(capsule, "x")?;
    capsule.array()?;
    let address = capsule.0.borrow_mut().take().map_or(0, |managed| managed.into_raw() as usize);
    Ok(sexp::new_string(&address.to_string()))
}

/// What is known of an array; only whether it was used if it was.
pub fn dlpack_describe(capsule: &Capsule) -> Result<Robj> {
    let managed = capsule.0.borrow();
    let Some(managed) = managed.as_ref() else { return Ok(list!(used = true).into()) };
    let array = managed.array()?;
    Ok(list!(
        used = false,
        dtype = array.spec.dtype.name(),
        shape = array.spec.dims.iter().map(|&dim| dim as f64).collect::<Vec<_>>(),
        row_major = array.strides.is_none(),
        kind = array.place.kind,
        place = array.place.name(),
        id = array.place.id,
        versioned = managed.is_versioned(),
        read_only = managed.is_read_only()
    )
    .into())
}

/// The stream of a device, as text, on which other libraries must make arrays ready; NULL if it has none.
pub fn dlpack_stream(device: &Device) -> Result<Robj> {
    Ok(device.stream_for_external_arrays()?.map_or(().into(), |stream| stream.to_string().into()))
}

/// What Python needs to use a buffer: an address that it must release, the type, the kind and number of the device or "-", and
/// the dimensions. One text, since that is quick to pass on.
pub fn dlpack_lend(buffer: &Buffer) -> Result<Robj> {
    buffer.check_alive()?;
    let place = match place(buffer) {
        Ok(place) => format!("{} {}", place.kind, place.id),
        Err(error) if error.kind() == Kind::UnsupportedCall => "- -".into(),
        Err(error) => return Err(error.into()),
    };
    let dims: String = buffer.dims().iter().map(|dim| format!(" {dim}")).collect();
    let address = Box::into_raw(Box::new(buffer.clone())) as usize;
    Ok(format!("{address} {} {place}{dims}", buffer.dtype()).into())
}

/// `dlpack_release(lent)`: releases the address of [`dlpack_lend`] that Python did not take.
pub fn dlpack_release(lent: SEXP) -> Result<SEXP> {
    // SAFETY: R protects the argument.
    let text = unsafe { sexp::string(lent) }.unwrap_or_default();
    if let Some(address) = text.split(' ').next().and_then(|address| address.parse::<usize>().ok()) {
        // SAFETY: the caller got it from `dlpack_lend`, and has not released it.
        unsafe { python_release(address as *mut Buffer) };
    }
    Ok(sexp::nil())
}

/// The names of capsules, not used and used, without and with a version. Static, since a capsule only points to its name.
static NAMES: [&CStr; 4] = [c"dltensor", c"dltensor_versioned", c"used_dltensor", c"used_dltensor_versioned"];

/// The addresses, as text, of the functions and names for Python.
pub fn dlpack_functions() -> Vec<String> {
    let functions = [
        python_export as *const () as usize,
        python_release as *const () as usize,
        python_connect as *const () as usize,
        python_destroy as *const () as usize,
    ];
    let names = NAMES.map(|name| name.as_ptr() as usize);
    functions.into_iter().chain(names).map(|address| address.to_string()).collect()
}

/// The address of a new array of a buffer; null after a failure, whose message is written to `message`.
///
/// # Safety
/// `buffer` is an address of [`dlpack_lend`] that was not released; `message` has `room` bytes.
unsafe extern "C" fn python_export(
    buffer: *const Buffer,
    is_versioned: c_int,
    copy: c_int,
    message: *mut c_char,
    room: usize,
) -> *mut c_void {
    let wanted = Wanted { is_versioned: is_versioned != 0, copy: copy != 0 };
    let text = match catch_unwind(AssertUnwindSafe(|| (*buffer).export(wanted))) {
        Ok(Ok(managed)) => return managed.into_raw(),
        Ok(Err(error)) => error.message().to_owned(),
        Err(_) => "A fault inside pjrt was caught.".into(),
    };
    let len = text.len().min(room.saturating_sub(1));
    message.copy_from_nonoverlapping(text.as_ptr().cast(), len);
    if room > 0 {
        message.add(len).write(0);
    }
    std::ptr::null_mut()
}

/// Releases a buffer that Python does not use any more.
///
/// # Safety
/// `buffer` is an address of [`dlpack_lend`] that was not released.
unsafe extern "C" fn python_release(buffer: *mut Buffer) {
    // A panic must not reach Python.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(buffer))));
}

/// Functions of Python.
#[derive(Clone, Copy)]
struct Python {
    /// Takes an object's array over: returns the array's address, plus one for the struct with a version, or zero.
    take: Take,
    /// `PyCapsule_IsValid` and `PyCapsule_GetPointer`.
    is_valid: IsValid,
    get_pointer: GetPointer,
}

/// Those that [`python_connect`] set last.
static PYTHON: Mutex<Option<Python>> = Mutex::new(None);

fn python() -> Option<Python> {
    *PYTHON.lock().ok()?
}

type Take = unsafe extern "C" fn(*mut c_void) -> usize;
type IsValid = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;
type GetPointer = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Sets the functions of Python that [`dlpack_take_object`] and [`python_destroy`] need.
unsafe extern "C" fn python_connect(take: Take, is_valid: IsValid, get_pointer: GetPointer) {
    if let Ok(mut python) = PYTHON.lock() {
        *python = Some(Python { take, is_valid, get_pointer });
    }
}

/// The destructor of a capsule: releases the array that nobody took.
///
/// # Safety
/// `capsule` is one that Python made for an array of ours, after [`python_connect`].
unsafe extern "C" fn python_destroy(capsule: *mut c_void) {
    let Some(Python { is_valid, get_pointer, .. }) = python() else { return };
    for (name, is_versioned) in NAMES[..2].iter().zip([false, true]) {
        if is_valid(capsule, name.as_ptr()) != 0 {
            let array = get_pointer(capsule, name.as_ptr());
            // A panic must not reach Python.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(Managed::from_raw(array, is_versioned))));
        }
    }
}
