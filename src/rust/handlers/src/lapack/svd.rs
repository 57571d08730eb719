//! Singular value decompositions.

use crate::frame::{Failure, Frame, Outcome};
use crate::lapack::operands::Number;
use pjrt_lapack::{svd, SvdMethod, SvdMode};

/// `x -> x_out, s, u, vt, info`, by divide and conquer.
pub(super) fn gesdd<T: Number>(frame: &Frame<'_>) -> Outcome {
    decompose::<T>(frame, SvdMethod::DivideAndConquer)
}

/// The same, by QR iteration.
pub(super) fn gesvd<T: Number>(frame: &Frame<'_>) -> Outcome {
    decompose::<T>(frame, SvdMethod::QrIteration)
}

fn decompose<T: Number>(frame: &Frame<'_>, method: SvdMethod) -> Outcome {
    frame.expect(1, 5)?;
    let mode: SvdMode = frame.letter("mode")?;
    let x = frame.matrices::<T>(0)?;
    let (m, n, k) = (x.rows, x.columns, x.least());
    let is_square = |result, size| Ok::<_, Failure>(frame.result(result)?.dims.ends_with(&[size as i64; 2]));
    let is_full = match mode {
        SvdMode::All => true,
        SvdMode::Some => false,
        // The vectors are not computed, and may have the size of either.
        SvdMode::None => is_square(2, m)? && is_square(3, n)?,
    };
    let (u_columns, vt_rows) = if is_full { (m, n) } else { (k, k) };
    let operands = (
        frame.in_place::<T>(0, 0, x.batch, &[m, n])?,
        frame.output::<T::Real>(1, x.batch, &[k])?,
        frame.output::<T>(2, x.batch, &[m, u_columns])?,
        frame.output::<T>(3, x.batch, &[vt_rows, n])?,
    );
    frame.each_info(20.0 * x.cubed(), x.batch, operands, &|work, (x, s, u, vt)| {
        if mode == SvdMode::None {
            u.fill(T::default());
            vt.fill(T::default());
        }
        svd(work, method, mode, m, n, x, s, u, vt)
    })
}
