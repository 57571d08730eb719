//! Functions that JAX and PyTorch exported. What R shows of one is a list that is made when it is first needed.

use crate::programs::executable;
use crate::r::conditions::Result;
use crate::r::handle::{self, sent, EmptyHandle};
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_base::mmap;
use pjrt_base::room;
use pjrt_handlers::registry;
use pjrt_program::exported::{Framework, Key, Tree, Value};
use pjrt_program::program::exported_program::ExportedProgram;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;

owned!(ExportedProgram, c"PJRTExported", sent);

// R objects of a function, in a list beside it.
/// What R shows of it.
const FACTS: usize = 0;
/// The named list of a model's weights.
const WEIGHTS: usize = 1;
const PARTS: usize = 2;

/// An exported function from the bytes of its file, or its derivative of an order.
pub fn exported_new(content: &[u8], order: i32) -> Result<Robj> {
    room::check_room(content.len(), "to read the exported function")?;
    Ok(object(ExportedProgram::of_jax(content, order.max(0) as usize)?))
}

/// The same from a file.
pub fn exported_read(path: &str, order: i32) -> Result<Robj> {
    exported_new(&mmap::read(Path::new(path))?, order)
}

/// The handle of a function.
pub fn object(function: ExportedProgram) -> Robj {
    // The value must not be owned by a frame that R may jump over.
    let function = ManuallyDrop::new(function);
    let parts = Protected::new(sexp::vector(SEXPTYPE::VECSXP, PARTS));
    let empty = EmptyHandle::<ExportedProgram>::over(parts.sexp());
    // SAFETY: nothing was allocated since it was made.
    sexp::robj(unsafe { empty.fill(ManuallyDrop::into_inner(function)) })
}

/// The function of a handle.
pub fn get<'a>(function: &Robj, argument: &str) -> Result<&'a ExportedProgram> {
    handle::get(sexp::of(function), argument)
}

/// The weights of a model; nil for none.
pub fn weights(function: SEXP) -> SEXP {
    sexp::at(sent::companion(function), WEIGHTS)
}

/// Keeps the weights of a model, before anything else is asked of it.
pub fn exported_keep_weights(function: Robj, weights: Robj) -> Result<Robj> {
    get(&function, "x")?;
    sexp::set_at(sent::companion(sexp::of(&function)), WEIGHTS, sexp::of(&weights));
    Ok(function)
}

/// The weights of a model: files in its folder, names, types and shapes.
pub fn exported_weights(function: &ExportedProgram) -> Result<List> {
    let exported = &function.exported;
    let (rows, files): (Vec<usize>, Vec<&str>) =
        exported.weights.iter().map(|(row, file)| (*row, file.as_str())).unzip();
    let values = rows.iter().map(|&row| &exported.inputs[row]);
    Ok(list!(
        file = files,
        name = rows.iter().map(|&row| exported.input_names[row].as_str()).collect::<Vec<_>>(),
        dtype = values.clone().map(|value| value.dtype.as_ref()).collect::<Vec<_>>(),
        shape = List::from_values(values.map(|value| shape(&value.shape)))
    ))
}

/// What R shows of a function, always the same list.
pub fn exported_facts(function: Robj) -> Result<Robj> {
    let value = get(&function, "x")?;
    let parts = sent::companion(sexp::of(&function));
    let known = sexp::at(parts, FACTS);
    if !sexp::is_nil(known) {
        return Ok(sexp::robj(known));
    }
    let made = facts(value, sexp::robj(sexp::at(parts, WEIGHTS)));
    sexp::set_at(parts, FACTS, sexp::of(&made));
    Ok(made)
}

fn facts(function: &ExportedProgram, weights: Robj) -> Robj {
    let exported = &function.exported;
    let is_jax = exported.framework == Framework::Jax;
    let rows = 0..exported.inputs.len();
    let mut inputs = arrays(&exported.input_names, exported.input_paths(), &exported.inputs);
    inputs.push(("kept", rows.clone().map(|row| exported.is_kept(row)).collect::<Vec<_>>().into()));
    if is_jax {
        let is_donated = |row| function.taken(row).is_some_and(|input| input.is_donated);
        let alias = |row| function.taken(row).and_then(|input| input.alias);
        inputs.push(("donated", rows.clone().map(is_donated).collect::<Vec<_>>().into()));
        inputs.push(("alias", executable::positions(rows.map(alias))));
    }
    let outputs = arrays(&exported.output_names, exported.output_paths(), &exported.outputs);
    let available = exported.custom_calls.iter().map(|target| has_handler(function, target)).collect::<Vec<_>>();
    let custom_calls = vec![("target", exported.custom_calls.clone().into()), ("available", available.into())];
    let mut facts: Vec<(&str, Robj)> = vec![
        ("name", exported.function.as_str().into()),
        ("inputs", table(inputs, exported.inputs.len())),
        ("outputs", table(outputs, exported.outputs.len())),
        ("input_tree", tree(&exported.in_tree.clone().with_argument_names())),
        ("output_tree", tree(&exported.result())),
    ];
    if !is_jax {
        facts.push(("weights", weights));
    }
    let convention: Robj = if is_jax { i32::from(exported.calling_convention).into() } else { ().into() };
    facts.extend([
        ("framework", exported.framework.name().into()),
        ("platforms", exported.platforms.clone().into()),
        ("num_devices", f64::from(exported.num_devices).into()),
        ("jax_version", exported.jax_version.as_deref().map_or(().into(), Robj::from)),
        ("calling_convention", convention),
        ("ordered_effects", exported.ordered_effects.clone().into()),
        ("unordered_effects", exported.unordered_effects.clone().into()),
        ("disabled_checks", exported.disabled_checks.clone().into()),
        ("custom_calls", table(custom_calls, exported.custom_calls.len())),
        ("has_vjp", exported.has_vjp.into()),
        ("order", (exported.order as i32).into()),
        ("program", handle::object(function.program.clone())),
    ]);
    List::from_pairs(facts).into()
}

