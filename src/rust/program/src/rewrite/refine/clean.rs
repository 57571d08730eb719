//! Removes unused operations.

use pjrt_ir::module::{is_listed, Attribute, Name, Operation, Value};
use std::collections::HashSet;

/// Leaves out operations whose results are not used, and functions that are not called. Functions come after those that they
/// call.
pub(super) fn clean(functions: &mut Vec<Operation>) {
    let mut pure = HashSet::new();
    for function in functions.iter_mut() {
        clean_inner(function, &mut HashSet::new(), &pure);
        let is_pure = function.all().skip(1).all(|operation| computes(operation, &pure));
        pure.extend(function.symbol().filter(|_| is_pure).map(Name::from));
    }
    let mut called = HashSet::from([Name::from("main")]);
    for function in functions.iter().rev() {
        if function.symbol().is_some_and(|name| called.contains(name)) {
            let attributes = function.all().flat_map(|operation| &operation.attributes);
            let values = attributes.flat_map(|(_, value)| value.as_array().unwrap_or(std::slice::from_ref(value)));
            called.extend(values.filter_map(Attribute::as_symbol).cloned());
        }
    }
    functions.retain(|function| function.symbol().is_some_and(|name| called.contains(name)));
}

/// From the last operation to the first: uses come after definitions.
fn clean_inner(operation: &mut Operation, used: &mut HashSet<Value>, pure: &HashSet<Name>) {
    for block in operation.blocks_mut() {
        let mut kept = Vec::new();
        let last = block.operations.len().saturating_sub(1);
        for (i, mut operation) in std::mem::take(&mut block.operations).into_iter().enumerate().rev() {
            let is_used = operation.results.iter().any(|result| used.contains(result));
            if i == last || is_used || !operation.all().all(|operation| computes(operation, pure)) {
                used.extend(operation.operands.iter().copied());
                clean_inner(&mut operation, used, pure);
                kept.push(operation);
            }
        }
        kept.reverse();
        block.operations = kept;
    }
}

/// Whether an operation itself, without those in it, only computes its results.
fn computes(operation: &Operation, pure: &HashSet<Name>) -> bool {
    let calls_pure = |name: &str| {
        operation.attribute(name).and_then(Attribute::as_symbol).is_some_and(|callee| pure.contains(callee))
    };
    match &*operation.name {
        "func.call" => calls_pure("callee"),
        "func.return" | "chlo.top_k" => true,
        "stablehlo.custom_call" => operation.attribute("has_side_effect") != Some(&Attribute::Bool(true)),
        "stablehlo.composite" => calls_pure("decomposition"),
        _ => {
            const WITH_EFFECTS: &str =
                "after_all all_gather all_reduce all_to_all async_done async_start collective_broadcast \
                collective_permute create_token infeed outfeed recv reduce_scatter rng send";
            let kind = operation.kind();
            !kind.is_empty() && !is_listed(WITH_EFFECTS, kind)
        }
    }
}
