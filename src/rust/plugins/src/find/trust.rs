//! Decides whose libraries are allowed: unless the user names a file, it is not loaded if others could have put it
//! there.

use pjrt_base::private_fs;
use std::path::Path;

/// Why a library cannot be trusted; `None` if it can. No part of its path is a link. `named`: the user chose its
/// folder, and so trusts the folder's owner.
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
