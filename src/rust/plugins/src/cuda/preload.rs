//! Loads NVIDIA's libraries before the plugin opens them by name, so that it uses exactly these.

use super::libraries::{LibrarySearch, Wanted};
use crate::find::machine::{list, name};
use crate::library;
use std::path::{Path, PathBuf};

/// The place of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LibraryOrigin {
    /// It is already loaded in this process.
    Loaded,
    File(PathBuf),
    Missing,
}

/// A library, its place, and for a file its dependencies, or why it cannot be loaded.
pub(super) struct FoundLibrary {
    pub wanted: &'static Wanted,
    pub place: LibraryOrigin,
    pub needs: Result<Vec<String>, String>,
}

/// Finds all libraries without loading them.
pub(super) fn find(wanted: impl IntoIterator<Item = &'static Wanted>, search: &LibrarySearch) -> Vec<FoundLibrary> {
    wanted.into_iter().map(|wanted| find_one(wanted, search)).collect()
}

fn find_one(wanted: &'static Wanted, search: &LibrarySearch) -> FoundLibrary {
    let known = |place| FoundLibrary { wanted, place, needs: Ok(Vec::new()) };
    if is_loaded(wanted.name) {
        return known(LibraryOrigin::Loaded);
    }
    let Some(file) = search.find(wanted.name) else {
        return known(LibraryOrigin::Missing);
    };
    let needs = library::inspect(&file).map(|library| library.needed).map_err(|error| error.to_string());
    FoundLibrary { wanted, place: LibraryOrigin::File(file), needs }
}

/// Loads the libraries that were found, in order of their dependencies. Returns those that failed, and why.
pub(super) fn load(found: &[FoundLibrary]) -> Vec<(&'static Wanted, String)> {
    let mut failed = Vec::new();
    for index in in_order(found) {
        let FoundLibrary { wanted, place: LibraryOrigin::File(file), needs } = &found[index] else {
            continue;
        };
        let loaded = needs.clone().and_then(|_| open(file));
        if let Err(why) = loaded {
            failed.push((*wanted, why));
            continue;
        }
        for companion in companions(file) {
            // The library itself exists: its own error will name the missing ones.
            let _ = open(&companion);
        }
    }
    failed
}

/// The indices of the libraries in order of their dependencies.
pub(super) fn in_order(found: &[FoundLibrary]) -> Vec<usize> {
    fn visit(index: usize, found: &[FoundLibrary], seen: &mut [bool], order: &mut Vec<usize>) {
        if std::mem::replace(&mut seen[index], true) {
            return;
        }
        for name in found[index].needs.iter().flatten() {
            if let Some(other) = found.iter().position(|other| other.wanted.name == name) {
                visit(other, found, seen, order);
            }
        }
        order.push(index);
    }
    let (mut seen, mut order) = (vec![false; found.len()], Vec::new());
    (0..found.len()).for_each(|index| visit(index, found, &mut seen, &mut order));
    order
}

/// NVRTC opens a second library, whose name contains its minor version, and does not search its own folder.
fn companions(file: &Path) -> Vec<PathBuf> {
    let is_nvrtc = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc.so."));
    let (true, Some(folder)) = (is_nvrtc, file.parent()) else {
        return Vec::new();
    };
    list(folder).into_iter().filter(|path| name(path).starts_with("libnvrtc-builtins.so.")).collect()
}

/// Whether this process has loaded a library with this name.
#[cfg(target_os = "linux")]
pub(super) fn is_loaded(name: &str) -> bool {
    use libloading::os::unix::Library;
    // SAFETY: nothing is loaded, so no code runs.
    let loaded = unsafe { Library::open(Some(name), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    // Never closed: other code uses it.
    loaded.map(std::mem::forget).is_ok()
}

/// Loads a library permanently. From then on it can be found by name, but its symbols stay private: other packages may
/// load another version.
#[cfg(target_os = "linux")]
fn open(file: &Path) -> Result<(), String> {
    use libloading::os::unix::Library;
    // SAFETY: loading runs the library's initializers, as when the plugin opens it.
    let library = unsafe { Library::open(Some(file), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    library.map(std::mem::forget).map_err(|error| error.to_string())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_loaded(_name: &str) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn open(_file: &Path) -> Result<(), String> {
    Ok(())
}
