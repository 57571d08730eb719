//! A part of a tensor: in place if possible, otherwise only its own bytes are read.

use super::header::Tensor;
use super::model::Model;
use crate::buffer::shard::{Run, Share};
use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::stored::Loading;
use pjrt_base::error::Result;
use pjrt_base::mmap::MappedFile;
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_base::trace::{self, Activity, Details};
use pjrt_data::array::Spec;
use std::ops::Range;

/// Loads a part of the tensor at a position of a model.
///
/// # Errors
/// `ShapeMismatch` for a part outside the tensor; as [`Model::stored`] and [`Loading::run`].
pub fn load_part(model: &Model, tensor: usize, share: &Share, device: &Device) -> Result<Buffer> {
    let (opened, tensor) = model.find(tensor)?;
    let whole = tensor.spec()?;
    share.check(&tensor.dims)?;
    let spec = Spec::new(whole.dtype, &share.dims)?;
    // Two narrow elements share a byte.
    let in_byte = if whole.dtype.is_packed() { 2 } else { 1 };
    if let Some(run) = share.single_run(&tensor.dims).filter(|run| run.from % in_byte == 0 && run.len % in_byte == 0) {
        let bytes = |elements: usize| elements * whole.dtype.host_bytes() / in_byte;
        let part = Tensor {
            dims: share.dims.as_slice().into(),
            start: tensor.start + bytes(run.from) as u64,
            bytes: bytes(run.len),
            ..tensor.clone()
        };
        let mut loaded = Loading::new(vec![part.stored(&opened.file)?], device)?.run(&mut |_| {})?;
        return Ok(loaded.swap_remove(0));
    }
    let _span = trace::span(Activity::File, || Details { name: "load a part".into(), ..spec.details() });
    let width = whole.dtype.host_bytes();
    let elements = share.filled(width, |target| {
        let mut block =
            ReadRun { file: &opened.file, start: tensor.start, width, in_byte, runs: Vec::new(), bytes: Vec::new() };
        share.runs(&tensor.dims).try_for_each(|run| block.add(run, target))?;
        block.read(target)
    })?;
    opened.file.check()?;
    Buffer::from_host(device, spec, &elements).map_err(|error| tensor.about(error))
}

/// Runs of elements that are close enough to be read at once.
struct ReadRun<'a> {
    file: &'a MappedFile,
    /// The offset of the tensor in the file.
    start: u64,
    width: usize,
    /// The number of elements that share a byte of the file.
    in_byte: usize,
    runs: Vec<Run>,
    bytes: Vec<u8>,
}

impl ReadRun<'_> {
    /// Adds a run, which comes after all others. Reads the earlier runs to `target` if they are far from it or large
    /// enough.
    fn add(&mut self, run: Run, target: &mut [u8]) -> Result<()> {
        // The bytes between runs are read, too, as the disk's pages would be anyway.
        const NEAR: usize = 4096;
        const ENOUGH: usize = 1 << 20;
        if let (Some(first), Some(last)) = (self.runs.first(), self.runs.last()) {
            let (first, last, next) = (self.in_file(first), self.in_file(last), self.in_file(&run));
            if next.start.saturating_sub(last.end) > NEAR || next.end - first.start > ENOUGH {
                self.read(target)?;
            }
        }
        self.runs.push(run);
        Ok(())
    }

    /// Reads the runs.
    fn read(&mut self, target: &mut [u8]) -> Result<()> {
        let (Some(first), Some(last)) = (self.runs.first(), self.runs.last()) else { return Ok(()) };
        check_interrupt_sometimes()?;
        let range = self.in_file(first).start..self.in_file(last).end;
        if let ([run], 1) = (self.runs.as_slice(), self.in_byte) {
            self.file.read(self.start + range.start as u64, &mut target[run.to * self.width..][..range.len()])?;
        } else {
            self.bytes.resize(range.len(), 0);
            self.file.read(self.start + range.start as u64, &mut self.bytes)?;
            self.runs.iter().for_each(|run| self.copy(run, range.start, target));
        }
        self.runs.clear();
        Ok(())
    }

    /// Copies a run from bytes read from `start` of the tensor on.
    fn copy(&self, run: &Run, start: usize, target: &mut [u8]) {
        let target = &mut target[run.to * self.width..][..run.len * self.width];
        if self.in_byte == 1 {
            target.copy_from_slice(&self.bytes[run.from * self.width - start..][..run.len * self.width]);
        } else {
            for (element, target) in (run.from..).zip(target) {
                *target = self.bytes[element / 2 - start] >> (element % 2 * 4) & 0x0f;
            }
        }
    }

    /// The range of a run in bytes from the start of the tensor.
    fn in_file(&self, run: &Run) -> Range<usize> {
        let bytes = |elements: usize| elements * self.width;
        bytes(run.from) / self.in_byte..bytes(run.from + run.len).div_ceil(self.in_byte)
    }
}
