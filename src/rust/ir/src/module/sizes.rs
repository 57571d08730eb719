//! Arrays of impossible sizes: their number of bytes does not fit into 64 bits, so a compiler throws a C++ exception or
//! computes with the truncated number.

use pjrt_base::error::Result;

/// The most elements of an array: of the largest type, they have 2^63 bytes.
const MOST: u128 = 1 << 59;

/// Checks the sizes of an array. Sizes of 0 do not count: a compiler multiplies the others anyway. Nor do negative ones, which stand
/// for unknown sizes.
///
/// # Errors
/// `InvalidInput`.
pub fn check(dims: impl IntoIterator<Item = u64>) -> Result<()> {
    let elements = dims.into_iter().fold(1u128, |all, dim| all.saturating_mul(u128::from(dim.max(1))));
    if elements > MOST {
        bail!(InvalidInput, "The program has an array of {elements} elements, which no memory can hold.");
    }
    Ok(())
}
