//! Eigenvalues and eigenvectors.

use crate::check::{all_finite, dimension, matrix, vector};
use crate::letters::Uplo;
use crate::routine::{call, Routine};
use crate::scalar::Scalar;
use crate::workspace::{convert, widened, Least, Room, Workspace};
use pjrt_base::error::Result;

/// Eigenvalues in ascending order, and if wanted the eigenvectors, of a symmetric or Hermitian `n` x `n` matrix.
/// Only its triangle `uplo` is read. The vectors replace `a`; without them it is destroyed. Named `heevd` for complex
/// types. If the triangle has a value that is not finite, all outputs become NaN, and `info` 1.
pub fn syevd<T: Scalar>(
    work: &mut Workspace,
    uplo: Uplo,
    vectors: bool,
    n: usize,
    a: &mut [T],
    w: &mut [T::Real],
) -> Result<i32> {
    let order = dimension("n", n)?;
    matrix("a", a.len(), n, n)?;
    vector("w", w.len(), n)?;
    if n == 0 {
        return Ok(0);
    }
    let is_finite = a
        .chunks_exact(n)
        .enumerate()
        .all(|(column, values)| all_finite(if uplo == Uplo::Upper { &values[..=column] } else { &values[column..] }));
    if !is_finite {
        a.fill(T::nan());
        w.fill(T::Real::nan());
        return Ok(1);
    }
    let (syevd_address, heev) = (work.library.find::<T>(Routine::Syevd), work.library.find::<T>(Routine::Heev));
    let Some(address) = syevd_address.or(heev) else {
        work.routine::<T>(Routine::Syevd)?;
        return widened!(work, [a w] syevd::<T::Wide>(work, uplo, vectors, n, a, w));
    };
    let letters = [if vectors { b'V' } else { b'N' }, uplo.letter()];
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        if syevd_address.is_some() {
            call!(
                address, T;
                &letters[0], &letters[1], &order, a.as_mut_ptr(), &order, w.as_mut_ptr(), room.work, &room.sizes.work,
                complex room.reals, complex &room.sizes.reals, room.integers, &room.sizes.integers, room.info, 1usize,
                1usize,
            );
        } else {
            // By QR iteration, for complex matrices.
            call!(
                address;
                &letters[0], &letters[1], &order, a.as_mut_ptr(), &order, w.as_mut_ptr(), room.work, &room.sizes.work,
                room.reals, room.info, 1usize, 1usize,
            );
        }
    };
    let dims = [order, i32::from(letters[0]), i32::from(letters[1]), 0, 0];
    let n = order as u64;
    let squares = if vectors { n * n } else { 0 };
    let (routine, least) = match (syevd_address, T::IS_COMPLEX) {
        (None, _) => (Routine::Heev, Least { work: 2 * n, reals: 3 * n, integers: 0 }),
        (Some(_), is_complex) => {
            let (work, reals) =
                if is_complex { (2 * n + squares, 1 + 5 * n + 2 * squares) } else { (1 + 6 * n + 2 * squares, 0) };
            (Routine::Syevd, Least { work, reals, integers: 3 + 5 * n })
        }
    };
    work.with_room(routine, dims, least, &mut run)
}

/// Eigenvalues, and the left and right eigenvectors that are wanted, of a general `n` x `n` matrix, which is destroyed.
/// Real types: `w` are the real parts of the eigenvalues and `wi` the imaginary parts. Complex types: `w` are the
/// eigenvalues, and `wi` is empty. `vl` and `vr` are n x n, and unused if not wanted, where they may have any length.
/// If `a` has a value that is not finite, all outputs become NaN, and `info` 1.
#[allow(clippy::too_many_arguments)]
pub fn geev<T: Scalar>(
    work: &mut Workspace,
    left: bool,
    right: bool,
    n: usize,
    a: &mut [T],
    w: &mut [T],
    wi: &mut [T],
    vl: &mut [T::Complex],
    vr: &mut [T::Complex],
) -> Result<i32> {
    let order = dimension("n", n)?;
    matrix("a", a.len(), n, n)?;
    vector("w", w.len(), n)?;
    vector("wi", wi.len(), if T::IS_COMPLEX { 0 } else { n })?;
    let vl: &mut [T::Complex] = if left { vl } else { &mut [] };
    let vr: &mut [T::Complex] = if right { vr } else { &mut [] };
    matrix("vl", vl.len(), n, if left { n } else { 0 })?;
    matrix("vr", vr.len(), n, if right { n } else { 0 })?;
    if n == 0 {
        return Ok(0);
    }
    if !all_finite(a) {
        w.fill(T::nan());
        wi.fill(T::nan());
        vl.fill(T::Complex::nan());
        vr.fill(T::Complex::nan());
        return Ok(1);
    }
    let Some(routine) = work.routine::<T>(Routine::Geev)? else {
        return widened!(work, [a w wi vl vr] geev::<T::Wide>(work, left, right, n, a, w, wi, vl, vr));
    };
    let (mut left_block, mut right_block) = (work.take(), work.take());
    let left_vectors = left_block.zeros::<T>(vl.len())?;
    let right_vectors = right_block.zeros::<T>(vr.len())?;
    let letters = [left, right].map(|wanted| if wanted { b'V' } else { b'N' });
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        call!(
            routine, T;
            &letters[0], &letters[1], &order, a.as_mut_ptr(), &order, w.as_mut_ptr(), real wi.as_mut_ptr(),
            left_vectors.as_mut_ptr(), &order, right_vectors.as_mut_ptr(), &order, room.work, &room.sizes.work,
            complex room.reals, room.info, 1usize, 1usize,
        );
    };
    let least = Least { work: 4 * n as u64, reals: 2 * n as u64, integers: 0 };
    let info = work.with_room(Routine::Geev, [order, i32::from(left), i32::from(right), 0, 0], least, &mut run)?;
    unpack(left_vectors, wi, n, vl);
    unpack(right_vectors, wi, n, vr);
    work.give(right_block);
    work.give(left_block);
    Ok(info)
}

/// Writes out eigenvectors. Of a pair of complex ones, real types store the real part and the imaginary part in two
/// columns.
fn unpack<T: Scalar>(packed: &[T], imaginary: &[T], n: usize, vectors: &mut [T::Complex]) {
    if vectors.is_empty() {
        return;
    }
    let mut column = 0;
    while column < n {
        let at = column * n;
        if T::IS_COMPLEX || imaginary[column] == T::default() || column + 1 == n {
            for (to, value) in vectors[at..at + n].iter_mut().zip(&packed[at..at + n]) {
                *to = convert(*value);
            }
            column += 1;
            continue;
        }
        for row in at..at + n {
            let (re, im) = (packed[row].parts().0, packed[row + n].parts().0);
            vectors[row] = T::Complex::from_parts(re, im);
            vectors[row + n] = T::Complex::from_parts(re, -im);
        }
        column += 2;
    }
}
