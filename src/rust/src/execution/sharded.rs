//! Execution on several devices at once: one call from R, one launch of the plugin.

use crate::calls::custom_call;
use crate::execution::execute::{buffers, move_weights, options_for, Inputs, NewOutputs};
use crate::execution::inputs::InputObjects;
use crate::execution::operators;
use crate::memory;
use crate::r::conditions::{flag, Failure, Result};
use crate::r::describe::describe;
use crate::r::handle;
use crate::r::sexp::{self, Protected};
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_core::Executable;

/// `executable_execute_sharded(executable, inputs, options, simplify)`: launches the program on the buffers of each
/// device and returns its outputs at once, in a list with one element for each device: the only output if `simplify` is
/// TRUE, otherwise a list.
pub fn executable_execute_sharded(executable: SEXP, inputs: SEXP, options: SEXP, simplify: SEXP) -> Result<SEXP> {
    let executable: &Executable = handle::get(executable, "executable")?;
    let simplify = flag(simplify, "simplify")?;
    let options = options_for(executable, options)?;
    custom_call::read_limits(executable);
    memory::collect_under_pressure(executable.client())?;
    let lists = Protected::new(input_lists(inputs)?);
    let devices = sexp::len(lists.sexp());
    let outputs = |_| NewOutputs::new(executable, simplify).value();
    let results = Protected::new(sexp::list((0..devices).map(outputs)));
    for device in 0..devices {
        lay_out(executable, lists.sexp(), device)?;
    }
    let of_device = |device| sexp::at(lists.sexp(), device);
    let values: Vec<InputObjects> = (0..devices).map(|device| sexp::elements(of_device(device)).collect()).collect();
    let checked = |(device, values): (usize, &InputObjects)| {
        let buffers = checked_inputs(executable, of_device(device), values);
        buffers.map_err(|Failure(error)| Failure(executable.for_device(device, error)))
    };
    let inputs = values.iter().enumerate().map(checked).collect::<Result<Vec<Inputs>>>()?;
    let inputs: Vec<_> = inputs.iter().map(|inputs| inputs.as_slice()).collect();
    let made = memory::with_retry(|| executable.needs(), || executable.execute_sharded(&inputs, &options))?;
    for (device, (values, made)) in values.iter().zip(made).enumerate() {
        // SAFETY: the list holds what was made for this program above; the inputs were found to be buffers.
        unsafe {
            let outputs = NewOutputs::of(sexp::at(results.sexp(), device));
            outputs.fill(made);
            move_weights(executable, values, &options, outputs);
        }
    }
    Ok(results.sexp())
}

/// The inputs as a list of lists: an element that is not a list becomes a list of one. Not protected.
fn input_lists(inputs: SEXP) -> Result<SEXP> {
    ensure!(
        sexp::kind(inputs) == SEXPTYPE::VECSXP,
        InvalidType,
        "`inputs` must be a list with one list of buffers for each device, not {}.",
        describe(inputs)
    );
    let of_device = |x| if sexp::kind(x) == SEXPTYPE::VECSXP { x } else { sexp::list([x]) };
    Ok(sexp::list(sexp::elements(inputs).map(of_device)))
}

/// Replaces the inputs of a device that have other layouts than the program expects by copies that have these. R may leave
/// this by a long jump.
fn lay_out(executable: &Executable, lists: SEXP, device: usize) -> Result<()> {
    let list = sexp::at(lists, device);
    let values: InputObjects = sexp::elements(list).collect();
    let relaid = sexp::over_jumps(values, |values| match checked_inputs(executable, list, values) {
        Ok(inputs) => operators::laid_out(executable, inputs),
        // What is wrong with them is said later.
        Err(_) => Ok(None),
    });
    if let Some(relaid) = relaid? {
        sexp::set_at(lists, device, relaid);
    }
    Ok(())
}

fn checked_inputs<'a>(executable: &Executable, list: SEXP, values: &[SEXP]) -> Result<Inputs<'a>> {
    if !sexp::is_nil(sexp::names(list)) {
        bail!(InvalidInput, "Expected unnamed inputs: a program's inputs are matched by position.");
    }
    buffers(executable, values)
}
