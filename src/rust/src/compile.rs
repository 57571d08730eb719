//! Compiling, and what an executable says of itself.

use crate::conditions::{refuse, Outcome};
use crate::{device, handle, options, program, sexp};
use extendr_api::prelude::*;
use extendr_ffi::{Rf_install, SET_VECTOR_ELT, SEXPTYPE, VECTOR_ELT};
use pjrt_core::executable::Placement;
use pjrt_core::execute::Dispatch;
use pjrt_core::options::CompileOptions;
use pjrt_core::{Device, Executable};

/// Compiles a program for a list of devices; for those that the options assign, of the default device's client, when it
/// is empty.
#[extendr]
fn executable_compile(program: Robj, options: Robj, devices: Robj, default: Robj) -> Outcome<Robj> {
    let options = CompileOptions { dispatch: dispatch_option()?, ..options::get(unsafe { options.get() })? };
    let devices = unsafe { devices.get() };
    let named =
        (0..sexp::len(devices)).map(|i| handle::get(unsafe { VECTOR_ELT(devices, i as _) }, "devices").cloned());
    let mut devices = named.collect::<Outcome<Vec<Device>>>()?;
    if devices.is_empty() {
        let default: &Device = handle::get(unsafe { default.get() }, "device")?;
        devices = options.assigned_devices(default.client())?;
    }
    Ok(handle::object(Executable::compile(&devices, program::get(&program)?, &options)?))
}

/// How programs compiled now are launched: `options(pjrt.dispatch = )`. Not looked up at each launch, since R searches all
/// of its options for it.
fn dispatch_option() -> Outcome<Dispatch> {
    let option = unsafe { sexp::Rf_GetOption1(Rf_install(c"pjrt.dispatch".as_ptr())) };
    match sexp::string(option) {
        None if sexp::is_nil(option) => Ok(Dispatch::Auto),
        Some("auto") => Ok(Dispatch::Auto),
        Some("inline") => Ok(Dispatch::Inline),
        Some("thread") => Ok(Dispatch::Thread),
        _ => refuse!(InvalidInput, "`options(pjrt.dispatch = )` must be \"auto\", \"inline\" or \"thread\"."),
    }
}

/// The one R object of the first device that an executable was compiled for.
#[extendr]
fn executable_device(executable: Robj) -> Outcome<Robj> {
    let executable = get(&executable)?;
    match executable.placement() {
        Placement::Fixed(devices) => {
            Ok(unsafe { Robj::from_sexp(device::object(executable.client(), devices[0])) })
        }
        Placement::Portable => refuse!(
            InvalidInput,
            "A portable executable has no device of its own: it runs where its inputs are. devices() gives all it can run on."
        ),
    }
}

/// The R objects of all devices that an executable runs on; of those that it can run on when it is portable.
#[extendr]
fn executable_devices(executable: Robj) -> Outcome<Robj> {
    let executable = get(&executable)?;
    let all = device::all(executable.client());
    let Placement::Fixed(devices) = executable.placement() else {
        return Ok(unsafe { Robj::from_sexp(all) });
    };
    let list = sexp::vector(SEXPTYPE::VECSXP, devices.len());
    for (i, &device) in devices.iter().enumerate() {
        // The clients' lists of devices are kept for the session.
        unsafe { SET_VECTOR_ELT(list, i as _, VECTOR_ELT(all, device as _)) };
    }
    Ok(unsafe { Robj::from_sexp(list) })
}

/// For each output the input, from 0, whose memory it takes over; NA for none.
#[extendr]
fn executable_aliases(executable: Robj) -> Outcome<Robj> {
    let aliases = &get(&executable)?.signature().aliases;
    Ok(aliases.iter().map(|alias| alias.map_or(Rint::na(), |i| Rint::from(i as i32))).collect::<Integers>().into())
}

fn get(executable: &Robj) -> Outcome<&Executable> {
    handle::get(unsafe { executable.get() }, "executable")
}

extendr_module! {
    mod compile;
    fn executable_compile;
    fn executable_device;
    fn executable_devices;
    fn executable_aliases;
}
