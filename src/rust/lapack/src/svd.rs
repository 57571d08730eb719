//! Singular value decompositions.

use crate::check::{all_finite, dimension, fill_nan, leading, matrix, vector, vectors};
use crate::letters::SvdMode;
use crate::routine::{call, Address, Routine};
use crate::scalar::Scalar;
use crate::workspace::{Least, Room, Workspace};
use pjrt_base::error::Result;

/// Singular value decomposition, by divide and conquer, of the `m` x `n` matrix `a`, which is destroyed. `s` has k =
/// min(m, n) elements. `u` is m x m and `vt` n x n with `SvdMode::All`, m x k and k x n with `Some`, and unused with
/// `None`, where they may have any length. If `a` has a value that is not finite, `s`, `u` and `vt` become NaN, and
/// `info` 1.
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(clippy::too_many_arguments)]
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
    svd(work, Routine::Gesdd, mode, m, n, a, s, u, vt)
}

/// Singular value decomposition, by QR iteration, of the `m` x `n` matrix `a`. The arguments and the result are those
/// of [`gesdd`].
///
/// # Errors
/// Wrong arguments, no library, no memory.
#[allow(clippy::too_many_arguments)]
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
    svd(work, Routine::Gesvd, mode, m, n, a, s, u, vt)
}

#[allow(clippy::too_many_arguments)]
fn svd<T: Scalar>(
    work: &mut Workspace,
    routine: Routine,
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
        let copies = if routine == Routine::Gesvd { a.len().saturating_mul(2) } else { 0 };
        vectors(k, copies)?;
    }
    if k == 0 {
        // one of the two is empty
        set_identity(u, m);
        set_identity(vt, n);
        return Ok(0);
    }
    if !all_finite(a) {
        fill_nan(s);
        fill_nan(u);
        fill_nan(vt);
        return Ok(1);
    }
    let Some(address) = work.routine::<T>(routine)? else {
        return work.converted(a, |work, a: &mut [T::Wide]| {
            work.converted(s, |work, s| {
                work.converted(u, |work, u| work.converted(vt, |work, vt| svd(work, routine, mode, m, n, a, s, u, vt)))
            })
        });
    };
    let arguments = Arguments {
        address,
        letter: mode.letter(),
        rows,
        columns,
        a: a.as_mut_ptr(),
        s: s.as_mut_ptr(),
        u: u.as_mut_ptr(),
        vt: vt.as_mut_ptr(),
        // without vectors, LAPACK only asks that it is not 0
        vt_rows: leading(dimension("n", vt_rows)?),
    };
    let mut run = |room: &Room<T>| {
        // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
        unsafe {
            if routine == Routine::Gesdd {
                arguments.gesdd(room)
            } else {
                arguments.gesvd(room)
            }
        }
    };
    let dims = [rows, columns, i32::from(mode.letter()), 0, 0];
    work.with_room(routine, dims, least(T::IS_COMPLEX, routine, mode, k as u64, m.max(n) as u64), &mut run)
}

fn least(is_complex: bool, routine: Routine, mode: SvdMode, small: u64, large: u64) -> Least {
    let is_gesdd = routine == Routine::Gesdd;
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

/// What does not change between the question for sizes and the work.
struct Arguments<T: Scalar> {
    address: Address,
    letter: u8,
    rows: i32,
    columns: i32,
    a: *mut T,
    s: *mut T::Real,
    u: *mut T,
    vt: *mut T,
    vt_rows: i32,
}

impl<T: Scalar> Arguments<T> {
    /// # Safety
    /// The matrices have the sizes that the letter says, and the room has those that LAPACK asked for.
    unsafe fn gesdd(&self, room: &Room<T>) -> i32 {
        let mut info = 0;
        // SAFETY: the caller vouches for the arguments.
        unsafe {
            if T::IS_COMPLEX {
                call!(
                    self.address,
                    &self.letter => &u8, &self.rows => &i32, &self.columns => &i32, self.a => *mut T,
                    &self.rows => &i32, self.s => *mut T::Real, self.u => *mut T, &self.rows => &i32,
                    self.vt => *mut T, &self.vt_rows => &i32, room.work => *mut T, &room.sizes.work => &i32,
                    room.reals => *mut T::Real, room.integers => *mut i32, &mut info => &mut i32, 1 => usize,
                );
            } else {
                call!(
                    self.address,
                    &self.letter => &u8, &self.rows => &i32, &self.columns => &i32, self.a => *mut T,
                    &self.rows => &i32, self.s => *mut T::Real, self.u => *mut T, &self.rows => &i32,
                    self.vt => *mut T, &self.vt_rows => &i32, room.work => *mut T, &room.sizes.work => &i32,
                    room.integers => *mut i32, &mut info => &mut i32, 1 => usize,
                );
            }
        }
        info
    }

    /// # Safety
    /// As [`Arguments::gesdd`].
    unsafe fn gesvd(&self, room: &Room<T>) -> i32 {
        let mut info = 0;
        // SAFETY: the caller vouches for the arguments.
        unsafe {
            if T::IS_COMPLEX {
                call!(
                    self.address,
                    &self.letter => &u8, &self.letter => &u8, &self.rows => &i32, &self.columns => &i32,
                    self.a => *mut T, &self.rows => &i32, self.s => *mut T::Real, self.u => *mut T,
                    &self.rows => &i32, self.vt => *mut T, &self.vt_rows => &i32, room.work => *mut T,
                    &room.sizes.work => &i32, room.reals => *mut T::Real, &mut info => &mut i32, 1 => usize, 1 => usize,
                );
            } else {
                call!(
                    self.address,
                    &self.letter => &u8, &self.letter => &u8, &self.rows => &i32, &self.columns => &i32,
                    self.a => *mut T, &self.rows => &i32, self.s => *mut T::Real, self.u => *mut T,
                    &self.rows => &i32, self.vt => *mut T, &self.vt_rows => &i32, room.work => *mut T,
                    &room.sizes.work => &i32, &mut info => &mut i32, 1 => usize, 1 => usize,
                );
            }
        }
        info
    }
}
