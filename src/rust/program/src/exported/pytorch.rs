//! The description of a function that PyTorch exported as StableHLO, a JSON file beside its program. Weights and
//! arguments are inputs of the program, in any order.

use super::tree::MAX_NESTING;
use crate::exported::{Exported, Framework, Tree, Value};
use memchr::memmem;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use pjrt_data::layout::MAX_RANK;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The folders of weights in a model's folder.
const PARAMETERS: &str = "data";
const CONSTANTS: &str = "constants";

/// The size of a dimension that is not fixed.
const UNKNOWN: &str = "?";

/// A NUL character in JSON, also in JSON that is a text of it. R's texts have none.
const NUL: &[u8] = b"\\u0000";

/// The version of the text form of trees.
const TREE_VERSION: i64 = 1;

#[derive(Deserialize)]
struct Meta {
    name: String,
    input_signature: Vec<Signature>,
    output_signature: Vec<Signature>,
    input_locations: Vec<Location>,
    #[serde(default)]
    unused_inputs: Vec<(Location, Signature)>,
    input_pytree_spec: Option<String>,
    output_pytree_spec: Option<String>,
}

#[derive(Deserialize)]
struct Signature {
    shape: Vec<i64>,
    dtype: String,
    #[serde(default)]
    dynamic_dims: Vec<usize>,
}

#[derive(Deserialize)]
struct Location {
    type_: String,
    #[serde(default = "none")]
    position: i64,
    #[serde(default)]
    name: String,
}

fn none() -> i64 {
    -1
}

#[derive(Deserialize)]
struct Node {
    #[serde(rename = "type")]
    kind: Option<String>,
    context: Option<serde_json::Value>,
    children_spec: Vec<Node>,
}

impl Exported {
    /// Reads the JSON that describes a function of PyTorch. Its inputs are the program's in their order, then the arguments
    /// that this does not take.
    ///
    /// # Errors
    /// `InvalidInput` for damage.
    pub fn of_pytorch(json: &[u8]) -> Result<Exported> {
        let meta: Meta = serde_json::from_slice(json).map_err(|error| damaged(&error.to_string()))?;
        if meta.input_signature.len() != meta.input_locations.len() {
            return Err(damaged("its inputs do not match their sources"));
        }
        let arguments = meta.input_locations.iter().chain(meta.unused_inputs.iter().map(|(location, _)| location));
        let arguments = arguments.filter(|location| location.type_ == "input_arg").map(Location::index);
        let highest = arguments.collect::<Result<Vec<_>>>()?.into_iter().max();
        // More arguments than there can be inputs are a mistake that is found later.
        let count = highest.map_or(0, |highest| highest + 1).min(1 << 16);
        let in_tree = match &meta.input_pytree_spec {
            Some(spec) => tree(spec)?,
            None => Tree::Tuple(vec![flat(count), Tree::Dict(Vec::new())]),
        };
        let paths = in_tree.argument_paths();
        // The exporter mistakes the positions of unused arguments if some arguments are nested.
        let is_flat = in_tree.arguments().is_some_and(|(args, _)| args.iter().all(|arg| matches!(arg, Tree::Leaf(_))));
        let mut rows = vec![None; paths.len()];
        let (mut inputs, mut input_names, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (row, (location, signature)) in meta.input_locations.iter().zip(&meta.input_signature).enumerate() {
            let name = match location.type_.as_str() {
                "parameter" => {
                    weights.push((row, file(PARAMETERS, &location.name)?));
                    location.name.clone()
                }
                "constant" => {
                    let path = file(CONSTANTS, &location.index()?.to_string())?;
                    weights.push((row, path.clone()));
                    path
                }
                "input_arg" => {
                    let position = location.index()?;
                    match rows.get_mut(position) {
                        Some(place @ None) => *place = Some(row),
                        Some(_) => return Err(damaged("the program takes an argument twice")),
                        None => return Err(damaged("its arguments do not match its inputs")),
                    }
                    paths[position].clone()
                }
                other => return Err(damaged(&format!("an input is a \"{other}\", which is unknown"))),
            };
            inputs.push(signature.value()?);
            input_names.push(name);
        }
        let kept = (0..inputs.len()).collect();
        let mut seen = HashSet::new();
        if let Some(twice) = input_names.iter().find(|&name| !seen.insert(name)) {
            return Err(damaged(&format!("the program takes \"{twice}\" twice")));
        }
        // Of several for one place, the first.
        let unused = meta.unused_inputs.iter().rev().filter(|_| is_flat);
        let unused = unused.filter_map(|(location, signature)| Some((location.index().ok()?, signature)));
        let unused: HashMap<usize, &Signature> = unused.collect();
        let open = rows.iter_mut().zip(paths).enumerate().filter(|(_, (place, _))| place.is_none());
        for (position, (place, path)) in open {
            *place = Some(inputs.len());
            inputs.push(match unused.get(&position) {
                Some(signature) => signature.value()?,
                None => Value { dtype: "".into(), shape: Vec::new(), is_token: false },
            });
            input_names.push(path);
        }
        let rows: Vec<usize> = rows.into_iter().flatten().collect();
        let count = meta.output_signature.len();
        let out_tree = meta.output_pytree_spec.as_deref().map_or_else(|| Ok(flat(count)), tree)?;
        let output_names = out_tree.paths("result");
        ensure!(output_names.len() == count, damaged("its results do not match its outputs"));
        let mut outputs = meta.output_signature.iter().map(Signature::value).collect::<Result<Vec<_>>>()?;
        ensure!(memmem::find(json, NUL).is_none(), damaged("a text has a NUL character"));
        name_sizes(&mut inputs, &mut outputs);
        Ok(Exported {
            framework: Framework::PyTorch,
            function: meta.name,
            in_tree: in_tree.renumbered(&|leaf| rows[leaf]),
            output_names,
            out_tree,
            input_names,
            inputs: inputs.into_iter().map(Arc::new).collect(),
            outputs: outputs.into_iter().map(Arc::new).collect(),
            kept,
            weights,
            num_devices: 1,
            ..Exported::default()
        })
    }
}

/// Gives each dimension without a size a name of its own, since the description does not say which are equal. It has
/// the outputs' sizes for the example that was exported, even if they depend on the inputs' sizes.
fn name_sizes(inputs: &mut [Value], outputs: &mut [Value]) {
    let unknown = inputs.iter_mut().flat_map(|value| &mut value.shape).filter(|size| *size == UNKNOWN);
    let count = unknown.enumerate().map(|(i, size)| *size = format!("d{}", i + 1)).count();
    if count > 0 {
        outputs.iter_mut().flat_map(|value| &mut value.shape).for_each(|size| *size = UNKNOWN.to_owned());
    }
}

impl Location {
    fn index(&self) -> Result<usize> {
        usize::try_from(self.position).map_err(|_| damaged("a position is negative"))
    }
}

impl Signature {
    fn value(&self) -> Result<Value> {
        ensure!(self.shape.len() <= MAX_RANK, damaged("an array has too many dimensions"));
        let dim = |(i, &dim): (usize, &i64)| match dim {
            _ if self.dynamic_dims.contains(&i) => Ok(UNKNOWN.to_owned()),
            0.. => Ok(dim.to_string()),
            _ => Err(damaged("a dimension is negative")),
        };
        let shape = self.shape.iter().enumerate().map(dim).collect::<Result<_>>()?;
        let dtype = DType::parse(&self.dtype).map_or(self.dtype.clone().into(), |dtype| dtype.name().into());
        Ok(Value { dtype, shape, is_token: false })
    }
}

/// The path of a weight's file in a model's folder. A name leads nowhere else.
fn file(folder: &str, name: &str) -> Result<String> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', '\0', ':']) {
        return Err(damaged(&format!("\"{}\" is not the name of a weight", name.escape_debug())));
    }
    Ok(format!("{folder}/{name}"))
}

