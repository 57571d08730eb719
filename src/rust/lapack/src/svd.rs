//! Singular value decompositions.

use crate::letters::SvdMode;
use crate::scalar::Scalar;
use crate::workspace::Workspace;
use pjrt_base::error::Result;

/// Singular value decomposition, by divide and conquer, of the `m` x `n` matrix `a`, which is destroyed. `s` has k = min(m, n)
/// elements. `u` is m x m and `vt` n x n with `SvdMode::All`, m x k and k x n with `Some`, and unused with `None`, where they
/// may have any length. If `a` has a value that is not finite, `s`, `u` and `vt` become NaN, and `info` 1.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn gesdd<T: Scalar>(
    work: &mut Workspace,
    mode: SvdMode,
    m: usize,
    n: usize,
    a: &mut [T],
    s: &mut [T::Real],
    u: &mut [T],
    vt: &mut [T],
) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}

/// Singular value decomposition, by QR iteration, of the `m` x `n` matrix `a`, which is destroyed. `s` has k = min(m, n)
/// elements. `u` is m x m and `vt` n x n with `SvdMode::All`, m x k and k x n with `Some`, and unused with `None`, where they
/// may have any length. If `a` has a value that is not finite, `s`, `u` and `vt` become NaN, and `info` 1.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(unused_variables, clippy::too_many_arguments)]
pub fn gesvd<T: Scalar>(
    work: &mut Workspace,
    mode: SvdMode,
    m: usize,
    n: usize,
    a: &mut [T],
    s: &mut [T::Real],
    u: &mut [T],
    vt: &mut [T],
) -> Result<i32> {
    pjrt_base::bail!(Internal, "Not written yet.")
}
