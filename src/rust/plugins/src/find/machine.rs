//! Access to the machine: variables, folders and small files. Tests use fake machines.

use pjrt_base::private_fs;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The most entries of a folder to read.
const MOST_ENTRIES: usize = 50_000;
/// The most bytes of a text file to read.
const MOST_BYTES: u64 = 1 << 20;

pub(super) struct Machine {
    pub variables: HashMap<OsString, OsString>,
    /// The root of the system's folders.
    pub root: PathBuf,
    /// The working folder.
    pub folder: PathBuf,
}

impl Machine {
    /// The machine that runs this code.
    pub fn this() -> Self {
        Machine {
            variables: std::env::vars_os().collect(),
            root: PathBuf::from("/"),
            folder: std::env::current_dir().unwrap_or_default(),
        }
    }

    /// An environment variable; `None` if it is unset or empty.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    pub fn home(&self) -> Option<PathBuf> {
        let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The path, with `~` replaced by the user's home; `None` if it is relative, since it would depend on the working
    /// folder.
    pub fn absolute(&self, path: &Path) -> Option<PathBuf> {
        let path = match path.strip_prefix("~") {
            Ok(rest) => self.home()?.join(rest),
            Err(_) => path.to_path_buf(),
        };
        path.is_absolute().then_some(path)
    }

    /// The path in a variable, in the form of [`Machine::absolute`].
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.absolute(Path::new(self.variable(name)?))
    }

    /// The paths that a variable lists, unchanged.
    pub fn paths(&self, name: &str) -> Vec<PathBuf> {
        let listed = self.variable(name).map(std::env::split_paths).into_iter().flatten();
        listed.filter(|path| !path.as_os_str().is_empty()).collect()
    }
}

/// The names in a folder; empty if it is not readable.
pub(crate) fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MOST_ENTRIES).flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The beginning of a text file, or all of it; `None` if it is not readable.
pub(super) fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    private_fs::open_regular(path, true).ok()?.0.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last part of a path; empty if it is not valid text.
pub(crate) fn name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// The numbers in a name or a version, for sorting: 3.10 comes after 3.9.
pub(crate) fn numbers(text: &str) -> Vec<u64> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    digits.map(|part| part.parse().unwrap_or(u64::MAX)).collect()
}
