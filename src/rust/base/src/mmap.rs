//! Files that are read in place: mapped into memory, never written to, and checked for changes by other processes.

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod list;
mod sigbus;
mod signal_stacks;

use crate::error::{Error, Kind, Result};
use crate::private_fs;
use crate::room;
use memmap2::Mmap;
use once_cell::sync::OnceCell;
use sigbus::Guard;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::SystemTime;

pub use signal_stacks::SignalStacks;

/// A file that is open for reading. It is mapped as a whole when its memory is first needed.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    file: File,
    state: FileStamp,
    mapped: OnceCell<Mapped>,
}

/// The number of files that are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

impl Drop for MappedFile {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether another file may stay open for long: half of the files that the system allows this process are left to
/// others.
pub fn has_room_for_files() -> bool {
    OPEN.load(Ordering::Relaxed) < limit_of_files() / 2
}

#[cfg(unix)]
fn limit_of_files() -> usize {
    crate::process::limit_of!(RLIMIT_NOFILE).map_or(0, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
fn limit_of_files() -> usize {
    // The system's limit is far higher.
    8192
}

/// The attributes that show a change of the file: size, and time of modification.
type FileStamp = (u64, Option<SystemTime>);

fn stamp(metadata: &Metadata) -> FileStamp {
    (metadata.len(), metadata.modified().ok())
}

/// Guarded up to the end of the mapping: the fields are dropped in this order.
#[derive(Debug)]
struct Mapped {
    guard: Guard,
    memory: Mmap,
}

impl MappedFile {
    /// Opens a file.
    ///
    /// # Errors
    /// `Io` if the system refuses, or if the path is not a file.
    pub fn open(path: &Path) -> Result<Arc<MappedFile>> {
        let (file, metadata) = open(path)?;
        OPEN.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(MappedFile { path: path.into(), file, state: stamp(&metadata), mapped: OnceCell::new() }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the file in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.state.0
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file's memory, page-aligned. Trust what you read only after a later [`MappedFile::check`] has passed: if the
    /// file has shrunk, the missing part reads as zeros.
    ///
    /// # Errors
    /// `Io` if the system cannot map the file, `FileChanged` if it has shrunk already.
    pub fn memory(&self) -> Result<&[u8]> {
        let mapped = self.mapped.get_or_try_init(|| {
            self.check()?;
            // SAFETY: others can change the file, which is why nothing relies on what is read before it was checked;
            // where it ends early, the guard puts other memory.
            let memory = unsafe { Mmap::map(&self.file) }.map_err(|error| unreadable(&self.path, &error))?;
            Ok(Mapped { guard: Guard::new(&memory), memory })
        });
        mapped.map(|mapped| &*mapped.memory)
    }

    /// Fills `out` from byte `offset` of the file, without mapping it.
    ///
    /// # Errors
    /// `Io` if the system refuses, `FileChanged` if the file ends too early.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, offset, out).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(&self.path),
            _ => unreadable(&self.path, &error),
        })
    }

    /// Checks that the size and the modification time of the file are still those at its opening.
    ///
    /// # Errors
    /// `FileChanged`; `Io` if the system cannot tell.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.mapped.get().is_some_and(|mapped| mapped.guard.is_damaged()), changed(&self.path));
        let metadata = self.file.metadata().map_err(|error| unreadable(&self.path, &error))?;
        ensure!(stamp(&metadata) == self.state, changed(&self.path));
        Ok(())
    }
}

/// The content of a file. Pipes and devices are refused, since they may never end.
///
/// # Errors
/// `Io` if the system refuses, or if the path is not a file; the code of `RESOURCE_EXHAUSTED` without enough memory.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let (mut file, metadata) = open(path)?;
    room::check_room(metadata.len() as usize, &format!("to read '{}'", path.display()))?;
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(|error| unreadable(path, &error))?;
    Ok(content)
}

fn open(path: &Path) -> Result<(File, Metadata)> {
    private_fs::open_regular(path, true).map_err(|error| unreadable(path, &error))
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                out = &mut out[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

#[cold]
fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::new(Kind::Io, format!("Cannot read '{}': {error}.", path.display()))
}

#[cold]
fn changed(path: &Path) -> Error {
    let message = format!("'{}' was changed after it was opened: data read from it are lost.", path.display());
    Error::new(Kind::FileChanged, message)
        .hint("Load it again. To replace a file in use, write a new file and rename it.")
}
