//! Files and folders that others may read, and that nobody but this user or the system may write.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What the names of unfinished files and folders start with.
pub(crate) const TEMPORARY: &str = ".tmp-";

/// A name in `folder` that no other process and no other thread has.
pub(crate) fn temporary(folder: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    folder.join(format!("{TEMPORARY}{}-{count}-{time}", std::process::id()))
}

/// Makes a folder and those above it.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder.create(path)
}

/// Makes a new file, which others may also run, or not.
pub(crate) fn create_file(path: &Path, runs: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if runs { 0o755 } else { 0o644 });
    #[cfg(not(unix))]
    let _ = runs;
    options.open(path)
}

/// Whether something belongs to this user, the system or the user `also`.
#[cfg(unix)]
pub(crate) fn is_owned(metadata: &Metadata, also: Option<u32>) -> bool {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: asks for a number.
    let me = unsafe { libc::geteuid() };
    [Some(me), Some(0), also].contains(&Some(metadata.uid()))
}

/// Whether nobody but its owner may write to something.
#[cfg(unix)]
pub(crate) fn is_closed(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.mode() & 0o022 == 0
}

/// Who may write is a matter of the user's profile folder here.
#[cfg(not(unix))]
pub(crate) fn is_owned(_: &Metadata, _: Option<u32>) -> bool {
    true
}

#[cfg(not(unix))]
pub(crate) fn is_closed(_: &Metadata) -> bool {
    true
}
