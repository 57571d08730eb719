//! Reductions to Hessenberg and tridiagonal form.

use crate::check::{dimension, matrix, vector};
use crate::letters::Uplo;
use crate::routine::{call, Address, Routine};
use crate::scalar::Scalar;
use crate::workspace::{Least, Room, Workspace};
use pjrt_base::bail;
use pjrt_base::error::Result;

/// Reduces the `n` x `n` matrix `a` to Hessenberg form. Rows and columns outside `low..=high`, counted from 1, are
/// taken as triangular already; 1 <= low <= high <= n. `tau` has n - 1 elements (0 if n is 0, where `low` and `high` are
/// not read).
///
/// # Errors
/// Wrong arguments, no library, no memory.
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
    if !(1 <= low && low <= high && high <= order) {
        bail!(InvalidInput, "`low` and `high` must satisfy 1 <= low <= high <= {n}: got {low} and {high}.");
    }
    let Some(routine) = work.routine::<T>(Routine::Gehrd)? else {
        return work.converted(a, |work, a: &mut [T::Wide]| {
            work.converted(tau, |work, tau: &mut [T::Wide]| gehrd(work, n, low, high, a, tau))
        });
    };
    hessenberg(work, Routine::Gehrd, routine, [order, low, high], a, tau.as_mut_ptr())
}

/// The orthogonal factor of [`gehrd`] over all rows, in place of its reflectors.
pub(crate) fn unghr<T: Scalar>(
    work: &mut Workspace,
    routine: Address,
    order: i32,
    a: &mut [T],
    tau: &mut [T],
) -> Result<i32> {
    hessenberg(work, Routine::Unghr, routine, [order, 1, order], a, tau.as_mut_ptr())
}

/// Both routines have the same arguments.
fn hessenberg<T: Scalar>(
    work: &mut Workspace,
    routine: Routine,
    address: Address,
    [order, low, high]: [i32; 3],
    a: &mut [T],
    tau: *mut T,
) -> Result<i32> {
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        call!(
            address,
            &order => &i32,
            &low => &i32,
            &high => &i32,
            a.as_mut_ptr() => *mut T,
            &order => &i32,
            tau => *mut T,
            room.work => *mut T,
            &room.sizes.work => &i32,
            room.info => *mut i32,
        );
    };
    work.with_room(routine, [order, low, high, 0, 0], Least::work(order as usize), &mut run)
}

/// Reduces a symmetric or Hermitian `n` x `n` matrix, of which only the triangle `uplo` is read, to tridiagonal form:
/// `d` has n elements, `e` and `tau` n - 1 (0 if n is 0). Named `hetrd` for complex types.
///
/// # Errors
/// Wrong arguments, no library, no memory.
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
        return work.converted(a, |work, a: &mut [T::Wide]| {
            work.converted(d, |work, d| {
                work.converted(e, |work, e| work.converted(tau, |work, tau| sytrd(work, uplo, n, a, d, e, tau)))
            })
        });
    };
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        call!(
            routine,
            &uplo.letter() => &u8,
            &order => &i32,
            a.as_mut_ptr() => *mut T,
            &order => &i32,
            d.as_mut_ptr() => *mut T::Real,
            e.as_mut_ptr() => *mut T::Real,
            tau.as_mut_ptr() => *mut T,
            room.work => *mut T,
            &room.sizes.work => &i32,
            room.info => *mut i32,
            1 => usize,
        );
    };
    work.with_room(Routine::Sytrd, [order, i32::from(uplo.letter()), 0, 0, 0], Least::work(1), &mut run)
}
