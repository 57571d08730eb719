//! Metadata of an array: its type, shape and memory order.

use crate::dtype::DType;
use crate::layout::{self, Strides};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::trace::Details;

/// Type, shape and memory order of an array.
///
/// ```
/// use pjrt_data::{array::Spec, dtype::DType};
/// let spec = Spec::new(DType::parse("bf16")?, &[2, 3])?;
/// assert_eq!((spec.len(), spec.bytes(), spec.to_string()), (6, 12, "bf16[2x3]".to_owned()));
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub dtype: DType,
    pub dims: Box<[i64]>,
    /// Dimensions from fastest to slowest varying; `None` is row-major, the default.
    pub minor_to_major: Option<Box<[i64]>>,
}

impl Spec {
    /// A row-major spec.
    ///
    /// # Errors
    /// As [`layout::check_dims`].
    pub fn new(dtype: DType, dims: &[i64]) -> Result<Spec> {
        layout::check_dims(dtype, dims)?;
        Ok(Spec { dtype, dims: dims.into(), minor_to_major: None })
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.dims.iter().map(|&d| d as usize).product()
    }

    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// Bytes of the dense array on the host.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype.host_bytes()
    }

    /// Checks bytes that others wrote: a boolean other than 0 or 1 would be one value for a reader and another for a program.
    ///
    /// # Errors
    /// `InvalidInput` with the first such byte.
    pub fn check_elements(&self, bytes: &[u8]) -> Result<()> {
        const CHUNK: usize = 1 << 12;
        // without a branch for each byte
        let is_bad = |chunk: &[u8]| chunk.iter().fold(0, |all, byte| all | byte) > 1;
        if self.dtype != DType::Pred || !bytes.chunks(CHUNK).any(is_bad) {
            return Ok(());
        }
        let found = bytes.iter().position(|&byte| byte > 1).unwrap_or(0);
        let message = format!(
            "Element {} of an array {self} is the byte {}, but a boolean is the byte 0 or 1. Read it as ui8.",
            found + 1,
            bytes[found]
        );
        Err(Error::new(Kind::InvalidInput, message))
    }

    /// Its details in a record.
    #[cold]
    pub fn details(&self) -> Details {
        let (bytes, dims) = (Some(self.bytes() as u64), Some(self.dims.clone()));
        Details { bytes, dtype: self.dtype.name(), dims, ..Details::default() }
    }

    /// The same array with its dimensions in this order, from fastest to slowest varying, which must be a permutation of them.
    #[must_use]
    pub fn in_order(&self, minor_to_major: &[i64]) -> Spec {
        let is_default = minor_to_major.iter().rev().enumerate().all(|(i, &d)| d == i as i64);
        Spec { minor_to_major: (!is_default).then(|| minor_to_major.into()), ..self.clone() }
    }

    /// Dimensions from fastest to slowest varying.
    pub fn order(&self) -> Vec<i64> {
        match &self.minor_to_major {
            Some(order) => order.to_vec(),
            None => (0..self.dims.len() as i64).rev().collect(),
        }
    }

    /// Element strides of the dense array in its memory order.
    pub fn strides(&self) -> Strides {
        match &self.minor_to_major {
            None => layout::row_major(&self.dims),
            Some(order) => layout::strides(&self.dims, order.iter().map(|&d| d as usize)),
        }
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&layout::format_type(self.dtype, &self.dims))
    }
}
