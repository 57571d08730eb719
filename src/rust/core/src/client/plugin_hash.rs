//! The identity of a plugin: the SHA-256 of its library. Hashing some hundred megabytes takes a while, so the hash is
//! kept in a folder until the file changes.

use crate::runtime::plugin::Plugin;
use pjrt_base::digest;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_base::trusted_fs;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// The prefix of the names of files with a plugin's hash.
pub(crate) const PREFIX: &str = "plugin-";

/// The SHA-256 of a plugin's library, looked up in the folder `kept` if it is given.
///
/// # Errors
/// `Io` if the file cannot be read, or is no longer the loaded one.
pub(crate) fn of_plugin<'a>(plugin: &'a Plugin, kept: Option<&Path>) -> Result<&'a str> {
    let path = plugin.path();
    let hash = plugin.hash.get_or_try_init(|| {
        ensure!(!is_replaced(path), failure(path, "it was replaced while in use").hint(Reason::PluginReplaced));
        of_file(path, kept)
    });
    hash.map(String::as_str)
}

fn of_file(path: &Path, kept: Option<&Path>) -> Result<String> {
    // A new hard link or another owner also changes the stamp, but not the content.
    for _ in 0..3 {
        if let Some(hash) = of_unchanged(path, kept).map_err(|error| failure(path, &error.to_string()))? {
            return Ok(hash);
        }
    }
    Err(failure(path, "it changed while it was read"))
}

/// The hash of a file, or nothing if the file changed meanwhile.
fn of_unchanged(path: &Path, kept: Option<&Path>) -> io::Result<Option<String>> {
    let stamp = || fs::metadata(path).map(|metadata| stamp(&metadata));
    let before = stamp()?;
    let note = kept.map(|folder| folder.join(format!("{PREFIX}{}", &digest::hex(&digest::of(&[name(path)]))[..16])));
    if let Some(hash) = note.as_deref().and_then(|note| noted(note, &before)) {
        return Ok(Some(hash));
    }
    let hash = digest::hex(&fs::File::open(path).and_then(digest::of_reader)?);
    if stamp()? != before {
        return Ok(None);
    }
    if let (Some(folder), Some(note)) = (kept, note) {
        // Without it, the next process reads the plugin again.
        let _ = trusted_fs::create_folder(folder)
            .and_then(|()| trusted_fs::write(&note, format!("{before}\n{hash}\n").as_bytes()));
    }
    Ok(Some(hash))
}

/// The hash in a note, if it belongs to the file with this stamp.
fn noted(note: &Path, stamp: &str) -> Option<String> {
    let text = String::from_utf8(trusted_fs::read(note).ok()?).ok()?;
    let (then, rest) = text.split_once('\n')?;
    let hash = rest.strip_suffix('\n')?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    (then == stamp && is_hash).then(|| hash.to_owned())
}

/// The attributes that change when a file does.
#[cfg(unix)]
fn stamp(metadata: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    let m = metadata;
    let (modified, changed) = ((m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec()));
    format!("{} {} {} {}.{:09} {}.{:09}", m.dev(), m.ino(), m.size(), modified.0, modified.1, changed.0, changed.1)
}

#[cfg(not(unix))]
fn stamp(metadata: &Metadata) -> String {
    format!("{} {:?}", metadata.len(), metadata.modified().ok())
}

fn name(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Whether the file at `path` is no longer the one that this process loaded: the system marks deleted files.
#[cfg(target_os = "linux")]
fn is_replaced(path: &Path) -> bool {
    let gone = [name(path), b" (deleted)"].concat();
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    maps.split(|&byte| byte == b'\n').any(|line| line.ends_with(&gone))
}

#[cfg(not(target_os = "linux"))]
fn is_replaced(_: &Path) -> bool {
    false
}

fn failure(path: &Path, why: &str) -> Error {
    Error::new(Kind::Io, format!("Cannot read the plugin '{}': {why}.", path.display()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_new_hard_link_does_not_disturb_hashing() {
        let file = std::env::temp_dir().join(format!("pjrt-hash-{}", std::process::id()));
        let link = file.with_extension("link");
        // Big enough that the link is made while it is read.
        fs::File::create(&file).unwrap().set_len(200 << 20).unwrap();
        let (from, to) = (file.clone(), link.clone());
        let linking = thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            fs::hard_link(from, to).unwrap();
        });
        let hash = of_file(&file, None).unwrap();
        linking.join().unwrap();
        assert_eq!(hash, of_file(&file, None).unwrap());
        fs::remove_file(file).and_then(|()| fs::remove_file(link)).unwrap();
    }
}
