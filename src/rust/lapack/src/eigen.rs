//! Eigenvalues and eigenvectors.

use crate::letters::Uplo;
use crate::scalar::Scalar;
use crate::workspace::Workspace;
use pjrt_base::error::Result;

/// Eigenvalues in ascending order, and if wanted the eigenvectors, of a symmetric or Hermitian `n` x `n` matrix, of which only
/// the triangle `uplo` is read. The vectors replace `a`; without them it is destroyed. Named `heevd` for complex types.
/// If the triangle has a value that is not finite, all outputs become NaN, and `info` 1.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn syevd<T: Scalar>(
    work: &mut Workspace,
    uplo: Uplo,
    vectors: bool,
    n: usize,
    a: &mut [T],
    w: &mut [T::Real],
) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// Eigenvalues, and the left and right eigenvectors that are wanted, of a general `n` x `n` matrix, which is destroyed. Real
/// types: `w` are the real parts of the eigenvalues and `wi` the imaginary parts. Complex types: `w` are the eigenvalues,
/// and `wi` is empty. `vl` and `vr` are n x n, and unused if not wanted, where they may have any length.
/// If `a` has a value that is not finite, all outputs become NaN, and `info` 1.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn geev<T: Scalar>(
    work: &mut Workspace,
    left: bool,
    right: bool,
    n: usize,
    a: &mut [T],
    w: &mut [T],
    wi: &mut [T],
    vl: &mut [T::Complex],
    vr: &mut [T::Complex],
) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}
