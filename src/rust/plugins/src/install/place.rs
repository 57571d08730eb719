//! The folder of an installed plugin, and its atomic creation: `<cache>/<platform>/<folder>/` contains the unpacked
//! files, laid out as in their wheels, and a record of their origin. It is filled under a temporary name and renamed
//! once complete.

use super::watch::{Watch, SLICE};
use super::{Installed, Store};
use fs4::FileExt;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::private_fs::{self, TEMPORARY};
use pjrt_base::reason::Reason;
use pjrt_base::room::rough_size;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The name of the record in a complete folder.
const RECORD: &str = "source.toml";
/// A file with the name of the folder that the user chose instead of the manifest's.
const SELECTED: &str = "selected";
const LOCK: &str = ".lock";
/// How often to recreate the folder for the lock, if other processes remove it.
const TRIES: u32 = 1000;
/// Keeps partial downloads of installations that did not finish.
const DOWNLOADS: &str = ".downloads";

/// The origin of a plugin, as stored in its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub platform: String,
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// How it was found: `index`, `release`, `url` or `file`.
    pub source: String,
    /// Without login, query or fragment.
    pub url: String,
    /// The hash of the file that contained the library.
    pub sha256: String,
    /// The library's path below the folder, separated by `/`.
    pub library: String,
    pub library_bytes: u64,
    /// The total size of all files in the folder.
    pub bytes: u64,
}

/// The folder for one platform's plugins in a cache folder or a site's.
pub(super) struct InstallFolder {
    root: PathBuf,
    /// This folder and those below must not be open to others.
    top: PathBuf,
    keeper: Option<u32>,
}

impl InstallFolder {
    pub fn new(store: Store<'_>, platform: &str) -> Self {
        let keeper = match store {
            Store::Cache(folder) => private_fs::keeper(folder),
            Store::Site { package, .. } => private_fs::owner_of(package),
        };
        InstallFolder { root: store.folder().join(platform), top: store.folder().to_path_buf(), keeper }
    }

    /// The plugin in a folder, if it is complete and nobody else could have changed it.
    pub fn installed(&self, folder: &str) -> Option<Installed> {
        self.found(folder).filter(|(_, reason)| reason.is_none()).map(|(found, _)| found)
    }

    /// The plugins that are not used because they are damaged, or others could have changed them, with the reasons.
    pub fn refused(&self) -> Vec<(Installed, String)> {
        let refused = |name: &String| self.found(name).and_then(|(found, reason)| Some((found, reason?)));
        self.folders().iter().filter_map(refused).collect()
    }

    /// The plugin in a folder, and why it is not used if it is not.
    fn found(&self, folder: &str) -> Option<(Installed, Option<String>)> {
        let record: Record =
            basic_toml::from_str(&fs::read_to_string(self.root.join(folder).join(RECORD)).ok()?).ok()?;
        if !is_below(&record.library) {
            return None;
        }
        let library = self.root.join(folder).join(&record.library);
        let metadata = fs::symlink_metadata(&library).ok();
        let (bytes, wanted) = (metadata.as_ref().map_or(0, fs::Metadata::len), record.library_bytes);
        let reason = match metadata.is_some_and(|found| found.is_file()) && bytes == wanted {
            true => self.objection(&library),
            false => Some(format!("it is damaged: it has {bytes} bytes, but {wanted} were installed")),
        };
        Some((Installed { folder: folder.to_string(), library, record }, reason))
    }

    /// Why others could have changed a file here.
    fn objection(&self, file: &Path) -> Option<String> {
        file.ancestors().take_while(|path| path.starts_with(&self.top)).find_map(|path| objection(path, self.keeper))
    }

    /// The names of the folders that may have plugins.
    fn folders(&self) -> Vec<String> {
        let names = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        // Names with a leading dot are temporary.
        names.filter(|name| !name.starts_with('.')).collect()
    }

    /// All plugins here, the selected one first.
    pub fn all(&self) -> Vec<Installed> {
        let selected = self.selected();
        let mut all: Vec<_> = self.folders().iter().filter_map(|name| self.installed(name)).collect();
        all.sort_by_key(|one| (selected.as_deref() != Some(&one.folder), one.folder.clone()));
        all
    }

    /// The folder that the user chose.
    pub fn selected(&self) -> Option<String> {
        let path = self.root.join(SELECTED);
        let name = fs::read_to_string(&path)
            .ok()
            .filter(|_| is_safe(&path, self.keeper) && is_safe(&self.root, self.keeper))?;
        Some(name.trim().to_string()).filter(|name| is_below(name))
    }