/// Inputs or outputs as columns.
fn arrays(names: &[String], paths: Vec<String>, values: &[Arc<Value>]) -> Vec<(&'static str, Robj)> {
    let dtype = |value: &Arc<Value>| match value.dtype.as_ref() {
        _ if value.is_token => Rstr::from("token"),
        "" => Rstr::na(),
        dtype => Rstr::from(dtype),
    };
    vec![
        ("name", names.to_vec().into()),
        ("path", paths.into()),
        ("dtype", values.iter().map(dtype).collect::<Strings>().into()),
        ("shape", List::from_values(values.iter().map(|value| shape(&value.shape))).into()),
    ]
}

/// A data frame.
fn table(columns: Vec<(&'static str, Robj)>, rows: usize) -> Robj {
    let mut table: Robj = List::from_pairs(columns).into();
    // R's short form of the numbers of rows.
    let numbers: Vec<Rint> = if rows > 0 { vec![Rint::na(), Rint::from(-(rows as i32))] } else { Vec::new() };
    // This fails only for values without attributes.
    let _ = table.set_attrib("row.names", numbers.into_iter().collect::<Integers>());
    let _ = table.set_attrib("class", "data.frame");
    table
}

fn has_handler(function: &ExportedProgram, target: &str) -> bool {
    function.exported.platforms.iter().any(|platform| registry::known(target, platform).is_some())
}

/// Refuses a function that cannot be compiled: on any platform, or on this one.
pub fn exported_check(function: Robj, platform: Robj) -> Result<Robj> {
    let exported = &get(&function, "program")?.exported;
    exported.check()?;
    if let Some(platform) = platform.as_str() {
        exported.platform_number(platform)?;
    }
    Ok(().into())
}

/// How R calls it, as text.
pub fn exported_function(function: &ExportedProgram) -> Result<String> {
    Ok(function.function.clone())
}

/// The lines that show a function; `description` are the lines of its arguments and result.
pub fn exported_lines(value: &ExportedProgram, description: Vec<String>) -> Result<Robj> {
    let exported = &value.exported;
    let mut lines = vec![format!("<PJRTExported: {}{}>", "vjp of ".repeat(exported.order), exported.function)];
    lines.extend(description);
    let line =
        |title: &str, values: &[String]| (!values.is_empty()).then(|| format!("  {title}: {}", values.join(", ")));
    lines.extend(line("symbolic dimensions", &exported.dimensions()?));
    match exported.framework {
        Framework::PyTorch => lines.push("  PyTorch, for any platform".to_owned()),
        Framework::Jax => {
            let title = if exported.platforms.len() > 1 { "platforms" } else { "platform" };
            lines.extend(line(title, &exported.platforms));
            lines.push(format!("  devices: {}", exported.num_devices));
            let version = exported.jax_version.as_deref().unwrap_or("version unknown");
            lines.push(format!("  JAX: {version} (calling convention {})", exported.calling_convention));
        }
    }
    let call = |target: &String| match has_handler(value, target) {
        true => target.clone(),
        false => format!("{target} (no handler)"),
    };
    lines.extend(line("custom calls", &exported.custom_calls.iter().map(call).collect::<Vec<_>>()));
    lines.extend(line("unchecked", &exported.disabled_checks));
    lines.extend(line("effects", &exported.unordered_effects));
    lines.extend(exported.refusal().map(|(reason, _)| format!("  Cannot be compiled: it {reason}")));
    Ok(lines.into())
}

/// Dimensions as numbers, or as text if some are symbolic.
pub fn shape(dims: &[String]) -> Robj {
    match dims.iter().map(|dim| dim.parse::<i64>()).collect::<std::result::Result<Vec<_>, _>>() {
        Ok(numbers) => sexp::robj(sexp::new_whole_numbers(&numbers)),
        Err(_) => dims.iter().map(String::as_str).collect::<Vec<_>>().into(),
    }
}

/// A tree as nested lists with the numbers of its leaves, from 1.
fn tree(node: &Tree) -> Robj {
    match node {
        Tree::Leaf(number) => (*number as i32 + 1).into(),
        Tree::None => ().into(),
        Tree::Tuple(children) | Tree::List(children) => unnamed(children).into(),
        Tree::Dict(children) => {
            List::from_pairs(children.iter().map(|(name, child)| (name.as_str(), tree(child)))).into()
        }
        Tree::Custom { name, children, keys } => {
            let mut list: Robj = unnamed(children).into();
            if keys.iter().any(|key| *key != Key::Position) {
                // Names only fail for values that cannot have any.
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
