//! Timed runs of programs.

use crate::calls::custom_call;
use crate::execution::inputs::{self, Given};
use crate::execution::{execute, operators};
use crate::memory;
use crate::r::conditions::Result;
use crate::r::handle::{self, EmptyHandle};
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::timing::Donated;
use pjrt_core::{Buffer, Executable};
use std::borrow::Cow;
use std::mem::ManuallyDrop;

/// What is timed: an executable, its options, and its inputs in the program's order.
type Subject<'a> = (&'a Executable, Cow<'a, ExecuteOptions>, Given);

fn subject<'a>(executable: &'a Robj, inputs: &Robj, options: &'a Robj) -> Result<Subject<'a>> {
    let executable: &Executable = handle::get(sexp::of(executable), "executable")?;
    let options = execute::options_for(executable, sexp::of(options))?;
    Ok((executable, options, inputs::given(executable, sexp::of(inputs))?))
}

/// Calls `time` with an executable, its inputs in the program's order, and its options.
fn timed<T>(
    executable: &Robj,
    inputs: &Robj,
    options: &Robj,
    time: impl Fn(&Executable, &[&Buffer], &ExecuteOptions) -> pjrt_base::error::Result<T>,
) -> Result<T> {
    let (executable, options, given) = subject(executable, inputs, options)?;
    custom_call::read_limits(executable);
    let laid_out = laid_out(executable, &given.values)?;
    let values = laid_out.as_ref().map_or(given.values, |list| sexp::elements(list.sexp()).collect());
    let buffers = execute::buffers(executable, &values)?;
    Ok(memory::with_retry(|| executable.needs(), || time(executable, &buffers, &options))?)
}

/// The inputs in the layouts that the program expects, if some have others. R may leave this by a long jump.
fn laid_out(executable: &Executable, values: &[SEXP]) -> Result<Option<Protected<'static>>> {
    let buffers = ManuallyDrop::new(execute::buffers(executable, values)?);
    let list = match operators::are_laid_out(executable, &buffers) {
        true => Ok(None),
        false => operators::relaid(executable, &buffers).map(|list| Some(Protected::new(list))),
    };
    drop(ManuallyDrop::into_inner(buffers));
    list
}

/// The seconds of each of `times` runs, each awaited. Donated inputs are copied for each run, or fed back from the outputs.
#[extendr]
fn benchmark_runs(executable: Robj, inputs: Robj, options: Robj, times: f64, feeds_back: bool) -> Result<Robj> {
    let donated = if feeds_back { Donated::FedBack } else { Donated::Copied };
    let run = |e: &Executable, inputs: &[&Buffer], o: &ExecuteOptions| e.time_runs(inputs, o, donated, times as usize);
    Ok(timed(&executable, &inputs, &options, run)?.into())
}

/// The seconds of `times` runs, of which up to `depth` are in flight at any time.
#[extendr]
fn benchmark_in_flight(executable: Robj, inputs: Robj, options: Robj, times: f64, depth: f64) -> Result<Robj> {
    let run = |e: &Executable, inputs: &[&Buffer], options: &ExecuteOptions| {
        e.time_in_flight(inputs, options, times as usize, depth as usize)
    };
    Ok(timed(&executable, &inputs, &options, run)?.into())
}

/// The inputs in the program's order, with copies of those that a run takes over.
#[extendr]
fn benchmark_inputs(executable: Robj, inputs: Robj, options: Robj) -> Result<Robj> {
    let (executable, options, given) = subject(&executable, &inputs, &options)?;
    let laid_out = laid_out(executable, &given.values)?;
    let values = &laid_out.as_ref().map_or(given.values, |list| sexp::elements(list.sexp()).collect());
    let set = Protected::new(sexp::vector(SEXPTYPE::VECSXP, values.len()));
    for (i, (&value, buffer)) in values.iter().zip(execute::buffers(executable, values)?).enumerate() {
        sexp::set_at(set.sexp(), i, value);
        if executable.donates(i, &options) {
            let handle = EmptyHandle::<Buffer>::new();
            sexp::set_at(set.sexp(), i, handle.sexp());
            let copy = memory::with_retry(|| crate::arrays::buffer::needs(buffer.spec()), || buffer.duplicate())?;
            // SAFETY: the list protects it.
            unsafe { handle.fill(copy) };
        }
    }
    Ok(sexp::robj(set.sexp()))
}

extendr_module! {
    mod benchmark;
    fn benchmark_in_flight;
    fn benchmark_inputs;
    fn benchmark_runs;
}
