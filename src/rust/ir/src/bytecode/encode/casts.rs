//! Casts between the values of the portable form and those of other dialects' operations, which keep their own types.

use super::super::decode::CAST;
use crate::module::{Block, Module, Operation, Type, Value};
use std::collections::HashSet;

/// Operations of other dialects stay as they are in a portable artifact.
pub(super) fn is_of_other_dialect(operation: &Operation) -> bool {
    operation.name.starts_with("sdy.") || operation.name.starts_with("chlo.")
}

/// The module with casts, and the values that have types of MLIR itself. `None` without operations of other dialects.
pub(super) fn with_casts(module: &Module) -> Option<(Module, HashSet<Value>)> {
    fn contains(operation: &Operation) -> bool {
        operation.inner().any(|operation| is_of_other_dialect(operation) || contains(operation))
    }
    if !contains(&module.root) {
        return None;
    }
    let mut module = module.clone();
    let mut casts = Casts { types: &mut module.types, plain: HashSet::new() };
    module.root.regions.iter_mut().flat_map(|region| &mut region.blocks).for_each(|block| casts.block(block, false));
    let plain = casts.plain;
    Some((module, plain))
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
            for argument in &mut block.arguments {
                let own = std::mem::replace(argument, self.twin(*argument));
                operations.push(Operation::new(CAST, vec![*argument], vec![own]));
            }
        }
        for mut operation in std::mem::take(&mut block.operations) {
            let is_other = is_of_other_dialect(&operation);
            operation
                .regions
                .iter_mut()
                .flat_map(|region| &mut region.blocks)
                .for_each(|block| self.block(block, is_other));
            let mut back = Vec::new();
            if is_other {
                for operand in &mut operation.operands {
                    let own = std::mem::replace(operand, self.twin(*operand));
                    operations.push(Operation::new(CAST, vec![own], vec![*operand]));
                }
                for result in &mut operation.results {
                    let own = std::mem::replace(result, self.twin(*result));
                    back.push(Operation::new(CAST, vec![*result], vec![own]));
                }
            }
            operations.push(operation);
            operations.append(&mut back);
        }
        block.operations = operations;
    }

    /// The same value with a type of MLIR itself.
    fn twin(&mut self, value: Value) -> Value {
        let twin = Value(self.types.len() as u32);
        self.types.push(self.types[value.0 as usize].clone());
        self.plain.insert(twin);
        twin
    }
}
