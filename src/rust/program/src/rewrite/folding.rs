//! Operations on constants that XLA's CPU compiler computes wrongly itself, though the program would compute them correctly.
//! They are found by the types of their operands, in any form of a program that has them.

use pjrt_data::dtype::DType;
use pjrt_ir::module::{is_listed, Module, Operation, Type, Value};
use std::collections::{HashMap, HashSet};

/// How often the constants in arguments of functions are looked for: calls in calls need more.
const ROUNDS: usize = 8;

/// Operations whose results a compiler does not know, whatever their operands.
const UNKNOWN: &str =
    "optimization_barrier opt_barrier rng_get_and_update_state custom_call rng rng_bit_generator infeed recv after_all \
     create_token partition_id replica_id composite get_dimension_size";

/// The constants in a program from which the compiler would compute a wrong number.
pub(crate) fn misread_constants(module: &Module) -> HashSet<Value> {
    let mut search = Search { types: &module.types, ..Search::default() };
    for _ in 0..ROUNDS {
        search.risky.clear();
        search.calls.clear();
        search.note(&module.root);
        if !search.pass_to_functions(module) {
            break;
        }
    }
    search.constants()
}

#[derive(Default)]
struct Search<'m> {
    types: &'m [Type],
    /// What defines each value that a compiler knows: an operation's operands, or the operands of the calls that pass it to a
    /// function.
    sources: HashMap<Value, Vec<Value>>,
    constants: HashSet<Value>,
    /// The calls of each function: their operands.
    calls: HashMap<String, Vec<&'m [Value]>>,
    /// The operands of operations that would be computed wrongly.
    risky: Vec<Value>,
}

impl<'m> Search<'m> {
    /// Notes an operation, after those in it.
    fn note(&mut self, operation: &'m Operation) {
        operation.inner().for_each(|inner| self.note(inner));
        let base = &*operation.stable_base();
        let is_constant = base == "constant";
        if is_constant {
            self.constants.extend(&operation.results);
        }
        let all_known = !operation.operands.is_empty() && operation.operands.iter().all(|value| self.knows(value));
        if base == "call" {
            if let Some(name) = operation.attribute("callee").and_then(|callee| callee.as_symbol()) {
                self.calls.entry(name.to_string()).or_default().push(&operation.operands);
            }
        }
        if all_known && self.is_wrong(operation) {
            self.risky.extend(&operation.operands);
        }
        if is_constant || base == "iota" || all_known && !is_listed(UNKNOWN, base) {
            self.sources.extend(operation.results.iter().map(|&result| (result, operation.operands.clone())));
        }
    }

    fn knows(&self, value: &Value) -> bool {
        self.sources.contains_key(value)
    }

    /// Notes the arguments of functions that every call knows; whether there are new ones.
    fn pass_to_functions(&mut self, module: &Module) -> bool {
        let mut is_new = false;
        for function in module.root.inner() {
            let (Some(name), Some(block)) = (function.symbol(), function.block(0)) else { continue };
            let Some(calls) = self.calls.get(name).cloned() else { continue };
            for (i, &argument) in block.arguments.iter().enumerate() {
                let passed: Option<Vec<Value>> = calls.iter().map(|operands| operands.get(i).copied()).collect();
                let Some(passed) = passed else { continue };
                if name != "main" && !self.knows(&argument) && passed.iter().all(|value| self.knows(value)) {
                    self.sources.insert(argument, passed);
                    is_new = true;
                }
            }
        }
        is_new
    }

    /// Whether the compiler computes this operation on constants wrongly.
    fn is_wrong(&self, operation: &Operation) -> bool {
        let dtype = |value: &Value| self.types.get(value.0 as usize)?.as_tensor()?.element.dtype();
        let Some(of) = operation.operands.first().and_then(dtype) else { return false };
        let is_signed = of.is_integer() && of.is_signed();
        match &*operation.stable_base() {
            // NaN gets lost.
            "maximum" | "minimum" | "clamp" => of.is_float(),
            // As if the numbers had no sign.
            "compare" => is_signed && operation.attribute("compare_type").is_none(),
            "add" => of == DType::Pred,
            // Of negative numbers.
            "count_leading_zeros" => is_signed,
            "bitcast_convert" => operation.results.first().and_then(dtype).is_some_and(|to| to.info().bits < 8),
            _ => false,
        }
    }

    /// The constants that the operands of the operations come from.
    fn constants(self) -> HashSet<Value> {
        let mut seen = HashSet::new();
        let mut found = HashSet::new();
        let mut open = self.risky;
        while let Some(value) = open.pop() {
            if !seen.insert(value) {
                continue;
            }
            if self.constants.contains(&value) {
                found.insert(value);
            }
            open.extend(self.sources.get(&value).into_iter().flatten());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_ir::text;

    fn count(body: &str) -> usize {
        misread_constants(&text::module(body.as_bytes())).len()
    }

    #[test]
    fn operations_on_constants_alone_are_found() {
        let of = |operation: &str, kind: &str| {
            count(&format!(
                "func.func @main(%x: {kind}) -> {kind} {{\n  %a = stablehlo.constant dense<1> : {kind}\n  %b = \
                 stablehlo.constant dense<1> : {kind}\n  %c = stablehlo.negate %a : {kind}\n  {operation}\n  return %r : \
                 {kind}\n}}"
            ))
        };
        assert_eq!(of("%r = stablehlo.maximum %c, %b : tensor<2xf32>", "tensor<2xf32>"), 2);
        assert_eq!(of("%r = stablehlo.maximum %c, %x : tensor<2xf32>", "tensor<2xf32>"), 0);
        assert_eq!(of("%r = stablehlo.maximum %c, %b : tensor<2xi32>", "tensor<2xi32>"), 0);
        assert_eq!(of("%r = stablehlo.add %a, %b : tensor<2xi1>", "tensor<2xi1>"), 2);
        assert_eq!(of("%r = \"stablehlo.count_leading_zeros\"(%a) : (tensor<i8>) -> tensor<i8>", "tensor<i8>"), 1);
        let compare = |kind: &str| {
            of(
                &format!("%r = stablehlo.compare LT, %a, %b{kind} : (tensor<i8>, tensor<i8>) -> tensor<i1>"),
                "tensor<i8>",
            )
        };
        assert_eq!((compare(""), compare(", SIGNED")), (2, 0));
        let hidden =
            "%d = stablehlo.optimization_barrier %a : tensor<f32>\n  %r = stablehlo.maximum %d, %b : tensor<f32>";
        assert_eq!(of(hidden, "tensor<f32>"), 0);
    }

    #[test]
    fn constants_are_followed_into_functions() {
        let of = |argument: &str| {
            count(&format!(
                "func.func private @f(%x: tensor<f32>) -> tensor<f32> {{\n  %r = stablehlo.minimum %x, %x : tensor<f32>\n  \
                 return %r : tensor<f32>\n}}\nfunc.func @main(%x: tensor<f32>) -> tensor<f32> {{\n  %a = stablehlo.constant \
                 dense<1.0> : tensor<f32>\n  %r = call @f({argument}) : (tensor<f32>) -> tensor<f32>\n  return %r : \
                 tensor<f32>\n}}"
            ))
        };
        assert_eq!((of("%a"), of("%x")), (1, 0));
    }
}
