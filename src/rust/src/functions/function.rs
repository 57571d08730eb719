//! Functions of programs: a call from R with arrays and nested lists becomes one execution.

mod arguments;
pub mod description;

use crate::arrays::buffer;
use crate::calls::custom_call;
use crate::execution::execute::{self, NewOutputs};
use crate::execution::inputs::InputObjects;
use crate::functions::tree;
use crate::memory;
use crate::r::conditions::{Failure, Result};
use crate::r::describe::describe;
use crate::r::handle::{self, EmptyHandle};
use crate::r::sexp::{self, Protected};
use arguments::Arguments;
use extendr_ffi::{R_ExternalPtrProtected, SEXP, SEXPTYPE};
use pjrt_base::error::{Error, Kind};
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::Placement;
use pjrt_core::{Buffer, Device, Executable};
use pjrt_data::array::Spec;
use pjrt_data::convert::Check;
use pjrt_data::layout::format_dims;
use pjrt_program::callable::Callable as Description;
use pjrt_program::names;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::mem::ManuallyDrop;

owned!(Callable, c"PJRTCallable");

/// What a function of a program knows.
pub struct Callable {
    arguments: Arguments,
    /// For each leaf of the result, its output; `None` for the result of `pjrt_execute()`.
    outputs: Option<Vec<usize>>,
    /// Inputs whose dimensions choose the executable.
    symbolic: Vec<usize>,
    /// Whether it runs on several devices.
    is_sharded: bool,
    /// For each executable, those dimensions. The executables are in a list beside it.
    known: RefCell<Vec<Dims>>,
}

/// What one call owns.
#[derive(Default)]
struct Call {
    /// The inputs, if some of them were uploaded.
    inputs: InputObjects,
    /// The device to which arrays are uploaded, and on which a portable executable runs.
    device: Option<Device>,
}

/// Ranks and dimensions of several arrays.
type Dims = SmallVec<[i64; 8]>;

// R objects of a function, in a list in the handle's protected slot.
/// The environment of the R function.
const FUNCTION: usize = 0;
/// The structure of the result.
const TREE: usize = 1;
/// The names of the last call's lists.
const NAMES: usize = 2;
/// The list of executables, which grows.
const EXECUTABLES: usize = 3;
const PARTS: usize = 4;

/// How many executables a function keeps. The package's cache has the others.
const MOST: usize = 64;

/// `function_new(function, description)`: `function` is the environment of the R function, `description` the text of what is
/// known of it.
pub fn function_new(function: SEXP, description: SEXP) -> Result<SEXP> {
    let parts = Protected::new(sexp::vector(SEXPTYPE::VECSXP, PARTS));
    sexp::set_at(parts.sexp(), FUNCTION, function);
    sexp::set_at(parts.sexp(), EXECUTABLES, sexp::vector(SEXPTYPE::VECSXP, 0));
    let handle = EmptyHandle::<Callable>::over(parts.sexp());
    let _protected = Protected::new(handle.sexp());

    // SAFETY: the caller protects the text.
    let Some(text) = (unsafe { sexp::string(description) }) else {
        bail!(InvalidInput, "The function of a program is damaged: it has no description.");
    };
    let description = Description::of_text(text)?;
    let callable = Callable {
        arguments: Arguments::new(&description),
        outputs: description.result.as_ref().map(|result| result.rows.clone()),
        symbolic: description.symbolic(),
        is_sharded: description.devices > 1,
        known: RefCell::default(),
    };
    let tree = description.result.map(|result| result.tree);
    // R may jump while it makes the tree's handle: nothing may wait to be dropped meanwhile.
    let callable = ManuallyDrop::new(callable);
    if let Some(tree) = tree {
        sexp::set_at(parts.sexp(), TREE, tree::handle_of_tree(tree));
    }
    // SAFETY: protected above.
    Ok(unsafe { handle.fill(ManuallyDrop::into_inner(callable)) })
}

/// `function_call(callable, args)`: runs the program with these arguments, a list with one element for each formal.
pub fn function_call(callable: SEXP, args: SEXP) -> Result<SEXP> {
    let made = Protected::new(if handle::is_null(callable) { made_again(callable) } else { callable });
    let callable = made.sexp();
    let (callable, parts) = (handle::get::<Callable>(callable, "f")?, parts_of(callable));
    let given = callable.arguments.inputs(args, parts, NAMES)?;
    sexp::over_jumps(given, |given| callable.run(parts, &given.values))
}

