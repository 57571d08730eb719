//! Whom a library may come from: what others could have put there is not loaded unasked.

use std::path::Path;

/// Why a library, whose path has no links in it, is not to be trusted; `None` if it is. `named` says that the user
/// chose its folder, and with it whoever owns the folder.
#[cfg(unix)]
pub(super) fn objection(library: &Path, named: bool) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: always succeeds.
    let user = unsafe { libc::geteuid() };
    for (depth, path) in library.ancestors().enumerate() {
        let shown = path.display();
        let Ok(metadata) = path.metadata() else { return Some(format!("'{shown}' cannot be read")) };
        // In a folder with the sticky bit, such as /tmp, nobody can replace what others own.
        if may_others_write(metadata.mode(), depth > 1) {
            return Some(format!("every user can write to '{shown}'"));
        }
        if depth < 2 && !named && ![0, user].contains(&metadata.uid()) {
            return Some(format!("another user owns '{shown}'"));
        }
    }
    None
}

#[cfg(not(unix))]
pub(super) fn objection(_: &Path, _: bool) -> Option<String> {
    None
}

#[cfg(unix)]
fn may_others_write(mode: u32, sticky_is_safe: bool) -> bool {
    mode & 0o002 != 0 && !(sticky_is_safe && mode & 0o1000 != 0)
}
