//! The list of the arrays in an archive. Reads the archive's own directory, and no data.

use super::{invalid, Member};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::mmap::MappedFile;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// The first bytes of an archive with members, and of one without.
const MAGIC: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// The extension of arrays; an archive's other members are not arrays.
const EXTENSION: &str = ".npy";

/// A byte of compressed data stands for this many at most.
const MOST_INFLATED: u64 = 1032;

/// The arrays of an archive, and the names of its other members; `None` if the file is not one.
///
/// # Errors
/// `NpyInvalid`, `UnsupportedDtype` for compression that NumPy does not use; `Io`.
pub(super) fn members(file: &Arc<MappedFile>) -> Result<Option<(Vec<Member>, Vec<String>)>> {
    let mut magic = [0; 4];
    if file.len() < magic.len() as u64 {
        return Ok(None);
    }
    file.read(0, &mut magic)?;
    if !MAGIC.contains(&&magic[..]) {
        return Ok(None);
    }
    let broken = |error: ZipError| damaged(file, &error);
    let mut archive = ZipArchive::new(BufReader::new(ArchiveFile { file, position: 0 })).map_err(broken)?;
    let (mut members, mut others) = (Vec::new(), Vec::new());
    for i in 0..archive.len() {
        let found = archive.by_index_raw(i).map_err(broken)?;
        let has_nul = found.name().contains('\0');
        ensure!(!has_nul, invalid(file.path(), None, "the name of an array has a NUL character"));
        let Some(name) = found.name().strip_suffix(EXTENSION) else {
            others.push(found.name().to_owned());
            continue;
        };
        let wrong = |what: &str| invalid(file.path(), Some(name), what);
        ensure!(!found.encrypted(), wrong("it is encrypted"));
        let (start, stored, len) = (found.data_start(), found.compressed_size(), found.size());
        if start.checked_add(stored).is_none_or(|end| end > file.len()) {
            return Err(wrong("it does not lie within the file: the file is truncated"));
        }
        let is_deflated = match found.compression() {
            CompressionMethod::Stored if stored == len => false,
            CompressionMethod::Stored => return Err(wrong("its two sizes differ")),
            CompressionMethod::Deflated => {
                if len > stored.saturating_mul(MOST_INFLATED).saturating_add(MOST_INFLATED) {
                    return Err(wrong(&format!("it claims to have {len} bytes, too many for its compressed size")));
                }
                true
            }
            other => return Err(wrong(&format!("it is compressed by a method that NumPy does not use: {other}"))),
        };
        let crc = Some(found.crc32());
        members.push(Member { name: name.to_owned(), start, stored, is_deflated, len, crc });
    }
    Ok(Some((members, others)))
}

fn damaged(file: &MappedFile, error: &ZipError) -> Error {
    match error {
        // The reader's own errors are of the archive, too, unless the file itself cannot be read.
        ZipError::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Error>()) => {
            Error::new(Kind::Io, format!("{error}"))
        }
        error => invalid(file.path(), None, &format!("its directory is damaged: {error}")),
    }
}

/// A file as the archive's reader takes it.
pub(super) struct ArchiveFile<'a> {
    pub(super) file: &'a MappedFile,
    pub(super) position: u64,
}

impl Read for ArchiveFile<'_> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let left = self.file.len().saturating_sub(self.position);
        let len = target.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.file.read(self.position, &mut target[..len])?;
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for ArchiveFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.file.len().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
