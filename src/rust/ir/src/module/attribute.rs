//! Attributes of operations.

use super::{Element, Name, Type};
use pjrt_data::dtype::DType;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
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
pub struct Dense {
    /// An array's type.
    pub kind: Type,
    /// Whole bytes for each element, in the order of little-endian machines; the bytes of one element if all are equal.
    pub bytes: Arc<[u8]>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Algorithm {
    /// The precisions of both sides, and of their sum.
    pub types: [Type; 3],
    /// Components of both sides, and primitive operations.
    pub counts: [i64; 3],
    pub allow_imprecise: bool,
}

impl Algorithm {
    /// The names of its parts in the portable form and in text.
    pub const NAMES: [&'static str; 7] = [
        "lhs_precision_type",
        "rhs_precision_type",
        "accumulation_type",
        "lhs_component_count",
        "rhs_component_count",
        "num_primitive_operations",
        "allow_imprecise_accumulation",
    ];

    /// The algorithm with these parts, in this order.
    pub fn of(parts: &[Attribute]) -> Option<Algorithm> {
        let [types @ .., lhs_count, rhs_count, operations, Attribute::Bool(allow_imprecise)] = parts else {
            return None;
        };
        let [Attribute::Type(lhs), Attribute::Type(rhs), Attribute::Type(accumulation)] = types else { return None };
        Some(Algorithm {
            types: [lhs, rhs, accumulation].map(Type::clone),
            counts: [lhs_count.as_integer()?, rhs_count.as_integer()?, operations.as_integer()?],
            allow_imprecise: *allow_imprecise,
        })
    }

