//! Cholesky and LU factorizations.

use crate::check::{dimension, leading, matrix, vector};
use crate::letters::Uplo;
use crate::routine::{call, Routine};
use crate::scalar::Scalar;
use crate::workspace::{widened, Workspace};
use pjrt_base::error::Result;
use pjrt_base::{bail, ensure};

/// Cholesky factorization of the `n` x `n` matrix `a`. Only the triangle `uplo` is read and written.
pub fn potrf<T: Scalar>(work: &mut Workspace, uplo: Uplo, n: usize, a: &mut [T]) -> Result<i32> {
    let order = dimension("n", n)?;
    matrix("a", a.len(), n, n)?;
    if n == 0 {
        return Ok(0);
    }
    let Some(routine) = work.routine::<T>(Routine::Potrf)? else {
        return widened!(work, [a] potrf::<T::Wide>(work, uplo, n, a));
    };
    let mut info = 0;
    // SAFETY: the arguments are checked.
    unsafe {
        call!(routine; &uplo.letter(), &order, a.as_mut_ptr(), &order, &mut info, 1usize);
    }
    Ok(info)
}

/// LU factorization of the `m` x `n` matrix `a` with row exchanges. `pivots` has min(m, n) elements: row i was
/// exchanged with row `pivots[i]`, counted from 1.
pub fn getrf<T: Scalar>(work: &mut Workspace, m: usize, n: usize, a: &mut [T], pivots: &mut [i32]) -> Result<i32> {
    let (rows, columns) = (dimension("m", m)?, dimension("n", n)?);
    matrix("a", a.len(), m, n)?;
    vector("pivots", pivots.len(), m.min(n))?;
    if m == 0 || n == 0 {
        return Ok(0);
    }
    let Some(routine) = work.routine::<T>(Routine::Getrf)? else {
        return widened!(work, [a] getrf::<T::Wide>(work, m, n, a, pivots));
    };
    let mut info = 0;
    // SAFETY: the arguments are checked.
    unsafe {
        call!(routine; &rows, &columns, a.as_mut_ptr(), &leading(rows), pivots.as_mut_ptr(), &mut info);
    }
    Ok(info)
}

/// Turns the row exchanges of [`getrf`] into a permutation of as many rows as `permutation` has elements. Both count
/// from `first`: 1 as LAPACK does, or 0.
///
/// # Errors
/// More exchanges than rows; a pivot that is not a row.
pub fn lu_pivots_to_permutation(first: i32, pivots: &[i32], permutation: &mut [i32]) -> Result<()> {
    let (count, rows) = (pivots.len(), permutation.len());
    dimension("permutation", rows)?;
    ensure!(count <= rows, InvalidInput, "`pivots` has {count} elements, more than the {rows} rows of `permutation`.");
    for (row, number) in permutation.iter_mut().zip(first..) {
        *row = number;
    }
    for (row, pivot) in pivots.iter().enumerate() {
        match usize::try_from(i64::from(*pivot) - i64::from(first)) {
            Ok(other) if other < rows => permutation.swap(row, other),
            _ => bail!(InvalidInput, "`pivots[{row}]` is {pivot}, which is not a row of {rows} counted from {first}."),
        }
    }
    Ok(())
}
