//! Runs an entry for the arguments of a call.

use super::entry::{CompiledCall, Program, CONSTANTS, DEVICE, FUNCTION, OUT_TREE, SHAPES};
use super::request::{self, Request};
use super::{Call, Outcome, BACKEND};
use crate::arrays::buffer;
use crate::execution::execute::{self, NewOutputs};
use crate::execution::inputs::InputObjects;
use crate::functions::tree;
use crate::memory;
use crate::r::conditions::Result;
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_data::convert::Check;

/// Runs the entry, or returns the R function that does. `kept` are the entry's R objects, which the caller protects. R may
/// leave this by a long jump.
pub fn run(call: &Call, request: &Request, entry: &CompiledCall, kept: SEXP) -> Result<Outcome> {
    match &entry.program {
        Some(program) => Ok(Outcome::Done(execute(call, request, program, kept)?)),
        None => {
            let inputs = sexp::vector(SEXPTYPE::VECSXP, request.inputs().count());
            request.inputs().enumerate().for_each(|(i, (leaf, _))| sexp::set_at(inputs, i, leaf.value));
            Ok(Outcome::Function(sexp::at(kept, FUNCTION), inputs))
        }
    }
}

fn execute(call: &Call, request: &Request, program: &Program, kept: SEXP) -> Result<SEXP> {
    let executable = &program.executable;
    memory::collect_under_pressure(executable.client())?;
    // All R objects come before the launch, so that nothing can fail after it.
    let outputs = NewOutputs::new(executable, false);
    let _outputs = Protected::new(outputs.value());
    let mut next = 0;
    let value = Protected::new(tree::assemble(sexp::at(kept, OUT_TREE), "out_tree", || {
        next += 1;
        array(call, program, kept, outputs, next - 1)
    })?);
    // Holds the buffers that are made for this call.
    let made = Protected::new(sexp::vector(SEXPTYPE::VECSXP, request.leaves.len() + program.phantoms.len()));
    sexp::over_jumps(InputObjects::new(), |values| {
        inputs(call, request, program, kept, made.sexp(), values)?;
        // SAFETY: the inputs are protected by the arguments, by `kept` and by `made`; the outputs above.
        unsafe { execute::launch(executable, values, &ExecuteOptions::default(), outputs) }
    })?;
    Ok(value.sexp())
}

/// Collects the program's inputs: constants, the inputs of the call, and buffers to take over.
fn inputs(
    call: &Call,
    request: &Request,
    program: &Program,
    kept: SEXP,
    made: SEXP,
    values: &mut InputObjects,
) -> Result<()> {
    let mut count = 0;
    let mut hold = |value| {
        sexp::set_at(made, count, value);
        count += 1;
        value
    };
    values.extend(sexp::elements(sexp::at(kept, CONSTANTS)));
    for (i, (leaf, aval)) in request.inputs().enumerate() {
        values.push(if let Some(host_type) = leaf.data {
            let dtype = program.input_dtypes.get(i).copied().flatten().unwrap_or(aval.dtype);
            hold(buffer::uploaded(leaf.value, host_type, dtype, &program.device, &aval.dims, Check::Missing)?)
        } else if call.dispatcher.move_inputs {
            hold(buffer::copied(leaf.value, &program.device)?)
        } else {
            leaf.value
        });
    }
    for spec in &program.phantoms {
        values.push(hold(buffer::zeros(spec.dtype, &spec.dims, &program.device)?));
    }
    Ok(())
}

/// An output as an array of the dependents' class; not protected. R may leave this by a long jump.
fn array(call: &Call, program: &Program, kept: SEXP, outputs: NewOutputs, i: usize) -> SEXP {
    let is_newer = call.dispatcher.is_newer;
    let names = request::field_names(is_newer);
    let array = Protected::new(sexp::vector(SEXPTYPE::VECSXP, sexp::len(names)));
    let dtype = program.executable.signature().outputs[i].dtype;
    sexp::set_at(array.sexp(), 0, outputs.handle(i));
    sexp::set_at(array.sexp(), 1, request::data_type(dtype));
    sexp::set_at(array.sexp(), 2, sexp::at(sexp::at(kept, SHAPES), i));
    sexp::set_at(array.sexp(), 3, sexp::at(kept, DEVICE));
    if !is_newer {
        sexp::set_at(array.sexp(), 4, sexp::new_flag(program.ambiguous[i]));
    }
    sexp::set_at(array.sexp(), sexp::len(names) - 1, sexp::at(call.parts, BACKEND));
    sexp::set_names(array.sexp(), names);
    sexp::set_class(array.sexp(), request::array_class());
    array.sexp()
}
