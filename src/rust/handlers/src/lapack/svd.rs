//! Singular value decompositions.

use crate::frame::{Failure, Frame};
use crate::lapack::operands::{Call, Number};
use pjrt_base::error;
use pjrt_lapack::{SvdMode, Workspace};

/// A routine of the library.
type Routine<T, R> =
    fn(&mut Workspace, SvdMode, usize, usize, &mut [T], &mut [R], &mut [T], &mut [T]) -> error::Result<i32>;

/// `x -> x_out, s, u, vt, info`, by divide and conquer.
pub(super) fn gesdd<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    decompose::<T>(frame, pjrt_lapack::gesdd)
}

/// The same, by QR iteration.
pub(super) fn gesvd<T: Number>(frame: &Frame<'_>) -> Result<(), Failure> {
    decompose::<T>(frame, pjrt_lapack::gesvd)
}

fn decompose<T: Number>(frame: &Frame<'_>, routine: Routine<T, T::Real>) -> Result<(), Failure> {
    let call = Call::new(frame, 1, 5)?;
    let mode: SvdMode = call.letter("mode")?;
    let x = call.matrices::<T>(0)?;
    let (m, n, k) = (x.rows, x.columns, x.least());
    let is_full = match mode {
        SvdMode::All => true,
        SvdMode::Some => false,
        // The vectors are not computed, and may have the size of either.
        SvdMode::None => call.result_size(2)? == Some([m, m]) && call.result_size(3)? == Some([n, n]),
    };
    let (u_columns, vt_rows) = if is_full { (m, n) } else { (k, k) };
    let operands = (
        call.in_place::<T>(0, 0, x.batch, &[m, n])?,
        call.output::<T::Real>(1, x.batch, &[k])?,
        call.output::<T>(2, x.batch, &[m, u_columns])?,
        call.output::<T>(3, x.batch, &[vt_rows, n])?,
        call.info(4, x.batch)?,
    );
    call.each(20.0 * x.cubed(), operands, |work, (x, s, u, vt, info)| {
        if mode == SvdMode::None {
            u.fill(T::default());
            vt.fill(T::default());
        }
        *info = routine(work, mode, m, n, x, s, u, vt)?;
        Ok(())
    })
}
