//! Singular value decompositions.

use crate::frame::{Failure, Frame};
use crate::lapack::operands::Number;
use pjrt_lapack::{svd, SvdMethod, SvdMode};

/// `x -> x_out, s, u, vt, info`, by divide and conquer.
pub(super) fn gesdd<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    decompose::<T>(frame, SvdMethod::DivideAndConquer)
}

/// The same, by QR iteration.
pub(super) fn gesvd<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    decompose::<T>(frame, SvdMethod::QrIteration)
}

fn decompose<T: Number>(frame: &Frame<'_>, method: SvdMethod) -> Result<(), Failure> {
    frame.expect(1, 5)?;
    let mode: SvdMode = frame.letter("mode")?;
    let x = frame.matrices::<T>(0)?;
    let (m, n, k) = (x.rows, x.columns, x.least());
    let is_full = match mode {
        SvdMode::All => true,
        SvdMode::Some => false,
        // The vectors are not computed, and may have the size of either.
        SvdMode::None => frame.result_size(2)? == Some([m, m]) && frame.result_size(3)? == Some([n, n]),
    };
    let (u_columns, vt_rows) = if is_full { (m, n) } else { (k, k) };
    let operands = (
        frame.in_place::<T>(0, 0, x.batch, &[m, n])?,
        frame.output::<T::Real>(1, x.batch, &[k])?,
        frame.output::<T>(2, x.batch, &[m, u_columns])?,
        frame.output::<T>(3, x.batch, &[vt_rows, n])?,
        frame.info(4, x.batch)?,
    );
    frame.each(20.0 * x.cubed(), operands, |work, (x, s, u, vt, info)| {
        if mode == SvdMode::None {
            u.fill(T::default());
            vt.fill(T::default());
        }
        *info = svd(work, method, mode, m, n, x, s, u, vt)?;
        Ok(())
    })
}
