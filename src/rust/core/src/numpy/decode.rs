//! Arrays that cannot be used in place in a file: compressed, column-major, or big-endian.

use super::archive::ArchiveFile;
use super::{invalid, Member};
use crate::stored::{column_major, Decode};
use flate2::read::DeflateDecoder;
use flate2::{Crc, CrcReader};
use pjrt_base::error::{Error, Result};
use pjrt_base::mmap::MappedFile;
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_data::array::Spec;
use std::io::{Read, Take};
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
        header: usize,
        spec: &Spec,
        is_column_major: bool,
        swapped: Option<usize>,
    ) -> Option<Decoder> {
        let is_column_major = is_column_major && column_major::is_needed(spec);
        if !member.is_deflated && !is_column_major && swapped.is_none() {
            return None;
        }
        Some(Decoder { file, member: member.clone(), header, spec: spec.clone(), is_column_major, swapped })
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
        // The file's own errors are those of this package.
        read.map_err(|error| error.downcast().unwrap_or_else(|_| self.damaged("its compressed data are damaged")))
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
