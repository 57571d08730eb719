//! Cholesky and LU factorizations.

use crate::frame::{Frame, Outcome};
use crate::lapack::operands::{Matrices, Number};

/// `x -> x_out, info`
pub(super) fn potrf<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 2)?;
    let uplo = frame.letter("uplo")?;
    let (batch, n) = frame.square::<T>(0)?;
    let x = frame.in_place::<T>(0, 0, batch, &[n, n])?;
    frame.each_info((n as f64).powi(3) / 3.0, batch, x, &|work, x| pjrt_lapack::potrf(work, uplo, n, x))
}

/// `x -> x_out, ipiv, info`
pub(super) fn getrf<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 3)?;
    let x @ Matrices { batch, rows: m, columns: n } = frame.matrices::<T>(0)?;
    let operands = (frame.in_place::<T>(0, 0, batch, &[m, n])?, frame.output::<i32>(1, batch, &[x.least()])?);
    frame.each_info(x.cubed(), batch, operands, &|work, (x, pivots)| pjrt_lapack::getrf(work, m, n, x, pivots))
}
