//! Reductions to Hessenberg and tridiagonal form.

use crate::check::{dimension, matrix, vector};
use crate::letters::Uplo;
use crate::routine::{call, Address, Routine};
use crate::scalar::Scalar;
use crate::workspace::{widened, Least, Room, Workspace};
use pjrt_base::ensure;
use pjrt_base::error::Result;

/// Reduces the `n` x `n` matrix `a` to Hessenberg form. Rows and columns outside `low..=high`, counted from 1, are
/// taken as triangular already; 1 <= low <= high <= n. `tau` has n - 1 elements (0 if n is 0, where `low` and `high` are
/// not read).
pub fn gehrd<T: Scalar>(
    work: &mut Workspace,
    n: usize,
    low: i32,
    high: i32,
    a: &mut [T],
    tau: &mut [T],
) -> Result<i32> {
    let order = dimension("n", n)?;
    matrix("a", a.len(), n, n)?;
    vector("tau", tau.len(), n.saturating_sub(1))?;
    if n == 0 {
        return Ok(0);
    }
    let fits = 1 <= low && low <= high && high <= order;
    ensure!(fits, InvalidInput, "`low` and `high` must satisfy 1 <= low <= high <= {n}: got {low} and {high}.");
    let Some(routine) = work.routine::<T>(Routine::Gehrd)? else {
        return widened!(work, [a tau] gehrd::<T::Wide>(work, n, low, high, a, tau));
    };
    hessenberg(work, Routine::Gehrd, routine, [order, low, high], a, tau)
}

/// [`gehrd`], or the orthogonal factor in place of its reflectors: both routines have the same arguments.
pub(crate) fn hessenberg<T: Scalar>(
    work: &mut Workspace,
    routine: Routine,
    address: Address,
    [order, low, high]: [i32; 3],
    a: &mut [T],
    tau: &mut [T],
) -> Result<i32> {
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        let (a, tau) = (a.as_mut_ptr(), tau.as_mut_ptr());
        call!(address; &order, &low, &high, a, &order, tau, room.work, &room.sizes.work, room.info);
    };
    work.with_room(routine, [order, low, high, 0, 0], Least::work(order as usize), &mut run)
}

/// Reduces a symmetric or Hermitian `n` x `n` matrix to tridiagonal form: `d` has n elements, `e` and `tau` n - 1 (0 if
/// n is 0). Only the triangle `uplo` of the matrix is read. Named `hetrd` for complex types.
pub fn sytrd<T: Scalar>(
    work: &mut Workspace,
    uplo: Uplo,
    n: usize,
    a: &mut [T],
    d: &mut [T::Real],
    e: &mut [T::Real],
    tau: &mut [T],
) -> Result<i32> {
    let order = dimension("n", n)?;
    matrix("a", a.len(), n, n)?;
    vector("d", d.len(), n)?;
    vector("e", e.len(), n.saturating_sub(1))?;
    vector("tau", tau.len(), n.saturating_sub(1))?;
    if n == 0 {
        return Ok(0);
    }
    let Some(routine) = work.routine::<T>(Routine::Sytrd)? else {
        return widened!(work, [a d e tau] sytrd::<T::Wide>(work, uplo, n, a, d, e, tau));
    };
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        call!(
            routine;
            &uplo.letter(), &order, a.as_mut_ptr(), &order, d.as_mut_ptr(), e.as_mut_ptr(), tau.as_mut_ptr(), room.work,
            &room.sizes.work, room.info, 1usize,
        );
    };
    work.with_room(Routine::Sytrd, [order, i32::from(uplo.letter()), 0, 0, 0], Least::work(1), &mut run)
}
