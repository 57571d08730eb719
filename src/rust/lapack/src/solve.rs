//! Solvers of triangular and tridiagonal systems.

use crate::letters::{Diag, Side, Transpose, Uplo};
use crate::scalar::Scalar;
use crate::workspace::Workspace;
use pjrt_base::error::Result;

/// Solves op(A) X = B (left) or X op(A) = B (right) in place of the `m` x `n` matrix `b`. The triangular matrix `a` is m x m
/// or n x n, and only its triangle `uplo` is read.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn trsm<T: Scalar>(
    work: &mut Workspace,
    side: Side,
    uplo: Uplo,
    transpose: Transpose,
    diag: Diag,
    m: usize,
    n: usize,
    a: &[T],
    b: &mut [T],
) -> Result<()> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// Solves a tridiagonal system for the `n` x `columns` matrix `b`, in place, with row exchanges. `d` has n elements, `dl` and
/// `du` n - 1 (0 if n is 0); all three are replaced by the triangular factor.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn gtsv<T: Scalar>(
    work: &mut Workspace,
    n: usize,
    columns: usize,
    dl: &mut [T],
    d: &mut [T],
    du: &mut [T],
    b: &mut [T],
) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// Solves a tridiagonal system, in place of the `n` x `columns` matrix `b`, by elimination with row exchanges, where a pivot
/// that is too small is replaced by a small number: a singular system has a large solution instead of an error. `dl`, `d`
/// and `du` have n elements; `dl[i]` and `du[i]` stand in row i, and `dl[0]` and `du[n - 1]` are not read.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn tridiagonal_solve_perturbed<T: Scalar>(
    work: &mut Workspace,
    n: usize,
    columns: usize,
    dl: &[T],
    d: &[T],
    du: &[T],
    b: &mut [T],
) -> Result<()> {
    pjrt_base::bail!(Internal, "Not written yet.")
}