/// The handle of a function that R has read, as `make_callable()` in R/function.R makes it again; not protected. R may leave
/// this by a long jump.
#[cold]
fn made_again(callable: SEXP) -> SEXP {
    let parts = parts_of(callable);
    match sexp::kind(parts) {
        SEXPTYPE::VECSXP if sexp::len(parts) == PARTS => sexp::call_ours(c"make_callable", sexp::at(parts, FUNCTION)),
        _ => callable,
    }
}

/// The R objects of a handle.
fn parts_of(callable: SEXP) -> SEXP {
    // SAFETY: a handle, so an external pointer.
    unsafe { R_ExternalPtrProtected(callable) }
}

impl Callable {
    /// Runs the program with these inputs, which the caller protects. R may leave this by a long jump.
    fn run(&self, parts: SEXP, values: &InputObjects) -> Result<SEXP> {
        let held = Protected::new(self.executable(parts, values)?);
        if self.is_sharded {
            return self.run_on_devices(parts, held.sexp(), values);
        }
        let executable: &Executable = handle::get(held.sexp(), "executable")?;
        memory::collect_under_pressure(executable.client())?;
        custom_call::read_limits(executable);
        let outcome = sexp::over_jumps(Call::default(), |call| self.launch(parts, executable, values, call));
        outcome.map_err(|failure| self.renamed(executable, failure))
    }

    /// Runs the program on several devices, as `execute_on_devices()` in R/function.R does. R may leave this by a long jump.
    fn run_on_devices(&self, parts: SEXP, executable: SEXP, values: &InputObjects) -> Result<SEXP> {
        let inputs = Protected::new(sexp::list(values.iter().copied()));
        let call = Protected::new(sexp::list([sexp::at(parts, FUNCTION), executable, inputs.sexp()]));
        let outputs = Protected::new(sexp::call_ours(c"execute_on_devices", call.sexp()));
        let count = sexp::len(outputs.sexp());
        match &self.outputs {
            Some(chosen) => assembled(parts, chosen, count, |output| sexp::at(outputs.sexp(), output)),
            None => Ok(if count == 1 { sexp::at(outputs.sexp(), 0) } else { outputs.sexp() }),
        }
    }

    /// An error that names an argument of the program names it as the function does.
    #[cold]
    fn renamed(&self, executable: &Executable, Failure(error): Failure) -> Failure {
        let mut message = error.message().to_owned();
        for (input, (path, own)) in executable.signature().inputs.iter().zip(self.arguments.inputs_in_order()) {
            let known = format!("(`{}`)", input.name);
            if names::normal(&input.name) != *path {
                message = message.replace(&known, &format!("(`{}`, `{own}` of the function)", input.name));
            } else if input.name.contains(['[', '.']) {
                message = message.replace(&known, &format!("(`{own}`)"));
            }
        }
        Failure(if message == error.message() { error } else { error.reworded(message) })
    }

    fn launch(&self, parts: SEXP, executable: &Executable, values: &InputObjects, call: &mut Call) -> Result<SEXP> {
        let mut inputs = values;
        let has_data = values.iter().any(|&x| !is_buffer(x));
        if has_data || matches!(executable.placement(), Placement::Portable) {
            call.device = device_for(executable, values);
        }
        let made = Protected::new(if has_data { sexp::vector(SEXPTYPE::VECSXP, values.len()) } else { sexp::nil() });
        if has_data {
            for (i, &x) in values.iter().enumerate() {
                let input = if is_buffer(x) { x } else { upload(executable, call.device.as_ref(), i, x)? };
                sexp::set_at(made.sexp(), i, input);
                call.inputs.push(input);
            }
            inputs = &call.inputs;
        }
        // All R objects come before the launch, so that nothing can fail after it.
        let outputs = NewOutputs::new(executable, self.is_single(parts, executable)?);
        let _outputs = Protected::new(outputs.value());
        let value = Protected::new(self.result(parts, executable, outputs)?);
        let mut options = ExecuteOptions::default();
        if let Placement::Portable = executable.placement() {
            options.device = call.device.take();
        }
        // SAFETY: the inputs are protected by the caller and by `made`; the outputs above.
        unsafe { execute::launch(executable, inputs, &options, outputs)? };
        Ok(value.sexp())
    }

