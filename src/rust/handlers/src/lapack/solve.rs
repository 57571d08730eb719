//! Triangular and tridiagonal systems.

use crate::frame::{Failure, Frame, Outcome};
use crate::lapack::operands::{Matrices, Number};
use pjrt_data::dtype::DType;
use pjrt_lapack::{Complex, Side};

/// `x, y -> y_out`
pub(super) fn trsm<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(2, 1)?;
    let (side, uplo, diag) = (frame.letter("side")?, frame.letter("uplo")?, frame.letter("diag")?);
    let transpose = frame.letter("trans_x")?;
    let Matrices { batch, rows: m, columns: n } = frame.matrices::<T>(1)?;
    let size = if side == Side::Left { m } else { n };
    let operands = (frame.input::<T>(0, batch, &[size, size])?, frame.in_place::<T>(1, 0, batch, &[m, n])?);
    frame.each((m * n) as f64 * size as f64, operands, &|work, (x, y)| {
        pjrt_lapack::trsm(work, side, uplo, transpose, diag, m, n, x, y)
    })
}

/// `dl, d, du, b -> dl_out, d_out, du_out, b_out, info`, where `dl[i]` is left of `d[i]`, and `du[i]` right of it.
pub(super) fn gtsv<T: Number>(frame: &Frame<'_>) -> Outcome {
    frame.expect(4, 5)?;
    let Matrices { batch, rows: n, columns } = frame.matrices::<T>(3)?;
    let diagonal = |index| frame.in_place::<T>(index, index, batch, &[n]);
    let operands = (diagonal(0)?, diagonal(1)?, diagonal(2)?, frame.in_place::<T>(3, 3, batch, &[n, columns])?);
    let operations = 20.0 * n as f64 * (columns + 1) as f64;
    frame.each_info(operations, batch, operands, &|work, (dl, d, du, b)| {
        let (dl, du) = (dl.get_mut(1..).unwrap_or_default(), &mut du[..n.saturating_sub(1)]);
        pjrt_lapack::gtsv(work, n, columns, dl, d, du, b)
    })
}

/// `dl, d, du, b -> x`, with small pivots replaced. The type is that of `b`.
pub(super) fn perturbed(frame: &Frame<'_>) -> Outcome {
    frame.expect(4, 1)?;
    match frame.argument(3)?.dtype {
        DType::F32 => perturbed_of::<f32>(frame),
        DType::F64 => perturbed_of::<f64>(frame),
        DType::C64 => perturbed_of::<Complex<f32>>(frame),
        DType::C128 => perturbed_of::<Complex<f64>>(frame),
        other => Err(Failure::invalid(format!("The operation supports f32, f64, c64 and c128, got {other}."))),
    }
}

fn perturbed_of<T: Number>(frame: &Frame<'_>) -> Outcome {
    let Matrices { batch, rows: n, columns } = frame.matrices::<T>(3)?;
    let diagonal = |index| frame.input::<T>(index, batch, &[n]);
    let operands = (diagonal(0)?, diagonal(1)?, diagonal(2)?, frame.in_place::<T>(3, 0, batch, &[n, columns])?);
    let operations = 20.0 * n as f64 * (columns + 1) as f64;
    frame.each(operations, operands, &|work, (dl, d, du, b)| {
        pjrt_lapack::tridiagonal_solve_perturbed(work, n, columns, dl, d, du, b)
    })
}
