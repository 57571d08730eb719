//! Execution: one call from R, one call of the plugin.

use crate::calls::custom_call;
use crate::execution::inputs::{self, InputObjects};
use crate::execution::operators;
use crate::memory;
use crate::r::conditions::{flag, Failure, Result};
use crate::r::describe::describe;
use crate::r::entry::entry;
use crate::r::handle::{self, EmptyHandle};
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::{SEXP, SEXPTYPE, VECTOR_ELT};
use pjrt_base::counted::counted;
use pjrt_base::{error::Error, error::Kind};
use pjrt_core::executable::execute::{ExecuteOptions, Outputs};
use pjrt_core::{Buffer, Device, Executable};
use pjrt_program::names;
use std::borrow::Cow;
use std::ffi::CStr;

/// Options of an execution as R gives them.
pub struct ExecutionOptions {
    options: ExecuteOptions,
    kept: Option<KeptInputs>,
}

owned!(
    ExecutionOptions,
    c"PJRTExecutionOptions",
    // the class that dependents know
    const PARENT_CLASS: Option<&'static CStr> = Some(c"PJRTExecuteOptions");
);

/// Inputs whose memory the program must not take over, to be looked up among an executable's.
pub enum KeptInputs {
    Names(Vec<String>),
    /// From 1.
    Numbers(Vec<usize>),
}

impl ExecutionOptions {
    /// The options for this executable.
    ///
    /// # Errors
    /// `InvalidInput` for inputs that the program does not have.
    pub fn for_executable(&self, executable: &Executable) -> Result<Cow<'_, ExecuteOptions>> {
        let Some(kept) = &self.kept else { return Ok(Cow::Borrowed(&self.options)) };
        let mut options = self.options.clone();
        options.non_donatable.extend(kept.indices(executable)?.into_iter().map(|index| index as i64));
        Ok(Cow::Owned(options))
    }
}

impl KeptInputs {
    /// From 0.
    fn indices(&self, executable: &Executable) -> Result<Vec<usize>> {
        let inputs = &executable.signature().inputs;
        match self {
            KeptInputs::Numbers(numbers) => match numbers.iter().find(|&&number| number > inputs.len()) {
                Some(number) => bail!(
                    InvalidInput,
                    "`keep_inputs` has the number {number}, but the program takes {}.",
                    counted(inputs.len(), "argument")
                ),
                None => Ok(numbers.iter().map(|number| number - 1).collect()),
            },
            KeptInputs::Names(wanted) => {
                let names: Vec<_> = inputs.iter().map(|input| input.name.as_str()).collect();
                let mut indices = Vec::with_capacity(wanted.len());
                for name in wanted {
                    let index = match position(&names, name) {
                        Ok(index) => index,
                        Err(problem) => bail!(InvalidInput, "`keep_inputs` names the argument `{name}`, {problem}"),
                    };
                    if indices.contains(&index) {
                        bail!(InvalidInput, "`keep_inputs` names the argument `{}` twice.", names[index]);
                    }
                    indices.push(index);
                }
                Ok(indices)
            }
        }
    }
}

/// The position, from 0, of a program's argument. The "%" of MLIR may be left out.
///
/// # Errors
/// What to say when there is no such argument.
pub fn position(names: &[&str], wanted: &str) -> std::result::Result<usize, String> {
    const SHOWN: usize = 10;
    if let Some(index) = names.iter().position(|name| *name == wanted || name.strip_prefix('%') == Some(wanted)) {
        return Ok(index);
    }
    if let Some(index) = names::find(names, wanted) {
        return Ok(index);
    }
    let known: Vec<_> = names.iter().filter(|name| !name.is_empty()).map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return Err("but the program takes no arguments.".to_owned());
    }
    if known.is_empty() {
        return Err("but this program's arguments have no names; give their numbers, from 1.".to_owned());
    }
    let known = names::first_of(&known, SHOWN);
    Err(format!("which the program does not have. Its arguments are {known}."))
}

/// Options of an execution.
pub fn execute_options_new(
    non_donatable: Vec<i32>,
    launch_id: i32,
    device: Option<&Device>,
    kept: Robj,
) -> Result<Robj> {
    let kept = match (kept.as_string_vector(), kept.as_integer_slice()) {
        (Some(names), _) if !names.is_empty() => Some(KeptInputs::Names(names)),
        (None, Some(numbers)) if !numbers.is_empty() => {
            Some(KeptInputs::Numbers(numbers.iter().map(|&number| number.max(1) as usize).collect()))
        }
        _ => None,
    };
    Ok(sexp::robj(new_options(non_donatable, launch_id, device.cloned(), kept)?))
}

/// Options with these inputs, from 0, whose memory the program must not take over; not protected.
pub fn new_options(
    non_donatable: Vec<i32>,
    launch_id: i32,
    device: Option<Device>,
    kept: Option<KeptInputs>,
) -> Result<SEXP> {
    if let Some(bad) = non_donatable.iter().find(|&&index| index < 0) {
        bail!(InvalidInput, "`non_donatable_input_indices` must not be negative: got {bad}.");
    }
    let non_donatable = non_donatable.into_iter().map(i64::from).collect();
    Ok(handle::wrap(ExecutionOptions { options: ExecuteOptions { non_donatable, launch_id, device }, kept }))
}

