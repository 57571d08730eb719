//! Files and folders that others may read, but only this user or the system may write.

#[cfg(unix)]
use crate::process::limit_of;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What the names of unfinished files and folders start with.
pub const TEMPORARY: &str = ".tmp-";

/// A name in `folder` that no other process or thread uses.
pub fn temporary(folder: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    folder.join(format!("{TEMPORARY}{}-{count}-{time}", std::process::id()))
}

/// Creates a folder and its parents.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder.create(path)
}

/// Creates a new file, which others may also run if `runs`.
pub fn create_file(path: &Path, runs: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    set_mode(&mut options, if runs { 0o755 } else { 0o644 });
    options.open(path)
}

/// Opens a file to read and write; creates it if it does not exist.
pub fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    set_mode(&mut options, 0o644);
    options.open(path)
}

/// Writes to a regular file. A file beyond the process's limit (`ulimit -f`) is an error as on a full disk: the system would
/// also send a signal, which ends R.
pub fn write_all(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    #[cfg(unix)]
    check_limit(file, bytes.len())?;
    file.write_all(bytes)
}

#[cfg(unix)]
fn check_limit(file: &mut File, more: usize) -> io::Result<()> {
    if let Some(limit) = limit_of!(RLIMIT_FSIZE).filter(|limit| *limit != libc::RLIM_INFINITY) {
        let end = io::Seek::stream_position(file)?.saturating_add(more as u64);
        ensure!(end <= limit, io::Error::from_raw_os_error(libc::EFBIG));
    }
    Ok(())
}

/// Closes a file; some systems report a full disk only then.
pub fn close(file: File) -> io::Result<()> {
    #[cfg(unix)]
    {
        // SAFETY: the descriptor is ours, and closed once.
        ensure!(unsafe { libc::close(std::os::fd::IntoRawFd::into_raw_fd(file)) } == 0, io::Error::last_os_error());
    }
    #[cfg(not(unix))]
    drop(file);
    Ok(())
}

/// Opens a regular file to read it, also through a symbolic link if `follows_links`.
///
/// # Errors
/// The system's errors; `InvalidInput` for a folder, a device or a pipe.
pub fn open_regular(path: &Path, follows_links: bool) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let links = if follows_links { 0 } else { libc::O_NOFOLLOW };
        // Opening a pipe would wait for its other end.
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | links);
    }
    #[cfg(not(unix))]
    let _ = follows_links;
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    check_regular(&metadata)?;
    Ok((file, metadata))
}

/// The path of a file that is to be written: where a link leads, even if no file is there. Refuses a folder, a device or a
/// pipe, which a new file would replace.
pub fn target(path: &Path) -> io::Result<PathBuf> {
    // More than any system follows.
    const MOST_LINKS: usize = 64;
    fs::metadata(path).map_or(Ok(()), |there| check_regular(&there))?;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(link) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "its links lead nowhere"))
}

/// Gives a new file the permissions of the file that it replaces, if there is one.
pub fn keep_permissions(file: &File, replaced: &Path) -> io::Result<()> {
    fs::metadata(replaced).map_or(Ok(()), |there| file.set_permissions(there.permissions()))
}

fn check_regular(metadata: &Metadata) -> io::Result<()> {
    ensure!(metadata.is_file(), io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    Ok(())
}

/// Lets only the owner write to a folder, if the system allows this user to do so.
pub fn close_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Whether something belongs to this user, the system or the user `also`.
pub fn is_owned(metadata: &Metadata, also: Option<u32>) -> bool {
    owner(metadata).is_none_or(|owner| owner == 0 || user() == Some(owner) || also == Some(owner))
}

/// Why others could have changed a file or folder; `None` if only this user, the system or the user `also` could.
pub fn objection(path: &Path, metadata: &Metadata, also: Option<u32>) -> Option<String> {
    let shown = path.display();
    let mode = mode(metadata);
    if !is_owned(metadata, also) {
        let owner = owner(metadata).map(|owner| format!(" (uid {owner})")).unwrap_or_default();
        Some(format!("another user{owner} owns '{shown}'"))
    } else if mode & 0o002 != 0 {
        Some(format!("every user can write to '{shown}' (mode {:o})", mode & 0o7777))
    } else if mode & 0o020 != 0 {
        Some(format!("its group can write to '{shown}' (mode {:o})", mode & 0o7777))
    } else {
        None
    }
}

/// Why this user cannot create files in a folder, or create the folder; `None` if there is no known reason.
pub fn write_objection(folder: &Path) -> Option<String> {
    let there = folder.ancestors().find(|path| path.symlink_metadata().is_ok())?;
    let shown = there.display();
    match fs::metadata(there) {
        Err(error) => Some(format!("'{shown}' cannot be read: {error}")),
        Ok(found) if !found.is_dir() => Some(format!("'{shown}' is not a folder")),
        Ok(_) if !may_write(there) => Some(format!("you cannot write to '{shown}'")),
        Ok(_) => None,
    }
}

/// The owner of a file or folder.
pub fn owner_of(path: &Path) -> Option<u32> {
    owner(&fs::metadata(path).ok()?)
}

/// Whether any user may write to something, as to `/tmp`.
pub fn anyone_writes(metadata: &Metadata) -> bool {
    mode(metadata) & 0o002 != 0
}

/// Whether any user may replace other users' files in a folder. False for `/tmp`, which has the sticky bit.
pub fn anyone_replaces(metadata: &Metadata) -> bool {
    anyone_writes(metadata) && !is_sticky(metadata)
}

/// Whether a folder has the sticky bit: users may only replace and remove what is theirs.
pub fn is_sticky(metadata: &Metadata) -> bool {
    mode(metadata) & 0o1000 != 0
}

/// The user who controls a folder that many users share: its owner, unless anybody could have created it there.
pub fn keeper(folder: &Path) -> Option<u32> {
    let folder = folder.canonicalize().ok()?;
    let closed = |path: &Path| fs::metadata(path).is_ok_and(|metadata| !anyone_writes(&metadata));
    folder.ancestors().all(closed).then(|| owner_of(&folder))?
}

// Who owns a file and who may write to it are numbers on Unix; elsewhere the user's profile folder is private.

#[cfg(unix)]
fn set_mode(options: &mut OpenOptions, mode: u32) {
    std::os::unix::fs::OpenOptionsExt::mode(options, mode);
}

#[cfg(unix)]
fn may_write(folder: &Path) -> bool {
    let Ok(name) = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(folder.as_os_str())) else {
        return false;
    };
    // SAFETY: reads the name, which ends with a zero byte.
    unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) == 0 }
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(metadata)
}

#[cfg(unix)]
fn owner(metadata: &Metadata) -> Option<u32> {
    Some(std::os::unix::fs::MetadataExt::uid(metadata))
}

#[cfg(unix)]
fn user() -> Option<u32> {
    // SAFETY: asks for a number.
    Some(unsafe { libc::geteuid() })
}

#[cfg(not(unix))]
fn set_mode(_: &mut OpenOptions, _: u32) {}

#[cfg(not(unix))]
fn may_write(_: &Path) -> bool {
    true
}

#[cfg(not(unix))]
fn mode(_: &Metadata) -> u32 {
    0
}

#[cfg(not(unix))]
fn owner(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(not(unix))]
fn user() -> Option<u32> {
    None
}
