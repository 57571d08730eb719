//! The names that a Python function gave to its arguments. JAX keeps them in the program.

use crate::bytecode::Symbols;
use crate::names::is_generated;
use std::collections::HashMap;

/// The function that has the arguments' names where `main` only computes symbolic dimensions for it.
const WRAPPED: &str = "_wrapped_jax_export_main";

/// Custom calls that compilers replace, by target or its beginning: they need no handler.
const OF_COMPILERS: [&str; 8] = [
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "shape_assertion",
    "annotate_device_placement",
    "LayoutConstraint",
    "ApproxTopK",
    "PartialReduce",
];
const PREFIXES_OF_COMPILERS: [&str; 4] = ["xla.sdy.", "stablehlo.", "mhlo.", "chlo."];

/// The custom calls that need a handler.
pub(super) fn targets(symbols: &mut Symbols) -> Vec<String> {
    let mut targets = std::mem::take(&mut symbols.targets);
    targets.retain(|target| {
        !OF_COMPILERS.contains(&target.as_str()) && !PREFIXES_OF_COMPILERS.iter().any(|start| target.starts_with(start))
    });
    targets
}

/// The name of each argument, or its path if the program has none.
pub(super) fn of_inputs(symbols: &Symbols, paths: &[String], kept: &[usize]) -> Vec<String> {
    let kept_names = [WRAPPED, "main"].iter().find_map(|function| of_function(symbols, function, kept.len()));
    let mut names: Vec<Option<String>> = vec![None; paths.len()];
    for (&input, name) in kept.iter().zip(kept_names.unwrap_or_default()) {
        names[input] = name;
    }
    // A part of an argument that is not in the program has the same root as the others.
    let mut roots = HashMap::new();
    for (path, name) in paths.iter().zip(&names) {
        if let (Some((argument, rest)), Some(name)) = (argument(path), name) {
            if let Some(root) = name.strip_suffix(rest).filter(|root| !root.is_empty()) {
                roots.insert(argument, root.to_owned());
            }
        }
    }
    let guess = |path: &String| {
        let (argument, rest) = argument(path)?;
        roots.get(argument).map(|root| format!("{root}{rest}"))
    };
    names
        .into_iter()
        .zip(paths)
        .map(|(name, path)| name.or_else(|| guess(path)).unwrap_or_else(|| path.clone()))
        .collect()
}

/// The names of a function's last arguments: those before are the platform, tokens and dimensions.
fn of_function(symbols: &Symbols, function: &str, count: usize) -> Option<Vec<Option<String>>> {
    let (_, arguments) = symbols.functions.iter().find(|(name, _)| name == function)?;
    let last = arguments.get(arguments.len().checked_sub(count)?..)?;
    // JAX gives the arguments of functions that it has made itself no names.
    let of_user = |name: &&String| !is_generated(name) && !name.starts_with("args_and_out_cts");
    Some(last.iter().map(|name| name.as_ref().filter(of_user).cloned()).collect())
}

/// The positional argument that a path is within, such as `args[0]`, and the rest of the path.
fn argument(path: &str) -> Option<(&str, &str)> {
    let end = path.starts_with("args[").then(|| path.find(']'))??;
    Some(path.split_at(end + 1))
}
