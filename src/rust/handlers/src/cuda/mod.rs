//! The handlers for NVIDIA GPUs: linear algebra of r-xla's programs with cuSOLVER, and `print_tensor`.
//!
//! They queue their work on the stream of the program and return. cuSOLVER's `info` stays on the device, because reading it
//! would wait for the device, and the programs have no output for it.

mod device;
mod factor;
mod library;
mod run;

use crate::frame::{Array, Frame, Outcome};
use crate::lapack::{checked_count, Input, Output};
use crate::print;
use crate::slots::RustHandler;
use device::CudaDevice;
use std::borrow::Cow;

/// The platform, as plugins name it.
pub(super) const PLATFORM: &str = "cuda";

/// The handlers, by name.
#[doc(hidden)]
pub const TARGETS: [(&str, RustHandler); 7] = [
    (print::TARGET, print_tensor),
    ("geqrf", factor::geqrf),
    ("orgqr", factor::orgqr),
    ("lu", factor::lu),
    ("svd", factor::svd),
    ("eigh", factor::eigh),
    ("lu_pivots_to_permutation", lu_pivots_to_permutation),
];

/// Prints the argument, after a copy to the host; a result is a copy of it.
fn print_tensor(frame: &Frame<'_>) -> Outcome {
    let device = CudaDevice::new(frame)?;
    // SAFETY: the argument is device memory of so many bytes.
    let read = |x: Array<'_>| unsafe { device.read(x.as_ptr(), x.byte_len()) }.map(Cow::Owned);
    // SAFETY: as is the result, which has the argument's type.
    let copy = |x: Array<'_>, result: Array<'_>| unsafe { device.copy(result.as_mut_ptr(), x.as_ptr(), x.byte_len()) };
    print::print_with(frame, read, copy)
}

/// `pivots -> permutation`, computed on the host: it is small, and its steps depend on each other.
fn lu_pivots_to_permutation(frame: &Frame<'_>) -> Outcome {
    let (first, pivots, permutations) = frame.pivots_and_permutation()?;
    let operands = (pivots, permutations);
    let count = checked_count(&operands)?;
    if count == 0 {
        return Ok(());
    }
    let (Input(pivots), Output(permutations)) = operands;
    let (length, rows) = (pivots.len() / count, permutations.len() / count);
    let device = CudaDevice::new(frame)?;
    // SAFETY: the operands are device memory with so many elements.
    let pivots = unsafe { device.read(pivots.at(0), pivots.len()) }?;
    let mut all = vec![0; permutations.len()];
    for index in 0..count {
        let permutation = &mut all[index * rows..][..rows];
        pjrt_lapack::lu_pivots_to_permutation(first, &pivots[index * length..][..length], permutation)?;
    }
    // SAFETY: as above.
    unsafe { device.write(permutations.at(0), all) }
}