    /// Stores the user's choice; `None` restores the manifest's.
    pub fn select(&self, folder: Option<&str>) -> Result<()> {
        let path = self.root.join(SELECTED);
        let Some(folder) = folder else {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &path, &error)),
                _ => Ok(()),
            };
        };
        let draft = private_fs::temporary(&self.root);
        let mut file = create_file(&draft, false)?;
        let written = private_fs::write_all(&mut file, folder.as_bytes()).and_then(|()| fs::rename(&draft, &path));
        written.map_err(|e| io_error("write", &path, &e))
    }

    /// Waits until no other process installs this platform's plugin, and removes what killed processes left behind. The
    /// lock is released when the returned value is dropped or the process ends. `None` if the file system does not
    /// support locks: then two processes may both download, and the first to finish wins.
    pub fn lock(&self, watch: &mut Watch<'_>) -> Result<Option<File>> {
        let path = self.root.join(LOCK);
        let mut tries = 0..TRIES;
        let file = loop {
            // Another process may have just removed the empty folder.
            let file = match create_folder(&self.root).and_then(|()| open_file(&path)) {
                Err(_) if tries.next().is_some() => {
                    std::thread::yield_now();
                    continue;
                }
                file => file?,
            };
            match FileExt::try_lock(&file) {
                Ok(()) if is_at(&file, &path) => break file,
                // Its last holder removed it.
                Ok(()) => {}
                Err(fs4::TryLockError::WouldBlock) => watch.pause(SLICE)?,
                Err(fs4::TryLockError::Error(_)) => return Ok(None),
            }
        };
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                let _ = remove(&entry.path());
            }
        }
        Ok(Some(file))
    }

    /// The folder for downloads. If the installation fails, it is kept so that the next one can resume.
    pub fn downloads(&self) -> Result<PathBuf> {
        let path = self.root.join(DOWNLOADS);
        create_folder(&path)?;
        Ok(path)
    }

    pub fn drop_downloads(&self) {
        // The next installation, or uninstall(), removes what remains.
        let _ = fs::remove_dir_all(self.root.join(DOWNLOADS));
    }

    /// Checks that plugins installed here can be used.
    ///
    /// # Errors
    /// `Io` if others can write here, which cannot be prevented on some file systems, or if another user owns it.
    pub fn check_owner(&self) -> Result<()> {
        let Some(objection) = self.objection(&self.root) else { return Ok(()) };
        let message = format!("Plugins in \"{}\" would not be used: {objection}.", self.root.display());
        Err(Error::new(Kind::Io, message).hint(OWN_FOLDER_HINT))
    }

    /// Checks that there is space for `needed` more bytes.
    ///
    /// # Errors
    /// `Io` if there is not.
    pub fn check_room(&self, needed: u64) -> Result<()> {
        // If the file system does not report its free space, writing fails when it is full.
        let Ok(free) = fs4::available_space(&self.root) else { return Ok(()) };
        if free >= needed {
            return Ok(());
        }
        let message = format!(
            "The installation of the plugin needs {} in \"{}\", where only {} are free.",
            rough_size(needed as f64),
            self.root.display(),
            rough_size(free as f64)
        );
        Err(Error::new(Kind::Io, message).hint(Reason::DiskFull))
    }

    /// Removes all of this platform's plugins, or one version or variant (such as "cuda12"), and returns their folders and
    /// sizes in bytes. Leaves everything that was not installed.
    pub fn remove(
        &self,
        version: Option<&str>,
        variant: Option<&str>,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<(PathBuf, u64)>> {
        if !self.root.is_dir() {
            return Ok(Vec::new());
        }
        let lock = self.lock(watch)?;
        let mut gone = Vec::new();
        let names = fs::read_dir(&self.root).map_err(|e| io_error("read", &self.root, &e))?;
        for entry in names.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_plugin = !name.starts_with('.') && entry.path().join(RECORD).is_file();
            let wanted =
                version.is_none_or(|version| self.installed(&name).is_some_and(|one| one.record.version == version));
            let is_variant = variant.is_none_or(|variant| name.contains(&format!("-{variant}-")));
            if is_plugin && wanted && is_variant {
                // Rename it first, so that nobody finds a partial plugin. Processes that have loaded it are not
                // affected.
                let (old, bytes) = (private_fs::temporary(&self.root), bytes_in(&entry.path()));
                fs::rename(entry.path(), &old).map_err(|e| io_error("remove", &entry.path(), &e))?;
                remove(&old).map_err(|e| io_error("remove", &entry.path(), &e))?;
                if self.selected().as_deref() == Some(&name) {
                    self.select(None)?;
                }
                gone.push((entry.path(), bytes));
            }
        }
        if version.is_none() && variant.is_none() {
            self.drop_downloads();
            self.select(None)?;
        }
        self.leave_if_empty();
        drop(lock);
        Ok(gone)
    }

    /// A new empty folder to work in, beside the final one.
    pub fn workspace(&self) -> Result<Workspace<'_>> {
        let path = private_fs::temporary(&self.root);
        create_folder(&path)?;
        Ok(Workspace { place: self, path })
    }

    /// Removes the folder if it is empty: only a failed attempt created it. The caller must hold the lock.
    pub fn leave_if_empty(&self) {
        let _ = fs::remove_dir(self.root.join(DOWNLOADS));
        let names = fs::read_dir(&self.root).into_iter().flatten().flatten();
        if cfg!(unix) && names.map(|entry| entry.file_name()).all(|name| name == LOCK) {
            let _ = fs::remove_file(self.root.join(LOCK));
            let _ = fs::remove_dir(&self.root);
        }
    }
}

