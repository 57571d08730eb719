//! Exported functions: the files that JAX's `jax.export` writes, with a program and a description of its arguments and
//! results. They are untrusted input.

mod compiled;
#[cfg(test)]
#[path = "../../../ir/src/module/damage.rs"]
pub mod damage;
pub mod dims;
mod flatbuffer;
mod keys;
mod names;
mod pytorch;
mod tree;

pub use tree::{Key, Tree};

use flatbuffer::{Buffer, Table};
use keys::{Types, Way};
use names::Names;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::foreign;
use pjrt_base::reason::Reason;
use pjrt_ir::bytecode::{self, MAGIC};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The fields of the root table by number. Others are not needed to run the program.
mod field {
    pub const FUNCTION: usize = 1;
    pub const IN_TREE: usize = 2;
    pub const INPUTS: usize = 3;
    pub const OUT_TREE: usize = 4;
    pub const OUTPUTS: usize = 5;
    pub const DEVICES_SHORT: usize = 6;
    pub const PLATFORMS: usize = 9;
    pub const ORDERED_EFFECTS: usize = 10;
    pub const UNORDERED_EFFECTS: usize = 11;
    pub const DISABLED_CHECKS: usize = 12;
    pub const PROGRAM: usize = 13;
    pub const CALLING_CONVENTION: usize = 14;
    pub const KEPT: usize = 15;
    pub const VJP: usize = 17;
    pub const DEVICES: usize = 18;
    pub const UNIQUE_VALUES: usize = 19;
    pub const INPUT_INDICES: usize = 22;
    pub const OUTPUT_INDICES: usize = 23;
    pub const JAX_VERSION: usize = 26;
}

/// XLA's arrays have fewer dimensions.
const MAX_RANK: usize = 256;

/// The element types by number, by the names of `pjrt_data::dtype` where it has them.
const DTYPES: &str =
    "pred i8 i16 i32 i64 ui8 ui16 ui32 ui64 f16 f32 f64 c64 c128 bf16 i4 ui4 f8e4m3b11fnuz f8e4m3fn f8e4m3fnuz \
    f8e5m2 f8e5m2fnuz float0 f8e4m3 f8e3m4 f8e8m0fnu f4e2m1fn key<fry> key<rbg> key<unsafe_rbg>";

/// What exported a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framework {
    #[default]
    Jax,
    PyTorch,
}

impl Framework {
    pub fn name(self) -> &'static str {
        match self {
            Framework::Jax => "JAX",
            Framework::PyTorch => "PyTorch",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Exported {
    pub framework: Framework,
    /// The function's name.
    pub function: String,
    /// The positional and the named arguments, as a pair.
    pub in_tree: Tree,
    /// The result; for a derivative, the cotangents of the arguments, as their pair.
    pub out_tree: Tree,
    /// How often it was differentiated.
    pub order: usize,
    /// The names of the positional arguments in Python, where they are known. Those that Python collects have one name.
    pub argument_names: Vec<Option<String>>,
    /// Where the positional arguments begin that Python collects in one, `*args`, if it has a name.
    pub collected: Option<usize>,
    /// The arrays by the names that the Python function gave them, such as `params['w']`, or their paths.
    pub input_names: Vec<String>,
    /// The outputs by their paths. A derivative's outputs have the names of the arguments.
    pub output_names: Vec<String>,
    /// The leaves of the trees.
    pub inputs: Vec<Arc<Value>>,
    pub outputs: Vec<Arc<Value>>,
    /// The inputs that the program uses, from 0; all others must not be passed to it.
    pub kept: Vec<usize>,
    /// The inputs that are weights of a model, and their files in its folder.
    pub weights: Vec<(usize, String)>,
    /// Names of platforms, as JAX writes them; empty for any.
    pub platforms: Vec<String>,
    pub num_devices: u32,
    pub ordered_effects: Vec<String>,
    pub unordered_effects: Vec<String>,
    /// What JAX did not check at the export: "platform", or the targets of custom calls.
    pub disabled_checks: Vec<String>,
    pub calling_convention: u16,
    /// The targets of custom calls that need a handler.
    pub custom_calls: Vec<String>,
    /// The version of JAX, if the file has it.
    pub jax_version: Option<String>,
    /// Whether the file also has this function's derivative.
    pub has_vjp: bool,
    /// Where the program is in the file: a portable artifact of StableHLO.
    pub program: Range<usize>,
}

/// What is known of an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The name of a type in `pjrt_data::dtype`, or one of its framework; empty if unknown.
    pub dtype: Cow<'static, str>,
    /// Numbers, or expressions such as "2*b"; "?" if nothing is known.
    pub shape: Vec<String>,
    /// Whether it is a token, which carries no data.
    pub is_token: bool,
}

impl Value {
    /// Whether its shape is not fixed.
    pub fn is_symbolic(&self) -> bool {
        self.shape.iter().any(|dim| dim.parse::<i64>().is_err())
    }
}

impl Exported {
    /// Reads the function in the content of a file, or its derivative of an order: the function that takes the
    /// arguments and the cotangents of the outputs, and returns the cotangents of the arguments.
    ///
    /// # Errors
    /// `InvalidFile` for damage and other formats; `InvalidInput` without such a derivative. The program itself is not
    /// checked.
    pub fn read(content: &[u8], order: usize) -> Result<Exported> {
        ensure!(!content.starts_with(MAGIC), not_exported("it is MLIR bytecode").hint(Reason::ProgramNotExported));
        let is_text = [&b"module"[..], b"func.func", b"HloModule", b"//", b"#"]
            .iter()
            .any(|start| content.trim_ascii_start().starts_with(start));
        ensure!(!is_text, not_exported("it is the text of a program").hint(Reason::ProgramNotExported));
        // Pickles of the protocols 2 to 5 begin with their number.
        if matches!(content, [0x80, 2..=5, ..]) && module_of(content).is_none() {
            return Err(not_exported("it is a Python pickle, which only Python can read").hint(EXPORT));
        }
        foreign::check(Kind::InvalidFile, "The exported function", content)?;
        let buffer = Buffer::new(content);
        let mut root = buffer.root().map_err(|error| error.hint(EXPORT))?;
        let mut exported = Self::of(content, root)?;
        for done in 0..order {
            root = root.table(field::VJP)?.ok_or_else(|| no_derivative(&exported.function, done))?;
            exported = Self::of(content, root)?.derivative_of(exported)?;
        }
        Ok(exported)
    }

