//! Attributes of operations.

use super::{Element, Name, Type};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attribute {
    Unit,
    Bool(bool),
    /// An integer, with the bits of a larger unsigned one.
    Integer(i64, Element),
    /// The bits of a float.
    Float(u64, Element),
    String(Arc<[u8]>),
    /// A reference to a symbol, with the names from the outermost on.
    Symbol(Arc<[Name]>),
    Array(Arc<[Attribute]>),
    Dictionary(Arc<[(Name, Attribute)]>),
    Type(Type),
    Dense(Arc<Dense>),
    /// `array<i64: ..>`.
    Numbers(Arc<[i64]>),
    /// `array<i1: ..>`.
    Bools(Arc<[bool]>),
    /// `array<..>` of other integers.
    Integers(Arc<[i64]>, Element),
    Dot(Arc<Dot>),
    Algorithm(Arc<Algorithm>),
    Gather(Arc<Gather>),
    Scatter(Arc<Scatter>),
    Conv(Arc<Conv>),
    /// The limits of the sizes of an array, in its type.
    Bounds(Arc<[i64]>),
    /// One of StableHLO's enumerations: its name and its value.
    Choice(&'static str, &'static str),
    /// The source of an argument's name. Other locations are left out.
    Location(Option<Name>),
    /// An attribute of another dialect, as its text.
    Other(Name),
}

/// An array of numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dense {
    /// An array's type.
    pub kind: Type,
    /// Whole bytes for each element, in the order of little-endian machines; those of one element if all are equal.
    pub bytes: Arc<[u8]>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Dot {
    pub lhs_batching: Vec<i64>,
    pub rhs_batching: Vec<i64>,
    pub lhs_contracting: Vec<i64>,
    pub rhs_contracting: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Algorithm {
    pub lhs_precision: Type,
    pub rhs_precision: Type,
    pub accumulation: Type,
    /// Components of both sides, and primitive operations.
    pub counts: [i64; 3],
    pub allow_imprecise: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Gather {
    pub offset_dims: Vec<i64>,
    pub collapsed_slice_dims: Vec<i64>,
    pub operand_batching_dims: Vec<i64>,
    pub start_indices_batching_dims: Vec<i64>,
    pub start_index_map: Vec<i64>,
    pub index_vector_dim: i64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Scatter {
    pub update_window_dims: Vec<i64>,
    pub inserted_window_dims: Vec<i64>,
    pub input_batching_dims: Vec<i64>,
    pub scatter_indices_batching_dims: Vec<i64>,
    pub scatter_dims_to_operand_dims: Vec<i64>,
    pub index_vector_dim: i64,
}

/// The dimensions of input, kernel and output: two with a meaning of their own, and the spatial ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Conv {
    pub input_batch: i64,
    pub input_feature: i64,
    pub input_spatial: Vec<i64>,
    pub kernel_input_feature: i64,
    pub kernel_output_feature: i64,
    pub kernel_spatial: Vec<i64>,
    pub output_batch: i64,
    pub output_feature: i64,
    pub output_spatial: Vec<i64>,
}

impl Attribute {
    pub fn string(text: &str) -> Attribute {
        Attribute::String(text.as_bytes().into())
    }

    pub fn symbol(name: Name) -> Attribute {
        Attribute::Symbol([name].into())
    }

    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Attribute::Integer(value, _) => Some(*value),
            _ => None,
        }
    }

    /// The text of a string; `None` if it is not UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Attribute::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The name of a symbol that is not nested.
    pub fn as_symbol(&self) -> Option<&Name> {
        match self {
            Attribute::Symbol(names) => names.last().filter(|_| names.len() == 1),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Attribute]> {
        match self {
            Attribute::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The value for a name in a dictionary.
    pub fn item(&self, name: &str) -> Option<&Attribute> {
        match self {
            Attribute::Dictionary(items) => items.iter().find(|(key, _)| &**key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Integers, of which StableHLO's operations have lists and arrays.
    pub fn as_numbers(&self) -> Option<Vec<i64>> {
        match self {
            Attribute::Numbers(numbers) | Attribute::Integers(numbers, _) => Some(numbers.to_vec()),
            Attribute::Bools(values) => Some(values.iter().map(|&value| value.into()).collect()),
            Attribute::Dense(dense) => dense.integers(usize::MAX),
            _ => None,
        }
    }
}