/// A folder under construction. It is deleted unless it is published.
pub(super) struct Workspace<'a> {
    place: &'a InstallFolder,
    pub path: PathBuf,
}

impl Workspace<'_> {
    /// Writes the record and gives the folder its final name. If another process was faster, uses its plugin unless
    /// `replace` is set.
    pub fn publish(self, folder: &str, record: &Record, replace: bool) -> Result<Installed> {
        self.write(record)?;
        let path = self.place.root.join(folder);
        let mut tries = 0;
        while let Err(error) = fs::rename(&self.path, &path) {
            if let Some(installed) = self.place.installed(folder).filter(|_| !replace) {
                return Ok(installed);
            }
            tries += 1;
            ensure!(tries <= 3 && path.exists(), io_error("create", &path, &error));
            // Processes that have the old library open keep it: only its name disappears.
            let old = private_fs::temporary(&self.place.root);
            if fs::rename(&path, &old).is_ok() {
                let _ = remove(&old);
            }
        }
        sync_folder(&self.place.root);
        self.place.installed(folder).ok_or_else(|| {
            Error::new(Kind::Io, format!("The files in \"{}\" changed while they were installed.", path.display()))
                .hint(OWN_FOLDER_HINT)
        })
    }

    fn write(&self, record: &Record) -> Result<()> {
        let text = basic_toml::to_string(record)
            .map_err(|e| Error::new(Kind::Internal, format!("Cannot write a record: {e}.")))?;
        let path = self.path.join(RECORD);
        let mut file = create_file(&path, false)?;
        let header = "# Where this plugin comes from. Written by pjrt when it was complete.\n";
        let written = private_fs::write_all(&mut file, format!("{header}{text}").as_bytes());
        written.and_then(|()| file.sync_all()).map_err(|e| io_error("write", &path, &e))?;
        sync_folder(&self.path);
        Ok(())
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        // After a rename, nothing is left to remove.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Whether an open file is still the one at `path`.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |found: io::Result<fs::Metadata>| found.ok().map(|m| (m.dev(), m.ino()));
    let ours = id(file.metadata());
    ours.is_some() && ours == id(fs::symlink_metadata(path))
}

/// On this system, lock files are never removed.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Whether a path in a record or an archive stays below its starting folder.
pub(super) fn is_below(path: &str) -> bool {
    let is_name = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', ':', '\0']);
    path.split('/').all(is_name)
}

/// Whether this user, the system or the keeper owns a file or folder, and nobody else can write to it.
fn is_safe(path: &Path, keeper: Option<u32>) -> bool {
    objection(path, keeper).is_none()
}

/// Why a file or folder is not safe.
fn objection(path: &Path, keeper: Option<u32>) -> Option<String> {
    let found = |metadata: io::Result<fs::Metadata>| metadata.map_err(|e| format!("'{}': {e}", path.display()));
    let (link, target) = match (found(fs::symlink_metadata(path)), found(fs::metadata(path))) {
        (Ok(link), Ok(target)) => (link, target),
        (Err(error), _) | (_, Err(error)) => return Some(error),
    };
    // The mode of a link itself has no meaning.
    let of_link = (!private_fs::is_owned(&link, keeper)).then(|| private_fs::objection(path, &link, keeper)).flatten();
    of_link.or_else(|| private_fs::objection(path, &target, keeper))
}

/// The size of all files in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let of_entry = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_in(&entry.path()),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    };
    fs::read_dir(folder).into_iter().flatten().flatten().map(of_entry).sum()
}

/// Creates a folder and its parents. Others can read but not write to it.
pub(super) fn create_folder(path: &Path) -> Result<()> {
    private_fs::create_folder(path).map_err(|e| io_error("create", path, &e))?;
    if !is_safe(path, None) {
        // It existed before, or has inherited permissions. If it is not ours, this fails, and the check of the
        // installed files reports it.
        let _ = private_fs::close_folder(path);
    }
    Ok(())
}

/// Creates a file, or an executable one. Others can read but not write to it.
pub(super) fn create_file(path: &Path, runs: bool) -> Result<File> {
    private_fs::create_file(path, runs).map_err(|e| io_error("create", path, &e))
}

/// Opens a file for reading and writing. Creates it if it does not exist.
pub(super) fn open_file(path: &Path) -> Result<File> {
    private_fs::open_file(path).map_err(|e| io_error("open", path, &e))
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// Syncs a folder's entries to disk, if the file system can. Nothing depends on it.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(path) {
        let _ = folder.sync_all();
    }
}

const OWN_FOLDER_HINT: &str = "Set PJRT_CACHE_DIR to a folder of your own that nobody else can write to.";

/// An error of the file system at `path`, with a hint about what to do.
#[cold]
pub(super) fn io_error(verb: &str, path: &Path, error: &io::Error) -> Error {
    let made = Error::new(Kind::Io, format!("Cannot {verb} \"{}\": {error}.", path.display()));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => made.hint(Reason::DiskFull),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            made.hint("Make the folder writable, or set PJRT_CACHE_DIR to another one.")
        }
        _ => made,
    }
}
