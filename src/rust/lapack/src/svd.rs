//! Singular value decompositions.

use crate::check::{all_finite, dimension, leading, matrix, vector, vectors};
use crate::letters::SvdMode;
use crate::routine::{call, Routine};
use crate::scalar::Scalar;
use crate::workspace::{widened, Least, Room, Workspace};
use pjrt_base::error::Result;

/// The algorithm of a singular value decomposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SvdMethod {
    /// LAPACK's `gesdd`.
    DivideAndConquer,
    /// LAPACK's `gesvd`.
    QrIteration,
}

/// Singular value decomposition of the `m` x `n` matrix `a`, which is destroyed. `s` has k = min(m, n) elements. `u` is
/// m x m and `vt` n x n with `SvdMode::All`, m x k and k x n with `Some`, and unused with `None`, where they may have
/// any length. If `a` has a value that is not finite, `s`, `u` and `vt` become NaN, and `info` 1.
#[allow(clippy::too_many_arguments)]
pub fn svd<T: Scalar>(
    work: &mut Workspace,
    method: SvdMethod,
    mode: SvdMode,
    m: usize,
    n: usize,
    a: &mut [T],
    s: &mut [T::Real],
    u: &mut [T],
    vt: &mut [T],
) -> Result<i32> {
    let (rows, columns) = (dimension("m", m)?, dimension("n", n)?);
    let k = m.min(n);
    matrix("a", a.len(), m, n)?;
    vector("s", s.len(), k)?;
    let (u, vt): (&mut [T], &mut [T]) = if mode == SvdMode::None { (&mut [], &mut []) } else { (u, vt) };
    let (u_columns, vt_rows) = match mode {
        SvdMode::All => (m, n),
        SvdMode::Some => (k, k),
        SvdMode::None => (0, 0),
    };
    matrix("u", u.len(), m, u_columns)?;
    matrix("vt", vt.len(), vt_rows, n)?;
    if mode != SvdMode::None {
        // QR iteration works on two copies where there is room
        let copies = if method == SvdMethod::QrIteration { a.len().saturating_mul(2) } else { 0 };
        vectors(k, copies)?;
    }
    if k == 0 {
        // one of the two is empty
        set_identity(u, m);
        set_identity(vt, n);
        return Ok(0);
    }
    if !all_finite(a) {
        s.fill(T::Real::nan());
        u.fill(T::nan());
        vt.fill(T::nan());
        return Ok(1);
    }
    let is_gesdd = method == SvdMethod::DivideAndConquer;
    let routine = if is_gesdd { Routine::Gesdd } else { Routine::Gesvd };
    let Some(address) = work.routine::<T>(routine)? else {
        return widened!(work, [a s u vt] svd::<T::Wide>(work, method, mode, m, n, a, s, u, vt));
    };
    let letter = mode.letter();
    // without vectors, LAPACK only asks that it is not 0
    let vt_rows = leading(dimension("n", vt_rows)?);
    let (a, s, u, vt) = (a.as_mut_ptr(), s.as_mut_ptr(), u.as_mut_ptr(), vt.as_mut_ptr());
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        if is_gesdd {
            call!(
                address, T;
                &letter, &rows, &columns, a, &rows, s, u, &rows, vt, &vt_rows, room.work, &room.sizes.work,
                complex room.reals, room.integers, room.info, 1usize,
            );
        } else {
            call!(
                address, T;
                &letter, &letter, &rows, &columns, a, &rows, s, u, &rows, vt, &vt_rows, room.work, &room.sizes.work,
                complex room.reals, room.info, 1usize, 1usize,
            );
        }
    };
    let dims = [rows, columns, i32::from(letter), 0, 0];
    work.with_room(routine, dims, least(T::IS_COMPLEX, is_gesdd, mode, k as u64, m.max(n) as u64), &mut run)
}

fn least(is_complex: bool, is_gesdd: bool, mode: SvdMode, small: u64, large: u64) -> Least {
    let work = match (is_gesdd, mode) {
        (false, _) => (3 * small + large).max(5 * small),
        (true, SvdMode::None) => 7 * small + large,
        (true, _) => 4 * small * small + 7 * small + large,
    };
    let reals = match (is_complex, is_gesdd, mode) {
        (false, ..) => 0,
        (true, false, _) => 5 * small,
        (true, true, SvdMode::None) => 7 * small,
        (true, true, _) => (5 * small * small + 7 * small).max(2 * large * small + 2 * small * small + small),
    };
    Least { work, reals, integers: if is_gesdd { 8 * small } else { 0 } }
}

fn set_identity<T: Scalar>(matrix: &mut [T], order: usize) {
    matrix.fill(T::default());
    matrix.iter_mut().step_by(order + 1).for_each(|value| *value = T::from_parts(1.0, 0.0));
}
