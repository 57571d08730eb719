//! The targets of r-xla's programs: real types only, and no `info`. If a factorization fails, its results are NaN.

use crate::frame::{Frame, Outcome};
use crate::lapack::operands::{real_handlers, Matrices, Number};
use crate::lapack::parts::{checked_count, Operands};
use crate::lapack::qr;
use pjrt_lapack::{SvdMethod, SvdMode, Uplo};

/// A real type.
trait Real: Number<Real = Self> {}

impl<T: Number<Real = T>> Real for T {}

real_handlers! {
    /// `A -> packed, tau`
    geqrf = qr::geqrf;
    /// `packed, tau -> Q`
    orgqr = orgqr_of;
    /// `A -> LU, pivots`, counted from 1.
    lu = lu_of;
    /// `A -> U, S, Vt`, as many singular vectors as there are singular values.
    svd = svd_of;
    /// `A -> V, W`, the eigenvalues in ascending order. The lower triangle is read.
    eigh = eigh_of;
}

/// `pivots -> permutation`
pub(super) fn lu_pivots_to_permutation(frame: &Frame<'_>) -> Outcome {
    let (first, pivots, permutation) = frame.pivots_and_permutation()?;
    let operands = (pivots, permutation);
    for index in 0..checked_count(&operands)? {
        // SAFETY: the memory is checked, and only this thread uses it.
        let (pivots, permutation) = unsafe { operands.parts(index, &mut ((), ())) };
        pjrt_lapack::lu_pivots_to_permutation(first, pivots, permutation)?;
    }
    Ok(())
}

fn orgqr_of<T: Real>(frame: &Frame<'_>) -> Outcome {
    frame.expect(2, 1)?;
    let packed = frame.matrices::<T>(0)?;
    let columns = frame.result_length(0)?;
    if columns == packed.columns {
        return qr::orgqr::<T>(frame);
    }
    let m = packed.rows;
    let (_, k) = frame.vectors(1)?;
    let operands = (
        frame.input::<T>(0, packed.batch, &[m, packed.columns])?,
        frame.input::<T>(1, packed.batch, &[k])?,
        frame.output::<T>(0, packed.batch, &[m, columns])?,
    );
    let operations = 2.0 * m as f64 * (columns as f64).powi(2);
    frame.each(operations, operands, &|work, (packed, tau, q)| {
        // The reflectors are in the first columns of both.
        let same = packed.len().min(q.len());
        q[..same].copy_from_slice(&packed[..same]);
        q[same..].fill(T::default());
        pjrt_lapack::orgqr(work, m, columns, q, tau)
    })
}

fn lu_of<T: Real>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 2)?;
    let a @ Matrices { batch, rows: m, columns: n } = frame.matrices::<T>(0)?;
    let operands = (frame.in_place::<T>(0, 0, batch, &[m, n])?, frame.output::<i32>(1, batch, &[a.least()])?);
    // A singular matrix has a factorization, too.
    frame.each(a.cubed(), operands, &|work, (a, pivots)| pjrt_lapack::getrf(work, m, n, a, pivots).map(drop))
}

fn svd_of<T: Real>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 3)?;
    let a = frame.matrices::<T>(0)?;
    let (m, n, k) = (a.rows, a.columns, a.least());
    let operands = (
        frame.consumed::<T>(0, a.batch, &[m, n])?,
        frame.output::<T>(0, a.batch, &[m, k])?,
        frame.output::<T>(1, a.batch, &[k])?,
        frame.output::<T>(2, a.batch, &[k, n])?,
    );
    frame.each(20.0 * a.cubed(), operands, &|work, (a, u, s, vt)| {
        if pjrt_lapack::svd(work, SvdMethod::DivideAndConquer, SvdMode::Some, m, n, a, s, u, vt)? != 0 {
            [u, s, vt].into_iter().for_each(|values| values.fill(T::nan()));
        }
        Ok(())
    })
}

fn eigh_of<T: Real>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 2)?;
    let a = frame.eigh_matrices::<T>()?;
    let n = a.rows;
    let operands = (frame.in_place::<T>(0, 0, a.batch, &[n, n])?, frame.output::<T>(1, a.batch, &[n])?);
    frame.each(10.0 * a.cubed(), operands, &|work, (a, w)| {
        if pjrt_lapack::syevd(work, Uplo::Lower, true, n, a, w)? != 0 {
            [a, w].into_iter().for_each(|values| values.fill(T::nan()));
        }
        Ok(())
    })
}