/// So many arrays that are not nested.
fn flat(count: usize) -> Tree {
    Tree::Tuple((0..count).map(Tree::Leaf).collect())
}

/// A tree from its text form.
fn tree(spec: &str) -> Result<Tree> {
    let wrong = |error: serde_json::Error| damaged(&format!("a tree is wrong: {error}"));
    let (version, root): (i64, Node) = serde_json::from_str(spec).map_err(wrong)?;
    if version != TREE_VERSION {
        return Err(damaged(&format!("a tree is written in version {version}, which is unknown")));
    }
    let tree = node(root, &mut 0, 0)?;
    ensure!(tree.has_short_paths(), damaged("the names in a tree are too long"));
    Ok(tree)
}

fn node(found: Node, leaves: &mut usize, depth: usize) -> Result<Tree> {
    ensure!(depth <= MAX_NESTING, damaged("a tree is nested too deeply"));
    let Some(kind) = found.kind else {
        ensure!(found.children_spec.is_empty(), damaged("a leaf of a tree has children"));
        *leaves += 1;
        return Ok(Tree::Leaf(*leaves - 1));
    };
    let children = found.children_spec.into_iter().map(|child| node(child, leaves, depth + 1));
    let children: Vec<Tree> = children.collect::<Result<_>>()?;
    Ok(match kind.as_str() {
        "builtins.tuple" => Tree::Tuple(children),
        "builtins.list" => Tree::List(children),
        "builtins.dict" | "collections.OrderedDict" => {
            let keys = keys(found.context).filter(|keys| keys.len() == children.len());
            let keys = keys.ok_or_else(|| damaged("a dictionary's keys do not match its values"))?;
            Tree::Dict(keys.into_iter().zip(children).collect())
        }
        _ => Tree::custom(kind, children),
    })
}

/// A dictionary's keys, which are JSON in a JSON string.
fn keys(context: Option<serde_json::Value>) -> Option<Vec<String>> {
    let keys: Vec<serde_json::Value> = serde_json::from_str(context?.as_str()?).ok()?;
    let text = |key: serde_json::Value| match key {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    Some(keys.into_iter().map(text).collect())
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::new(Kind::InvalidInput, format!("The description of the exported function is damaged: {what}."))
}

#[cfg(test)]
mod tests;
