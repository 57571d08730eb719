//! Functions of programs as R calls them: the arguments and the result as nested lists, and which of their arrays the
//! program takes and returns.

mod arguments;
mod nested;
mod show;
mod step;
#[cfg(test)]
mod tests;

pub use nested::Nested;
pub use step::{Choice, Wanted};

use crate::exported::{Exported, Tree, Value};
use crate::names::{normal, SLASH};
use arguments::unique_names;
use pjrt_base::error::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

/// What a function of a program knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Callable {
    /// The name of the program's function.
    pub name: String,
    /// A list with the arguments' names, whose leaves are inputs.
    pub arguments: Nested,
    /// Lists whose elements may also be given by position, since they are classes in Python.
    pub classes: Vec<Class>,
    /// All arrays of the arguments. The program takes those that are kept, in this order.
    pub inputs: Vec<Input>,
    /// The types of the program's outputs.
    pub outputs: Vec<String>,
    /// The result, whose leaves are outputs. `None` if its structure is not known: it is a list of the outputs, or the only
    /// one.
    pub result: Option<Nested>,
    /// Whether the last argument is the list of a model's weights.
    pub has_weights: bool,
    /// The number of devices that it runs on.
    pub devices: u32,
    /// For a step.
    pub state: Option<State>,
}

/// A list among the arguments for a registered Python class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// The number of the argument, and the path in normal form below it.
    pub argument: usize,
    pub path: String,
    /// The names of the elements in normal form; empty for those without one.
    pub names: Vec<String>,
}

/// An array among the arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// The element type and the shape, as in `f32[2x3]`.
    pub kind: String,
    /// Whether the program takes it.
    pub kept: bool,
    pub donated: bool,
    /// Whether its shape chooses the executable.
    pub symbolic: bool,
}

/// What a step carries from one call to the next. The result is a list of the arguments that change and of other outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The arguments that change.
    pub names: Vec<String>,
    /// For each input, the output that replaces it.
    pub sources: Vec<Option<usize>>,
    /// Where each output is in the result of the function.
    pub outputs: Vec<String>,
}

/// How deep the lists of a function may nest: deeper than JAX's.
const MAX_NESTING: usize = 256;

/// The name of the argument for a model's weights.
const WEIGHTS: &str = "weights";

impl Callable {
    /// A function that JAX or PyTorch exported. `donated` says for each input whether the program takes over its memory.
    ///
    /// # Errors
    /// `InvalidInput` for trees that are too deep or too large.
    pub fn of_export(exported: &Exported, donated: &[bool]) -> Result<Callable> {
        let input = |(i, value): (usize, &std::sync::Arc<Value>)| Input {
            kind: kind_of(value),
            kept: exported.is_kept(i),
            donated: donated.get(i).copied().unwrap_or(false),
            symbolic: value.is_symbolic(),
        };
        let parameters = exported.parameters();
        let weight = |(row, _): &(usize, String)| (exported.input_names[*row].clone(), Tree::Leaf(*row));
        let weights: Vec<_> = exported.weights.iter().map(weight).collect();
        let has_weights = !weights.is_empty();
        let weights = has_weights.then_some((WEIGHTS, Tree::Dict(weights)));
        Callable {
            name: exported.function.clone(),
            arguments: arguments::of_pair(&parameters, &exported.argument_names, weights)?,
            classes: arguments::classes(&parameters),
            inputs: exported.inputs.iter().enumerate().map(input).collect(),
            outputs: exported.outputs.iter().map(|value| kind_of(value)).collect(),
            result: Some(Nested::of(&exported.result())?),
            has_weights,
            devices: exported.num_devices,
            state: None,
        }
        .checked()
    }

    /// A program whose inputs and outputs have names, which may lead into lists: `params.w`. An output without a name
    /// has an empty one.
    ///
    /// # Errors
    /// As [`Callable::of_export`].
    pub fn of_names(
        name: &str,
        inputs: Vec<(String, Input)>,
        outputs: Vec<(String, String)>,
        devices: u32,
    ) -> Result<Callable> {
        let (names, inputs): (Vec<String>, _) = inputs.into_iter().unzip();
        let (paths, outputs): (Vec<String>, Vec<String>) = outputs.into_iter().unzip();
        let paths: Vec<String> = paths.iter().map(|path| normal(path)).collect();
        let has_paths = paths.len() > 1 && paths.iter().all(|path| !path.is_empty());
        let result = if has_paths { arguments::nest(&paths).ok() } else { None };
        let (name, arguments) = (name.to_owned(), arguments::of_names(&names)?);
        Callable { name, arguments, inputs, outputs, result, devices, ..Callable::default() }.checked()
    }

    /// The same function with the inputs and outputs of an executable, which takes all these inputs.
    ///
    /// # Errors
    /// `InvalidInput` for an executable of another function.
    pub fn compiled(mut self, inputs: Vec<Input>, outputs: Vec<String>, devices: u32) -> Result<Callable> {
        let kept: Vec<&mut Input> = self.inputs.iter_mut().filter(|input| input.kept).collect();
        if self.outputs.len() != outputs.len() || kept.len() != inputs.len() {
            bail!(InvalidInput, "The exported function `{}` is damaged: its program has other inputs.", self.name);
        }
        // An executable has no keys, only their data.
        let kind = |own: &str, other: String| if own.starts_with("key<") { own.to_owned() } else { other };
        kept.into_iter()
            .zip(inputs)
            .for_each(|(own, other)| *own = Input { kind: kind(&own.kind, other.kind), ..other });
        self.outputs.iter_mut().zip(outputs).for_each(|(own, other)| *own = kind(own, other));
        self.devices = devices;
        Ok(self)
    }

