//! Entries on disk: one file each, in one folder. Many processes use it at once, without locks: files appear and
//! disappear as a whole. The modification time of a file is the time of its last use, which only ever grows.

use super::key::Key;
use crate::client::plugin_hash;
use crate::executable::serialized::{self, ExecutableHeader};
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::private_fs::TEMPORARY;
use pjrt_base::trusted_fs;
use std::fs::{self, File, FileTimes};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The modification time of this file is the time of the last use of any entry: the clock may go backwards, the order
/// of uses may not.
const LAST_USE: &str = "last-use";
const EXTENSION: &str = "pjrtx";

/// A draft with a time this far in the past or future is abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The most bytes of an entry to read for a list.
const HEADER_MAX: u64 = 1 << 20;

/// The entries in a folder.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    max_bytes: u64,
    /// Bytes written since the entries were last counted; above any share of the limit before the first count.
    uncounted: AtomicU64,
}

/// An entry as a file.
#[derive(Debug, Clone)]
struct Stored {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// An entry as a list shows it.
#[derive(Debug)]
pub struct CacheEntry {
    /// The key in hexadecimal digits.
    pub key: String,
    pub bytes: u64,
    pub used: SystemTime,
    /// The file's description of itself; `None` if it cannot be read.
    pub header: Option<ExecutableHeader>,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    pub entries: u64,
    pub bytes: u64,
}

impl Store {
    pub(super) fn new(root: &Path, max_bytes: u64) -> Store {
        Store { root: root.into(), max_bytes, uncounted: AtomicU64::new(u64::MAX) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Why entries cannot be kept; `None` if they can.
    pub fn problem(&self) -> Option<String> {
        trusted_fs::problem(&self.root)
    }

    /// An entry's content, if it exists. Marks it as last used.
    pub(super) fn get(&self, key: &Key) -> io::Result<Option<Vec<u8>>> {
        let mut file = match trusted_fs::open(&self.path(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        trusted_fs::check_folder(&self.root)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        // If it cannot be marked, it is removed earlier than it should be.
        let _ = self.touch(&file);
        Ok(Some(content))
    }

    /// Writes an entry, and removes the least recently used ones if they exceed the limit. An entry above the limit is
    /// not written.
    pub(super) fn put(&self, key: &Key, content: &[u8]) -> io::Result<Removed> {
        let bytes = content.len() as u64;
        if bytes > self.max_bytes {
            return Ok(Removed::default());
        }
        trusted_fs::create_folder(&self.root)?;
        let path = self.path(key);
        trusted_fs::write(&path, content)?;
        // Another process may have removed it already.
        let _ = trusted_fs::open(&path).and_then(|file| self.touch(&file));
        // Counting takes time, so it is not done each time, and more than necessary is removed at once.
        let slack = self.max_bytes / 16;
        let uncounted = self.uncounted.load(Ordering::Relaxed).saturating_add(bytes);
        self.uncounted.store(uncounted, Ordering::Relaxed);
        if uncounted <= slack {
            return Ok(Removed::default());
        }
        self.sweep();
        let all = self.stored();
        let fits = total(&all) <= self.max_bytes;
        let (removed, left) = shrink(all, if fits { self.max_bytes } else { self.max_bytes - slack });
        // Near the limit, the entries are counted again before they can exceed it.
        self.uncounted.store((left + slack).saturating_sub(self.max_bytes), Ordering::Relaxed);
        Ok(removed)
    }

    /// The size in bytes of the entry of this key; 0 if there is none.
    pub(super) fn bytes(&self, key: &Key) -> u64 {
        fs::metadata(self.path(key)).map_or(0, |entry| entry.len())
    }

    /// Removes an invalid entry.
    pub(super) fn remove(&self, key: &Key) {
        // If that fails, the next use finds it invalid again.
        let _ = fs::remove_file(self.path(key));
    }

    /// The entries, most recently used first.
    pub fn list(&self) -> Vec<CacheEntry> {
        let mut all = self.stored();
        all.sort_by_key(|stored| std::cmp::Reverse(stored.used));
        let entry = |stored: Stored| CacheEntry {
            key: stored.path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: stored.bytes,
            used: stored.used,
            header: header(&stored.path),
        };
        all.into_iter().map(entry).collect()
    }

    /// The number of entries, and their size in bytes.
    pub fn size(&self) -> (u64, u64) {
        let all = self.stored();
        (all.len() as u64, total(&all))
    }

    /// Removes the entries that were not used for `max_age`, and then the least recently used until the others fit.
    pub fn prune(&self, max_age: Option<Duration>) -> Removed {
        self.sweep();
        let now = SystemTime::now();
        let is_old =
            |stored: &Stored| max_age.is_some_and(|max| now.duration_since(stored.used).is_ok_and(|age| age > max));
        let (old, rest): (Vec<_>, Vec<_>) = self.stored().into_iter().partition(is_old);
        let (old, _) = shrink(old, 0);
        let (more, _) = shrink(rest, self.max_bytes);
        Removed { entries: old.entries + more.entries, bytes: old.bytes + more.bytes }
    }

    /// Removes all of the cache's files in the folder, and the folder if it is empty then.
    ///
    /// # Errors
    /// `Io` if entries are left.
    pub(super) fn clear(&self) -> Result<Removed> {
        let all = self.stored();
        let (removed, _) = shrink(all.clone(), 0);
        let own = |name: &str| name == LAST_USE || name.starts_with(TEMPORARY) || name.starts_with(plugin_hash::PREFIX);
        self.files().filter(|(name, _)| own(name)).for_each(|(_, path)| drop(fs::remove_file(path)));
        // Fails if the folder contains other files.
        let _ = fs::remove_dir(&self.root);
        // Entries that other processes have added since do not count.
        match all.iter().filter(|stored| stored.path.exists()).count() {
            0 => Ok(removed),
            left => Err(Error::new(
                Kind::Io,
                format!("{} cannot be removed from '{}'.", counted(left, "compiled program"), self.root.display()),
            )
            .hint("Make the folder writable, or remove it yourself.")),
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(format!("{key}.{EXTENSION}"))
    }

    /// Makes a file the most recently used one.
    fn touch(&self, file: &File) -> io::Result<()> {
        let path = self.root.join(LAST_USE);
        let last = match trusted_fs::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                trusted_fs::write(&path, b"")?;
                // The existing entries may have times in the future.
                let latest = self.stored().iter().map(|stored| stored.used).max();
                let last = trusted_fs::open(&path)?;
                if let Some(latest) = latest {
                    last.set_times(FileTimes::new().set_modified(latest))?;
                }
                last
            }
            opened => opened?,
        };
        let next = last.metadata()?.modified()? + Duration::from_micros(1);
        let times = FileTimes::new().set_modified(next.max(SystemTime::now()));
        last.set_times(times)?;
        file.set_times(times)
    }

    /// All files in the folder, by name.
    fn files(&self) -> impl Iterator<Item = (String, PathBuf)> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
    }

    fn stored(&self) -> Vec<Stored> {
        let is_entry = |path: &Path| path.extension().is_some_and(|extension| extension == EXTENSION);
        let stored = |path: PathBuf| {
            let metadata = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
            Some(Stored { bytes: metadata.len(), used: metadata.modified().ok()?, path })
        };
        self.files().map(|(_, path)| path).filter(|path| is_entry(path)).filter_map(stored).collect()
    }

    /// Removes drafts of processes that were killed while they wrote.
    fn sweep(&self) {
        for (_, path) in self.files().filter(|(name, _)| name.starts_with(TEMPORARY)) {
            let Ok(written) = fs::symlink_metadata(&path).and_then(|metadata| metadata.modified()) else { continue };
            let now = SystemTime::now();
            let age = now.duration_since(written).or_else(|_| written.duration_since(now)).unwrap_or_default();
            if age > ABANDONED {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn total(all: &[Stored]) -> u64 {
    all.iter().map(|stored| stored.bytes).sum()
}

/// Removes the least recently used entries until the others have no more than `max_bytes`; also returns the size of the
/// others.
fn shrink(mut all: Vec<Stored>, max_bytes: u64) -> (Removed, u64) {
    all.sort_by_key(|stored| stored.used);
    let mut left = total(&all);
    let mut removed = Removed::default();
    for stored in all {
        if left <= max_bytes {
            break;
        }
        // Another process may have been faster; files that cannot be removed stay.
        if fs::remove_file(&stored.path).is_ok() {
            removed.entries += 1;
            removed.bytes += stored.bytes;
        }
        left -= stored.bytes;
    }
    (removed, left)
}

/// The header of an entry's file.
fn header(path: &Path) -> Option<ExecutableHeader> {
    let mut start = Vec::new();
    trusted_fs::open(path).ok()?.take(HEADER_MAX).read_to_end(&mut start).ok()?;
    serialized::peek(&start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_base::digest;

    /// A folder that is removed at the end of the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            Folder(std::env::temp_dir().join(format!("pjrt-store-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn key(i: u8) -> Key {
        Key(digest::of(&[&[i]]))
    }

    /// Entries of 100 bytes each.
    fn fill(store: &Store, n: u8) {
        for i in 0..n {
            assert_eq!(store.put(&key(i), &[0; 100]).unwrap(), Removed::default());
        }
    }

    fn there(store: &Store) -> Vec<u8> {
        let names: Vec<_> = store.list().into_iter().map(|entry| entry.key).collect();
        (0..=9).filter(|&i| names.contains(&key(i).to_string())).collect()
    }

    fn age(path: &Path, time: SystemTime) {
        File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
    }

    #[test]
    fn a_stored_entry_is_found() {
        let folder = Folder::new("found");
        let store = Store::new(&folder.0, 1000);
        assert_eq!(store.get(&key(1)).unwrap(), None);
        store.put(&key(1), b"one").unwrap();
        assert_eq!(store.get(&key(1)).unwrap().unwrap(), b"one");
        assert_eq!(store.size(), (1, 3));
        store.remove(&key(1));
        assert_eq!(store.get(&key(1)).unwrap(), None);
        store.put(&key(2), b"two").unwrap();
        assert_eq!(store.clear().unwrap(), Removed { entries: 1, bytes: 3 });
        assert!(!folder.0.exists());
    }

    #[test]
    fn the_least_recently_used_are_evicted_first() {
        let folder = Folder::new("order");
        let store = Store::new(&folder.0, 320);
        fill(&store, 3);
        store.get(&key(0)).unwrap();
        assert_eq!(store.put(&key(3), &[0; 100]).unwrap(), Removed { entries: 1, bytes: 100 });
        assert_eq!(there(&store), [0, 2, 3]);
        assert_eq!(store.put(&key(4), &[0; 150]).unwrap().entries, 2);
        assert_eq!(there(&store), [3, 4]);
        store.put(&key(5), &[0; 321]).unwrap();
        assert_eq!(there(&store), [3, 4], "what exceeds the limit by itself is not kept");
    }

    #[test]
    fn the_limit_holds_over_many_small_entries_and_for_another_store_on_the_same_folder() {
        let folder = Folder::new("limit");
        let (first, second) = (Store::new(&folder.0, 1000), Store::new(&folder.0, 1000));
        for i in 0..=255 {
            let store = if i % 3 == 0 { &second } else { &first };
            store.put(&key(i), &[0; 20]).unwrap();
            assert!(store.size().1 <= 1000 + 1000 / 16, "{i}");
        }
        let one = Store::new(&folder.0, 500);
        for i in 0..=255 {
            one.put(&key(i), &[0; 20]).unwrap();
            assert!(one.size().1 <= 500, "{i}");
        }
    }

    #[test]
    fn the_order_of_uses_holds_when_the_clock_goes_backwards() {
        let folder = Folder::new("clock");
        let store = Store::new(&folder.0, 320);
        fill(&store, 3);
        // As if all of it had happened in a future year.
        let future = SystemTime::now() + Duration::from_secs(400 * 86_400);
        (0..3).for_each(|i| age(&store.path(&key(i)), future + Duration::from_secs(u64::from(i))));
        age(&folder.0.join(LAST_USE), future + Duration::from_secs(2));
        store.get(&key(0)).unwrap();
        store.put(&key(3), &[0; 100]).unwrap();
        assert_eq!(there(&store), [0, 2, 3]);
        // The same without the file of the last use.
        fs::remove_file(folder.0.join(LAST_USE)).unwrap();
        store.get(&key(2)).unwrap();
        store.put(&key(4), &[0; 100]).unwrap();
        assert_eq!(there(&store), [2, 3, 4]);
    }

    #[test]
    fn pruning_goes_by_age_and_size() {
        let folder = Folder::new("prune");
        let store = Store::new(&folder.0, 1000);
        fill(&store, 4);
        age(&store.path(&key(2)), SystemTime::now() - Duration::from_secs(1000));
        assert_eq!(store.prune(Some(Duration::from_secs(2000))), Removed::default());
        assert_eq!(store.prune(Some(Duration::from_secs(500))), Removed { entries: 1, bytes: 100 });
        assert_eq!(there(&store), [0, 1, 3]);
        assert_eq!(Store::new(&folder.0, 150).prune(None), Removed { entries: 2, bytes: 200 });
        assert_eq!(there(&store), [3]);
    }

    #[test]
    fn everything_can_be_removed_while_others_write() {
        let folder = Folder::new("clear");
        let store = Store::new(&folder.0, 1000);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in (0u64..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    // Fails if the folder is removed in between.
                    let _ = store.put(&Key(digest::of(&[&i.to_le_bytes()])), b"x");
                }
            });
            let failed = (0..3000).filter(|_| store.clear().is_err()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0);
        });
    }

    #[test]
    fn files_left_by_killed_processes_are_removed() {
        let folder = Folder::new("sweep");
        let store = Store::new(&folder.0, 1000);
        store.put(&key(0), b"x").unwrap();
        let (old, new) = (folder.0.join(".tmp-1-0-0"), folder.0.join(".tmp-2-0-0"));
        for path in [&old, &new] {
            fs::write(path, b"half").unwrap();
        }
        age(&old, SystemTime::now() - Duration::from_secs(2 * 3600));
        store.prune(None);
        assert!(!old.exists() && new.exists());
        assert_eq!(store.size().0, 1, "a draft is not an entry");
        store.clear().unwrap();
        assert!(!folder.0.exists());
    }

    #[cfg(unix)]
    #[test]
    fn entries_that_others_could_have_written_are_not_used() {
        use std::os::unix::fs::{symlink, PermissionsExt};
        let folder = Folder::new("others");
        let store = Store::new(&folder.0, 1000);
        store.put(&key(0), b"x").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        mode(&store.path(&key(0)), 0o666);
        assert_eq!(store.get(&key(0)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        mode(&store.path(&key(0)), 0o644);
        symlink(store.path(&key(0)), store.path(&key(1))).unwrap();
        assert!(store.get(&key(1)).is_err());
        mode(&folder.0, 0o777);
        assert!(store.put(&key(2), b"y").is_err());
        assert!(store.get(&key(0)).is_err());
        mode(&folder.0, 0o755);
        assert_eq!(store.get(&key(0)).unwrap().unwrap(), b"x");
    }
}
