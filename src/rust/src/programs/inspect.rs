//! The stages of a program's compilation.

use crate::programs::compile;
use crate::r::conditions::Result;
use extendr_api::prelude::*;
use pjrt_core::executable::options::{CompileOptions, OptionValue};
use pjrt_core::{Compiling, Device};
use pjrt_program::program::Program;
use std::collections::BTreeMap;

/// Compiles a program for a device and returns the optimized HLO text, or NULL if the plugin does not provide it. If
/// `folder` is a string, the compiler writes the stages into that folder.
pub fn hlo_inspect(program: &Program, device: &Device, folder: Option<&str>, place: Robj) -> Result<Robj> {
    let place = compile::place_of(&place);
    let debug_options = folder.map_or_else(BTreeMap::new, |folder| {
        BTreeMap::from([
            ("xla_dump_to".into(), OptionValue::String(folder.to_owned())),
            ("xla_dump_hlo_as_text".into(), OptionValue::Bool(true)),
        ])
    });
    let options = CompileOptions { debug_options, place, ..Default::default() }.for_program(program.annotations())?;
    let devices = match options.num_devices() {
        1 => vec![device.clone()],
        _ => options.assigned_devices(device.client())?,
    };
    let executable = Compiling::start(None, &devices, program, &options)?.wait()?;
    Ok(executable.optimized_module().map_or_else(|_| ().into(), |module| module.text().into()))
}
