//! Reductions to Hessenberg and tridiagonal form.

use crate::frame::{Failure, Frame};
use crate::lapack::operands::{Call, Number};

/// `x -> x_out, tau, info`
pub(super) fn gehrd<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    let call = Call::new(frame, 1, 3)?;
    let (low, high) = (frame.integer("low")?, frame.integer("high")?);
    let (batch, n) = call.square::<T>(0)?;
    let operands = (
        call.in_place::<T>(0, 0, batch, &[n, n])?,
        call.output::<T>(1, batch, &[n.saturating_sub(1)])?,
        call.info(2, batch)?,
    );
    call.each(4.0 * (n as f64).powi(3), operands, |work, (x, tau, info)| {
        *info = pjrt_lapack::gehrd(work, n, low, high, x, tau)?;
        Ok(())
    })
}

/// `x -> x_out, d, e, tau, info`
pub(super) fn sytrd<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    let call = Call::new(frame, 1, 5)?;
    let uplo = call.letter("uplo")?;
    let (batch, n) = call.square::<T>(0)?;
    let below = n.saturating_sub(1);
    let operands = (
        call.in_place::<T>(0, 0, batch, &[n, n])?,
        call.output::<T::Real>(1, batch, &[n])?,
        call.output::<T::Real>(2, batch, &[below])?,
        call.output::<T>(3, batch, &[below])?,
        call.info(4, batch)?,
    );
    call.each(2.0 * (n as f64).powi(3), operands, |work, (x, d, e, tau, info)| {
        *info = pjrt_lapack::sytrd(work, uplo, n, x, d, e, tau)?;
        Ok(())
    })
}
