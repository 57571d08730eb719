//! QR factorizations and products with their orthogonal factor.

use crate::check::{blocks, dimension, leading, matrix, vector};
use crate::letters::Side;
use crate::routine::{call, Routine};
use crate::scalar::Scalar;
use crate::workspace::{widened, Least, Room, Workspace};
use pjrt_base::ensure;
use pjrt_base::error::Result;

/// QR factorization of the `m` x `n` matrix `a`: R on and above the diagonal, the reflectors below it, with min(m, n)
/// factors in `tau`.
pub fn geqrf<T: Scalar>(work: &mut Workspace, m: usize, n: usize, a: &mut [T], tau: &mut [T]) -> Result<()> {
    let (rows, columns) = (dimension("m", m)?, dimension("n", n)?);
    matrix("a", a.len(), m, n)?;
    vector("tau", tau.len(), m.min(n))?;
    blocks(n, m.min(n))?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let Some(routine) = work.routine::<T>(Routine::Geqrf)? else {
        return widened!(work, [a tau] geqrf::<T::Wide>(work, m, n, a, tau));
    };
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        call!(
            routine;
            &rows, &columns, a.as_mut_ptr(), &leading(rows), tau.as_mut_ptr(), room.work, &room.sizes.work, room.info,
        );
    };
    work.with_room(Routine::Geqrf, [rows, columns, 0, 0, 0], Least::work(n), &mut run).map(drop)
}

/// QR factorization with column exchanges. Columns with `jpvt[j] != 0` on entry are moved to the front; on return,
/// column j of the product was column `jpvt[j]` of the matrix, counted from 1.
pub fn geqp3<T: Scalar>(
    work: &mut Workspace,
    m: usize,
    n: usize,
    a: &mut [T],
    jpvt: &mut [i32],
    tau: &mut [T],
) -> Result<()> {
    let (rows, columns) = (dimension("m", m)?, dimension("n", n)?);
    matrix("a", a.len(), m, n)?;
    vector("jpvt", jpvt.len(), n)?;
    vector("tau", tau.len(), m.min(n))?;
    blocks(n, m.min(n))?;
    if m == 0 || n == 0 {
        exchange_only(jpvt);
        return Ok(());
    }
    let Some(routine) = work.routine::<T>(Routine::Geqp3)? else {
        return widened!(work, [a tau] geqp3::<T::Wide>(work, m, n, a, jpvt, tau));
    };
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        call!(
            routine, T;
            &rows, &columns, a.as_mut_ptr(), &leading(rows), jpvt.as_mut_ptr(), tau.as_mut_ptr(), room.work,
            &room.sizes.work, complex room.reals, room.info,
        );
    };
    let least = Least { reals: 2 * n as u64, ..Least::work(3 * n + 1) };
    work.with_room(Routine::Geqp3, [rows, columns, 0, 0, 0], least, &mut run).map(drop)
}

/// The column exchanges of a matrix without rows: those that are asked for come first.
fn exchange_only(jpvt: &mut [i32]) {
    let mut front = 0;
    for column in 0..jpvt.len() {
        let is_first = jpvt[column] != 0;
        jpvt[column] = column as i32 + 1;
        if is_first {
            jpvt.swap(front, column);
            front += 1;
        }
    }
}

/// Replaces the first `tau.len()` reflectors in the `m` x `n` matrix `a` by the first `n` columns of their product;
/// `tau.len() <= n <= m`. Named `ungqr` for complex types.
pub fn orgqr<T: Scalar>(work: &mut Workspace, m: usize, n: usize, a: &mut [T], tau: &[T]) -> Result<()> {
    let (rows, columns, reflectors) = (dimension("m", m)?, dimension("n", n)?, dimension("tau", tau.len())?);
    matrix("a", a.len(), m, n)?;
    let fits = n <= m && reflectors <= columns;
    ensure!(fits, InvalidInput, "{reflectors} reflectors do not fit in the columns of a matrix of {m} x {n}.");
    blocks(n, tau.len())?;
    if n == 0 {
        return Ok(());
    }
    let Some(routine) = work.routine::<T>(Routine::Orgqr)? else {
        return widened!(work, [a in tau] orgqr::<T::Wide>(work, m, n, a, tau));
    };
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        call!(
            routine;
            &rows, &columns, &reflectors, a.as_mut_ptr(), &leading(rows), tau.as_ptr(), room.work, &room.sizes.work,
            room.info,
        );
    };
    work.with_room(Routine::Orgqr, [rows, columns, reflectors, 0, 0], Least::work(n), &mut run).map(drop)
}

/// Multiplies the `m` x `n` matrix `c` with the orthogonal factor Q from the left or right; with `transpose`, with its
/// (conjugate) transpose. The reflectors are the first k = `tau.len()` columns of `a`, which has r rows, m or n by
/// side, and at least k columns; k <= r. Named `unmqr` for complex types.
#[allow(clippy::too_many_arguments)]
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
    let (rows, columns, reflectors) = (dimension("m", m)?, dimension("n", n)?, dimension("tau", tau.len())?);
    matrix("c", c.len(), m, n)?;
    let (order, other) = if side == Side::Left { (m, n) } else { (n, m) };
    let (k, got) = (tau.len(), a.len());
    ensure!(k <= order, InvalidInput, "`tau` has {k} elements, more than the {order} rows of `a`.");
    let used = order.saturating_mul(k);
    let fits = got >= used && got % order.max(1) == 0;
    ensure!(fits, InvalidInput, "`a` must have {order} x {k} elements, or more columns: got {got}.");
    let a = &a[..used];
    blocks(other, k)?;
    if m == 0 || n == 0 || k == 0 {
        return Ok(());
    }
    let Some(routine) = work.routine::<T>(Routine::Ormqr)? else {
        return widened!(work, [c in a in tau] ormqr::<T::Wide>(work, side, transpose, m, n, a, tau, c));
    };
    let letter = match (transpose, T::IS_COMPLEX) {
        (false, _) => b'N',
        (true, false) => b'T',
        (true, true) => b'C',
    };
    // Some versions change `a` while they run.
    work.with_copy(a, |work, a: &mut [T]| {
        let order = if side == Side::Left { rows } else { columns };
        // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
        let mut run = |room: &Room<T>| unsafe {
            call!(
                routine;
                &side.letter(), &letter, &rows, &columns, &reflectors, a.as_mut_ptr(), &order, tau.as_ptr(),
                c.as_mut_ptr(), &leading(rows), room.work, &room.sizes.work, room.info, 1usize, 1usize,
            );
        };
        let [side, letter] = [side.letter(), letter].map(i32::from);
        let dims = [rows, columns, reflectors, side, letter];
        work.with_room(Routine::Ormqr, dims, Least::work(other), &mut run).map(drop)
    })
}
