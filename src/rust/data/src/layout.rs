//! Shapes and memory orders of arrays: element counts, strides, checks against overflow.

use crate::dtype::DType;
use pjrt_base::error::Result;
use smallvec::{smallvec, SmallVec};

/// Distances between neighbours along each dimension, in elements.
pub type Strides = SmallVec<[usize; 8]>;

/// The highest rank that all supported compilers accept.
pub const MAX_RANK: usize = 64;

/// Checks a shape's dimensions.
///
/// # Errors
/// `InvalidInput` for a negative dimension, a rank above [`MAX_RANK`], or more bytes than an address can hold.
pub fn check_dims(dtype: DType, dims: &[i64]) -> Result<()> {
    let rank = dims.len();
    ensure!(rank <= MAX_RANK, InvalidInput, "A shape must not have more than {MAX_RANK} dimensions: got {rank}.");
    if let Some(bad) = dims.iter().find(|&&d| d < 0) {
        bail!(InvalidInput, "The dimensions of a shape must not be negative: got {bad}.");
    }
    if dims.contains(&0) {
        return Ok(());
    }
    let count = dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d));
    match count {
        Some(n) if n.checked_mul(dtype.host_bytes() as i64).is_some() => Ok(()),
        _ => bail!(InvalidInput, "An array {dtype}[{}] is too large for any memory.", format_dims(dims)),
    }
}

/// Dimensions joined by `x`, as in `2x3`.
pub fn format_dims(dims: &[i64]) -> String {
    dims.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

/// dtype and shape as in `f32[2x3]`.
pub fn format_type(dtype: DType, dims: &[i64]) -> String {
    format!("{dtype}[{}]", format_dims(dims))
}

/// Strides, in elements, of a dense array whose dimensions vary from fastest to slowest in the order `minor_to_major`.
pub fn strides(dims: &[i64], minor_to_major: impl Iterator<Item = usize>) -> Strides {
    let mut strides: Strides = smallvec![0; dims.len()];
    let mut step = 1usize;
    for dim in minor_to_major {
        strides[dim] = step;
        step = step.saturating_mul(dims[dim].max(1) as usize);
    }
    strides
}

/// Strides of the order in which the last index varies fastest.
pub fn row_major(dims: &[i64]) -> Strides {
    strides(dims, (0..dims.len()).rev())
}

/// Strides of column-major order, in which the first index varies fastest.
pub fn column_major(dims: &[i64]) -> Strides {
    strides(dims, 0..dims.len())
}

/// Whether `order` is a permutation of the dimensions of a rank.
pub fn is_permutation(order: &[i64], rank: usize) -> bool {
    let mut is_missing = vec![true; rank];
    let mut take = |&d: &i64| is_missing.get_mut(d as usize).is_some_and(std::mem::take);
    order.len() == rank && order.iter().all(&mut take)
}
