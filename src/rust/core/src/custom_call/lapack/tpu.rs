//! The target of JAX's programs for TPUs that XLA's other compilers lack.

use crate::custom_call::frame::{Failure, Frame};
use crate::custom_call::lapack::operands::{Call, Number};
use pjrt_data::dtype::DType;
use pjrt_lapack::Complex;

/// Its name. JAX's programs call it by an interface that plugins offer no handlers.
pub(super) const TARGET: &str = "LuDecomposition";

/// `x -> lu, pivots, permutation` of matrices whose rows are contiguous. Pivots and permutation count from 0.
pub(super) fn lu_decomposition(frame: &Frame<'_>) -> Result<(), Failure> {
    let call = Call::new(frame, 1, 3)?;
    match frame.argument(0)?.dtype {
        DType::F32 => lu_of::<f32>(call),
        DType::F64 => lu_of::<f64>(call),
        DType::C64 => lu_of::<Complex<f32>>(call),
        DType::C128 => lu_of::<Complex<f64>>(call),
        other => Err(Failure::invalid(format!("The operation supports f32, f64, c64 and c128, got {other}."))),
    }
}

fn lu_of<T: Number>(call: Call<'_>) -> Result<(), Failure> {
    let x = call.matrices::<T>(0)?;
    let (m, n) = (x.rows, x.columns);
    let operands = (
        call.consumed::<T>(0, x.batch, &[m, n])?,
        call.output::<T>(0, x.batch, &[m, n])?,
        call.output::<i32>(1, x.batch, &[x.least()])?,
        call.output::<i32>(2, x.batch, &[m])?,
    );
    call.each(x.cubed(), operands, |work, (x, lu, pivots, permutation)| {
        transpose(x, lu, m, n);
        pjrt_lapack::getrf(work, m, n, lu, pivots)?;
        x.copy_from_slice(lu);
        transpose(x, lu, n, m);
        pivots.iter_mut().for_each(|pivot| *pivot -= 1);
        pjrt_lapack::lu_pivots_to_permutation(0, pivots, permutation)
    })
}

/// Transposes a matrix whose rows are contiguous, in blocks that fit into the cache.
fn transpose<T: Copy>(from: &[T], to: &mut [T], rows: usize, columns: usize) {
    const BLOCK: usize = 32;
    for top in (0..rows).step_by(BLOCK) {
        for left in (0..columns).step_by(BLOCK) {
            for i in top..(top + BLOCK).min(rows) {
                for j in left..(left + BLOCK).min(columns) {
                    to[j * rows + i] = from[i * columns + j];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_transposed_across_blocks() {
        let (rows, columns) = (70, 33);
        let from: Vec<usize> = (0..rows * columns).collect();
        let mut to = vec![0; from.len()];
        transpose(&from, &mut to, rows, columns);
        for (at, &value) in to.iter().enumerate() {
            assert_eq!(value, at % rows * columns + at / rows);
        }
    }
}