/// The options of an execution.
pub fn execute_options_describe(options: Robj) -> Result<Robj> {
    let ExecutionOptions { options, kept } = handle::get(sexp::of(&options), "options")?;
    let kept = match kept {
        None => Vec::new(),
        Some(KeptInputs::Names(names)) => names.clone(),
        Some(KeptInputs::Numbers(numbers)) => numbers.iter().map(ToString::to_string).collect(),
    };
    Ok(list!(
        non_donatable = options.non_donatable.iter().map(|&i| i as i32).collect::<Vec<_>>(),
        launch_id = options.launch_id,
        device = options.device.as_ref().map(|device| device.label().to_owned()),
        kept = kept
    )
    .into())
}

/// The options that an execution's R argument means.
pub fn options_for<'a>(executable: &Executable, options: SEXP) -> Result<Cow<'a, ExecuteOptions>> {
    if sexp::is_nil(options) {
        return Ok(Cow::Owned(ExecuteOptions::default()));
    }
    handle::get::<ExecutionOptions>(options, "execution_options")?.for_executable(executable)
}

/// `executable_execute(executable, inputs, options, simplify, check)`: launches the program and returns its outputs at
/// once.
pub extern "C-unwind" fn executable_execute(
    executable: SEXP,
    inputs: SEXP,
    options: SEXP,
    simplify: SEXP,
    check: SEXP,
) -> SEXP {
    entry(&|| {
        let executable: &Executable = handle::get(executable, "executable")?;
        let simplify = flag(simplify, "simplify")?;
        flag(check, "check")?;
        memory::collect_under_pressure(executable.client())?;
        // R may leave this by a jump: nothing is owned yet.
        let outputs = NewOutputs::new(executable, simplify);
        let _protected = Protected::new(outputs.value());

        if let Some(names) = &executable.signature().output_names {
            outputs.set_names(names);
        }

        let options = options_for(executable, options)?;
        custom_call::read_limits(executable);
        let given = inputs::given(executable, inputs)?;
        // SAFETY: protected above.
        unsafe { launch(executable, &given.values, &options, outputs)? };
        Ok(outputs.value())
    })
}

/// Launches the program with these R objects as inputs, and fills the outputs.
///
/// # Safety
/// The caller protects the R objects, and has protected the outputs, which are new and this program's, since they were made.
pub unsafe fn launch(
    executable: &Executable,
    values: &[SEXP],
    options: &ExecuteOptions,
    outputs: NewOutputs,
) -> Result<()> {
    let inputs = buffers(executable, values)?;
    // SAFETY: by the caller.
    match unsafe { run(executable, &inputs, values, options, outputs) } {
        Err(Failure(error)) if operators::is_by_layout(&error, executable, &inputs) => drop(error),
        outcome => return outcome,
    }
    let relaid = Protected::new(sexp::over_jumps(inputs, |inputs| operators::relaid(executable, inputs))?);
    let values: InputObjects = sexp::elements(relaid.sexp()).collect();
    // SAFETY: by the caller.
    unsafe { run(executable, &buffers(executable, &values)?, &values, options, outputs) }
}

/// # Safety
/// As [`launch`].
unsafe fn run(
    executable: &Executable,
    inputs: &[&Buffer],
    values: &[SEXP],
    options: &ExecuteOptions,
    outputs: NewOutputs,
) -> Result<()> {
    let made = memory::with_retry(|| executable.needs(), || executable.execute(inputs, options))?;
    // SAFETY: by the caller; the inputs were found to be buffers.
    unsafe {
        outputs.fill(made);
        move_weights(executable, values, options, outputs);
    }
    Ok(())
}

pub type Inputs<'a> = smallvec::SmallVec<[&'a Buffer; 16]>;

/// The buffers of these R objects.
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
    Failure(Error::new(Kind::InvalidType, message))
}

/// The R objects of an execution's outputs, created before the outputs: one handle, or a list of handles.
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
            return Self::made(EmptyHandle::<Buffer>::sized(specs[0].bytes()).sexp());
        }
        Self::made(sexp::list(specs.iter().map(|spec| EmptyHandle::<Buffer>::sized(spec.bytes()).sexp())))
    }

    /// The outputs that were created before.
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

    /// Names the elements of a list. The caller protects it; R may leave this by a long jump.
    #[cold]
    pub fn set_names(self, names: &[String]) {
        if !self.is_list {
            return;
        }
        let names = Protected::new(sexp::new_strings(names.iter().map(String::as_str)));
        sexp::set_names(self.value, names.sexp());
    }

    /// The handle of an output.
    pub fn handle(self, index: usize) -> SEXP {
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
            unsafe { EmptyHandle::from_sexp(self.handle(i)).fill(output) };
        });
    }
}

/// Moves the R object that counts a donated input's memory to the output that lives in this memory.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found_by_name_with_or_without_the_percent_sign() {
        assert_eq!(position(&["%x", "%y"], "y"), Ok(1));
        assert_eq!(position(&["%x", "%y"], "%y"), Ok(1));
        assert_eq!(position(&["", "Arg_1.1"], "Arg_1.1"), Ok(1));
        assert_eq!(position(&["x", "p['w']"], "p$w"), Ok(1));
        let problem = |names: &[&str]| position(names, "z").unwrap_err();
        assert_eq!(problem(&["%x", ""]), "which the program does not have. Its arguments are `%x`.");
        assert_eq!(problem(&["", ""]), "but this program's arguments have no names; give their numbers, from 1.");
        assert_eq!(problem(&[]), "but the program takes no arguments.");
    }
}