    fn of(content: &[u8], root: Table<'_, '_>) -> Result<Exported> {
        let place = root.bytes(field::PROGRAM)?;
        let program = &content[place.clone()];
        ensure!(program.starts_with(MAGIC), damaged("it does not contain a program").hint(EXPORT));
        let (mut in_tree, inputs) = arrays(root, field::IN_TREE, field::INPUTS, field::INPUT_INDICES)?;
        let (mut out_tree, outputs) = arrays(root, field::OUT_TREE, field::OUTPUTS, field::OUTPUT_INDICES)?;
        let kept = root.numbers(field::KEPT, 2)?;
        if kept.windows(2).any(|pair| pair[0] >= pair[1]) || kept.last().is_some_and(|&last| last >= inputs.len()) {
            return Err(damaged("the arguments that it keeps are wrong"));
        }
        let num_devices = match root.number(field::DEVICES, 4)? {
            0 => root.number(field::DEVICES_SHORT, 2)?,
            number => number,
        };
        let platforms = root.strings(field::PLATFORMS)?;
        ensure!(num_devices > 0 && !platforms.is_empty(), damaged("it is not for any device"));
        let names = |number| {
            let effects = root.tables(number)?.into_iter();
            effects.map(|effect| Ok(effect.string(0)?.unwrap_or_default().to_owned())).collect::<Result<Vec<_>>>()
        };
        let check = |check: Table<'_, '_>| Ok(check.string(1)?.unwrap_or("platform").to_owned());
        let mut symbols = bytecode::symbols(&program[MAGIC.len()..]).unwrap_or_default();
        let in_program = Names::new(&symbols, inputs.len(), &kept, outputs.len());
        let (argument_names, collected) = name_parts(&mut in_tree, &mut out_tree, &in_program);
        ensure!(in_tree.has_short_paths() && out_tree.has_short_paths(), damaged("the names in a tree are too long"));
        let input_names = in_program.of_inputs(&in_tree.argument_paths());
        let output_names = out_tree.paths(RESULT);
        Ok(Exported {
            function: root.string(field::FUNCTION)?.unwrap_or_default().to_owned(),
            in_tree,
            out_tree,
            argument_names,
            collected,
            input_names,
            output_names,
            inputs,
            outputs,
            kept,
            platforms,
            num_devices: num_devices as u32,
            ordered_effects: names(field::ORDERED_EFFECTS)?,
            unordered_effects: names(field::UNORDERED_EFFECTS)?,
            disabled_checks: root.tables(field::DISABLED_CHECKS)?.into_iter().map(check).collect::<Result<_>>()?,
            calling_convention: root.number(field::CALLING_CONVENTION, 2)? as u16,
            custom_calls: names::targets(&mut symbols),
            jax_version: root.string(field::JAX_VERSION)?.map(str::to_owned),
            has_vjp: root.table(field::VJP)?.is_some(),
            program: place,
            ..Exported::default()
        })
    }

