//! Operations that begin at one place and end at another, for plugins that know only those that do both at once.

use pjrt_ir::module::{Operation, Value};
use std::collections::{HashMap, HashSet, VecDeque};

/// Replaces each `async_start` by the operations in it, and its `async_done` by what these return. Those whose future goes
/// elsewhere stay.
pub(super) fn join(root: &mut Operation) {
    let mut joined = Joined::default();
    let users = root.all().filter(|operation| operation.kind() != "async_done");
    joined.used = users.flat_map(|operation| &operation.operands).copied().collect();
    joined.operation(root);
}

#[derive(Default)]
struct Joined {
    /// The operands of all operations but `async_done`.
    used: HashSet<Value>,
    /// What stands for a value now.
    instead: HashMap<Value, Value>,
    /// What each future gives.
    futures: HashMap<Value, Vec<Value>>,
}

impl Joined {
    fn operation(&mut self, operation: &mut Operation) {
        operation.operands.iter_mut().for_each(|operand| *operand = self.current(*operand));
        for block in operation.blocks_mut() {
            let mut left = VecDeque::from(std::mem::take(&mut block.operations));
            while let Some(mut operation) = left.pop_front() {
                if self.ends(&operation) {
                    continue;
                }
                match self.begins(&operation) {
                    Some(inner) => inner.iter().rev().for_each(|operation| left.push_front(operation.clone())),
                    None => {
                        self.operation(&mut operation);
                        block.operations.push(operation);
                    }
                }
            }
        }
    }

    /// The operations of an `async_start`, which take its operands instead of the arguments now.
    fn begins<'a>(&mut self, operation: &'a Operation) -> Option<&'a [Operation]> {
        let (&[future], "async_start") = (&operation.results[..], operation.kind()) else { return None };
        let block = operation.block(0)?;
        let (end, inner) = block.operations.split_last()?;
        if self.used.contains(&future) || block.arguments.len() != operation.operands.len() {
            return None;
        }
        for (&argument, &operand) in block.arguments.iter().zip(&operation.operands) {
            self.instead.insert(argument, self.current(operand));
        }
        self.futures.insert(future, end.operands.clone());
        Some(inner)
    }

    /// Whether this is the `async_done` of one of them.
    fn ends(&mut self, operation: &Operation) -> bool {
        let (&[future], "async_done") = (&operation.operands[..], operation.kind()) else { return false };
        let Some(values) = self.futures.get(&future).filter(|values| values.len() == operation.results.len()) else {
            return false;
        };
        let values: Vec<_> = values.iter().map(|&value| self.current(value)).collect();
        self.instead.extend(operation.results.iter().copied().zip(values));
        true
    }

    fn current(&self, value: Value) -> Value {
        self.instead.get(&value).copied().unwrap_or(value)
    }
}
