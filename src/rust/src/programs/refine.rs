//! Symbolic dimensions of exported functions.

use crate::programs::program;
use crate::r::conditions::Result;
use crate::r::{handle, sexp};
use extendr_api::prelude::*;
use pjrt_base::room;
use pjrt_program::exported::dims::{self, Given, Input};
use pjrt_program::module::Module;
use pjrt_program::names::{in_r, normal};
use pjrt_program::program::{Format, Program};
use pjrt_program::refine::refine;

/// The sizes of the symbolic dimensions that follow from `given`: numbers with the names of inputs or dimensions. Also
/// returns all shapes with these sizes.
#[extendr]
fn exported_sizes(
    names: Vec<String>,
    paths: Vec<String>,
    inputs: Robj,
    outputs: Robj,
    given_names: Vec<String>,
    given: Robj,
) -> Result<Robj> {
    let (inputs, outputs) = (shapes(&inputs)?, shapes(&outputs)?);
    // Messages have R's spelling.
    let names: Vec<String> = names.iter().map(|name| in_r(&normal(name))).collect();
    let described = names.iter().zip(&paths).zip(&inputs);
    let described: Vec<_> = described.map(|((name, path), shape)| Input { name, path, shape }).collect();
    let given: Option<Vec<_>> = sexp::elements(sexp::of(&given)).map(sexp::whole_numbers).collect();
    let Some(given) = given else { bail!(InvalidInput, "Shapes must be whole numbers.") };
    let given = given_names.iter().zip(&given).map(|(name, dims)| Given { name, dims });
    let values = dims::solve(&described, &given.collect::<Vec<_>>())?;
    let evaluated = |shapes: &[Vec<String>]| -> Result<Robj> {
        let dims = shapes.iter().map(|shape| dims::evaluate(shape, &values));
        let dims = dims.collect::<pjrt_base::error::Result<Vec<_>>>()?;
        Ok(List::from_values(dims.iter().map(|dims| sexp::robj(sexp::new_whole_numbers(dims)))).into())
    };
    let (inputs, outputs) = (evaluated(&inputs)?, evaluated(&outputs)?);
    let (names, sizes): (Vec<_>, Vec<_>) = values.into_iter().unzip();
    Ok(list!(names = names, sizes = sexp::robj(sexp::new_whole_numbers(&sizes)), inputs = inputs, outputs = outputs)
        .into())
}

/// The symbolic dimensions in shapes, by name.
#[extendr]
fn exported_dimensions(shapes_of_arrays: Robj) -> Result<Robj> {
    let shapes = shapes(&shapes_of_arrays)?;
    let names = dims::variables(shapes.iter().map(Vec::as_slice))?;
    Ok(names.into_iter().collect::<Vec<_>>().into())
}

/// The program of a function with these shapes and names of its arguments, and the platform's number, unless it is
/// negative, as a constant instead of its first argument.
#[extendr]
fn exported_refine(program: Robj, platform: i32, shapes_of_arguments: Robj, names: Vec<String>) -> Result<Robj> {
    let program = program::get(&program)?;
    room::check_room(8 * program.code().len(), "to fix the shapes of the program")?;
    let dims: Option<Vec<_>> = sexp::elements(sexp::of(&shapes_of_arguments)).map(sexp::whole_numbers).collect();
    let Some(dims) = dims else { bail!(InvalidInput, "Shapes must be whole numbers.") };
    let module = Module::decode(program.code())?;
    let constants: &[(usize, i32)] = if platform < 0 { &[] } else { &[(0, platform)] };
    let text = refine(&module, &dims, constants)?.text()?;
    Ok(handle::object(Program::new(text.into_bytes(), Format::Mlir)?.with_input_names(names)))
}

/// Shapes from R: a list of numbers, or of text if a dimension is symbolic.
fn shapes(list: &Robj) -> Result<Vec<Vec<String>>> {
    let shape = |shape| match sexp::whole_numbers(shape) {
        Some(numbers) => Some(numbers.iter().map(i64::to_string).collect()),
        None => sexp::robj(shape).as_string_vector(),
    };
    match sexp::elements(sexp::of(list)).map(shape).collect() {
        Some(shapes) => Ok(shapes),
        None => bail!(InvalidInput, "The shapes of an exported function must be numbers or text."),
    }
}

extendr_module! {
    mod refine;
    fn exported_sizes;
    fn exported_dimensions;
    fn exported_refine;
}
