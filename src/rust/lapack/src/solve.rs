//! Solvers of triangular and tridiagonal systems.

use crate::check::{dimension, leading, matrix, vector};
use crate::letters::{Diag, Side, Transpose, Uplo};
use crate::routine::{call, Routine};
use crate::scalar::Scalar;
use crate::workspace::{widened, Workspace};
use pjrt_base::error::Result;

/// Solves op(A) X = B (left) or X op(A) = B (right) in place of the `m` x `n` matrix `b`. The triangular matrix `a` is
/// m x m or n x n, and only its triangle `uplo` is read.
#[allow(clippy::too_many_arguments)]
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
    let (rows, columns) = (dimension("m", m)?, dimension("n", n)?);
    let (order, count) = if side == Side::Left { (rows, m) } else { (columns, n) };
    matrix("a", a.len(), count, count)?;
    matrix("b", b.len(), m, n)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let Some(routine) = work.routine::<T>(Routine::Trsm)? else {
        return widened!(work, [b in a] trsm::<T::Wide>(work, side, uplo, transpose, diag, m, n, a, b));
    };
    // SAFETY: the arguments are checked.
    unsafe {
        call!(
            routine;
            &side.letter(), &uplo.letter(), &transpose.letter(), &diag.letter(), &rows, &columns,
            &T::from_parts(1.0, 0.0), a.as_ptr(), &order, b.as_mut_ptr(), &leading(rows), 1usize, 1usize, 1usize,
            1usize,
        );
    }
    Ok(())
}

/// Solves a tridiagonal system for the `n` x `columns` matrix `b`, in place, with row exchanges. `d` has n elements,
/// `dl` and `du` n - 1 (0 if n is 0); all three are replaced by the triangular factor.
pub fn gtsv<T: Scalar>(
    work: &mut Workspace,
    n: usize,
    columns: usize,
    dl: &mut [T],
    d: &mut [T],
    du: &mut [T],
    b: &mut [T],
) -> Result<i32> {
    let (order, count) = (dimension("n", n)?, dimension("columns", columns)?);
    vector("d", d.len(), n)?;
    vector("dl", dl.len(), n.saturating_sub(1))?;
    vector("du", du.len(), n.saturating_sub(1))?;
    matrix("b", b.len(), n, columns)?;
    if n == 0 {
        return Ok(0);
    }
    // LAPACK's own writes to `b` even if it has no columns.
    let routine = work.library.find::<T>(Routine::Gtsv).filter(|_| columns > 0);
    let Some(routine) = routine else {
        let mut system = Tridiagonal { dl, d, du };
        let info = system.eliminate(b, true);
        if info == 0 {
            system.substitute(b);
        }
        return Ok(info);
    };
    let mut info = 0;
    // SAFETY: the arguments are checked.
    unsafe {
        call!(
            routine;
            &order, &count, dl.as_mut_ptr(), d.as_mut_ptr(), du.as_mut_ptr(), b.as_mut_ptr(), &leading(order),
            &mut info,
        );
    }
    Ok(info)
}

/// Solves a tridiagonal system, in place of the `n` x `columns` matrix `b`, by elimination with row exchanges, where a
/// pivot that is too small is replaced by a small number: a singular system has a large solution instead of an error.
/// `dl`, `d` and `du` have n elements; `dl[i]` and `du[i]` stand in row i, and `dl[0]` and `du[n - 1]` are not read.
///
/// # Errors
/// Wrong arguments, no memory.
pub fn tridiagonal_solve_perturbed<T: Scalar>(
    work: &mut Workspace,
    n: usize,
    columns: usize,
    dl: &[T],
    d: &[T],
    du: &[T],
    b: &mut [T],
) -> Result<()> {
    for (name, length) in [("dl", dl.len()), ("d", d.len()), ("du", du.len())] {
        vector(name, length, n)?;
    }
    matrix("b", b.len(), n, columns)?;
    if n == 0 {
        return Ok(());
    }
    work.with_copy(&dl[1..], |work, dl: &mut [T]| {
        work.with_copy(d, |work, d: &mut [T]| {
            work.with_copy(&du[..n - 1], |_, du: &mut [T]| {
                let mut system = Tridiagonal { dl, d, du };
                system.eliminate(b, false);
                system.perturb();
                system.substitute(b);
                Ok(())
            })
        })
    })
}

/// A tridiagonal matrix by its diagonals; after the elimination, a triangular one with `d` as the diagonal and `du` and
/// `dl` as the first and second one above it.
struct Tridiagonal<'a, T> {
    dl: &'a mut [T],
    d: &'a mut [T],
    du: &'a mut [T],
}

impl<T: Scalar> Tridiagonal<'_, T> {
    /// Eliminates the lower diagonal. Returns the first pivot that is zero, counted from 1, and stops there if told.
    fn eliminate(&mut self, b: &mut [T], stops: bool) -> i32 {
        let zero = T::default();
        let n = self.d.len();
        let mut info = 0;
        for row in 0..n {
            let is_last = row + 1 == n;
            let exchanges = !is_last && self.dl[row].size() > self.d[row].size();
            if !exchanges && self.d[row] == zero && info == 0 {
                info = row as i32 + 1;
                if stops {
                    return info;
                }
            }
            if is_last {
                break;
            }
            let above = if exchanges {
                let pivot = std::mem::replace(&mut self.d[row], self.dl[row]);
                std::mem::swap(&mut self.du[row], &mut self.d[row + 1]);
                // the next row's upper element becomes this row's second one
                self.dl[row] = if row + 2 < n { std::mem::replace(&mut self.du[row + 1], zero) } else { zero };
                pivot
            } else {
                std::mem::replace(&mut self.dl[row], zero)
            };
            for column in b.chunks_exact_mut(n).filter(|_| exchanges) {
                column.swap(row, row + 1);
            }
            if above == zero {
                continue;
            }
            let factor = above / self.d[row];
            self.d[row + 1] = self.d[row + 1] - factor * self.du[row];
            if row + 2 < n && exchanges {
                self.du[row + 1] = -(factor * self.dl[row]);
            }
            for column in b.chunks_exact_mut(n) {
                column[row + 1] = column[row + 1] - factor * column[row];
            }
        }
        info
    }

    /// Replaces pivots below the rounding error of the largest element.
    fn perturb(&mut self) {
        let elements = self.d.iter().chain(self.du.iter()).chain(self.dl.iter());
        let largest = elements.map(|value| value.size()).fold(0.0, f64::max);
        let least = if largest == 0.0 { T::EPSILON } else { (T::EPSILON * largest).max(T::SMALLEST) };
        if !least.is_finite() {
            return;
        }
        for pivot in self.d.iter_mut().filter(|pivot| pivot.size() < least) {
            *pivot = T::from_parts(if pivot.parts().0 < 0.0 { -least } else { least }, 0.0);
        }
    }

    fn substitute(&self, b: &mut [T]) {
        let n = self.d.len();
        for column in b.chunks_exact_mut(n) {
            for row in (0..n).rev() {
                let mut value = column[row];
                if row + 1 < n {
                    value = value - self.du[row] * column[row + 1];
                }
                if row + 2 < n {
                    value = value - self.dl[row] * column[row + 2];
                }
                column[row] = value / self.d[row];
            }
        }
    }
}
