//! A program for certain shapes, and that of an exported function for a platform: a function for several platforms takes the
//! platform's number as an argument, and symbolic dimensions have no size.

use crate::programs::exported;
use crate::r::conditions::Result;
use crate::r::{handle, sexp};
use extendr_api::prelude::*;
use pjrt_base::error::{self, Kind};
use pjrt_base::room;
use pjrt_data::dtype::DType;
use pjrt_ir::module::Module;
use pjrt_program::exported::dims::Given;
use pjrt_program::program::exported_program::ExportedProgram;
use pjrt_program::program::{Format, Program};
use pjrt_program::refine::refine;

/// The program of a function that can be compiled, with the sizes that follow from `given`: numbers with the names of inputs or
/// dimensions.
pub fn exported_program(function: Robj, platform: &str, names: Vec<String>, given: Robj) -> Result<Robj> {
    let function = exported::get(&function, "program")?;
    let number = function.exported.platform_number(platform)?;
    let given = whole_shapes(&given)?;
    let shapes = function.exported.kept_shapes(&with_names(&names, &given))?;
    if number.is_none() && !function.exported.is_symbolic() {
        return Ok(handle::object(function.program.clone()));
    }
    let program = fixed(function, number, &shapes).map_err(|error| match error.kind() {
        Kind::DynamicShape | Kind::UnsupportedProgram => function.exported.unresolved(&error),
        _ => error,
    })?;
    Ok(handle::object(program))
}

/// The program with these shapes of its arguments, and the platform's number as a constant instead of its first argument.
fn fixed(function: &ExportedProgram, number: Option<usize>, shapes: &[Vec<i64>]) -> error::Result<Program> {
    let program = &function.program;
    room::check_room(8 * program.code().len(), "to fix the shapes of the program")?;
    let module = Module::decode(program.code())?;
    let constants: Vec<(usize, i32)> = number.map(|number| (0, number as i32)).into_iter().collect();
    let text = refine(&module, shapes, &constants)?.text()?;
    Ok(Program::new(text.into_bytes(), Format::Mlir)?.with_input_names(function.exported.kept_names()))
}

/// The inputs of a program: the names by which their shapes can be given, types, and shapes, which are text if some dimensions
/// have no size.
pub fn program_inputs(program: &Program) -> Result<List> {
    let inputs = program.annotations().inputs.as_deref().unwrap_or_default();
    Ok(list!(
        name = program.argument_names(),
        dtype = inputs.iter().map(|input| input.dtype.map_or("", DType::name)).collect::<Vec<_>>(),
        shape = List::from_values(inputs.iter().map(|input| exported::shape(&input.shape())))
    ))
}

/// The program for arguments of the shapes in `given`, with these names.
pub fn program_of_shapes(program: &Program, names: Vec<String>, given: Robj) -> Result<Robj> {
    room::check_room(8 * program.code().len(), "to fix the shapes of the program")?;
    let given = whole_shapes(&given)?;
    Ok(handle::object(program.with_shapes(&with_names(&names, &given))?))
}

fn whole_shapes(given: &Robj) -> Result<Vec<Vec<i64>>> {
    let shapes: Option<Vec<_>> = sexp::elements(sexp::of(given)).map(sexp::whole_numbers).collect();
    let Some(shapes) = shapes else { bail!(InvalidInput, "Shapes must be whole numbers.") };
    Ok(shapes)
}

fn with_names<'a>(names: &'a [String], shapes: &'a [Vec<i64>]) -> Vec<Given<'a>> {
    names.iter().zip(shapes).map(|(name, dims)| Given { name, dims }).collect()
}
