//! Arrays that a file stores in column-major order.

use crate::host::array::HostOrder;
use crate::host::memory::HostMemory;
use pjrt_base::error::Result;
use pjrt_base::mmap::MappedFile;
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_data::array::Spec;
use pjrt_data::convert;
use pjrt_data::layout;
use pjrt_data::transpose::Plan;

/// Bytes to work on between checks for interrupts.
const PIECE: usize = 1 << 20;

/// Whether the elements of this shape lie in another order than row-major.
pub(crate) fn is_needed(spec: &Spec) -> bool {
    !HostOrder::ColumnMajor.is_row_major(&spec.dims) && !spec.is_empty()
}

/// Writes to `target`, in row-major order, the elements that `read` writes in column-major order.
pub(crate) fn transpose(spec: &Spec, target: &mut [u8], read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
    let memory = HostMemory::new(target.len())?;
    // SAFETY: new memory of this size, which nobody else knows.
    let elements = unsafe { std::slice::from_raw_parts_mut(memory.data(), target.len()) };
    read(elements)?;
    let plan = Plan::new(&spec.dims, &HostOrder::ColumnMajor.strides(&spec.dims), &layout::row_major(&spec.dims));
    // SAFETY: both have the bytes of the spec's elements, which the plan moves one by one.
    unsafe { convert::copy(spec.dtype, &plan, elements.as_ptr(), target.as_mut_ptr()) }
}

/// Reads bytes of a file, which takes long if there are many. An interrupt ends it.
pub(crate) fn read(file: &MappedFile, start: u64, target: &mut [u8]) -> Result<()> {
    for (i, piece) in target.chunks_mut(PIECE).enumerate() {
        check_interrupt_sometimes()?;
        file.read(start + (i * PIECE) as u64, piece)?;
    }
    Ok(())
}
