//! Reductions to Hessenberg and tridiagonal form.

use crate::frame::{Frame, Outcome};
use crate::lapack::operands::Number;

/// `x -> x_out, tau, info`
pub(super) fn gehrd<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 3)?;
    let (low, high) = (frame.integer("low")?, frame.integer("high")?);
    let (batch, n) = frame.square::<T>(0)?;
    let x = frame.in_place::<T>(0, 0, batch, &[n, n])?;
    let operands = (x, frame.output::<T>(1, batch, &[n.saturating_sub(1)])?);
    frame.each_info(4.0 * (n as f64).powi(3), batch, operands, &|work, (x, tau)| {
        pjrt_lapack::gehrd(work, n, low, high, x, tau)
    })
}

/// `x -> x_out, d, e, tau, info`
pub(super) fn sytrd<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 5)?;
    let uplo = frame.letter("uplo")?;
    let (batch, n) = frame.square::<T>(0)?;
    let below = n.saturating_sub(1);
    let operands = (
        frame.in_place::<T>(0, 0, batch, &[n, n])?,
        frame.output::<T::Real>(1, batch, &[n])?,
        frame.output::<T::Real>(2, batch, &[below])?,
        frame.output::<T>(3, batch, &[below])?,
    );
    frame.each_info(2.0 * (n as f64).powi(3), batch, operands, &|work, (x, d, e, tau)| {
        pjrt_lapack::sytrd(work, uplo, n, x, d, e, tau)
    })
}
