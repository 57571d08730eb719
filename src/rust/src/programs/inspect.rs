//! The stages of a program's compilation.

use crate::programs::{compile, program};
use crate::r::conditions::Result;
use crate::r::{handle, sexp};
use extendr_api::prelude::*;
use pjrt_core::executable::options::{CompileOptions, OptionValue};
use pjrt_core::{Compiling, Device};
use std::collections::BTreeMap;

/// Compiles a program for a device and returns the optimized HLO text, or NULL if the plugin does not provide it. If
/// `folder` is a string, the compiler writes the stages into that folder.
pub fn hlo_inspect(program: Robj, device: Robj, folder: Nullable<String>, place: Robj) -> Result<Robj> {
    let place = compile::place_of(&place);
    let debug_options = match folder {
        Nullable::NotNull(folder) => BTreeMap::from([
            ("xla_dump_to".into(), OptionValue::String(folder)),
            ("xla_dump_hlo_as_text".into(), OptionValue::Bool(true)),
        ]),
        Nullable::Null => BTreeMap::new(),
    };
    let program = program::get(&program)?;
    let options = CompileOptions { debug_options, place, ..Default::default() }.for_program(program.annotations())?;
    let device: &Device = handle::get(sexp::of(&device), "device")?;
    let devices = match options.num_devices() {
        1 => vec![device.clone()],
        _ => options.assigned_devices(device.client())?,
    };
    let executable = Compiling::start(None, &devices, program, &options)?.wait()?;
    Ok(executable.optimized_module().map_or_else(|_| ().into(), |module| module.text().into()))
}
