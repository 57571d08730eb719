//! Operations, and what they contain.

use super::attribute::take;
use super::{Attribute, Attributes, Name};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

/// The result of an operation, or the argument of a block: the number of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Value(pub u32);

#[derive(Debug, Clone)]
pub struct Operation {
    /// With the dialect: `stablehlo.add`.
    pub name: Name,
    pub operands: Vec<Value>,
    pub results: Vec<Value>,
    pub attributes: Attributes,
    pub regions: Vec<Region>,
}

#[derive(Debug, Clone, Default)]
pub struct Region {
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, Default)]
pub struct Block {
    pub arguments: Vec<Value>,
    /// The names of the arguments in the source, if it has any.
    pub names: Vec<Option<Name>>,
    pub operations: Vec<Operation>,
}

impl Operation {
    pub fn new(name: &str, operands: Vec<Value>, results: Vec<Value>) -> Operation {
        Operation { name: name.into(), operands, results, attributes: Vec::new(), regions: Vec::new() }
    }

    /// The name without the dialect `stablehlo`; empty for other dialects.
    pub fn kind(&self) -> &str {
        self.name.strip_prefix("stablehlo.").unwrap_or("")
    }

    /// The name without its dialect.
    pub fn base(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// The same as StableHLO writes it: HLO has hyphens.
    pub fn stable_base(&self) -> Cow<'_, str> {
        match self.base() {
            base if base.contains('-') => base.replace('-', "_").into(),
            base => base.into(),
        }
    }

    /// The name of a function.
    pub fn symbol(&self) -> Option<&str> {
        self.attribute("sym_name").and_then(Attribute::as_text)
    }

    /// The operations in its regions.
    pub fn inner(&self) -> impl Iterator<Item = &Operation> {
        self.regions.iter().flat_map(|region| &region.blocks).flat_map(|block| &block.operations)
    }

    /// This operation and those in its regions, at any depth, in the order of the program.
    pub fn all(&self) -> impl Iterator<Item = &Operation> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let next = left.pop()?;
            let first = left.len();
            left.extend(next.inner());
            left[first..].reverse();
            Some(next)
        })
    }

    /// Whether an operation of this name is in its regions, at any depth.
    pub fn contains(&self, name: &str) -> bool {
        self.all().skip(1).any(|operation| &*operation.name == name)
    }

    /// The blocks of its regions, to change them.
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        self.regions.iter_mut().flat_map(|region| &mut region.blocks)
    }

    pub fn inner_mut(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.blocks_mut().flat_map(|block| &mut block.operations)
    }

    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|(key, _)| &**key == name).map(|(_, value)| value)
    }

    /// Replaces an attribute, or adds it.
    pub fn set(&mut self, name: &str, value: Attribute) {
        match self.attributes.iter_mut().find(|(key, _)| &**key == name) {
            Some((_, place)) => *place = value,
            None => self.attributes.push((name.into(), value)),
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Attribute> {
        take(&mut self.attributes, name)
    }

    /// Replaces composites with regions by calls: most plugins refuse the regions in text, which say nothing about the result.
    pub fn without_regions_of_composites(&mut self) {
        if self.kind() == "composite" && !self.regions.is_empty() {
            self.call_decomposition();
        } else {
            self.inner_mut().for_each(Operation::without_regions_of_composites);
        }
    }

    /// A composite becomes a call of its decomposition. Whether it has one.
    pub fn call_decomposition(&mut self) -> bool {
        let Some(decomposition) = self.remove("decomposition") else { return false };
        self.name = "func.call".into();
        self.attributes = vec![("callee".into(), decomposition)];
        self.regions.clear();
        true
    }

    /// The only block of a region.
    pub fn block(&self, region: usize) -> Option<&Block> {
        match self.regions.get(region)?.blocks.as_slice() {
            [block] => Some(block),
            _ => None,
        }
    }
}

/// Whether the operands and the result of an operation of StableHLO have one type: it computes each element from those at its
/// place. MLIR reads such operations as `name operands : type`.
pub fn is_elementwise(kind: &str) -> bool {
    const LIST: &str =
        "abs add and atan2 cbrt ceil cosine count_leading_zeros divide exponential exponential_minus_one floor \
        log log_plus_one logistic maximum minimum multiply negate not or popcnt power remainder \
        round_nearest_afz round_nearest_even rsqrt shift_left shift_right_arithmetic shift_right_logical sign \
        sine sqrt subtract tan tanh xor";
    // Asked about each operation of large programs.
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| LIST.split_ascii_whitespace().collect());
    NAMES.contains(kind)
}

/// Whether two arguments of a sort's comparison, by their places, are the two elements of one operand.
pub fn are_both_elements([a, b]: [usize; 2]) -> bool {
    a / 2 == b / 2 && a != b
}

/// Whether a name is in a list of names.
pub fn is_listed(names: &str, name: &str) -> bool {
    names.split_ascii_whitespace().any(|known| known == name)
}
