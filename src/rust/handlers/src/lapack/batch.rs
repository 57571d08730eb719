//! The work of a call: on all matrices of a batch, on several threads if it is worth it.

use crate::frame::{Failure, Frame, Outcome};
use crate::lapack::parts::{checked_count, Operands};
use pjrt_base::error::{self, Error};
use pjrt_lapack::Workspace;
use std::sync::OnceLock;

/// The work that is worth another thread, in floating point operations.
const GRAIN: f64 = 100_000.0;

/// What a matrix costs at least: the call of the library.
const CALL: f64 = 1_000.0;

/// Parts for each thread, so that none waits long for the last one.
const PARTS: usize = 4;

impl Frame<'_> {
    /// Does the work on every index of the operands, with a workspace for each thread. `operations` estimates the floating
    /// point operations for one index. Compiled once for each type of the operands.
    ///
    /// # Errors
    /// If no library is usable, operands share memory, there is no memory, or the work fails.
    pub(crate) fn each<'a, O: Operands + 'a>(
        &self,
        operations: f64,
        operands: O,
        work: &'a (dyn Fn(&mut Workspace, O::Parts<'_>) -> error::Result<()> + Sync),
    ) -> Outcome {
        let count = checked_count(&operands)?;
        let chunks = chunks(self, count, operations);
        let failed = OnceLock::<Error>::new();
        let range = |start: usize, end: usize| {
            let (mut workspace, mut copies) = (Workspace::new()?, operands.copies()?);
            for index in start..end {
                if failed.get().is_some() {
                    break;
                }
                // SAFETY: the memory is checked, and each index has one thread.
                let parts = unsafe { operands.parts(index, &mut copies) };
                work(&mut workspace, parts)?;
            }
            Ok(())
        };
        match chunks {
            0 => return Ok(()),
            1 => return range(0, count).map_err(Failure::from),
            _ => self.parallel(chunks, &|chunk| {
                let bound = |chunk: usize| count / chunks * chunk + (count % chunks).min(chunk);
                if let Err(error) = range(bound(chunk), bound(chunk + 1)) {
                    // The first failure is the call's.
                    let _ = failed.set(error);
                }
            }),
        }
        failed.into_inner().map_or(Ok(()), |error| Err(error.into()))
    }

    /// The same for work that returns LAPACK's `info`, which is the last result.
    ///
    /// # Errors
    /// As [`Frame::each`], and as [`Frame::output`] for that result.
    pub(crate) fn each_info<'a, O: Operands + 'a>(
        &self,
        operations: f64,
        batch: &[i64],
        operands: O,
        work: &'a (dyn Fn(&mut Workspace, O::Parts<'_>) -> error::Result<i32> + Sync),
    ) -> Outcome {
        let info = self.output::<i32>(self.results() - 1, batch, &[])?;
        self.each(operations, (operands, info), &|workspace, (parts, info)| {
            info[0] = work(workspace, parts)?;
            Ok(())
        })
    }
}

/// The number of parts to divide the work into.
fn chunks(frame: &Frame<'_>, count: usize, operations: f64) -> usize {
    let worth = (operations + CALL) * count as f64 / GRAIN;
    if count < 2 || worth < 2.0 {
        return count.min(1);
    }
    let threads = frame.threads().unwrap_or(1).max(1);
    if threads == 1 {
        return 1;
    }
    count.min(PARTS * threads).min(worth as usize)
}
