//! Decides whose libraries are allowed: a file that others could have put there is not loaded unless the user names it.

use pjrt_base::private_fs;
use std::path::Path;

/// Why a library, whose path has no links in it, cannot be trusted; `None` if it can. `named`: the user chose its
/// folder, and so trusts the owner of the folder.
pub(super) fn objection(library: &Path, named: bool) -> Option<String> {
    for (depth, path) in library.ancestors().enumerate() {
        let shown = path.display();
        let Ok(metadata) = path.metadata() else { return Some(format!("'{shown}' cannot be read")) };
        let is_open =
            if depth > 1 { private_fs::anyone_replaces(&metadata) } else { private_fs::anyone_writes(&metadata) };
        if is_open {
            return Some(format!("every user can write to '{shown}'"));
        }
        if depth < 2 && !named && !private_fs::is_owned(&metadata, None) {
            return Some(format!("another user owns '{shown}'"));
        }
    }
    None
}
