//! Factorizations with cuSOLVER. All matrices of a batch share a workspace, because they are factorized one after another.

use crate::cuda::run::{Real, Run};
use crate::frame::{Failure, Frame, Outcome};
use crate::lapack::{checked_count, real_handlers, Consumed, Element, InPlace, Input, Output, Stack};
use std::ffi::c_int;

real_handlers! {
    /// `A -> packed, tau`
    geqrf = geqrf_of;
    /// `packed, tau -> Q`
    orgqr = orgqr_of;
    /// `A -> LU, pivots`, counted from 1.
    lu = lu_of;
    /// `A -> U, S, Vt`, as many singular vectors as there are singular values. cuSOLVER needs at least as many rows as
    /// columns: with the attribute `transposed`, the program states row-major order, so that cuSOLVER sees all transposed.
    svd = svd_of;
    /// `A -> V, W`, the eigenvalues in ascending order. The lower triangle is read.
    eigh = eigh_of;
}

/// cuSOLVER's `CUSOLVER_EIG_MODE_VECTOR` and `CUBLAS_FILL_MODE_LOWER`.
const WITH_VECTORS: c_int = 1;
const LOWER: c_int = 0;

/// The job of `gesvd` that computes as many singular vectors as there are singular values.
const SOME: i8 = b'S' as i8;

/// A factorization that overwrites a copy of the argument and writes a vector.
struct InPlaceRun<'a, T, U> {
    run: Run<'a, T>,
    count: usize,
    m: c_int,
    n: c_int,
    a: Stack<'a, T>,
    other: Stack<'a, U>,
}

/// Checks the operands, and queues the copy. `None` if there is nothing to do.
fn in_place<'a, T: Real, U: Element>(frame: &'a Frame<'a>) -> Outcome<Option<InPlaceRun<'a, T, U>>> {
    frame.expect(1, 2)?;
    let a = frame.matrices::<T>(0)?;
    let [m, n] = sizes([a.rows, a.columns])?;
    let both = frame.in_place::<T>(0, 0, a.batch, &[a.rows, a.columns])?;
    let operands = (both, frame.output::<U>(1, a.batch, &[a.least()])?);
    let count = checked_count(&operands)?;
    if count == 0 {
        return Ok(None);
    }
    let (InPlace { from, to: a }, Output(other)) = operands;
    let run = Run::new(frame)?;
    // SAFETY: both are device memory of so many elements.
    unsafe { run.device.copy(a.at(0), from.at(0), a.len()) }?;
    Ok(Some(InPlaceRun { run, count, m, n, a, other }))
}

fn geqrf_of<T: Real>(frame: &Frame<'_>) -> Outcome {
    let Some(InPlaceRun { run, count, m, n, a, other: tau }) = in_place::<T, T>(frame)? else { return Ok(()) };
    // SAFETY: the arguments are what the header asks for.
    let work = run.workspace("geqrf", |f, h, size| unsafe { (f.geqrf_size)(h, m, n, a.at(0).cast(), m, size) })?;
    // SAFETY: as above, and the workspace is as large as the routine asked.
    run.each("geqrf", count, |f, h, i| unsafe {
        (f.geqrf)(h, m, n, a.at(i).cast(), m, tau.at(i).cast(), work.memory.data, work.size, work.info.data)
    })
}

fn lu_of<T: Real>(frame: &Frame<'_>) -> Outcome {
    let Some(InPlaceRun { run, count, m, n, a, other: pivots }) = in_place::<T, i32>(frame)? else { return Ok(()) };
    // SAFETY: the arguments are what the header asks for.
    let work = run.workspace("getrf", |f, h, size| unsafe { (f.getrf_size)(h, m, n, a.at(0).cast(), m, size) })?;
    // A singular matrix has a factorization, too.
    // SAFETY: as above, and the workspace is as large as the routine asked.
    run.each("getrf", count, |f, h, i| unsafe {
        (f.getrf)(h, m, n, a.at(i).cast(), m, work.memory.data, pivots.at(i).cast(), work.info.data)
    })
}

fn eigh_of<T: Real>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 2)?;
    frame.eigh_matrices::<T>()?;
    let Some(InPlaceRun { run, count, n, a, other: w, .. }) = in_place::<T, T>(frame)? else { return Ok(()) };
    // SAFETY: the arguments are what the header asks for.
    let work = run.workspace("syevd", |f, h, size| unsafe {
        (f.syevd_size)(h, WITH_VECTORS, LOWER, n, a.at(0).cast(), n, w.at(0).cast(), size)
    })?;
    // SAFETY: as above, and the workspace is as large as the routine asked.
    run.each("syevd", count, |f, h, i| unsafe {
        let (work, size, info) = (work.memory.data, work.size, work.info.data);
        (f.syevd)(h, WITH_VECTORS, LOWER, n, a.at(i).cast(), n, w.at(i).cast(), work, size, info)
    })
}

