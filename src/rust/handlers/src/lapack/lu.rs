//! Cholesky and LU factorizations.

use crate::frame::{Failure, Frame};
use crate::lapack::operands::{Call, Number};

/// `x -> x_out, info`
pub(super) fn potrf<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    let call = Call::new(frame, 1, 2)?;
    let uplo = call.letter("uplo")?;
    let (batch, n) = call.square::<T>(0)?;
    let operands = (call.in_place::<T>(0, 0, batch, &[n, n])?, call.info(1, batch)?);
    call.each((n as f64).powi(3) / 3.0, operands, |work, (x, info)| {
        *info = pjrt_lapack::potrf(work, uplo, n, x)?;
        Ok(())
    })
}

/// `x -> x_out, ipiv, info`
pub(super) fn getrf<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    let call = Call::new(frame, 1, 3)?;
    let x = call.matrices::<T>(0)?;
    let (m, n) = (x.rows, x.columns);
    let operands = (
        call.in_place::<T>(0, 0, x.batch, &[m, n])?,
        call.output::<i32>(1, x.batch, &[x.least()])?,
        call.info(2, x.batch)?,
    );
    call.each(x.cubed(), operands, |work, (x, pivots, info)| {
        *info = pjrt_lapack::getrf(work, m, n, x, pivots)?;
        Ok(())
    })
}
