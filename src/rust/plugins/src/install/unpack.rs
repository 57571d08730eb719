//! Extracts files from a wheel, another zip archive, or a compressed tar archive. Never writes outside the given
//! folder: paths that lead out of it are refused, links are skipped, and number and size of files are limited.

use super::place::{create_file, create_folder, io_error, is_below};
use super::watch::Watch;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::private_fs::write_all;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use zip::result::ZipError;

/// The limits for any archive.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one file.
    pub file: u64,
    /// Bytes of all files.
    pub all: u64,
    pub files: usize,
}

pub(super) const LIMITS: Limits = Limits { file: 4 << 30, all: 16 << 30, files: 100_000 };
const BLOCK: usize = 256 << 10;

/// Extracts files of the archive `from` to the folder `to`: those in `members` or, if that is empty, all that a plugin
/// needs at run time. Treats a file that is not an archive as a library called `name`. Waits until all data are on
/// disk. Returns the number of bytes written.
///
/// # Errors
/// `PluginInvalid` if the archive is broken, unsafe, or lacks one of `members`; `Io` if `to` cannot be written.
pub(super) fn unpack(
    limits: Limits,
    from: &Path,
    name: &str,
    members: &[String],
    to: &Path,
    watch: &mut Watch<'_>,
) -> Result<u64> {
    let mut file = File::open(from).map_err(|e| io_error("read", from, &e))?;
    let mut magic = [0; 4];
    // A smaller file is not an archive.
    let _ = file.read(&mut magic);
    file.rewind().map_err(|e| io_error("read", from, &e))?;
    let mut target = Destination { limits, to, name, written: 0, files: 0, watch };
    match magic {
        [b'P', b'K', ..] => from_zip(file, members, &mut target)?,
        [0x1f, 0x8b, ..] => from_tar(file, &mut target)?,
        _ if is_below(name) => target.write(name, file, false)?,
        _ => return Err(broken(name, &"its name cannot be used")),
    }
    Ok(target.written)
}

fn from_zip(file: File, members: &[String], target: &mut Destination<'_, '_>) -> Result<()> {
    let name = target.name;
    let mut archive = zip::ZipArchive::new(BufReader::with_capacity(BLOCK, file)).map_err(|e| broken(name, &e))?;
    if !members.is_empty() {
        for member in members {
            let source = archive.by_name(member).map_err(|e| match e {
                ZipError::FileNotFound => broken(name, &format!("it does not contain \"{member}\"")),
                other => broken(name, &other),
            })?;
            let runs = can_run(source.unix_mode());
            target.write(member, source, runs)?;
        }
        return Ok(());
    }
    for index in 0..archive.len() {
        let source = archive.by_index(index).map_err(|e| broken(name, &e))?;
        let member = source.name().to_string();
        if source.is_file() && !source.is_symlink() && wanted(&member) {
            let runs = can_run(source.unix_mode());
            target.write(&member, source, runs)?;
        }
    }
    Ok(())
}

fn from_tar(file: File, target: &mut Destination<'_, '_>) -> Result<()> {
    let name = target.name;
    let left = Cell::new(0);
    let unpacked = flate2::read::GzDecoder::new(BufReader::with_capacity(BLOCK, file));
    let mut archive = tar::Archive::new(Rationed { from: unpacked, left: &left });
    let mut entries = archive.entries().map_err(|e| broken(name, &e))?;
    loop {
        // Names may have any length, and are read at once.
        left.set(MAX_HEADERS);
        let Some(entry) = entries.next() else { return Ok(()) };
        let entry = entry.map_err(|e| broken(name, &e))?;
        left.set(u64::MAX);
        let path = entry.path().map_err(|e| broken(name, &e))?;
        let member = path.to_string_lossy().trim_start_matches("./").to_string();
        if entry.header().entry_type().is_file() && wanted(&member) {
            let runs = can_run(entry.header().mode().ok());
            target.write(&member, entry, runs)?;
        } else {
            target.copy(&member, entry, |_| Ok(()))?;
        }
    }
}

/// The most bytes of a tar archive between the contents of two files.
const MAX_HEADERS: u64 = 1 << 20;

/// A reader that returns at most the bytes that are left.
struct Rationed<'a, R> {
    from: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for Rationed<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        ensure!(self.left.get() > 0, io::Error::other("a name in it is too long"));
        let most = to.len().min(usize::try_from(self.left.get()).unwrap_or(usize::MAX));
        let n = self.from.read(&mut to[..most])?;
        self.left.set(self.left.get() - n as u64);
        Ok(n)
    }
}

fn can_run(mode: Option<u32>) -> bool {
    mode.is_some_and(|mode| mode & 0o111 != 0)
}

/// Whether a plugin needs a file at run time, unlike files for Python, compilers and linkers.
fn wanted(member: &str) -> bool {
    let of_no_use = [".py", ".pyi", ".pyc", ".h", ".hpp", ".hh", ".cuh", ".inl", ".a", ".lib", ".cmake", ".pc"];
    let folder = |part: &str| part == "include" || part.ends_with(".dist-info");
    !of_no_use.iter().any(|end| member.ends_with(end)) && !member.split('/').rev().skip(1).any(folder)
}

/// The target folder, and what was written to it.
struct Destination<'a, 'b> {
    limits: Limits,
    to: &'a Path,
    /// The archive's name, for messages.
    name: &'a str,
    written: u64,
    files: usize,
    watch: &'a mut Watch<'b>,
}

impl Destination<'_, '_> {
    /// Writes one file.
    fn write(&mut self, member: &str, from: impl Read, runs: bool) -> Result<()> {
        let outside = || broken(self.name, &format!("it contains \"{member}\", which is outside its folder"));
        ensure!(is_below(member), outside());
        self.files += 1;
        let most = self.limits.files;
        ensure!(self.files <= most, broken(self.name, &format!("it contains more than {most} files")));
        let path = self.to.join(member);
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        let mut file = create_file(&path, runs)?;
        self.written +=
            self.copy(member, from, |block| write_all(&mut file, block).map_err(|e| io_error("write", &path, &e)))?;
        file.sync_all().map_err(|e| io_error("write", &path, &e))
    }

    /// Passes one file's bytes on, and returns their number.
    fn copy(&mut self, member: &str, mut from: impl Read, mut to: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let mut block = vec![0; BLOCK];
        let mut length = 0;
        loop {
            self.watch.tick()?;
            let n = from.read(&mut block).map_err(|e| broken(self.name, &format!("at \"{member}\": {e}")))?;
            if n == 0 {
                return Ok(length);
            }
            length += n as u64;
            let fits = length <= self.limits.file && self.written + length <= self.limits.all;
            ensure!(fits, broken(self.name, &format!("\"{member}\" is larger than any library")));
            to(&block[..n])?;
        }
    }
}

fn broken(archive: &str, reason: &dyn std::fmt::Display) -> Error {
    Error::new(Kind::PluginInvalid, format!("\"{archive}\" cannot be unpacked: {reason}."))
        .hint("Nothing was installed.")
}
