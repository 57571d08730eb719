//! Programs: their code, and how they are shown.

use crate::conditions::{refuse, Outcome};
use crate::handle;
use extendr_api::prelude::*;
use pjrt_core::host;
use pjrt_core::program::{Format, Program};

/// A program from the bytes of its code; `format` is "mlir" or "hlo".
#[extendr]
fn program_new(code: &[u8], format: &str) -> Outcome<Robj> {
    let format = match format {
        "mlir" => Format::Mlir,
        "hlo" => Format::Hlo,
        _ => refuse!(InvalidInput, "`format` must be \"mlir\" or \"hlo\"."),
    };
    host::check_room(code.len(), "To keep the program")?;
    let program = Program::new(code.to_vec(), format)?;
    Ok(handle::object(program))
}

/// Format, size and readable text of a program.
#[extendr]
fn program_describe(program: Robj) -> Outcome<Robj> {
    let program = get(&program)?;
    host::check_room(4 * program.code().len(), "To show the program")?;
    Ok(list!(format = program.format().name(), code_size = program.code().len() as f64, text = program.text()).into())
}

/// The program of a handle.
pub fn get(program: &Robj) -> Outcome<&Program> {
    handle::get(unsafe { program.get() }, "program")
}

extendr_module! {
    mod program;
    fn program_new;
    fn program_describe;
}
