//! What is known of a function of a program, as a text that R keeps.

use crate::functions::tree;
use crate::r::conditions::{Failure, Result};
use crate::r::describe::describe;
use crate::r::sexp;
use extendr_api::prelude::*;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind};
use pjrt_core::Executable;
use pjrt_data::array::Spec;
use pjrt_data::convert::NA_INTEGER;
use pjrt_data::layout::format_type;
use pjrt_ir::hlo::sharding::Sharding;
use pjrt_program::callable::{self, Callable, Choice, Input, Wanted};
use pjrt_program::program::Program;

/// The function of an executable; `exported` is the text of the exported function that it was compiled from, or NULL.
pub fn function_of_executable(executable: &Executable, exported: Robj) -> Result<String> {
    let (signature, shardings) = (executable.signature(), executable.shardings());
    let (replicas, partitions) = executable.counts();
    let devices = u32::try_from(replicas * partitions).unwrap_or(u32::MAX);
    let inputs = signature.inputs.iter().enumerate().map(|(i, input)| Input {
        kind: whole(&input.spec, shardings.inputs.get(i)),
        kept: true,
        donated: input.donated,
        symbolic: false,
    });
    let outputs = signature.outputs.iter().enumerate().map(|(i, spec)| whole(spec, shardings.outputs.get(i)));
    let made = match exported.as_str() {
        Some(text) => Callable::of_text(text)?.compiled(inputs.collect(), outputs.collect(), devices)?,
        None => {
            let names = signature.inputs.iter().map(|input| input.name.clone());
            let output_name =
                |i: usize| signature.output_names.as_ref().map_or("", |names| names[i].as_str()).to_owned();
            let outputs = outputs.enumerate().map(|(i, kind)| (output_name(i), kind));
            Callable::of_names(&signature.name, names.zip(inputs).collect(), outputs.collect(), devices)?
        }
    };
    Ok(made.to_text()?)
}

/// The function of a program whose inputs have dimensions without sizes.
pub fn function_of_program(program: &Program) -> Result<String> {
    let Some(function) = program.function()? else {
        bail!(Internal, "The shapes of the program are fixed.");
    };
    Ok(function.to_text()?)
}

/// The type of a whole array, whose parts a program may have on several devices.
fn whole(spec: &Spec, sharding: Option<&Option<Sharding>>) -> String {
    let dims = sharding.and_then(Option::as_ref).map_or(&spec.dims[..], |sharding| &sharding.whole);
    format_type(spec.dtype, dims)
}

/// The function with these names of its arguments.
pub fn function_renamed(function: &str, arguments: Robj) -> Result<String> {
    let callable = Callable::of_text(function)?;
    let before = callable.names();
    if Strings::try_from(arguments.clone()).is_ok_and(|names| names.iter().any(|name| name.is_na())) {
        bail!(InvalidType, "`arguments` must be names, and not NA.");
    }
    let Some(names) = texts(&arguments).filter(|names| names.len() == before.len()) else {
        let (count, given) = (counted(before.len(), "name"), describe(sexp::of(&arguments)));
        let error = Error::new(Kind::InvalidType, format!("`arguments` must be {count}, not {given}."));
        let known = callable::quoted_list(before.into_iter());
        return Err(Failure(if known.is_empty() { error } else { error.hint(format!("They replace {known}.")) }));
    };
    Ok(callable.clone().renamed(&names.iter().map(String::as_str).collect::<Vec<_>>())?.to_text()?)
}

/// The step of a function; see pjrt_step().
pub fn function_step(function: &str, state: Robj, outputs: Robj) -> Result<String> {
    let callable = Callable::of_text(function)?;
    let names = if outputs.is_null() { Some(Vec::new()) } else { texts(&outputs) };
    let Some(names) = names.filter(|names| names.iter().all(|name| !name.is_empty())) else {
        let given = describe(sexp::of(&outputs));
        bail!(InvalidType, "`outputs` must be a character vector of names, not {given}.");
    };
    let Some(wanted) = wanted(&state) else {
        let what = "names of arguments, or outputs with the names of arguments";
        let message = format!("`state` must be {what}, not {}.", describe(sexp::of(&state)));
        let known = callable::quoted_list(callable.names().into_iter());
        return Err(Failure(Error::new(Kind::InvalidType, message).hint(format!("The arguments are {known}."))));
    };
    Ok(callable.step(&wanted, &names)?.to_text()?)
}

