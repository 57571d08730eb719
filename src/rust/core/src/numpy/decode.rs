//! Arrays that cannot be used in place in a file: compressed, column-major, or big-endian.

use super::archive::ArchiveFile;
use super::{invalid, Member, NpyArray};
use crate::host::memory::HostMemory;
use crate::stored::Decode;
use flate2::read::DeflateDecoder;
use flate2::{Crc, CrcReader};
use pjrt_base::error::{Error, Result};
use pjrt_base::mmap::MappedFile;
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_data::array::Spec;
use pjrt_data::transpose::Plan;
use pjrt_data::{convert, layout};
use std::io::{Read, Take};

/// Bytes to work on between checks for interrupts.
const PIECE: usize = 1 << 20;

impl NpyArray {
    /// Writes the elements in the file's order.
    fn read(&self, target: &mut [u8]) -> Result<()> {
        if self.member.is_deflated {
            let mut inflated = Inflated::new(&self.file, &self.member);
            inflated.fill(&mut vec![0; self.header])?;
            inflated.fill(target)?;
            return inflated.finish();
        }
        let (file, start) = self.place();
        for (i, piece) in target.chunks_mut(PIECE).enumerate() {
            check_interrupt_sometimes()?;
            file.read(start + (i * PIECE) as u64, piece)?;
        }
        Ok(())
    }

    /// Writes the elements, which the file has in column-major order, in row-major order.
    fn transpose(&self, target: &mut [u8]) -> Result<()> {
        let memory = HostMemory::new(target.len())?;
        // SAFETY: new memory of this size, which nobody else knows.
        let elements = unsafe { std::slice::from_raw_parts_mut(memory.data(), target.len()) };
        self.read(elements)?;
        let Spec { dtype, dims, .. } = &self.spec;
        let plan = Plan::new(dims, &layout::column_major(dims), &layout::row_major(dims));
        // SAFETY: both have the bytes of the spec's elements, which the plan moves one by one.
        unsafe { convert::copy(*dtype, &plan, elements.as_ptr(), target.as_mut_ptr()) }
    }
}

impl Decode for NpyArray {
    fn decode(&self, target: &mut [u8]) -> Result<()> {
        if self.is_transposed() {
            self.transpose(target)?;
        } else {
            self.read(target)?;
        }
        if let Some(width) = self.swapped {
            for piece in target.chunks_mut(PIECE) {
                check_interrupt_sometimes()?;
                piece.chunks_exact_mut(width).for_each(<[u8]>::reverse);
            }
        }
        Ok(())
    }
}

/// Whether the bytes of a member that is not compressed have its checksum, if it has one.
///
/// # Errors
/// `FileChanged`, `Io`, `Interrupted`.
pub(super) fn has_checksum(file: &MappedFile, member: &Member) -> Result<bool> {
    let Some(expected) = member.crc else { return Ok(true) };
    let (mut crc, mut piece, mut done) = (Crc::new(), vec![0; PIECE.min(member.stored as usize)], 0);
    while done < member.stored {
        check_interrupt_sometimes()?;
        let len = (member.stored - done).min(PIECE as u64);
        let piece = &mut piece[..len as usize];
        file.read(member.start + done, piece)?;
        crc.update(piece);
        done += len;
    }
    Ok(crc.sum() == expected)
}

/// A compressed member that is read from its start.
pub(super) struct Inflated<'a> {
    file: &'a MappedFile,
    member: &'a Member,
    content: CrcReader<DeflateDecoder<Take<ArchiveFile<'a>>>>,
}

impl<'a> Inflated<'a> {
    pub(super) fn new(file: &'a MappedFile, member: &'a Member) -> Inflated<'a> {
        let compressed = ArchiveFile { file, position: member.start }.take(member.stored);
        Inflated { file, member, content: CrcReader::new(DeflateDecoder::new(compressed)) }
    }

    /// Fills `target` with the bytes that come next.
    pub(super) fn fill(&mut self, target: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < target.len() {
            let end = target.len().min(filled + PIECE);
            match self.read(&mut target[filled..end])? {
                0 => return Err(self.damaged("its compressed data end too early")),
                done => filled += done,
            }
        }
        Ok(())
    }

    /// Checks that there are no more bytes, and that their checksum is right.
    pub(super) fn finish(mut self) -> Result<()> {
        if self.read(&mut [0])? > 0 {
            return Err(self.damaged("its compressed data are too long"));
        }
        if self.member.crc != Some(self.content.crc().sum()) {
            return Err(self.damaged("its checksum is wrong"));
        }
        Ok(())
    }

    /// Inflates some bytes; returns their number, 0 at the end.
    fn read(&mut self, target: &mut [u8]) -> Result<usize> {
        check_interrupt_sometimes()?;
        let read = self.content.read(target);
        // The file's own errors have this package's type.
        read.map_err(|error| error.downcast().unwrap_or_else(|_| self.damaged("its compressed data are damaged")))
    }

    fn damaged(&self, what: &str) -> Error {
        match self.file.check() {
            // The loader adds the array's name.
            Ok(()) => invalid(self.file.path(), None, what),
            Err(changed) => changed,
        }
    }
}
