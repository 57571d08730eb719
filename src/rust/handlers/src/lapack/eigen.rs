//! Eigenvalues and Schur factorizations.

use crate::frame::{Frame, Outcome};
use crate::lapack::operands::Number;

/// `x -> x_out, eigenvalues, info`
pub(super) fn syevd<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 3)?;
    let (uplo, vectors) = (frame.letter("uplo")?, frame.wants("mode")?);
    let (batch, n) = frame.square::<T>(0)?;
    let operands = (frame.in_place::<T>(0, 0, batch, &[n, n])?, frame.output::<T::Real>(1, batch, &[n])?);
    frame.each_info(10.0 * (n as f64).powi(3), batch, operands, &|work, (x, w)| {
        pjrt_lapack::syevd(work, uplo, vectors, n, x, w)
    })
}

/// `x -> w_real, w_imag, vl, vr, info`; for complex types `x -> w, vl, vr, info`.
pub(super) fn geev<T: Number>(frame: &Frame<'_>) -> Outcome {
    let next = if T::IS_COMPLEX { 1 } else { 2 };
    frame.expect(1, next + 3)?;
    let (left, right) = (frame.wants("compute_left")?, frame.wants("compute_right")?);
    let (batch, n) = frame.square::<T>(0)?;
    // The imaginary parts have no elements if the eigenvalues have them.
    let wi = if T::IS_COMPLEX { None } else { Some(frame.output::<T>(1, batch, &[n])?) };
    let operands = (
        frame.consumed::<T>(0, batch, &[n, n])?,
        frame.output::<T>(0, batch, &[n])?,
        wi,
        frame.output::<T::Complex>(next, batch, &[n, n])?,
        frame.output::<T::Complex>(next + 1, batch, &[n, n])?,
    );
    frame.each_info(25.0 * (n as f64).powi(3), batch, operands, &|work, (x, w, wi, vl, vr)| {
        for (vectors, wanted) in [(&mut *vl, left), (&mut *vr, right)] {
            if !wanted {
                vectors.fill(T::Complex::default());
            }
        }
        pjrt_lapack::geev(work, left, right, n, x, w, wi.unwrap_or_default(), vl, vr)
    })
}

/// `x -> x_out, vs, wr, wi, selected, info`; for complex types `x -> x_out, vs, w, selected, info`.
pub(super) fn gees<T: Number>(frame: &Frame<'_>) -> Outcome {
    let next = if T::IS_COMPLEX { 3 } else { 4 };
    frame.expect(1, next + 2)?;
    let vectors = frame.wants("mode")?;
    let sort = frame.integer::<u8>("sort")?;
    ensure!(sort == b'N', InvalidInput, "The attribute 'sort' must be 'N': got '{}'.", sort.escape_ascii());
    let (batch, n) = frame.square::<T>(0)?;
    let wi = if T::IS_COMPLEX { None } else { Some(frame.output::<T>(3, batch, &[n])?) };
    let operands = (
        frame.in_place::<T>(0, 0, batch, &[n, n])?,
        frame.output::<T>(1, batch, &[n, n])?,
        frame.output::<T>(2, batch, &[n])?,
        wi,
        frame.output::<i32>(next, batch, &[])?,
    );
    frame.each_info(25.0 * (n as f64).powi(3), batch, operands, &|work, (x, vs, w, wi, selected)| {
        if !vectors {
            vs.fill(T::default());
        }
        selected[0] = 0;
        pjrt_lapack::gees(work, vectors, n, x, vs, w, wi.unwrap_or_default())
    })
}