    pub fn parts(&self) -> Vec<(&'static str, Attribute)> {
        let values = self.types.clone().map(Attribute::Type).into_iter().chain(self.counts.map(Attribute::number));
        Self::NAMES.into_iter().zip(values.chain([Attribute::Bool(self.allow_imprecise)])).collect()
    }
}

/// An attribute whose parts are lists and numbers: each with its field in XLA's messages, and its name in the portable form and in
/// text.
macro_rules! dimensions {
    ($(#[$about:meta])* $name:ident { $($field:ident: $kind:ident $($word:ident)+ = $number:literal $key:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $name {
            $(#[prost($($word),+, tag = $number)] pub $field: dimensions!($kind),)*
        }

        impl $name {
            /// The names of its parts, in their order.
            pub const NAMES: &[&str] = &[$($key),*];

            /// `part` finds the numbers of each part, by its name and whether it is a list.
            pub fn read<E>(mut part: impl FnMut(&'static str, bool) -> Result<Vec<i64>, E>) -> Result<Arc<Self>, E> {
                Ok(Arc::new($name { $($field: dimensions!($kind read part $key),)* }))
            }

            pub fn parts(&self) -> Vec<(&'static str, Attribute)> {
                vec![$(($key, dimensions!($kind self.$field)),)*]
            }
        }
    };
    (list) => { Vec<i64> };
    (number) => { i64 };
    (list read $part:ident $key:literal) => { $part($key, true)? };
    (number read $part:ident $key:literal) => { $part($key, false)?.first().copied().unwrap_or_default() };
    (list $($value:tt)*) => { Attribute::Numbers($($value)*.as_slice().into()) };
    (number $($value:tt)*) => { Attribute::number($($value)*) };
}

dimensions!(Dot {
    lhs_batching: list repeated int64 = 3 "lhs_batching_dimensions",
    rhs_batching: list repeated int64 = 4 "rhs_batching_dimensions",
    lhs_contracting: list repeated int64 = 1 "lhs_contracting_dimensions",
    rhs_contracting: list repeated int64 = 2 "rhs_contracting_dimensions",
});

dimensions!(Gather {
    offset_dims: list repeated int64 = 1 "offset_dims",
    collapsed_slice_dims: list repeated int64 = 2 "collapsed_slice_dims",
    operand_batching_dims: list repeated int64 = 5 "operand_batching_dims",
    start_indices_batching_dims: list repeated int64 = 6 "start_indices_batching_dims",
    start_index_map: list repeated int64 = 3 "start_index_map",
    index_vector_dim: number int64 = 4 "index_vector_dim",
});

dimensions!(Scatter {
    update_window_dims: list repeated int64 = 1 "update_window_dims",
    inserted_window_dims: list repeated int64 = 2 "inserted_window_dims",
    input_batching_dims: list repeated int64 = 5 "input_batching_dims",
    scatter_indices_batching_dims: list repeated int64 = 6 "scatter_indices_batching_dims",
    scatter_dims_to_operand_dims: list repeated int64 = 3 "scatter_dims_to_operand_dims",
    index_vector_dim: number int64 = 4 "index_vector_dim",
});

dimensions!(
    /// The dimensions of input, kernel and output: two with a meaning of their own, and the spatial ones.
    Conv {
        input_batch: number int64 = 7 "input_batch_dimension",
        input_feature: number int64 = 8 "input_feature_dimension",
        input_spatial: list repeated int64 = 11 "input_spatial_dimensions",
        kernel_input_feature: number int64 = 3 "kernel_input_feature_dimension",
        kernel_output_feature: number int64 = 4 "kernel_output_feature_dimension",
        kernel_spatial: list repeated int64 = 6 "kernel_spatial_dimensions",
        output_batch: number int64 = 9 "output_batch_dimension",
        output_feature: number int64 = 10 "output_feature_dimension",
        output_spatial: list repeated int64 = 12 "output_spatial_dimensions",
    }
);

impl Conv {
    /// What each dimension of input, kernel and output means, with its number, in their order.
    pub fn meanings(&self) -> [Vec<(i64, String)>; 3] {
        let sorted = |named: [(i64, &str); 2], spatial: &[i64]| {
            let spatial = spatial.iter().enumerate().map(|(i, &dim)| (dim, i.to_string()));
            let mut all: Vec<_> =
                named.map(|(dim, letter)| (dim, letter.to_owned())).into_iter().chain(spatial).collect();
            all.sort();
            all
        };
        [
            sorted([(self.input_batch, "b"), (self.input_feature, "f")], &self.input_spatial),
            sorted([(self.kernel_input_feature, "i"), (self.kernel_output_feature, "o")], &self.kernel_spatial),
            sorted([(self.output_batch, "b"), (self.output_feature, "f")], &self.output_spatial),
        ]
    }
}

/// Attributes with their names.
pub type Attributes = Vec<(Name, Attribute)>;

/// Takes an attribute out of a list.
pub fn take(attributes: &mut Attributes, name: &str) -> Option<Attribute> {
    let at = attributes.iter().position(|(key, _)| &**key == name)?;
    Some(attributes.remove(at).1)
}

impl Attribute {
    pub fn string(text: &str) -> Attribute {
        Attribute::String(text.as_bytes().into())
    }

    /// A number of 64 bits, as the attributes of StableHLO are.
    pub fn number(value: i64) -> Attribute {
        Attribute::Integer(value, Element::Number(DType::I64))
    }

    /// A number of a type, from its bits; those above them do not count.
    pub fn of_bits(bits: u64, element: Element) -> Attribute {
        match element.dtype() {
            Some(DType::Pred) => Attribute::Bool(bits != 0),
            Some(dtype) if dtype.is_float() => Attribute::Float(bits, element),
            Some(dtype) if dtype.info().bits < 64 => Attribute::Integer(dtype.wrapped(bits), element),
            _ => Attribute::Integer(bits as i64, element),
        }
    }

    pub fn symbol(name: Name) -> Attribute {
        Attribute::Symbol([name].into())
    }

    pub fn as_integer(&self) -> Option<i64> {
        let Attribute::Integer(value, _) = self else { return None };
        Some(*value)
    }

    /// The text of a string; `None` if it is not UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        let Attribute::String(bytes) = self else { return None };
        std::str::from_utf8(bytes).ok()
    }

    /// The name of a symbol that is not nested.
    pub fn as_symbol(&self) -> Option<&Name> {
        let Attribute::Symbol(names) = self else { return None };
        names.last().filter(|_| names.len() == 1)
    }

    pub fn as_array(&self) -> Option<&[Attribute]> {
        let Attribute::Array(items) = self else { return None };
        Some(items)
    }

    /// The value for a name in a dictionary.
    pub fn item(&self, name: &str) -> Option<&Attribute> {
        let Attribute::Dictionary(items) = self else { return None };
        items.iter().find(|(key, _)| &**key == name).map(|(_, value)| value)
    }

    /// Integers. StableHLO's operations have lists and arrays of them.
    pub fn as_numbers(&self) -> Option<Vec<i64>> {
        match self {
            Attribute::Numbers(numbers) | Attribute::Integers(numbers, _) => Some(numbers.to_vec()),
            Attribute::Bools(values) => Some(values.iter().map(|&value| value.into()).collect()),
            Attribute::Dense(dense) => dense.integers(usize::MAX),
            _ => None,
        }
    }
}
