//! The names that a Python function gave to its arguments. JAX keeps them in the program.

use crate::names::is_generated;
use pjrt_ir::bytecode::Symbols;
use pjrt_ir::module::is_listed;
use std::collections::HashMap;

/// The function that has the arguments' names where `main` only computes symbolic dimensions for it.
const WRAPPED: &str = "_wrapped_jax_export_main";

/// Custom calls that compilers replace, by target or its beginning: they need no handler.
const OF_COMPILERS: &str =
    "Sharding SPMDFullToShardShape SPMDShardToFullShape shape_assertion annotate_device_placement \
                            LayoutConstraint ApproxTopK PartialReduce";
const PREFIXES_OF_COMPILERS: [&str; 4] = ["xla.sdy.", "stablehlo.", "mhlo.", "chlo."];

/// The custom calls that need a handler.
pub(super) fn targets(symbols: &mut Symbols) -> Vec<String> {
    let mut targets = std::mem::take(&mut symbols.targets);
    targets.retain(|target| {
        !is_listed(OF_COMPILERS, target) && !PREFIXES_OF_COMPILERS.iter().any(|start| target.starts_with(start))
    });
    targets
}

/// The names in the program of the arguments that it takes, and the paths in it to the results; `None` where it has
/// none.
pub(super) struct Names {
    pub arguments: Vec<Option<String>>,
    pub results: Vec<Option<String>>,
}

impl Names {
    pub fn new(symbols: &Symbols, inputs: usize, kept: &[usize], outputs: usize) -> Names {
        let of = |name: &str| symbols.functions.iter().find(|function| function.name == name);
        // JAX gives the arguments of functions that it has made itself no names.
        let of_user = |name: &&String| !is_generated(name) && !name.starts_with("args_and_out_cts");
        let mut arguments = vec![None; inputs];
        let taken = [WRAPPED, "main"].iter().find_map(|name| last(&of(name)?.arguments, kept.len()));
        for (&input, name) in kept.iter().zip(taken.unwrap_or_default()) {
            arguments[input] = name.as_ref().filter(of_user).cloned();
        }
        let results = ["main", WRAPPED].iter().find_map(|name| last(&of(name)?.results, outputs));
        Names { arguments, results: results.map_or_else(|| vec![None; outputs], <[_]>::to_vec) }
    }

    /// The name of each argument, or its path if the program has none.
    pub fn of_inputs(&self, paths: &[String]) -> Vec<String> {
        // A part of an argument that is not in the program has the same root as the others.
        let roots = paths.iter().zip(&self.arguments).filter_map(|(path, name)| {
            let (argument, rest) = argument(path)?;
            Some((argument, name.as_ref()?.strip_suffix(rest).filter(|root| !root.is_empty())?))
        });
        let roots: HashMap<&str, &str> = roots.collect();
        let guess = |path: &String| {
            let (argument, rest) = argument(path)?;
            roots.get(argument).map(|root| format!("{root}{rest}"))
        };
        let name = |(path, name): (&String, &Option<String>)| {
            name.clone().or_else(|| guess(path)).unwrap_or_else(|| path.clone())
        };
        paths.iter().zip(&self.arguments).map(name).collect()
    }
}

/// The last so many: those before are the platform, tokens and dimensions.
fn last<T>(all: &[T], count: usize) -> Option<&[T]> {
    all.get(all.len().checked_sub(count)?..)
}

/// The positional argument that a path is within, such as `args[0]`, and the rest of the path.
fn argument(path: &str) -> Option<(&str, &str)> {
    let end = path.starts_with("args[").then(|| path.find(']'))??;
    Some(path.split_at(end + 1))
}
