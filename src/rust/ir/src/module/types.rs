//! Types of values, and their text.

use super::{Attribute, Name};
use pjrt_data::dtype::DType;
use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    Tensor(Arc<Tensor>),
    Unranked(Element),
    /// A number outside of arrays: the type of an attribute.
    Number(Element),
    Tuple(Arc<[Type]>),
    Function(Arc<(Vec<Type>, Vec<Type>)>),
    Token,
    /// What an operation gives later, which has these types.
    Future(Arc<[Type]>),
    None,
    /// A type of another dialect, as its text.
    Other(Name),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Negative without a fixed size.
    pub dims: Vec<i64>,
    pub element: Element,
    pub encoding: Option<Attribute>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Element {
    Number(DType),
    /// The signed integer of this width, which MLIR distinguishes from the one without a sign.
    Signed(u64),
    Index,
    /// Any other, as its text.
    Other(Name),
}

impl Tensor {
    /// Whether it has several dimensions above 1, so that their order matters.
    pub fn is_matrix(&self) -> bool {
        self.dims.iter().filter(|&&dim| dim != 1).count() > 1
    }

    /// The number of elements; `None` without a fixed size.
    pub fn elements(&self) -> Option<usize> {
        self.dims.iter().try_fold(1usize, |len, &dim| len.checked_mul(usize::try_from(dim).ok()?))
    }
}

impl Type {
    pub fn tensor(dims: Vec<i64>, element: Element) -> Type {
        Type::Tensor(Arc::new(Tensor { dims, element, encoding: None }))
    }

    pub fn as_tensor(&self) -> Option<&Tensor> {
        let Type::Tensor(tensor) = self else { return None };
        Some(tensor)
    }

    /// The sizes of an array.
    pub fn dims(&self) -> Option<&[i64]> {
        self.as_tensor().map(|tensor| tensor.dims.as_slice())
    }

    /// Whether all sizes in it are fixed.
    pub fn is_static(&self) -> bool {
        match self {
            Type::Tensor(tensor) => tensor.dims.iter().all(|&dim| dim >= 0),
            Type::Unranked(_) => false,
            Type::Tuple(parts) | Type::Future(parts) => parts.iter().all(Type::is_static),
            _ => true,
        }
    }
}

impl Element {
    /// The element of this name in text.
    pub fn of(name: &str) -> Element {
        match DType::from_mlir(name) {
            Some(dtype) => Element::Number(dtype),
            None if name == "index" => Element::Index,
            None => Element::Other(name.into()),
        }
    }

    pub fn dtype(&self) -> Option<DType> {
        let Element::Number(dtype) = self else { return None };
        Some(*dtype)
    }

    /// The same, also for an index, which has 64 bits.
    pub fn indexed(&self) -> Option<DType> {
        self.dtype().or((*self == Element::Index).then_some(DType::I64))
    }

    /// The bytes of an element in a constant, which has whole bytes for each.
    pub fn bytes(&self) -> Option<usize> {
        match self {
            Element::Number(dtype) => Some(dtype.host_bytes()),
            Element::Signed(width) => usize::try_from(width.div_ceil(8)).ok(),
            Element::Index => Some(8),
            Element::Other(name) => name.starts_with("f6").then_some(1),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Number(dtype) => f.write_str(dtype.info().mlir),
            Element::Signed(width) => write!(f, "si{width}"),
            Element::Index => f.write_str("index"),
            Element::Other(text) => f.write_str(text),
        }
    }
}

/// A size in text, where one that is not known is negative.
pub struct Size(pub i64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ..0 => f.write_str("?"),
            size => write!(f, "{size}"),
        }
    }
}
