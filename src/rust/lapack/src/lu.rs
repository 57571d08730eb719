//! Cholesky and LU factorizations.

use crate::letters::Uplo;
use crate::scalar::Scalar;
use crate::workspace::Workspace;
use pjrt_base::error::Result;

/// Cholesky factorization of the `n` x `n` matrix `a`. Only the triangle `uplo` is read and written.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn potrf<T: Scalar>(work: &mut Workspace, uplo: Uplo, n: usize, a: &mut [T]) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// LU factorization of the `m` x `n` matrix `a` with row exchanges. `pivots` has min(m, n) elements: row i was exchanged
/// with row `pivots[i]`, counted from 1.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn getrf<T: Scalar>(work: &mut Workspace, m: usize, n: usize, a: &mut [T], pivots: &mut [i32]) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// Turns the row exchanges of [`getrf`] into a permutation of as many rows as `permutation` has elements. Both count from
/// `first`: 1 as LAPACK does, or 0.
///
/// # Errors
/// More exchanges than rows; a pivot that is not a row.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn lu_pivots_to_permutation(first: i32, pivots: &[i32], permutation: &mut [i32]) -> Result<()> {
    pjrt_base::bail!(Internal, "Not written yet.")
}
