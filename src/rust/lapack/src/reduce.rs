//! Reductions to Hessenberg and tridiagonal form.

use crate::letters::Uplo;
use crate::scalar::Scalar;
use crate::workspace::Workspace;
use pjrt_base::error::Result;

/// Reduces the `n` x `n` matrix `a` to Hessenberg form. Rows and columns outside `low..=high`, counted from 1, are taken as
/// triangular already; 1 <= low <= high <= n, or low 1 and high 0 if n is 0. `tau` has n - 1 elements (0 if n is 0).
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn gehrd<T: Scalar>(
    work: &mut Workspace,
    n: usize,
    low: i32,
    high: i32,
    a: &mut [T],
    tau: &mut [T],
) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// Reduces a symmetric or Hermitian `n` x `n` matrix, of which only the triangle `uplo` is read, to tridiagonal form: `d` has
/// n elements, `e` and `tau` n - 1 (0 if n is 0). Named `hetrd` for complex types.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn sytrd<T: Scalar>(
    work: &mut Workspace,
    uplo: Uplo,
    n: usize,
    a: &mut [T],
    d: &mut [T::Real],
    e: &mut [T::Real],
    tau: &mut [T],
) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}
