//! Plugins that throw a C++ exception when their first client is created: their hardware is absent.

use crate::runtime::plugin::Plugin;
use pjrt_base::error::{Error, Kind};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The error of a first client, whose creation began at `start`, in plain words if it was an exception. No data are lost.
pub(super) fn explained(plugin: &'static Plugin, error: Error, start: SystemTime) -> Error {
    if error.kind() != Kind::Internal || !plugin.api().poison().is_noted() || plugin.first_client.is_completed() {
        return error;
    }
    let what = error.message().lines().next().unwrap_or_default();
    let what = what.strip_prefix("The plugin threw a C++ exception, ").unwrap_or(what).trim_matches(['"', '.', ' ']);
    let message = format!("The plugin cannot start: this machine probably lacks its hardware. It says: {what}.");
    let mut absent = Error::new(Kind::DriverMissing, message)
        .hint("This session does not call the plugin any more. Nothing of other plugins is affected.");
    if let Some(call) = error.call_name() {
        absent = absent.in_call(call);
    }
    let left = left_behind(&std::env::temp_dir(), start);
    if !left.is_empty() {
        let left: Vec<_> = left.iter().map(|path| format!("'{}'", path.display())).collect();
        absent = absent.hint(format!("It may have left in the temporary folder: {}.", left.join(", ")));
    }
    plugin.absent.get_or_init(|| absent).clone()
}

/// What came into a folder since then, some of it at most.
fn left_behind(folder: &Path, start: SystemTime) -> Vec<PathBuf> {
    const MOST: usize = 5;
    // The clock of files is coarser.
    let start = start - Duration::from_millis(20);
    let is_new = |entry: &fs::DirEntry| {
        let made = entry.metadata().and_then(|about| about.created().or_else(|_| about.modified()));
        made.is_ok_and(|made| made >= start)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.filter(is_new).map(|entry| entry.path()).collect();
    found.sort();
    found.truncate(MOST);
    found
}
