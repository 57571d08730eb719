//! Compiling, and what an executable says of itself.

use crate::conditions::Outcome;
use crate::{device, handle, program};
use extendr_api::prelude::*;
use pjrt_core::options::CompileOptions;
use pjrt_core::{Device, Executable};

/// Compiles a program for a device.
#[extendr]
fn executable_compile(program: Robj, device: Robj, num_replicas: i32, num_partitions: i32) -> Outcome<Robj> {
    let options = CompileOptions {
        num_replicas: num_replicas.into(),
        num_partitions: num_partitions.into(),
        ..Default::default()
    };
    let device: &Device = handle::get(unsafe { device.get() }, "device")?;
    let executable = Executable::compile(device, program::get(&program)?, &options)?;
    Ok(handle::object(executable))
}

/// The one R object of the device that an executable was compiled for.
#[extendr]
fn executable_device(executable: Robj) -> Outcome<Robj> {
    let executable = get(&executable)?;
    Ok(unsafe { Robj::from_sexp(device::object(executable.client(), executable.device_index())) })
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
    fn executable_aliases;
}
