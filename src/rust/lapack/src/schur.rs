//! Schur factorizations.

use crate::check::{all_finite, dimension, matrix, vector};
use crate::reduce::{gehrd, hessenberg};
use crate::routine::{call, Address, Routine};
use crate::scalar::Scalar;
use crate::workspace::{widened, Least, Room, Workspace};
use pjrt_base::error::Result;

/// Schur factorization of the `n` x `n` matrix `a`, which is replaced by the triangular factor (block triangular for
/// real types); the eigenvalues are not sorted. The Schur vectors are written to the n x n matrix `vs` if wanted;
/// otherwise it is unused and may have any length. `w` and `wi` as in [`geev`](crate::geev). If `a` has a value that is
/// not finite, all outputs become NaN, and `info` 1.
pub fn gees<T: Scalar>(
    work: &mut Workspace,
    vectors: bool,
    n: usize,
    a: &mut [T],
    vs: &mut [T],
    w: &mut [T],
    wi: &mut [T],
) -> Result<i32> {
    let order = dimension("n", n)?;
    matrix("a", a.len(), n, n)?;
    vector("w", w.len(), n)?;
    vector("wi", wi.len(), if T::IS_COMPLEX { 0 } else { n })?;
    let vs: &mut [T] = if vectors { vs } else { &mut [] };
    matrix("vs", vs.len(), n, if vectors { n } else { 0 })?;
    if n == 0 {
        return Ok(0);
    }
    if !all_finite(a) {
        for values in [a, vs, w, wi] {
            values.fill(T::nan());
        }
        return Ok(1);
    }
    if let Some(routine) = work.library.find::<T>(Routine::Gees) {
        let job = if vectors { b'V' } else { b'N' };
        let mut selected = 0;
        // Without sorting, nothing selects.
        let select: *const u8 = std::ptr::null();
        // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
        let mut run = |room: &Room<T>| unsafe {
            call!(
                routine, T;
                &job, &b'N', select, &order, a.as_mut_ptr(), &order, &mut selected, w.as_mut_ptr(),
                real wi.as_mut_ptr(), vs.as_mut_ptr(), &order, room.work, &room.sizes.work, complex room.reals,
                room.integers, room.info, 1usize, 1usize,
            );
        };
        let size = n as u64;
        let least = Least { work: 3 * size, reals: size, integers: size };
        return work.with_room(Routine::Gees, [order, i32::from(vectors), 0, 0, 0], least, &mut run);
    }
    let parts = [Routine::Gehrd, Routine::Unghr, Routine::Hseqr].map(|routine| work.library.find::<T>(routine));
    if let [Some(_), Some(unghr), Some(hseqr)] = parts {
        return composed(work, [unghr, hseqr], vectors, order, a, vs, w);
    }
    work.routine::<T>(Routine::Gees)?;
    widened!(work, [a vs w wi] gees::<T::Wide>(work, vectors, n, a, vs, w, wi))
}

/// By reduction to Hessenberg form and QR iteration, for complex matrices.
fn composed<T: Scalar>(
    work: &mut Workspace,
    [unghr, hseqr]: [Address; 2],
    vectors: bool,
    order: i32,
    a: &mut [T],
    vs: &mut [T],
    w: &mut [T],
) -> Result<i32> {
    let n = order as usize;
    let mut block = work.take();
    let tau = block.zeros::<T>(n - 1)?;
    let info = gehrd(work, n, 1, order, a, tau)?;
    if info != 0 {
        work.give(block);
        return Ok(info);
    }
    if vectors {
        vs.copy_from_slice(a);
        hessenberg(work, Routine::Unghr, unghr, [order, 1, order], vs, tau)?;
    }
    work.give(block);
    clear_below(a, n, 2);
    let compz = if vectors { b'V' } else { b'N' };
    // SAFETY: the arguments are checked, and there is room for the sizes, or one element where they are -1.
    let mut run = |room: &Room<T>| unsafe {
        call!(
            hseqr;
            &b'S', &compz, &order, &1, &order, a.as_mut_ptr(), &order, w.as_mut_ptr(), vs.as_mut_ptr(), &order,
            room.work, &room.sizes.work, room.info, 1usize, 1usize,
        );
    };
    let info = work.with_room(Routine::Hseqr, [order, i32::from(vectors), 0, 0, 0], Least::work(n), &mut run)?;
    if info == 0 {
        clear_below(a, n, 1);
    }
    Ok(info)
}

/// Sets the elements to zero that are at least so many rows below the diagonal.
fn clear_below<T: Scalar>(a: &mut [T], n: usize, distance: usize) {
    for (column, values) in a.chunks_exact_mut(n).enumerate() {
        let start = (column + distance).min(n);
        values[start..].fill(T::default());
    }
}