fn orgqr_of<T: Real>(frame: &Frame<'_>) -> Outcome {
    frame.expect(2, 1)?;
    let packed = frame.matrices::<T>(0)?;
    let (rows, columns, (_, reflections)) = (packed.rows, frame.result_length(0)?, frame.vectors(1)?);
    let operands = (
        frame.consumed::<T>(0, packed.batch, &[rows, packed.columns])?,
        frame.input::<T>(1, packed.batch, &[reflections])?,
        frame.output::<T>(0, packed.batch, &[rows, columns])?,
    );
    if columns > rows || reflections > columns.min(packed.columns) {
        return Err(Failure::invalid(format!(
            "orgqr requires at most as many reflections as columns, and columns as rows: got {reflections} reflections \
             for {rows} x {columns}."
        )));
    }
    let [m, n, k] = sizes([rows, columns, reflections])?;
    let count = checked_count(&operands)?;
    let (Consumed(packed_all), Input(tau), Output(q)) = operands;
    if count == 0 || q.len() == 0 {
        return Ok(());
    }
    let run = Run::<T>::new(frame)?;
    // The reflections are in the first columns of both.
    let same = rows * columns.min(packed.columns);
    for i in 0..count {
        // SAFETY: each part is device memory of `rows` times its columns.
        unsafe {
            run.device.copy(q.at(i), packed_all.at(i), same)?;
            run.device.zero(q.at(i).wrapping_add(same), rows * columns - same)?;
        }
    }
    // SAFETY: the arguments are what the header asks for.
    let work = run.workspace("orgqr", |f, h, size| unsafe {
        (f.orgqr_size)(h, m, n, k, q.at(0).cast(), m, tau.at(0).cast(), size)
    })?;
    // SAFETY: as above, and the workspace is as large as the routine asked.
    run.each("orgqr", count, |f, h, i| unsafe {
        (f.orgqr)(h, m, n, k, q.at(i).cast(), m, tau.at(i).cast(), work.memory.data, work.size, work.info.data)
    })
}

fn svd_of<T: Real>(frame: &Frame<'_>) -> Outcome {
    frame.expect(1, 3)?;
    let a = frame.matrices::<T>(0)?;
    let least = a.least();
    let is_transposed = frame.optional("transposed", false, Frame::boolean)?;
    let operands = (
        frame.consumed::<T>(0, a.batch, &[a.rows, a.columns])?,
        frame.output::<T>(0, a.batch, &[a.rows, least])?,
        frame.output::<T>(1, a.batch, &[least])?,
        frame.output::<T>(2, a.batch, &[least, a.columns])?,
    );
    let count = checked_count(&operands)?;
    let (Consumed(all), Output(u), Output(s), Output(vt)) = operands;
    // The transposed matrix has the factors in the other order, each transposed.
    let (rows, columns, left, right) = match is_transposed {
        false => (a.rows, a.columns, u, vt),
        true => (a.columns, a.rows, vt, u),
    };
    if rows < columns {
        let (less, more) = if is_transposed { ("columns", "rows") } else { ("rows", "columns") };
        return Err(Failure::invalid(format!(
            "svd on CUDA with `transposed = {is_transposed}` does not support fewer {less} than {more}, got {} x {}. Set \
             `transposed = {}` and the layouts for it.",
            a.rows, a.columns, !is_transposed
        )));
    }
    if count == 0 {
        return Ok(());
    }
    let [m, n] = sizes([rows, columns])?;
    let run = Run::<T>::new(frame)?;
    // The routine destroys its input, and needs memory for what has not converged.
    let (copy, rest) = (run.memory(rows * columns)?, run.memory(columns)?);
    // SAFETY: the arguments are what the header asks for.
    let work = run.workspace("gesvd", |f, h, size| unsafe { (f.gesvd_size)(h, m, n, size) })?;
    for i in 0..count {
        // SAFETY: both are device memory of so many elements.
        unsafe { run.device.copy(copy.data.cast(), all.at(i), rows * columns) }?;
        // SAFETY: as above, and the workspace is as large as the routine asked.
        run.once("gesvd", |f, h| unsafe {
            let (a, s, left, right) = (copy.data, s.at(i).cast(), left.at(i).cast(), right.at(i).cast());
            let (info, work, size) = (work.info.data, work.memory.data, work.size);
            (f.gesvd)(h, SOME, SOME, m, n, a, m, s, left, m, right, n, work, size, rest.data, info)
        })?;
    }
    Ok(())
}

/// Dimensions as cuSOLVER takes them.
fn sizes<const N: usize>(dims: [usize; N]) -> Outcome<[c_int; N]> {
    let mut sizes = [0; N];
    for (size, dim) in sizes.iter_mut().zip(dims) {
        *size = c_int::try_from(dim).map_err(|_| Failure::invalid(format!("A dimension is too large: {dim}.")))?;
    }
    Ok(sizes)
}
