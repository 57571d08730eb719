//! Programs: their code, and their text for printing.

use crate::r::conditions::Result;
use crate::r::{handle, sexp};
use extendr_api::prelude::*;
use pjrt_base::mmap;
use pjrt_base::room;
use pjrt_program::program::{Format, Program};
use std::path::Path;

owned!(Program, c"PJRTProgram", sent, const ARGUMENT: &'static str = "program";);

/// A program from the bytes of its code; `format` is "mlir" or "hlo".
pub fn program_new(code: &[u8], format: &str) -> Result<Robj> {
    let format = named(format)?;
    room::check_room(code.len(), "to keep the program")?;
    Ok(handle::object(Program::new(code.to_vec(), format)?))
}

/// The same from a file.
pub fn program_read(path: &str, format: &str) -> Result<Robj> {
    let format = named(format)?;
    Ok(handle::object(Program::new(mmap::read(Path::new(path))?, format)?))
}

fn named(format: &str) -> Result<Format> {
    match format {
        "mlir" => Ok(Format::Mlir),
        "hlo" => Ok(Format::Hlo),
        _ => bail!(InvalidInput, "`format` must be \"mlir\" or \"hlo\"."),
    }
}

/// Format, size and readable text of a program.
pub fn program_describe(program: &Program) -> Result<Robj> {
    room::check_room(4 * program.code().len(), "to show the program")?;
    Ok(list!(format = program.format().name(), code_size = program.code().len() as f64, text = program.text()).into())
}

pub fn program_text(program: &Program) -> Result<String> {
    room::check_room(4 * program.code().len(), "to write the program as text")?;
    Ok(program.whole_text()?)
}

pub fn get(program: &Robj) -> Result<&Program> {
    handle::get(sexp::of(program), "program")
}