/// What `state` says, if it is valid.
fn wanted(state: &Robj) -> Option<Wanted> {
    if state.is_null() {
        return Some(Wanted::Any);
    }
    if sexp::is_object(sexp::of(state)) || state.is_empty() {
        return None;
    }
    let choices: Vec<Choice> = match (texts(state), state.as_real_slice(), state.as_integer_slice()) {
        (Some(names), ..) => names.into_iter().map(Choice::Name).collect(),
        (_, Some(reals), _) => {
            reals.iter().map(|&x| (!x.is_nan()).then_some(Choice::Position(x))).collect::<Option<_>>()?
        }
        (_, _, Some(integers)) => {
            integers.iter().map(|&i| (i != NA_INTEGER).then_some(Choice::Position(i.into()))).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let arguments = state.get_attrib(names_symbol()).and_then(|names| texts(&names));
    match arguments {
        Some(arguments) => Some(Wanted::Outputs(arguments.into_iter().zip(choices).collect())),
        None => choices
            .into_iter()
            .map(|choice| match choice {
                Choice::Name(name) => Some(name),
                Choice::Position(_) => None,
            })
            .collect::<Option<_>>()
            .map(Wanted::Arguments),
    }
}

/// A character vector without NA.
fn texts(x: &Robj) -> Option<Vec<String>> {
    tree::texts(sexp::of(x), "x").ok()
}

/// What R needs to make the function: the names of its arguments, which of them may be left out, the one that has a default,
/// and the arguments in a step's state.
pub fn function_facts(function: &str) -> Result<List> {
    let callable = Callable::of_text(function)?;
    let names = callable.names();
    let weights = if callable.has_weights { names.last().copied().into() } else { Robj::from(()) };
    let state = callable.state.as_ref().map_or(().into(), |state| Robj::from(state.names.clone()));
    Ok(list!(
        name = callable.name.as_str(),
        arguments = names.clone(),
        optional = callable.optional().into_iter().collect::<Logicals>(),
        weights = weights,
        state = state,
        is_symbolic = !callable.symbolic().is_empty(),
        has_outputs = !callable.outputs.is_empty(),
        devices = f64::from(callable.devices)
    ))
}

/// The arrays of the arguments and of the result, as columns of data frames. A step's arguments have the output that
/// replaces them; NA for none.
pub fn function_arrays(function: &str) -> Result<Robj> {
    let callable = Callable::of_text(function)?;
    let (inputs, outputs) = (&callable.inputs, &callable.outputs);
    let flags = |flag: fn(&Input) -> bool| inputs.iter().map(flag).collect::<Logicals>();
    let mut columns = vec![
        ("name", Robj::from(callable.input_paths())),
        ("type", inputs.iter().map(|input| input.kind.as_str()).collect::<Strings>().into()),
        ("kept", flags(|input| input.kept).into()),
        ("donated", flags(|input| input.donated).into()),
    ];
    if let Some(state) = &callable.state {
        let from =
            |source: &Option<usize>| source.map_or_else(Rstr::na, |output| state.outputs[output].as_str().into());
        columns.push(("from", state.sources.iter().map(from).collect::<Strings>().into()));
    }
    let names = callable.output_paths().unwrap_or_else(|| vec![String::new(); outputs.len()]);
    let of_outputs = [("name", Robj::from(names)), ("type", Robj::from(outputs.clone()))];
    Ok(list!(inputs = List::from_pairs(columns), outputs = List::from_pairs(of_outputs)).into())
}

/// The lines that print the function. `has_weights` says whether a model's weights are the default.
pub fn function_lines(function: &str, has_weights: bool) -> Result<Vec<String>> {
    Ok(Callable::of_text(function)?.lines(has_weights)?)
}

/// The function's signature in one line.
pub fn function_signature(function: &str) -> Result<String> {
    Ok(Callable::of_text(function)?.signature())
}
