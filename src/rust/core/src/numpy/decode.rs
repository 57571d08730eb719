//! Arrays that cannot be used in place in a file: compressed, column-major, or big-endian.

use super::{invalid, Member};
use crate::stored::{column_major, Decode};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use pjrt_base::error::{Error, Result};
use pjrt_base::mmap::MappedFile;
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_data::array::Spec;
use pjrt_data::npy::NpyHeader;
use std::sync::Arc;

/// Bytes to work on between checks for interrupts.
const PIECE: usize = 1 << 20;

/// How an array's elements are brought into order.
#[derive(Debug)]
pub(super) struct Decoder {
    file: Arc<MappedFile>,
    member: Member,
    /// The size of the header, which comes first.
    header: usize,
    spec: Spec,
    is_column_major: bool,
    /// The bytes of numbers whose order is reversed.
    swapped: Option<usize>,
}

impl Decoder {
    /// `None` for an array that can be used as it is.
    pub(super) fn new(
        file: Arc<MappedFile>,
        member: &Member,
        header_size: usize,
        header: &NpyHeader,
        spec: &Spec,
    ) -> Option<Decoder> {
        let is_column_major = header.is_column_major && column_major::is_needed(spec);
        if !member.is_deflated && !is_column_major && header.swapped.is_none() {
            return None;
        }
        let (member, spec, swapped) = (member.clone(), spec.clone(), header.swapped);
        Some(Decoder { file, member, header: header_size, spec, is_column_major, swapped })
    }

    /// Whether the elements are as in memory, but for their order.
    pub(super) fn only_transposes(&self) -> bool {
        !self.member.is_deflated && self.swapped.is_none()
    }

    /// Writes the elements in the file's order.
    fn read(&self, target: &mut [u8]) -> Result<()> {
        if self.member.is_deflated {
            let mut inflated = Inflated::new(&self.file, &self.member);
            inflated.fill(&mut vec![0; self.header])?;
            inflated.fill(target)?;
            return inflated.finish();
        }
        column_major::read(&self.file, self.member.start + self.header as u64, target)
    }

    /// Writes the elements in row-major order.
    fn read_in_order(&self, target: &mut [u8]) -> Result<()> {
        if self.is_column_major {
            column_major::transpose(&self.spec, target, |elements| self.read(elements))
        } else {
            self.read(target)
        }
    }
}

impl Decode for Decoder {
    fn decode(&self, target: &mut [u8]) -> Result<()> {
        self.read_in_order(target)?;
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
    state: Decompress,
    crc: Crc,
    /// Compressed bytes that have been read from the file; those before `used` are done.
    input: Vec<u8>,
    used: usize,
    /// The number of compressed bytes read so far.
    read: u64,
    is_at_end: bool,
}

impl<'a> Inflated<'a> {
    pub(super) fn new(file: &'a MappedFile, member: &'a Member) -> Inflated<'a> {
        let state = Decompress::new(false);
        Inflated { file, member, state, crc: Crc::new(), input: Vec::new(), used: 0, read: 0, is_at_end: false }
    }

    /// Fills `target` with the bytes that come next.
    pub(super) fn fill(&mut self, target: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < target.len() {
            let end = target.len().min(filled + PIECE);
            let done = self.step(&mut target[filled..end])?;
            if done == 0 && self.is_at_end {
                return Err(self.damaged("its compressed data end too early"));
            }
            self.crc.update(&target[filled..filled + done]);
            filled += done;
        }
        Ok(())
    }

    /// Checks that there are no more bytes, and that their checksum is right.
    pub(super) fn finish(mut self) -> Result<()> {
        while !self.is_at_end {
            if self.step(&mut [0])? > 0 {
                return Err(self.damaged("its compressed data are too long"));
            }
        }
        if self.member.crc != Some(self.crc.sum()) {
            return Err(self.damaged("its checksum is wrong"));
        }
        Ok(())
    }

    /// Inflates some bytes; returns their number.
    fn step(&mut self, target: &mut [u8]) -> Result<usize> {
        check_interrupt_sometimes()?;
        if self.used == self.input.len() {
            const ENOUGH: u64 = 64 << 10;
            let len = ENOUGH.min(self.member.stored - self.read);
            self.input.resize(len as usize, 0);
            self.file.read(self.member.start + self.read, &mut self.input)?;
            self.read += len;
            self.used = 0;
        }
        let (before_in, before_out) = (self.state.total_in(), self.state.total_out());
        let input = &self.input[self.used..];
        let is_last = self.read == self.member.stored;
        let status = self.state.decompress(input, target, FlushDecompress::None);
        let used = (self.state.total_in() - before_in) as usize;
        let done = (self.state.total_out() - before_out) as usize;
        self.used += used;
        match status {
            Ok(Status::StreamEnd) => self.is_at_end = true,
            // Without progress and without more input, there is no more to come.
            Ok(_) if used == 0 && done == 0 && is_last => self.is_at_end = true,
            Ok(_) => {}
            Err(_) => return Err(self.damaged("its compressed data are damaged")),
        }
        Ok(done)
    }

    #[cold]
    fn damaged(&self, what: &str) -> Error {
        match self.file.check() {
            // The loader adds the array's name.
            Ok(()) => invalid(self.file.path(), None, what),
            Err(changed) => changed,
        }
    }
}
