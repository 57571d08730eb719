//! Execution: one call from R, one call of the plugin.

use crate::conditions::{entry, flag, Failure, Result};
use crate::describe::describe;
use crate::handle::{self, Empty};
use crate::memory;
use crate::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::{SEXP, SEXPTYPE, VECTOR_ELT};
use pjrt_base::{error::Error, error::Kind};
use pjrt_core::executable::execute::{ExecuteOptions, Outputs};
use pjrt_core::{Buffer, Executable};

/// Options of an execution.
#[extendr]
fn execute_options_new(non_donatable: Vec<i32>, launch_id: i32, device: Robj) -> Result<Robj> {
    let device = if device.is_null() { None } else { Some(handle::get(sexp::of(&device), "device")?) };
    if let Some(bad) = non_donatable.iter().find(|&&i| i < 0) {
        bail!(InvalidInput, "`non_donatable_input_indices` are counted from 0; {bad} is none.");
    }
    let non_donatable = non_donatable.into_iter().map(i64::from).collect();
    Ok(handle::object(ExecuteOptions { non_donatable, launch_id, device: device.cloned() }))
}

/// What options of an execution say.
#[extendr]
fn execute_options_describe(options: Robj) -> Result<Robj> {
    let options: &ExecuteOptions = handle::get(sexp::of(&options), "options")?;
    Ok(list!(
        non_donatable = options.non_donatable.iter().map(|&i| i as i32).collect::<Vec<_>>(),
        launch_id = options.launch_id,
        device = options.device.as_ref().map(|device| device.label().to_owned())
    )
    .into())
}

/// `executable_execute(executable, inputs, options, simplify, check)`: launches the program and gives its outputs at once.
pub extern "C" fn executable_execute(
    executable: SEXP,
    inputs: SEXP,
    options: SEXP,
    simplify: SEXP,
    check: SEXP,
) -> SEXP {
    entry(|| {
        let executable: &Executable = handle::get(executable, "executable")?;
        let simplify = flag(simplify, "simplify")?;
        let check = flag(check, "check")?;
        memory::relieve_pressure(executable.client())?;
        // R may leave this by a jump: nothing is owned yet.
        let outputs = NewOutputs::new(executable, simplify);
        let _protected = Protected::new(outputs.value());

        if check && !sexp::is_nil(sexp::names(inputs)) {
            bail!(InvalidInput, "Expected unnamed arguments: a program's inputs go by position.");
        }
        let default = ExecuteOptions::default();
        let options = if sexp::is_nil(options) { &default } else { handle::get(options, "execution_options")? };
        let values: Values = sexp::elements(inputs).collect();
        let inputs = buffers(executable, &values)?;
        let made = memory::with_retry(|| executable.needs(), || executable.execute(&inputs, options))?;
        // SAFETY: protected above; the inputs were found to be buffers.
        unsafe {
            outputs.fill(made);
            move_weights(executable, &values, options, outputs);
        }
        Ok(outputs.value())
    })
}

/// R objects that are given as inputs.
pub type Values = smallvec::SmallVec<[SEXP; 16]>;
pub type Inputs<'a> = smallvec::SmallVec<[&'a Buffer; 16]>;

/// The buffers that these R objects are.
pub fn buffers<'a>(executable: &Executable, values: &[SEXP]) -> Result<Inputs<'a>> {
    let buffer = |(i, &x): (usize, &SEXP)| handle::get(x, "input").map_err(|_| no_buffer(executable, x, i));
    values.iter().enumerate().map(buffer).collect()
}

#[cold]
fn no_buffer(executable: &Executable, x: SEXP, index: usize) -> Failure {
    let argument = executable.signature().argument(index);
    if sexp::kind(x) == SEXPTYPE::EXTPTRSXP && sexp::inherits(x, c"PJRTBuffer") {
        return handle::no_handle::<Buffer>(x, &argument);
    }
    let message = format!("{argument} must be a `PJRTBuffer`, not {}; create it with pjrt_buffer().", describe(x));
    Failure(Error::new(Kind::InvalidInput, message))
}

/// The R objects of an execution's outputs, made before there is anything to put into them: the handle itself, or a list
/// of handles.
#[derive(Clone, Copy)]
pub struct NewOutputs {
    value: SEXP,
    is_list: bool,
}

impl NewOutputs {
    /// Not protected. R may leave this by a long jump.
    pub fn new(executable: &Executable, simplify: bool) -> Self {
        let specs = &executable.signature().outputs;
        if executable.client().shares_host_memory() {
            specs.iter().for_each(|spec| memory::count_result(spec.bytes()));
        }
        if simplify && specs.len() == 1 {
            return Self::made(Empty::<Buffer>::sized(specs[0].bytes()).sexp());
        }
        let list = Protected::new(sexp::vector(SEXPTYPE::VECSXP, specs.len()));
        for (i, spec) in specs.iter().enumerate() {
            sexp::set_at(list.sexp(), i, Empty::<Buffer>::sized(spec.bytes()).sexp());
        }
        Self::made(list.sexp())
    }

    /// Those that were made before.
    ///
    /// # Safety
    /// `value` is [`NewOutputs::value`] of those, for the same program.
    pub unsafe fn of(value: SEXP) -> Self {
        Self::made(value)
    }

    fn made(value: SEXP) -> Self {
        NewOutputs { value, is_list: sexp::kind(value) == SEXPTYPE::VECSXP }
    }

    pub fn value(self) -> SEXP {
        self.value
    }

    fn handle(self, index: usize) -> SEXP {
        if self.is_list {
            // SAFETY: `new` made the list, with an element for each output of the program.
            unsafe { VECTOR_ELT(self.value, index as _) }
        } else {
            self.value
        }
    }

    /// Gives the handles their values.
    ///
    /// # Safety
    /// The caller has protected them since they were made, and they are filled for the first time, with the outputs of the
    /// program that they were made for.
    pub unsafe fn fill(self, outputs: Outputs) {
        outputs.into_iter().enumerate().for_each(|(i, output)| {
            // SAFETY: `new` made the handle, for a buffer.
            unsafe { Empty::again(self.handle(i)).fill(output) };
        });
    }
}

/// An output that lives in a donated input's memory takes over what weighs that memory in R.
///
/// # Safety
/// The inputs and outputs are handles of buffers, for this program, which the caller protects.
pub unsafe fn move_weights(executable: &Executable, inputs: &[SEXP], options: &ExecuteOptions, outputs: NewOutputs) {
    for (output, alias) in executable.signature().aliases.iter().enumerate() {
        if let Some(input) = alias.filter(|&input| executable.donates(input, options)) {
            // SAFETY: both are handles that the caller protects.
            unsafe { handle::move_weight(inputs[input], outputs.handle(output)) };
        }
    }
}

extendr_module! {
    mod execute;
    fn execute_options_new;
    fn execute_options_describe;
}
