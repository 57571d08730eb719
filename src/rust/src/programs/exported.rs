//! Functions that JAX exported, as R lists with their program.

use crate::r::conditions::Result;
use crate::r::{handle, sexp};
use extendr_api::prelude::*;
use pjrt_base::mmap;
use pjrt_base::room;
use pjrt_handlers::registry;
use pjrt_program::callable::Callable;
use pjrt_program::exported::{Exported, Key, Tree, Value};
use pjrt_program::program::{Format, Program};
use std::path::Path;
use std::sync::Arc;

/// An exported function from the bytes of its file, or its derivative of an order.
#[extendr]
fn exported_new(content: &[u8], order: i32) -> Result<Robj> {
    described(content, order)
}

/// The same from a file.
#[extendr]
fn exported_read(path: &str, order: i32) -> Result<Robj> {
    described(&mmap::read(Path::new(path))?, order)
}

fn described(content: &[u8], order: i32) -> Result<Robj> {
    room::check_room(content.len(), "to read the exported function")?;
    let mut exported = Exported::read(content, order.max(0) as usize)?;
    let (input_paths, output_paths) = (exported.in_tree.argument_paths(), exported.output_paths());
    let inputs = arrays(&exported.input_names, input_paths, &exported.inputs);
    let outputs = arrays(&exported.output_names, output_paths, &exported.outputs);
    let is_kept = |i| exported.kept.binary_search(&i).is_ok();
    let kept: Vec<bool> = (0..exported.inputs.len()).map(is_kept).collect();
    let input_tree = arguments(&exported.in_tree);
    let output_tree = if exported.order > 0 { arguments(&exported.out_tree) } else { tree(&exported.out_tree) };
    let has_handler =
        |target: &String| exported.platforms.iter().any(|platform| registry::known(target, platform).is_some());
    let available: Vec<bool> = exported.custom_calls.iter().map(has_handler).collect();
    let custom_calls = list!(target = exported.custom_calls.clone(), available = available);
    let names = exported.kept.iter().map(|&input| exported.input_names[input].clone()).collect();
    let mut program = Program::new(std::mem::take(&mut exported.program), Format::Mlir)?;
    // JAX gives the arguments of derivatives no names.
    if exported.order > 0 {
        program = program.with_input_names(names);
    }
    // With several platforms, the first input is the number of one.
    let first = usize::from(exported.platforms.len() > 1);
    let taken = |i: usize| program.annotations().inputs.as_ref()?.get(first + exported.kept.binary_search(&i).ok()?);
    let all = 0..exported.inputs.len();
    let donated: Vec<bool> = all.clone().map(|i| taken(i).is_some_and(|input| input.is_donated)).collect();
    let function = Callable::of_export(&exported, &donated)?.to_text()?;
    let alias = all.map(|i| match taken(i).and_then(|input| input.alias) {
        Some(output) => Rint::from(output as i32 + 1),
        None => Rint::na(),
    });
    let alias: Integers = alias.collect();
    let program = handle::object(program);
    Ok(list!(
        name = exported.function,
        inputs = inputs,
        kept = kept,
        donated = donated,
        alias = alias,
        outputs = outputs,
        input_tree = input_tree,
        output_tree = output_tree,
        platforms = exported.platforms,
        num_devices = f64::from(exported.num_devices),
        jax_version = exported.jax_version.map_or(().into(), Robj::from),
        calling_convention = i32::from(exported.calling_convention),
        ordered_effects = exported.ordered_effects,
        unordered_effects = exported.unordered_effects,
        disabled_checks = exported.disabled_checks,
        custom_calls = custom_calls,
        has_vjp = exported.has_vjp,
        order = exported.order as i32,
        program = program,
        function = function
    )
    .into())
}

/// Inputs or outputs as columns.
fn arrays(names: &[String], paths: Vec<String>, values: &[Arc<Value>]) -> Robj {
    let dtype = |value: &Arc<Value>| if value.is_token { "token" } else { value.dtype };
    list!(
        name = names.to_vec(),
        path = paths,
        dtype = values.iter().map(dtype).collect::<Vec<_>>(),
        shape = List::from_values(values.iter().map(|value| shape(&value.shape)))
    )
    .into()
}

/// Dimensions as numbers, or as text if some are symbolic.
pub fn shape(dims: &[String]) -> Robj {
    match dims.iter().map(|dim| dim.parse::<i64>()).collect::<std::result::Result<Vec<_>, _>>() {
        Ok(numbers) => sexp::robj(sexp::new_whole_numbers(&numbers)),
        Err(_) => dims.iter().map(String::as_str).collect::<Vec<_>>().into(),
    }
}

/// The positional and named arguments.
pub fn arguments(pair: &Tree) -> Robj {
    match pair {
        Tree::Tuple(parts) if parts.len() == 2 => list!(args = tree(&parts[0]), kwargs = tree(&parts[1])).into(),
        other => tree(other),
    }
}

/// A tree as nested lists with the numbers of its leaves, from 1.
pub fn tree(node: &Tree) -> Robj {
    match node {
        Tree::Leaf(number) => (*number as i32 + 1).into(),
        Tree::None => ().into(),
        Tree::Tuple(children) | Tree::List(children) => unnamed(children).into(),
        Tree::Dict(children) => {
            let (names, children): (Vec<_>, Vec<_>) =
                children.iter().map(|(name, child)| (name.as_str(), tree(child))).unzip();
            let mut list: Robj = List::from_values(children).into();
            // Names only fail for values that cannot have any.
            let _ = list.set_names(names);
            list
        }
        Tree::Custom { name, children, keys } => {
            let mut list: Robj = unnamed(children).into();
            if keys.iter().any(|key| *key != Key::Position) {
                let _ = list.set_names(keys.iter().map(Key::name));
            }
            let _ = list.set_attrib("type", name.as_str());
            list
        }
    }
}

fn unnamed(children: &[Tree]) -> List {
    List::from_values(children.iter().map(tree))
}

extendr_module! {
    mod exported;
    fn exported_new;
    fn exported_read;
}
