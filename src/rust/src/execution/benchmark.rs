//! Timed runs of programs.

use crate::arrays::buffer;
use crate::calls::custom_call;
use crate::execution::inputs::{self, Given};
use crate::execution::{execute, operators};
use crate::memory;
use crate::r::conditions::Result;
use crate::r::handle;
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::SEXPTYPE;
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::timing::{self, Donated};
use pjrt_core::{Buffer, Executable};
use std::borrow::Cow;

/// What is timed.
struct Subject<'a> {
    executable: &'a Executable,
    options: Cow<'a, ExecuteOptions>,
    /// In the program's order and layouts.
    inputs: Given,
    /// For each input that a run takes over: the program that lays out its copies, which are row-major.
    layouts: Vec<Option<Executable>>,
    _protected: Option<Protected<'static>>,
}

/// R may leave this by a long jump.
fn subject<'a>(executable: &'a Robj, inputs: &Robj, options: &'a Robj) -> Result<Subject<'a>> {
    let executable: &Executable = handle::get(sexp::of(executable), "executable")?;
    let options = execute::options_for(executable, sexp::of(options))?;
    let mut given = inputs::given(executable, sexp::of(inputs))?;
    let laid_out = operators::laid_out(executable, execute::buffers(executable, &given.values)?)?.map(Protected::new);
    if let Some(list) = &laid_out {
        given.values = sexp::elements(list.sexp()).collect();
    }
    let mut layouts = Vec::new();
    for (i, buffer) in execute::buffers(executable, &given.values)?.into_iter().enumerate() {
        let is_copied = executable.donates(i, &options) && !buffer.is_dead();
        layouts.push(if is_copied { operators::layout_program(buffer)? } else { None });
    }
    Ok(Subject { executable, options, inputs: given, layouts, _protected: laid_out })
}

impl Subject<'_> {
    /// A complete copy of an input, in its layout.
    fn copy(&self, index: usize, input: &Buffer) -> pjrt_base::error::Result<Buffer> {
        let copy = input.duplicate()?;
        let Some(Some(program)) = self.layouts.get(index) else { return Ok(copy) };
        let outputs = program.execute(&[&copy], &ExecuteOptions::default())?;
        let laid_out = outputs.into_iter().next().unwrap_or(copy);
        laid_out.wait()?;
        Ok(laid_out)
    }
}

/// Calls `time` with an executable, its inputs in the program's order, its options, and what copies an input.
fn timed<T>(
    executable: &Robj,
    inputs: &Robj,
    options: &Robj,
    time: impl Fn(&Executable, &[&Buffer], &ExecuteOptions, timing::CopyInput) -> pjrt_base::error::Result<T>,
) -> Result<T> {
    let subject = subject(executable, inputs, options)?;
    let executable = subject.executable;
    custom_call::read_limits(executable);
    let buffers = execute::buffers(executable, &subject.inputs.values)?;
    let copy = |index: usize, input: &Buffer| subject.copy(index, input);
    Ok(memory::with_retry(|| executable.needs(), || time(executable, &buffers, &subject.options, &copy))?)
}

/// The seconds of each of `times` runs, each awaited. Donated inputs are copied for each run, or fed back from the outputs.
pub fn benchmark_runs(executable: Robj, inputs: Robj, options: Robj, times: f64, feeds_back: bool) -> Result<Robj> {
    let donated = if feeds_back { Donated::FedBack } else { Donated::Copied };
    let run = |e: &Executable, inputs: &[&Buffer], options: &ExecuteOptions, copy: timing::CopyInput| {
        e.time_runs(inputs, options, copy, donated, times as usize)
    };
    Ok(timed(&executable, &inputs, &options, run)?.into())
}

/// The seconds of `times` runs, with up to `depth` of them in flight at any time.
pub fn benchmark_in_flight(executable: Robj, inputs: Robj, options: Robj, times: f64, depth: f64) -> Result<Robj> {
    let run = |e: &Executable, inputs: &[&Buffer], options: &ExecuteOptions, copy: timing::CopyInput| {
        e.time_in_flight(inputs, options, copy, times as usize, depth as usize)
    };
    Ok(timed(&executable, &inputs, &options, run)?.into())
}

/// The inputs in the program's order, with copies of those that a run takes over.
pub fn benchmark_inputs(executable: Robj, inputs: Robj, options: Robj) -> Result<Robj> {
    let subject = subject(&executable, &inputs, &options)?;
    let (executable, values) = (subject.executable, &subject.inputs.values);
    let set = Protected::new(sexp::vector(SEXPTYPE::VECSXP, values.len()));
    for (i, (&value, given)) in values.iter().zip(execute::buffers(executable, values)?).enumerate() {
        let is_copied = executable.donates(i, &subject.options);
        let copy = || buffer::made(|| buffer::needs(given.spec()), || subject.copy(i, given));
        sexp::set_at(set.sexp(), i, if is_copied { copy()? } else { value });
    }
    Ok(sexp::robj(set.sexp()))
}
