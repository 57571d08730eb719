//! Eigenvalues and Schur factorizations.

use crate::frame::{Failure, Frame};
use crate::lapack::operands::{Call, Number};

/// `x -> x_out, eigenvalues, info`
pub(super) fn syevd<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    let call = Call::new(frame, 1, 3)?;
    let (uplo, vectors) = (call.letter("uplo")?, call.wants("mode")?);
    let (batch, n) = call.square::<T>(0)?;
    let operands =
        (call.in_place::<T>(0, 0, batch, &[n, n])?, call.output::<T::Real>(1, batch, &[n])?, call.info(2, batch)?);
    call.each(10.0 * (n as f64).powi(3), operands, |work, (x, w, info)| {
        *info = pjrt_lapack::syevd(work, uplo, vectors, n, x, w)?;
        Ok(())
    })
}

/// `x -> w_real, w_imag, vl, vr, info`; for complex types `x -> w, vl, vr, info`.
pub(super) fn geev<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    let next = if T::IS_COMPLEX { 1 } else { 2 };
    let call = Call::new(frame, 1, next + 3)?;
    let (left, right) = (call.wants("compute_left")?, call.wants("compute_right")?);
    let (batch, n) = call.square::<T>(0)?;
    // The imaginary parts have no elements if the eigenvalues have them.
    let wi = if T::IS_COMPLEX { None } else { Some(call.output::<T>(1, batch, &[n])?) };
    let operands = (
        call.consumed::<T>(0, batch, &[n, n])?,
        call.output::<T>(0, batch, &[n])?,
        wi,
        call.output::<T::Complex>(next, batch, &[n, n])?,
        call.output::<T::Complex>(next + 1, batch, &[n, n])?,
        call.info(next + 2, batch)?,
    );
    call.each(25.0 * (n as f64).powi(3), operands, |work, (x, w, wi, vl, vr, info)| {
        for (vectors, wanted) in [(&mut *vl, left), (&mut *vr, right)] {
            if !wanted {
                vectors.fill(T::Complex::default());
            }
        }
        *info = pjrt_lapack::geev(work, left, right, n, x, w, wi.unwrap_or_default(), vl, vr)?;
        Ok(())
    })
}

/// `x -> x_out, vs, wr, wi, selected, info`; for complex types `x -> x_out, vs, w, selected, info`.
pub(super) fn gees<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    let next = if T::IS_COMPLEX { 3 } else { 4 };
    let call = Call::new(frame, 1, next + 2)?;
    let vectors = call.wants("mode")?;
    let sort = frame.integer::<u8>("sort")?;
    if sort != b'N' {
        return Err(Failure::invalid(format!("The attribute 'sort' must be 'N': got '{}'.", sort.escape_ascii())));
    }
    let (batch, n) = call.square::<T>(0)?;
    let wi = if T::IS_COMPLEX { None } else { Some(call.output::<T>(3, batch, &[n])?) };
    let operands = (
        call.in_place::<T>(0, 0, batch, &[n, n])?,
        call.output::<T>(1, batch, &[n, n])?,
        call.output::<T>(2, batch, &[n])?,
        wi,
        call.info(next, batch)?,
        call.info(next + 1, batch)?,
    );
    call.each(25.0 * (n as f64).powi(3), operands, |work, (x, vs, w, wi, selected, info)| {
        if !vectors {
            vs.fill(T::default());
        }
        *selected = 0;
        *info = pjrt_lapack::gees(work, vectors, n, x, vs, w, wi.unwrap_or_default())?;
        Ok(())
    })
}
