//! Files of the cache: written completely or not at all, and read only if only this user or the system could have
//! written them.

use crate::private_fs::{self, temporary};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Creates a folder and its parents. Others may read it, but not write to it.
pub fn create_folder(path: &Path) -> io::Result<()> {
    private_fs::create_folder(path)?;
    check_folder(path)
}

/// Checks that only this user or the system may write to a folder, or put another one in its place.
pub fn check_folder(path: &Path) -> io::Result<()> {
    refuse(private_fs::objection(path, &fs::metadata(path)?, None))?;
    refuse(parent_objection(path))
}

/// Why others could put another folder in the place of this one. The sticky bit, as that of `/tmp`, forbids that.
fn parent_objection(folder: &Path) -> Option<String> {
    let parent = folder.parent()?;
    let found = fs::metadata(parent).ok().filter(|found| !private_fs::is_sticky(found))?;
    private_fs::objection(parent, &found, None)
}

/// Why files in a folder, which may not exist yet, cannot be kept or are not used; `None` if they can.
pub fn problem(folder: &Path) -> Option<String> {
    let objection = fs::metadata(folder).ok().and_then(|found| private_fs::objection(folder, &found, None));
    objection.or_else(|| parent_objection(folder)).or_else(|| private_fs::write_objection(folder))
}

/// Opens a file to read it.
///
/// # Errors
/// The system's errors; `PermissionDenied` for a link, and for files that others could have written.
pub fn open(path: &Path) -> io::Result<File> {
    let (file, metadata) = private_fs::open_regular(path, false)?;
    refuse(private_fs::objection(path, &metadata, None))?;
    Ok(file)
}

/// The content of a file; errors as [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// Writes a file under a temporary name and renames it, so that readers never find an incomplete file.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    write_after(path, content, |_| Ok(()))
}

/// The same for a file of the user's, which may be a link, and keeps its permissions.
pub fn save(path: &Path, content: &[u8]) -> io::Result<()> {
    let path = private_fs::target(path)?;
    write_after(&path, content, |file| private_fs::keep_permissions(file, &path))
}

fn write_after(path: &Path, content: &[u8], prepare: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let draft = temporary(folder);
    let mut file = private_fs::create_file(&draft, false)?;
    let written = prepare(&file).and_then(|()| private_fs::write_all(&mut file, content));
    let written = written.and_then(|()| private_fs::close(file)).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // If this fails, too, the file is removed later with other leftovers.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn refuse(objection: Option<String>) -> io::Result<()> {
    objection.map_or(Ok(()), |objection| Err(io::Error::new(io::ErrorKind::PermissionDenied, objection)))
}
