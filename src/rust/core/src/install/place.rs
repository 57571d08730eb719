//! Where an installed plugin lies, and how it gets there in one step: `<cache>/<platform>/<version>-<arch>/` with the
//! library and a record of its origin. The folder is filled under another name and renamed when it is complete.

use super::watch::{Watch, SLICE};
use super::Wheel;
use crate::error::{Error, Kind, Result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Name of the record in a complete folder.
const RECORD: &str = "source.toml";
/// What the names of unfinished and discarded folders start with.
const TEMPORARY: &str = ".tmp-";

/// The place of one wheel's plugin in a cache folder.
pub(super) struct Place<'a> {
    wheel: &'a Wheel,
    /// Holds all versions for the platform.
    root: PathBuf,
    folder: PathBuf,
}

impl<'a> Place<'a> {
    pub fn new(cache_dir: &Path, wheel: &'a Wheel) -> Self {
        let root = cache_dir.join(wheel.platform);
        let folder = root.join(format!("{}-{}", wheel.version, wheel.arch));
        Place { wheel, root, folder }
    }

    /// The library, if it is complete and comes from this very wheel.
    pub fn library(&self) -> Option<PathBuf> {
        let record = fs::read_to_string(self.folder.join(RECORD)).ok()?;
        let value = |key: &str| {
            record.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).map(|v| v.trim_matches('"'))
        };
        let library = self.folder.join(self.wheel.library());
        let bytes = fs::metadata(&library).ok().filter(fs::Metadata::is_file)?.len();
        let complete = value("sha256") == Some(self.wheel.sha256)
            && value("library_bytes").and_then(|v| v.parse().ok()) == Some(bytes);
        complete.then_some(library)
    }

    /// Waits until no other process installs this platform's plugin. The lock is on the folder itself, and ends with
    /// the value returned or with the process. `None` where the file system cannot lock: then two processes may
    /// both download, and the first to finish wins.
    pub fn lock(&self, watch: &mut Watch<'_>) -> Result<Option<File>> {
        create_folder(&self.root)?;
        #[cfg(unix)]
        if let Ok(folder) = File::open(&self.root) {
            while let Some(locked) = try_lock(&folder) {
                if locked {
                    self.clean();
                    return Ok(Some(folder));
                }
                watch.pause(SLICE)?;
            }
        }
        Ok(None)
    }

    /// Removes what a process that was killed left behind. Only for the holder of the lock.
    fn clean(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// A new empty folder to build in, beside the final one.
    pub fn workspace(&self) -> Result<Workspace<'_>> {
        let path = self.temporary();
        create_folder(&path)?;
        Ok(Workspace { place: self, path })
    }

    fn temporary(&self) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let time = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        self.root.join(format!("{TEMPORARY}{}-{count}-{time}", std::process::id()))
    }
}

/// A folder under construction. It disappears unless it is published.
pub(super) struct Workspace<'a> {
    place: &'a Place<'a>,
    path: PathBuf,
}

impl Workspace<'_> {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the record and puts the folder in its final place. If another process was faster, its library is used,
    /// unless `replace`.
    pub fn publish(self, library_bytes: u64, url: &str, replace: bool) -> Result<PathBuf> {
        self.record(library_bytes, url)?;
        let folder = &self.place.folder;
        let mut tries = 0;
        while let Err(error) = fs::rename(&self.path, folder) {
            if let Some(library) = self.place.library().filter(|_| !replace) {
                return Ok(library);
            }
            tries += 1;
            if tries > 3 || !folder.exists() {
                return Err(io_error("create", folder, &error));
            }
            // Processes that have the old library open keep it: only its name goes.
            let old = self.place.temporary();
            if fs::rename(folder, &old).is_ok() {
                let _ = fs::remove_dir_all(&old);
            }
        }
        sync_folder(&self.place.root);
        Ok(folder.join(self.place.wheel.library()))
    }

    fn record(&self, library_bytes: u64, url: &str) -> Result<()> {
        let wheel = self.place.wheel;
        let text = format!(
            "# Where this plugin comes from. Written by pjrt when it was complete.\nwheel = {:?}\nversion = {:?}\n\
             sha256 = {:?}\nurl = {url:?}\nlibrary = {:?}\nlibrary_bytes = {library_bytes}\n",
            wheel.file,
            wheel.version,
            wheel.sha256,
            wheel.library(),
        );
        let path = self.path.join(RECORD);
        let mut file = create_file(&path)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|e| io_error("write", &path, &e))?;
        sync_folder(&self.path);
        Ok(())
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing here any more. Folders that only this attempt made go, too: they are empty.
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_dir(&self.place.root);
    }
}

/// Whether the lock was taken; `None` if this file system has none.
#[cfg(unix)]
fn try_lock(folder: &File) -> Option<bool> {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open for as long as `folder` lives, and flock() touches no memory of ours.
    if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Some(true);
    }
    match io::Error::last_os_error().kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Some(false),
        _ => None,
    }
}

/// Makes a folder and those above it, which others may read but not write.
fn create_folder(path: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder.create(path).map_err(|e| io_error("create", path, &e))
}

/// Makes a new file, which others may read but not write.
pub(super) fn create_file(path: &Path) -> Result<File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
    options.open(path).map_err(|e| io_error("create", path, &e))
}

pub(super) fn remove_file(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|e| io_error("remove", path, &e))
}

/// Asks for a folder's entries to be on disk. Not all file systems can, and nothing depends on it.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(path) {
        let _ = folder.sync_all();
    }
}

/// An error of the file system at `path`, with what to do about it.
#[cold]
pub(super) fn io_error(verb: &str, path: &Path, error: &io::Error) -> Error {
    let made = Error::new(Kind::Io, format!("Cannot {verb} \"{}\": {error}.", path.display()));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => made.hint(
            "Free some space there (a plugin needs about 400 MB while it is installed), or use another cache folder.",
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            made.hint("Make the folder writable, or use another cache folder.")
        }
        _ => made,
    }
}
