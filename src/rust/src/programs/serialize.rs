//! Executables as bytes and in files; buffers, programs and exported functions as bytes; and what R's serialize() writes for all of
//! them.

use crate::programs::compile::{device_list, dispatch_option};
use crate::programs::{compile_options, executable, exported};
use crate::r::conditions::Result;
use crate::r::handle::{sent, Owned};
use crate::r::{handle, sexp};
use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use pjrt_base::mmap;
use pjrt_core::executable::serialized::{self, Destination, Serialized};
use pjrt_core::stored::contained::{self, Contained};
use pjrt_core::{Buffer, Client, Device, Executable, HostOrder};
use pjrt_program::program::exported_program::ExportedProgram;
use pjrt_program::program::Program;
use std::path::Path;

/// The bytes of an executable. `kept` is the folder that keeps the hashes of plugins' files, or "".
pub fn executable_serialize(executable: &Executable, kept: &str) -> Result<Robj> {
    Ok(Raw::from_bytes(&executable.serialize(folder(kept))?).into())
}

/// Writes the bytes of an executable to a file.
pub fn executable_save(executable: &Executable, path: &str, kept: &str) -> Result<()> {
    let content = executable.serialize(folder(kept))?;
    Ok(serialized::write(Path::new(path), &content)?)
}

/// An executable from bytes, for these devices. If the list is empty, for those that it was compiled for, of the
/// default device's client.
pub fn executable_deserialize(content: &[u8], devices: Robj, default: Robj, options: Robj, kept: &str) -> Result<Robj> {
    // Errors about damage come before errors about options.
    let serialized = Serialized::read(content)?;
    let devices = device_list(&devices)?;
    let client: &Client = match devices.first() {
        Some(device) => device.client(),
        None => handle::get::<Device>(sexp::of(&default), "device")?.client(),
    };
    let options = if options.is_null() { None } else { Some(compile_options::get(sexp::of(&options))?) };
    let destination =
        Destination { client, devices: &devices, options: options.as_ref(), dispatch: dispatch_option()? };
    Ok(executable::object(serialized.load(&destination, folder(kept))?))
}

/// The same from a file.
pub fn executable_load(path: &str, devices: Robj, default: Robj, options: Robj, kept: &str) -> Result<Robj> {
    executable_deserialize(&mmap::read(Path::new(path))?, devices, default, options, kept)
}

/// The bytes of a buffer. Waits for its content.
pub fn buffer_serialize(buffer: &Buffer) -> Result<Robj> {
    let (ready, spec) = (buffer.wait()?, buffer.spec());
    let view = ready.view()?.in_order(spec, HostOrder::RowMajor)?;
    let bytes = contained::contain_array(spec, view.bytes())?;
    view.check()?;
    Ok(Raw::from_bytes(&bytes).into())
}

pub fn program_serialize(program: &Program) -> Result<Robj> {
    Ok(Raw::from_bytes(&contained::contain_program(program)?).into())
}

/// What bytes contain: a program, an exported function, or dtype, shape and bytes of a buffer; nil for the bytes of an executable
/// and others.
pub fn contained_read(content: &[u8]) -> Result<Robj> {
    if !contained::is_contained(content) {
        return Ok(().into());
    }
    Ok(match contained::read(content)? {
        Contained::Program(program) => handle::object(program),
        Contained::Exported(function) => exported::object(*function),
        Contained::Array(spec, content) => {
            let dims = sexp::Protected::new(sexp::new_whole_numbers(&spec.dims));
            list!(dtype = spec.dtype.name(), shape = sexp::robj(dims.sexp()), content = Raw::from_bytes(content)).into()
        }
    })
}

/// What R's serialize() writes for a handle: its bytes and the name of its device, "" for none. Nil if the bytes are more than
/// `most`, or if it has no such value. An exported function comes with its weights.
pub fn sent_parts(x: Robj, kept: &str, most: f64) -> Result<Robj> {
    let x = sexp::of(&x);
    let at = |client: &Client, index: usize| format!("{}:{index}", client.platform());
    let parts = if let Some(buffer) = handle::find::<Buffer>(x) {
        if buffer.spec().bytes() as f64 > most {
            return Ok(().into());
        }
        (buffer_serialize(buffer)?, at(buffer.client(), buffer.device_index()))
    } else if let Some(program) = handle::find::<Program>(x) {
        (program_serialize(program)?, String::new())
    } else if let Some(function) = handle::find::<ExportedProgram>(x) {
        let bytes: Robj = Raw::from_bytes(&contained::contain_exported(function)?).into();
        return Ok(list!(bytes = bytes, device = "", weights = sexp::robj(exported::weights(x))).into());
    } else if let Some(executable) = handle::find::<Executable>(x) {
        (executable_serialize(executable, kept)?, at(executable.client(), 0))
    } else {
        return Ok(().into());
    };
    Ok(list!(bytes = parts.0, device = parts.1).into())
}

/// What came with a null pointer: see `sent_content()` in R/serialize.R. Nil for nothing.
pub fn sent_content(x: Robj) -> Robj {
    sexp::robj(sent::content(sexp::of(&x)).unwrap_or(sexp::nil()))
}

/// The handle whose content the failed call needs; nil for none.
pub fn sent_needed() -> Robj {
    sexp::robj(sent::take_needed())
}

/// Moves the value of a new handle to a null pointer of the same class, which came with content. Returns whether the classes are
/// the same.
pub fn sent_adopt(x: Robj, from: Robj) -> Robj {
    let (to, from) = (sexp::of(&x), sexp::of(&from));
    if is_adopted::<Executable>(to, from) {
        executable::note(to);
        return true.into();
    }
    let is_other = is_adopted::<Buffer>(to, from) || is_adopted::<Program>(to, from);
    (is_other || is_adopted::<ExportedProgram>(to, from)).into()
}

/// Moves the value if both handles are of this type. The caller protects them; R may leave this by a long jump.
fn is_adopted<T: Owned>(to: SEXP, from: SEXP) -> bool {
    let is_one = handle::find::<T>(from).is_some() && sent::content(to).is_some() && sexp::inherits(to, T::CLASS);
    if is_one {
        // SAFETY: `from` has a value of the type, and only null pointers have content.
        unsafe { sent::adopt::<T>(to, from) };
    }
    is_one
}

/// The folder that keeps the hashes of plugins' files; none for an empty name.
pub fn folder(kept: &str) -> Option<&Path> {
    Some(Path::new(kept)).filter(|path| !path.as_os_str().is_empty())
}