    /// The function as text, for another session.
    ///
    /// # Errors
    /// `Internal` if it cannot be written.
    pub fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::new(Kind::Internal, error.to_string()))
    }

    /// The function in such a text.
    ///
    /// # Errors
    /// `InvalidInput` for damage.
    pub fn of_text(text: &str) -> Result<Callable> {
        serde_json::from_str(text).map_err(|error| damaged(&error.to_string())).and_then(Callable::checked)
    }

    /// The function, if its parts fit together.
    fn checked(self) -> Result<Callable> {
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        let mut rows = self.arguments.rows.clone();
        rows.sort_unstable();
        let fits = self.state.as_ref().is_none_or(|state| {
            state.sources.len() == inputs
                && state.outputs.len() == outputs
                && state.sources.iter().flatten().all(|&output| output < outputs)
                && state.names.iter().all(|name| self.names().contains(&name.as_str()))
        });
        let result = self.result.iter().all(|result| result.rows.iter().all(|&row| row < outputs));
        ensure!(rows.into_iter().eq(0..inputs) && result && fits, damaged("its arrays do not fit its lists"));
        Ok(self)
    }

    /// The names of the arguments.
    pub fn names(&self) -> Vec<&str> {
        self.arguments.tree.children().map(|(child, _)| child.name).collect()
    }

    /// For each argument, its inputs.
    pub fn inputs_of_arguments(&self) -> Vec<&[usize]> {
        let mut at = 0;
        let part = |leaves: usize| {
            at += leaves;
            &self.arguments.rows[at - leaves..at]
        };
        self.arguments.tree.children().map(|(_, leaves)| leaves).map(part).collect()
    }

    /// For each argument, whether the program takes none of its arrays.
    pub fn optional(&self) -> Vec<bool> {
        let is_unused = |rows: &[usize]| rows.iter().all(|&row| !self.inputs[row].kept);
        let mut optional: Vec<bool> = self.inputs_of_arguments().into_iter().map(is_unused).collect();
        if self.has_weights {
            optional.pop();
            optional.push(true);
        }
        optional
    }

    /// The path of each input as R writes it.
    pub fn input_paths(&self) -> Vec<String> {
        self.arguments.paths(self.inputs.len())
    }

    /// The path of each output in the result; `None` without a result of known structure.
    pub fn output_paths(&self) -> Option<Vec<String>> {
        Some(self.result.as_ref()?.paths(self.outputs.len()))
    }

    /// The positions of the program's inputs whose dimensions choose the executable.
    pub fn symbolic(&self) -> Vec<usize> {
        let kept = self.inputs.iter().filter(|input| input.kept);
        kept.enumerate().filter(|(_, input)| input.symbolic).map(|(i, _)| i).collect()
    }

    /// The function with other names of its arguments.
    ///
    /// # Errors
    /// `InvalidInput` for names that do not name one argument each.
    pub fn renamed(mut self, names: &[&str]) -> Result<Callable> {
        let is_bad =
            |name: &str| name.is_empty() || name.contains(['.', '/', '$', '%', '\'', '"', '`', '\\', '[', ']']);
        let unique = unique_names(names.iter().map(|&name| name.to_owned()).collect(), &[]);
        let mut bad: Vec<&str> = Vec::new();
        for (&name, unique) in names.iter().zip(&unique) {
            if (is_bad(name) || name != unique) && !bad.contains(&name) {
                bad.push(name);
            }
        }
        if !bad.is_empty() {
            let bad = quoted_list(bad.into_iter());
            bail!(InvalidInput, "`arguments` must be unique names without dots and brackets: got {bad}.");
        }
        let elements = names.iter().zip(self.arguments.elements()).map(|(name, (_, element))| (name, element));
        self.arguments = Nested::list(&elements.collect::<Vec<_>>())?;
        Ok(self)
    }
}

/// Names in backticks; the first ones are shown.
pub fn quoted_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    abbreviated(names.map(|name| format!("`{name}`")).collect())
}

/// A list in words. A long one ends with how many more there are.
fn abbreviated(mut items: Vec<String>) -> String {
    const MOST: usize = 8;
    if items.len() > MOST {
        let more = items.len() - (MOST - 2);
        items.truncate(MOST - 2);
        items.push(format!("... {more} more"));
    }
    items.join(", ")
}

fn kind_of(value: &Value) -> String {
    if value.dtype.is_empty() {
        return String::new();
    }
    typed(if value.is_token { "token" } else { &value.dtype }, &value.shape)
}

/// An element type and a shape, as in `f32[2x3]` or `f32[n, 4]`.
pub fn typed(dtype: &str, shape: &[String]) -> String {
    // Symbolic dimensions are expressions.
    let is_symbolic = shape.iter().any(|dim| dim.parse::<i64>().is_err());
    format!("{dtype}[{}]", shape.join(if is_symbolic { ", " } else { "x" }))
}

/// Whether a path in normal form is this one, or within the list there.
fn is_below(path: &str, list: &str) -> bool {
    path.strip_prefix(list).is_some_and(|rest| rest.is_empty() || rest.starts_with(SLASH))
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::new(Kind::InvalidInput, format!("The function of a program is damaged: {what}."))
}
