//! Cholesky and LU factorizations.

use crate::frame::{Frame, Outcome};
use crate::lapack::operands::Number;

/// `x -> x_out, info`
pub(super) fn potrf<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 2)?;
    let uplo = frame.letter("uplo")?;
    let (batch, n) = frame.square::<T>(0)?;
    let operands = (frame.in_place::<T>(0, 0, batch, &[n, n])?, frame.output::<i32>(1, batch, &[])?);
    frame.each((n as f64).powi(3) / 3.0, operands, &|work, (x, info)| {
        info[0] = pjrt_lapack::potrf(work, uplo, n, x)?;
        Ok(())
    })
}

/// `x -> x_out, ipiv, info`
pub(super) fn getrf<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 3)?;
    let x = frame.matrices::<T>(0)?;
    let (m, n) = (x.rows, x.columns);
    let operands = (
        frame.in_place::<T>(0, 0, x.batch, &[m, n])?,
        frame.output::<i32>(1, x.batch, &[x.least()])?,
        frame.output::<i32>(2, x.batch, &[])?,
    );
    frame.each(x.cubed(), operands, &|work, (x, pivots, info)| {
        info[0] = pjrt_lapack::getrf(work, m, n, x, pivots)?;
        Ok(())
    })
}