    /// Whether the result is one buffer, not a list.
    fn is_single(&self, parts: SEXP, executable: &Executable) -> Result<bool> {
        let has_one = executable.signature().outputs.len() == 1;
        Ok(self.outputs.is_none() || has_one && !tree::get(sexp::at(parts, TREE), "tree")?.root().is_list())
    }

    /// The result with new outputs in it; not protected. R may leave this by a long jump.
    fn result(&self, parts: SEXP, executable: &Executable, outputs: NewOutputs) -> Result<SEXP> {
        let signature = executable.signature();
        if let Some(chosen) = &self.outputs {
            return assembled(parts, chosen, signature.outputs.len(), |output| outputs.handle(output));
        }
        if let Some(names) = &signature.output_names {
            outputs.set_names(names);
        }
        Ok(outputs.value())
    }

    /// The executable for these inputs; not protected. R may leave this by a long jump.
    fn executable(&self, parts: SEXP, values: &InputObjects) -> Result<SEXP> {
        let found = if self.symbolic.is_empty() && !self.known.borrow().is_empty() {
            Some(0)
        } else {
            let dims = self.dims(values);
            self.known.borrow().iter().position(|known| *known == dims)
        };
        if let Some(i) = found {
            return Ok(sexp::at(sexp::at(parts, EXECUTABLES), i));
        }
        let inputs = Protected::new(sexp::list(values.iter().copied()));
        let pair = Protected::new(sexp::list([sexp::at(parts, FUNCTION), inputs.sexp()]));
        let executable = Protected::new(sexp::call_ours(c"executable_for_call", pair.sexp()));
        let taken = handle::get::<Executable>(executable.sexp(), "executable")?.signature().inputs.len();
        if taken != values.len() {
            bail!(Internal, "The executable takes {taken} arrays, but the function has {}.", values.len());
        }
        let longer = Protected::new(self.with_room(parts));
        // Nothing is allocated by R from here on, so no other call comes between.
        let mut known = self.known.borrow_mut();
        let place = known.len();
        if place < sexp::len(longer.sexp()) {
            sexp::set_at(longer.sexp(), place, executable.sexp());
            sexp::set_at(parts, EXECUTABLES, longer.sexp());
            known.push(self.dims(values));
        }
        Ok(executable.sexp())
    }

    /// The list of executables with room for one more; not protected. R may leave this by a long jump.
    fn with_room(&self, parts: SEXP) -> SEXP {
        if self.known.borrow().len() >= MOST {
            self.known.borrow_mut().clear();
            sexp::set_at(parts, EXECUTABLES, sexp::vector(SEXPTYPE::VECSXP, 0));
        }
        let count = self.known.borrow().len() + 1;
        sexp::list((0..count).map(|i| sexp::at(sexp::at(parts, EXECUTABLES), i)))
    }

    fn dims(&self, values: &InputObjects) -> Dims {
        let mut all = Dims::new();
        for &i in &self.symbolic {
            let Some(&x) = values.get(i) else { continue };
            let of_buffer = |buffer: &Buffer| Dims::from_slice(buffer.dims());
            let dims = handle::get(x, "x").map_or_else(|_| buffer::own_dims(x), of_buffer);
            all.push(dims.len() as i64);
            all.extend(dims);
        }
        all
    }
}

/// The result with the chosen ones of the program's outputs in it; not protected. R may leave this by a long jump.
fn assembled(parts: SEXP, chosen: &[usize], count: usize, output: impl Fn(usize) -> SEXP) -> Result<SEXP> {
    if chosen.iter().any(|&output| output >= count) {
        bail!(Internal, "The result has an array that is not an output of the program.");
    }
    let mut leaves = chosen.iter();
    tree::assemble(sexp::at(parts, TREE), "tree", || leaves.next().map_or(sexp::nil(), |&leaf| output(leaf)))
}