    /// The derivative of a function with the function's trees and names. JAX flattens them: all arguments and then all
    /// cotangents are positional.
    fn derivative_of(self, function: Exported) -> Result<Exported> {
        let (inputs, outputs) = (function.inputs.len(), function.outputs.len());
        if self.inputs.len() != inputs + outputs || self.outputs.len() != inputs {
            return Err(damaged("a derivative does not match its function"));
        }
        let order = function.order + 1;
        let cotangents = if order > 1 { format!("{COTANGENTS}{order}") } else { COTANGENTS.to_owned() };
        let output_names = function.input_names.clone();
        let mut input_names = function.input_names;
        let of_output = |name: &String| match name.strip_prefix(RESULT) {
            Some(rest) if function.order == 0 => format!("{cotangents}{rest}"),
            _ => format!("{cotangents}[{name}]"),
        };
        input_names.extend(function.output_names.iter().map(of_output));
        let mut in_tree = function.in_tree.clone();
        match in_tree.arguments_mut() {
            Some((_, named)) => named.push((cotangents, function.out_tree.renumbered(&|leaf| leaf + inputs))),
            None => in_tree = self.in_tree,
        }
        Ok(Exported {
            function: function.function,
            in_tree,
            out_tree: function.in_tree,
            order,
            argument_names: function.argument_names,
            collected: function.collected,
            input_names,
            output_names,
            ..self
        })
    }

    /// The positional and the named arguments as Python's parameters: those that it collects are one.
    pub fn parameters(&self) -> Tree {
        let mut pair = self.in_tree.clone();
        if let Some(((args, _), start)) = pair.arguments_mut().zip(self.collected) {
            let collected = args.split_off(start.min(args.len()));
            args.push(Tree::Tuple(collected));
        }
        pair
    }

    /// The result; that of a derivative, the cotangents of the arguments, with their names.
    pub fn result(&self) -> Tree {
        let result = self.out_tree.clone();
        match self.order {
            0 => result,
            _ => result.with_argument_names(),
        }
    }

    /// Why its program cannot be compiled as it is, if it cannot.
    pub fn needs_more(&self) -> Option<&'static str> {
        let reasons = [
            (!self.ordered_effects.is_empty(), "has ordered effects"),
            (self.is_symbolic(), "has symbolic dimensions"),
            (self.platforms.len() > 1, "is for several platforms"),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
    }

    /// Whether some shapes are not fixed.
    pub fn is_symbolic(&self) -> bool {
        self.inputs.iter().chain(&self.outputs).any(|value| value.is_symbolic())
    }

    /// Whether the program takes this input.
    pub fn is_kept(&self, input: usize) -> bool {
        self.kept.binary_search(&input).is_ok()
    }

    /// The names of the inputs that the program takes.
    pub fn kept_names(&self) -> Vec<String> {
        self.kept.iter().map(|&input| self.input_names[input].clone()).collect()
    }

    /// The path of each input: how Python would access an argument, or the name of a weight.
    pub fn input_paths(&self) -> Vec<String> {
        match self.framework {
            Framework::Jax => self.in_tree.argument_paths(),
            Framework::PyTorch => self.input_names.clone(),
        }
    }

