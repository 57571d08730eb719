//! QR factorizations and products with their orthogonal factor.

use crate::letters::Side;
use crate::scalar::Scalar;
use crate::workspace::Workspace;
use pjrt_base::error::Result;

/// QR factorization of the `m` x `n` matrix `a`: R on and above the diagonal, the reflectors below it, with min(m, n)
/// factors in `tau`.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn geqrf<T: Scalar>(work: &mut Workspace, m: usize, n: usize, a: &mut [T], tau: &mut [T]) -> Result<()> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// QR factorization with column exchanges. Columns with `jpvt[j] != 0` on entry are moved to the front; on return, column j
/// of the product was column `jpvt[j]` of the matrix, counted from 1.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn geqp3<T: Scalar>(
    work: &mut Workspace,
    m: usize,
    n: usize,
    a: &mut [T],
    jpvt: &mut [i32],
    tau: &mut [T],
) -> Result<()> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// Replaces the first `tau.len()` reflectors in the `m` x `n` matrix `a` by the first `n` columns of their product;
/// `tau.len() <= n <= m`. Named `ungqr` for complex types.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn orgqr<T: Scalar>(work: &mut Workspace, m: usize, n: usize, a: &mut [T], tau: &[T]) -> Result<()> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// Multiplies the `m` x `n` matrix `c` with the orthogonal factor Q from the left or right; with `transpose`, with its
/// (conjugate) transpose. The reflectors are the first k = `tau.len()` columns of `a`, which has r rows, m or n by side, and
/// at least k columns; k <= r. Named `unmqr` for complex types.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn ormqr<T: Scalar>(
    work: &mut Workspace,
    side: Side,
    transpose: bool,
    m: usize,
    n: usize,
    a: &[T],
    tau: &[T],
    c: &mut [T],
) -> Result<()> {
    pjrt_base::bail!(Internal, "Not written yet.")
}
