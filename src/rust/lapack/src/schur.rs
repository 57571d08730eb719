//! Schur factorizations.

use crate::scalar::Scalar;
use crate::workspace::Workspace;
use pjrt_base::error::Result;

/// Schur factorization of the `n` x `n` matrix `a`, which is replaced by the triangular factor (block triangular for real
/// types); the eigenvalues are not sorted. The Schur vectors are written to the n x n matrix `vs` if wanted; otherwise it is
/// unused and may have any length. `w` and `wi` as in [`geev`](crate::geev).
/// If `a` has a value that is not finite, all outputs become NaN, and `info` 1.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn gees<T: Scalar>(
    work: &mut Workspace,
    vectors: bool,
    n: usize,
    a: &mut [T],
    vs: &mut [T],
    w: &mut [T],
    wi: &mut [T],
) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}
