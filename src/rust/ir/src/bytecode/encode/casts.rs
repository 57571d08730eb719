//! Casts between the values of the portable form and the values of other dialects' operations, which keep their own types.

use super::super::decode::CAST;
use crate::module::{Block, Module, Operation, Type, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// Operations of other dialects stay as they are in a portable artifact.
pub(super) fn is_of_other_dialect(operation: &Operation) -> bool {
    operation.name.starts_with("sdy.") || operation.name.starts_with("chlo.")
}

/// The module, with casts if it has operations of other dialects, and the values that have types of MLIR itself.
pub(super) fn with_casts(module: &Module) -> (Cow<'_, Module>, HashSet<Value>) {
    if !module.root.all().any(is_of_other_dialect) {
        return (Cow::Borrowed(module), HashSet::new());
    }
    let mut module = module.clone();
    let mut casts = Casts { types: &mut module.types, plain: HashSet::new() };
    module.root.blocks_mut().for_each(|block| casts.block(block, false));
    let plain = casts.plain;
    (Cow::Owned(module), plain)
}

struct Casts<'a> {
    types: &'a mut Vec<Type>,
    plain: HashSet<Value>,
}

impl Casts<'_> {
    /// `is_plain`: of an operation of another dialect.
    fn block(&mut self, block: &mut Block, is_plain: bool) {
        let mut operations = Vec::new();
        if is_plain {
            operations = self.twins(&mut block.arguments, |own, twin| cast(twin, own));
        }
        for mut operation in std::mem::take(&mut block.operations) {
            let is_other = is_of_other_dialect(&operation);
            operation.blocks_mut().for_each(|block| self.block(block, is_other));
            if !is_other {
                operations.push(operation);
                continue;
            }
            operations.extend(self.twins(&mut operation.operands, cast));
            let back = self.twins(&mut operation.results, |own, twin| cast(twin, own));
            operations.push(operation);
            operations.extend(back);
        }
        block.operations = operations;
    }

    /// Replaces values by twins, which have types of MLIR itself; what `cast` makes of each value and its twin.
    fn twins(&mut self, values: &mut [Value], cast: impl Fn(Value, Value) -> Operation) -> Vec<Operation> {
        let twin = |value: &mut Value| {
            let twin = Value(self.types.len() as u32);
            self.types.push(self.types[value.0 as usize].clone());
            self.plain.insert(twin);
            cast(std::mem::replace(value, twin), twin)
        };
        values.iter_mut().map(twin).collect()
    }
}

fn cast(from: Value, to: Value) -> Operation {
    Operation::new(CAST, vec![from], vec![to])
}