    /// The path of each output, as Python would access it. A derivative's are the arguments' paths.
    pub fn output_paths(&self) -> Vec<String> {
        match self.order {
            0 => self.out_tree.paths(RESULT),
            _ => self.out_tree.argument_paths(),
        }
    }
}

/// Names the parts of registered types in the trees of a function after the names in its program. Returns the names of
/// the positional arguments, where all their arrays agree on them, and where those begin that Python collects in one.
fn name_parts(in_tree: &mut Tree, out_tree: &mut Tree, names: &Names) -> (Vec<Option<String>>, Option<usize>) {
    let ways = |names: &[Option<String>]| -> Vec<_> { names.iter().map(|name| Way::of(name.as_ref()?)).collect() };
    let (arguments, results) = (ways(&names.arguments), ways(&names.results));
    let mut types = Types::default();
    keys::name(out_tree, &results, &mut types, 0);
    let (mut found, mut start) = (Vec::new(), None);
    if let Some((args, kwargs)) = in_tree.arguments_mut() {
        start = keys::collected(args, &arguments);
        let mut collected = start.map(|start| Tree::Tuple(args.split_off(start)));
        for arg in args.iter_mut().chain(&mut collected) {
            keys::name(arg, &arguments, &mut types, 0);
            found.push(keys::root(arg, &arguments));
        }
        if let Some(Tree::Tuple(collected)) = collected {
            args.extend(collected);
        }
        for (_, arg) in kwargs {
            keys::name(arg, &arguments, &mut types, 0);
        }
    }
    // Without a name, they are arguments of their own.
    if start.is_some() && found.last() == Some(&None) {
        start = None;
    }
    keys::name_by_type(in_tree, &types);
    keys::name_by_type(out_tree, &types);
    (found, start)
}

/// The root of the outputs' paths.
const RESULT: &str = "result";

/// The named argument of a derivative for the cotangents of the outputs.
const COTANGENTS: &str = "cotangents";

#[cold]
fn no_derivative(function: &str, order: usize) -> Error {
    let message = match order {
        0 => format!("The file does not contain the derivative of `{function}`."),
        _ => format!("The file contains derivatives of `{function}` up to order {order}."),
    };
    let next = order + 1;
    let remedy = format!("In Python, write exported.serialize(vjp_order={next}) to the file.");
    Error::new(Kind::InvalidInput, message).hint(remedy)
}

/// The program in the content of an exported function's file, if it can be compiled as it is.
///
/// # Errors
/// `InvalidInput` if it cannot.
pub fn plain_module(content: &[u8]) -> Result<Option<&[u8]>> {
    let Some(module) = module_of(content) else { return Ok(None) };
    // Damage elsewhere does not matter.
    let Ok(exported) = Exported::read(content, 0) else { return Ok(Some(module)) };
    let Some(what) = exported.needs_more() else { return Ok(Some(module)) };
    let message = format!("The file contains an exported function of JAX, `{}`, which {what}.", exported.function);
    Err(Error::new(Kind::InvalidInput, message).hint(Reason::ProgramExported))
}

/// The program in the content of an exported function's file; `None` for anything else. Reads nothing but the offsets that lead
/// to it.
pub(crate) fn module_of(content: &[u8]) -> Option<&[u8]> {
    let place = Buffer::new(content).root().ok()?.bytes(field::PROGRAM).ok()?;
    Some(&content[place]).filter(|program| program.starts_with(MAGIC))
}

/// A tree and its leaves. Newer files have each distinct value once, and the indices of the values.
fn arrays(root: Table<'_, '_>, tree: usize, values: usize, indices: usize) -> Result<(Tree, Vec<Arc<Value>>)> {
    let (tree, leaves) = Tree::read(root.table(tree)?.ok_or_else(|| damaged("a tree is missing"))?)?;
    let read = |number| root.tables(number)?.into_iter().map(value).collect::<Result<Vec<_>>>();
    let indices = root.numbers(indices, 4)?;
    let values = if indices.is_empty() {
        read(values)?
    } else {
        let unique = read(field::UNIQUE_VALUES)?;
        let at = |index: usize| unique.get(index).cloned();
        indices.into_iter().map(at).collect::<Option<_>>().ok_or_else(|| damaged("an index is too large"))?
    };
    ensure!(values.len() == leaves, damaged("its trees do not match its arrays"));
    Ok((tree, values))
}

fn value(table: Table<'_, '_>) -> Result<Arc<Value>> {
    let is_token = match table.number(0, 1)? {
        0 => false,
        1 => true,
        _ => return Err(damaged("a value is of unknown kind")),
    };
    let dtype = DTYPES.split(' ').nth(table.number(2, 1)?).ok_or_else(|| damaged("an element type is unknown"))?;
    let shape = table.strings(1)?;
    ensure!(shape.len() <= MAX_RANK, damaged("an array has too many dimensions"));
    Ok(Arc::new(Value { dtype: dtype.into(), shape, is_token }))
}

/// What writes files that can be read here.
const EXPORT: &str = "In Python, write the bytes jax.export.export(jax.jit(f))(*args).serialize() to a file.";

#[cold]
fn not_exported(what: &str) -> Error {
    Error::new(Kind::InvalidFile, format!("This is not an exported function of JAX: {what}."))
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::new(Kind::InvalidFile, format!("The exported program is damaged: {what}."))
}

#[cfg(test)]
mod tests;
