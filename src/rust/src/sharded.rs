//! Execution on several devices at once: one call from R, one launch of the plugin.

use crate::conditions::{entry, flag, refuse, Failure, Outcome};
use crate::execute::{dispatch_option, empty_outputs, input_buffers, move_weights, EmptyOutputs, Inputs};
use crate::handle;
use crate::memory;
use crate::sexp::{self, Protected};
use extendr_ffi::{R_NamesSymbol, Rf_getAttrib, SET_VECTOR_ELT, SEXP, SEXPTYPE, VECTOR_ELT};
use pjrt_core::execute::ExecuteOptions;
use pjrt_core::Executable;
use std::mem::ManuallyDrop;

/// `executable_execute_sharded(executable, inputs, options, simplify)`: launches the program on the buffers of each device
/// and gives its outputs at once, a list with one element for each device: the one output itself when `simplify` is TRUE,
/// else a list.
pub extern "C" fn executable_execute_sharded(executable: SEXP, inputs: SEXP, options: SEXP, simplify: SEXP) -> SEXP {
    entry(|| {
        let executable: &Executable = handle::get(executable, "executable")?;
        let simplify = flag(simplify, "simplify")?;
        let default = ExecuteOptions::default();
        let options = if sexp::is_nil(options) { &default } else { handle::get(options, "execution_options")? };
        let dispatch = dispatch_option()?;
        memory::relieve_pressure(executable.client());
        let lists = Protected::new(input_lists(inputs)?);

        let devices = sexp::len(lists.sexp());
        let specs = &executable.signature().outputs;
        let results = Protected::new(sexp::vector(SEXPTYPE::VECSXP, devices));
        let mut handles: ManuallyDrop<Vec<ManuallyDrop<EmptyOutputs>>> = ManuallyDrop::new(Vec::with_capacity(devices));
        for device in 0..devices {
            let outputs = sexp::vector(SEXPTYPE::VECSXP, specs.len());
            unsafe { SET_VECTOR_ELT(results.sexp(), device as _, outputs) };
            handles.push(empty_outputs(outputs));
        }
        let handles: Vec<_> = ManuallyDrop::into_inner(handles).into_iter().map(ManuallyDrop::into_inner).collect();

        let buffers = (0..devices).map(|device| {
            let buffers = checked_inputs(unsafe { VECTOR_ELT(lists.sexp(), device as _) });
            buffers.map_err(|Failure(error)| Failure(executable.for_device(device, error)))
        });
        let buffers = buffers.collect::<Outcome<Vec<Inputs>>>()?;
        let inputs: Vec<_> = buffers.iter().map(|inputs| inputs.as_slice()).collect();
        let made = memory::with_retry(|| executable.execute_sharded(&inputs, options, dispatch))?;
        for (device, (handles, outputs)) in handles.into_iter().zip(made).enumerate() {
            handles.into_iter().zip(outputs).for_each(|(handle, output)| {
                handle.fill(output);
            });
            unsafe {
                let outputs = VECTOR_ELT(results.sexp(), device as _);
                move_weights(executable, VECTOR_ELT(lists.sexp(), device as _), options, outputs);
                if simplify && specs.len() == 1 {
                    SET_VECTOR_ELT(results.sexp(), device as _, VECTOR_ELT(outputs, 0));
                }
            }
        }
        Ok(results.sexp())
    })
}

/// The inputs as a list of lists: what is no list stands for a list of one. Not protected.
fn input_lists(inputs: SEXP) -> Outcome<SEXP> {
    if sexp::kind(inputs) != SEXPTYPE::VECSXP {
        refuse!(InvalidInput, "`inputs` must be a list with one list of buffers for each device.");
    }
    let lists = Protected::new(sexp::vector(SEXPTYPE::VECSXP, sexp::len(inputs)));
    for i in 0..sexp::len(inputs) {
        let list = unsafe { VECTOR_ELT(inputs, i as _) };
        let list = if sexp::kind(list) == SEXPTYPE::VECSXP { list } else { sexp::list_of(list) };
        unsafe { SET_VECTOR_ELT(lists.sexp(), i as _, list) };
    }
    Ok(lists.sexp())
}

fn checked_inputs<'a>(list: SEXP) -> Outcome<Inputs<'a>> {
    if !sexp::is_nil(unsafe { Rf_getAttrib(list, R_NamesSymbol) }) {
        refuse!(InvalidInput, "Expected unnamed inputs: a program's inputs go by position.");
    }
    input_buffers(list)
}
