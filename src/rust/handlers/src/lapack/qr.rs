//! QR factorizations.

use crate::frame::{Frame, Outcome};
use crate::lapack::operands::{Matrices, Number};
use pjrt_lapack::Side;

/// `x -> x_out, tau`
pub(super) fn geqrf<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 2)?;
    let x @ Matrices { batch, rows: m, columns: n } = frame.matrices::<T>(0)?;
    let operands = (frame.in_place::<T>(0, 0, batch, &[m, n])?, frame.output::<T>(1, batch, &[x.least()])?);
    frame.each(2.0 * x.cubed(), operands, &|work, (x, tau)| pjrt_lapack::geqrf(work, m, n, x, tau))
}

/// `x, jpvt -> x_out, jpvt_out, tau`
pub(super) fn geqp3<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(2, 3)?;
    let x @ Matrices { batch, rows: m, columns: n } = frame.matrices::<T>(0)?;
    let operands = (
        frame.in_place::<T>(0, 0, batch, &[m, n])?,
        frame.in_place::<i32>(1, 1, batch, &[n])?,
        frame.output::<T>(2, batch, &[x.least()])?,
    );
    frame.each(4.0 * x.cubed(), operands, &|work, (x, jpvt, tau)| pjrt_lapack::geqp3(work, m, n, x, jpvt, tau))
}

/// `x, tau -> x_out`
pub(super) fn orgqr<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(2, 1)?;
    let x @ Matrices { batch, rows: m, columns: n } = frame.matrices::<T>(0)?;
    let (_, k) = frame.vectors(1)?;
    let operands = (frame.in_place::<T>(0, 0, batch, &[m, n])?, frame.input::<T>(1, batch, &[k])?);
    frame.each(2.0 * x.cubed(), operands, &|work, (x, tau)| pjrt_lapack::orgqr(work, m, n, x, tau))
}

/// `a, tau, c -> c_out`
pub(super) fn ormqr<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(3, 1)?;
    let side = if frame.boolean("left")? { Side::Left } else { Side::Right };
    let transpose = frame.boolean("transpose")?;
    let Matrices { batch, rows: m, columns: n } = frame.matrices::<T>(2)?;
    let rows = if side == Side::Left { m } else { n };
    let (columns, (_, k)) = (frame.matrices::<T>(0)?.columns, frame.vectors(1)?);
    let operands = (
        frame.input::<T>(0, batch, &[rows, columns])?,
        frame.input::<T>(1, batch, &[k])?,
        frame.in_place::<T>(2, 0, batch, &[m, n])?,
    );
    let operations = 4.0 * (m * n) as f64 * k as f64;
    frame.each(operations, operands, &|work, (a, tau, c)| pjrt_lapack::ormqr(work, side, transpose, m, n, a, tau, c))
}
