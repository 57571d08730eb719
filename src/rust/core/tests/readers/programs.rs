//! Readers of programs and of functions that other software exported.

use super::sound;
use pjrt_base::error::{Error, Kind, UNKNOWN};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_ir::hlo::processes::Process;
use pjrt_ir::hlo::sharding::{Shardings, Wholes};
use pjrt_ir::hlo::HloModuleProto;
use pjrt_ir::module::Module;
use pjrt_program::exported::dims::{self, Given, Input};
use pjrt_program::exported::Exported;
use pjrt_program::graph::Graph;
use pjrt_program::narrow;
use pjrt_program::program::{Format, Program};
use pjrt_program::refine;
use prost::Message;
use std::sync::Arc;

/// The first bytes of MLIR bytecode.
const BYTECODE: &[u8] = b"ML\xefR";

/// MLIR as text, or a file of another format that is given as a program.
pub fn mlir(bytes: &[u8]) {
    if let Some(program) = sound(Program::new(bytes.to_vec(), Format::Mlir)) {
        explore(&program);
    }
}

/// MLIR bytecode, with or without its first bytes.
pub fn bytecode(bytes: &[u8]) {
    let code = [BYTECODE, bytes.strip_prefix(BYTECODE).unwrap_or(bytes)].concat();
    if let Some(program) = sound(Program::new(code, Format::Mlir)) {
        explore(&program);
        let inputs = program.annotations().inputs.as_ref();
        // a size for each unknown one
        let fixed = |dims: &Vec<i64>| dims.iter().map(|&dim| if dim < 0 { 3 } else { dim }).collect();
        let dims: Option<Vec<_>> =
            inputs.and_then(|inputs| inputs.iter().map(|input| input.dims.as_ref().map(fixed)).collect());
        refine(&program, &dims.unwrap_or_default());
    }
}

/// A serialized `HloModuleProto`, or an `HloProto` around one.
pub fn hlo(bytes: &[u8]) {
    if let Some(program) = sound(Program::new(bytes.to_vec(), Format::Hlo)) {
        explore(&program);
    }
    for are_partitions in [true, false] {
        let process = Process { rank: 1, size: 2, are_partitions };
        if let Some(code) = sound(process.program(bytes)) {
            sound(Program::new(code, Format::Hlo));
        }
    }
    let Ok(module) = HloModuleProto::decode(bytes) else { return };
    module.text();
    module.debug_text();
    module.operation_costs();
    module.input_names();
    module.recorded_names();
    module.interface();
    module.takes_a_known_time();
    module.custom_calls().count();
    module.foreign_functions().count();
    module.functions_in_other_layouts().count();
    let _ = module.check_order(|_| true);
    Graph::of_hlo(&module).view(20);
    let wholes = Wholes::of(&module.annotations());
    let spec = Arc::new(Spec::new(DType::F32, &[4, 6]).unwrap());
    let count = module.shardings().0.len().min(100);
    let shardings = Shardings::read(&module, 4, &wholes, &vec![spec.clone(); count], &[spec]);
    for sharding in shardings.inputs.iter().chain(&shardings.outputs).flatten() {
        for partition in 0..4 {
            sharding.part_of(partition);
            sharding.is_first(partition);
        }
    }
}

/// A function that JAX exported, and its derivatives.
pub fn jax(bytes: &[u8]) {
    for order in 0..3 {
        let Some(exported) = sound(Exported::read(bytes, order)) else { return };
        exported.needs_more();
        assert_eq!(exported.output_paths().len(), exported.outputs.len());
        assert_eq!(exported.in_tree.argument_paths().len(), exported.inputs.len());
        let shapes: Vec<&[String]> = exported.inputs.iter().map(|input| input.shape.as_slice()).collect();
        let outputs: Vec<&[String]> = exported.outputs.iter().map(|output| output.shape.as_slice()).collect();
        let dims = sizes(&exported.input_names, &shapes, &outputs);
        let Some(program) = sound(Program::new(bytes[exported.program].to_vec(), Format::Mlir)) else { continue };
        explore(&program);
        if let Some(dims) = dims {
            let kept: Vec<_> = exported.kept.iter().map(|&input| dims[input].clone()).collect();
            refine(&program, &kept);
        }
    }
}

/// Shapes with symbolic dimensions: one of an array per line, dimensions separated by `;`.
pub fn dimensions(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let shapes: Vec<Vec<String>> =
        text.lines().take(20).map(|line| line.split(';').map(str::to_owned).collect()).collect();
    let shapes: Vec<&[String]> = shapes.iter().map(Vec::as_slice).collect();
    let names: Vec<String> = (0..shapes.len()).map(|number| format!("x{number}")).collect();
    sizes(&names, &shapes, &shapes);
}

/// The shapes of inputs, with 3 for each symbolic dimension that can have any size.
fn sizes(names: &[String], shapes: &[&[String]], outputs: &[&[String]]) -> Option<Vec<Vec<i64>>> {
    let variables = sound(dims::variables(shapes.iter().chain(outputs).copied()))?;
    let inputs: Vec<_> = names.iter().zip(shapes).map(|(name, shape)| Input { name, path: name, shape }).collect();
    let by_variable: Vec<_> = variables.iter().map(|name| Given { name, dims: &[3] }).collect();
    let values = sound(dims::solve(&inputs, &by_variable, shapes.iter().copied()));
    // The sizes follow from the shapes, too.
    let evaluate = |values| shapes.iter().map(|shape| sound(dims::evaluate(shape, values))).collect::<Option<Vec<_>>>();
    let fixed = values.as_ref().and_then(evaluate);
    if let Some(fixed) = &fixed {
        let by_input: Vec<_> = names.iter().zip(fixed).map(|(name, dims)| Given { name, dims }).collect();
        sound(dims::solve(&inputs, &by_input, shapes.iter().copied()));
    }
    for shape in outputs {
        values.as_ref().and_then(|values| sound(dims::evaluate(shape, values)));
    }
    fixed
}

/// The description of a function that PyTorch exported.
pub fn pytorch(bytes: &[u8]) {
    if let Some(function) = sound(Exported::of_pytorch(bytes)) {
        assert_eq!(function.in_tree.argument_paths().len(), function.inputs.len() - function.weights.len());
        assert_eq!(function.out_tree.paths("result").len(), function.outputs.len());
    }
}

/// Reads all of a program that is read before it is compiled.
fn explore(program: &Program) {
    program.input_names();
    program.is_for_shardy();
    program.text();
    sound(program.check_shapes());
    sound(program.whole_text());
    sound(narrow::check(program));
    let refused = Error::new(Kind::Pjrt(UNKNOWN), "The plugin does not read it.");
    sound(program.rewritten(None, &refused));
    if let Some(Some(artifact)) = sound(program.to_portable(None)) {
        sound(Module::decode(artifact.code()));
    }
    Wholes::of(program.annotations());
    if let Some(graph) = sound(Graph::of_program(program)) {
        graph.view(20);
    }
}

/// Fixes the sizes of a program's arguments, and reads the result.
fn refine(program: &Program, dims: &[Vec<i64>]) {
    let Some(module) = sound(Module::decode(program.code())) else { return };
    let as_constant = sound(refine::refine(&module, dims.get(1..).unwrap_or_default(), &[(0, 1)]));
    for refined in [sound(refine::refine(&module, dims, &[])), as_constant].into_iter().flatten() {
        if let Some(text) = sound(refined.text()) {
            sound(Program::new(text.into_bytes(), Format::Mlir));
        }
    }
}
