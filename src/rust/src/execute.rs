//! Execution: one call from R, one call of the plugin.

use crate::conditions::{entry, flag, refuse, Outcome};
use crate::handle::{self, Empty};
use crate::memory;
use crate::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::{R_NamesSymbol, Rf_getAttrib, Rf_install, SET_VECTOR_ELT, SEXP, SEXPTYPE, VECTOR_ELT};
use pjrt_core::execute::{Dispatch, ExecuteOptions};
use pjrt_core::{Buffer, Executable};
use std::mem::ManuallyDrop;

/// Options of an execution.
#[extendr]
fn execute_options_new(non_donatable: Vec<i32>, launch_id: i32, device: Robj) -> Outcome<Robj> {
    let device = if device.is_null() { None } else { Some(handle::get(unsafe { device.get() }, "device")?) };
    if let Some(bad) = non_donatable.iter().find(|&&i| i < 0) {
        refuse!(InvalidInput, "`non_donatable_input_indices` are counted from 0; {bad} is none.");
    }
    let non_donatable = non_donatable.into_iter().map(i64::from).collect();
    Ok(handle::object(ExecuteOptions { non_donatable, launch_id, device: device.cloned() }))
}

/// `executable_execute(executable, inputs, options, simplify, check)`: launches the program on a list of buffers and gives
/// its outputs at once: the one output itself when `simplify` is TRUE, else a list.
pub extern "C" fn executable_execute(
    executable: SEXP,
    inputs: SEXP,
    options: SEXP,
    simplify: SEXP,
    check: SEXP,
) -> SEXP {
    entry(|| {
        let executable: &Executable = handle::get(executable, "executable")?;
        let (simplify, check) = (flag(simplify, "simplify")?, flag(check, "check")?);
        if check && !sexp::is_nil(unsafe { Rf_getAttrib(inputs, R_NamesSymbol) }) {
            refuse!(InvalidInput, "Expected unnamed arguments: a program's inputs go by position.");
        }
        let default = ExecuteOptions::default();
        let options = if sexp::is_nil(options) { &default } else { handle::get(options, "execution_options")? };
        let dispatch = dispatch_option()?;
        memory::relieve_pressure(executable.client());

        let specs = &executable.signature().outputs;
        let list = Protected::new(sexp::vector(SEXPTYPE::VECSXP, specs.len()));
        let handles = ManuallyDrop::into_inner(empty_outputs(list.sexp()));

        let buffers = input_buffers(inputs)?;
        let outputs = memory::with_retry(|| executable.execute(&buffers, options, dispatch))?;
        handles.into_iter().zip(outputs).for_each(|(handle, output)| {
            handle.fill(output);
        });
        move_weights(executable, inputs, options, list.sexp());
        Ok(if simplify && specs.len() == 1 { unsafe { VECTOR_ELT(list.sexp(), 0) } } else { list.sexp() })
    })
}

pub type Inputs<'a> = smallvec::SmallVec<[&'a Buffer; 16]>;
pub type EmptyOutputs = smallvec::SmallVec<[Empty<Buffer>; 4]>;

/// Fills a list, which the caller protects, with handles of outputs to come. R may leave this by a long jump.
pub fn empty_outputs(list: SEXP) -> ManuallyDrop<EmptyOutputs> {
    let output = |i: usize| {
        let handle = Empty::<Buffer>::new();
        unsafe { SET_VECTOR_ELT(list, i as _, handle.sexp()) };
        handle
    };
    ManuallyDrop::new((0..sexp::len(list)).map(output).collect())
}

/// The buffers in a list of inputs.
pub fn input_buffers<'a>(inputs: SEXP) -> Outcome<Inputs<'a>> {
    (0..sexp::len(inputs)).map(|i| input(inputs, i)).collect()
}

fn input<'a>(inputs: SEXP, index: usize) -> Outcome<&'a Buffer> {
    let x = unsafe { VECTOR_ELT(inputs, index as _) };
    match handle::get(x, "input") {
        Ok(buffer) => Ok(buffer),
        Err(_) if sexp::kind(x) == SEXPTYPE::EXTPTRSXP && sexp::inherits(x, c"PJRTBuffer") => {
            refuse!(
                InvalidPointer,
                "Input {} is a null pointer: a buffer does not survive saving and loading.",
                index + 1
            )
        }
        Err(_) => refuse!(InvalidInput, "Input {} must be a `PJRTBuffer`; create it with pjrt_buffer().", index + 1),
    }
}

/// An output that lives in a donated input's memory takes over what weighs that memory in R.
pub fn move_weights(executable: &Executable, inputs: SEXP, options: &ExecuteOptions, outputs: SEXP) {
    for (output, alias) in executable.signature().aliases.iter().enumerate() {
        if let Some(input) = alias.filter(|&input| executable.donates(input, options)) {
            unsafe { handle::move_weight(VECTOR_ELT(inputs, input as _), VECTOR_ELT(outputs, output as _)) };
        }
    }
}

/// Where to call the plugin from: `options(pjrt.dispatch = )`.
pub fn dispatch_option() -> Outcome<Dispatch> {
    let option = unsafe { sexp::Rf_GetOption1(Rf_install(c"pjrt.dispatch".as_ptr())) };
    match sexp::string(option) {
        None if sexp::is_nil(option) => Ok(Dispatch::Auto),
        Some("auto") => Ok(Dispatch::Auto),
        Some("inline") => Ok(Dispatch::Inline),
        Some("thread") => Ok(Dispatch::Thread),
        _ => refuse!(InvalidInput, "`options(pjrt.dispatch = )` must be \"auto\", \"inline\" or \"thread\"."),
    }
}

extendr_module! {
    mod execute;
    fn execute_options_new;
}