/// Whether an input is passed as it is; `upload` refuses what is neither this nor R data.
fn is_buffer(x: SEXP) -> bool {
    sexp::kind(x) == SEXPTYPE::EXTPTRSXP
}

/// The device of an execution with these inputs.
fn device_for(executable: &Executable, values: &InputObjects) -> Option<Device> {
    let client = executable.client();
    let index = match executable.placement() {
        Placement::Fixed(devices) => devices.first().copied(),
        Placement::Portable => {
            let buffers = values.iter().filter_map(|&x| handle::get::<Buffer>(x, "x").ok());
            buffers.filter(|buffer| buffer.client().same(client)).map(Buffer::device_index).next()
        }
    };
    client.devices().nth(index.unwrap_or(0))
}

/// A buffer of R data for an input; not protected. R may leave this by a long jump.
fn upload(executable: &Executable, device: Option<&Device>, index: usize, x: SEXP) -> Result<SEXP> {
    let Some(device) = device else { bail!(Internal, "The executable has no device.") };
    let want = &executable.signature().inputs[index].spec;
    let is_data = !sexp::is_object(x) || sexp::inherits(x, c"integer64");
    let is_data = is_data && buffer::r_type_of(x).is_ok();
    let plain = Protected::new(if is_data { x } else { sexp::call_ours(c"plain_argument", x) });
    let (given, x) = (x, plain.sexp());
    let Ok(host_type) = buffer::r_type_of(x) else { return Err(no_array(executable, index, given, x)) };
    ensure!(fits(x, &want.dims), wrong_shape(executable, index, x));
    buffer::uploaded(x, host_type, want.dtype, device, &want.dims, Check::All)
        .map_err(|failure| about(&executable.signature().argument(index), failure))
}

/// Whether R data have this shape: that of an array, the length of a vector, or one value for a scalar.
fn fits(x: SEXP, dims: &[i64]) -> bool {
    // SAFETY: the caller protects the array and so its attributes.
    let own = unsafe { sexp::dim(x) };
    if own.is_empty() {
        return match dims {
            [] => sexp::len(x) == 1,
            [len] => sexp::len(x) as i64 == *len,
            _ => false,
        };
    }
    own.len() == dims.len() && own.iter().zip(dims).all(|(&own, &want)| i64::from(own) == want)
}

/// `hint` is an R string.
#[cold]
fn no_array(executable: &Executable, index: usize, x: SEXP, hint: SEXP) -> Failure {
    let argument = executable.signature().argument(index);
    let error = Error::new(
        Kind::InvalidType,
        format!("{argument} must be a `PJRTBuffer` or an R array of numbers, not {}.", describe(x)),
    );
    // SAFETY: the caller protects the string.
    match unsafe { sexp::string(hint) } {
        Some(hint) => Failure(error.hint(hint)),
        None => Failure(error),
    }
}

#[cold]
fn wrong_shape(executable: &Executable, index: usize, x: SEXP) -> Failure {
    let want: &Spec = &executable.signature().inputs[index].spec;
    let dims = format_dims(&buffer::own_dims(x));
    // SAFETY: the caller protects the array and so its attributes.
    let is_vector = unsafe { sexp::dim(x) }.is_empty();
    let got = if is_vector { format!("a vector of length {dims}") } else { format!("an array of {dims}") };
    let argument = executable.signature().argument(index).replacen("Argument", "argument", 1);
    Error::new(Kind::ShapeMismatch, format!("Wrong shape of {argument}: expected {want}, got {got}.")).into()
}

/// An upload's error, with the argument that it is about.
#[cold]
fn about(argument: &str, Failure(error): Failure) -> Failure {
    let Some(rest) = error.message().strip_prefix("`data` ") else { return Failure(error.within(argument)) };
    let named = Error::new(error.kind(), format!("{argument} {rest}"));
    Failure(error.hints().iter().fold(named, |named, hint| named.hint(hint.clone())))
}

/// The error for arguments that do not fit, with a hint if there is one.
#[cold]
fn refusal(message: String, hint: &str) -> Failure {
    let error = Error::new(Kind::InvalidInput, message);
    Failure(if hint.is_empty() { error } else { error.hint(hint) })
}
