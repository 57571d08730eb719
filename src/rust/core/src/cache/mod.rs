//! The cache of compiled programs: in memory while they are in use, and on disk between processes. A failure of the
//! cache never fails a compilation.

use crate::client::device::{self, Device};
use crate::client::target::Target;
use crate::executable::execute::Dispatch;
use crate::executable::options::CompileOptions;
use crate::executable::serialized::{Destination, Serialized};
use crate::executable::{Executable, Origin, WeakExecutable};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process;
use pjrt_base::trace::{self, Activity, Details};
use pjrt_program::program::Program;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

mod key;
mod store;

pub use key::Key;
pub use store::{CacheEntry, Removed, Store};

/// A cache; clones share it.
#[derive(Debug, Clone)]
pub struct Cache {
    store: Arc<Store>,
    in_process: Arc<InProcess>,
}

/// The part of the cache that a process has in memory, for all folders.
#[derive(Debug, Default)]
pub struct InProcess {
    counts: Mutex<Counts>,
    /// Executables that may still be in use.
    known: Mutex<Vec<(LoadedKey, WeakExecutable)>>,
    messages: Mutex<Vec<String>>,
}

/// Statistics of a process's use of the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Programs that were loaded from disk.
    pub hits: u64,
    /// Programs that were in use already.
    pub shared: u64,
    pub misses: u64,
    /// Entries that were removed to make room.
    pub evictions: u64,
    /// Failures to read or write entries.
    pub errors: u64,
    /// Compilation time saved, less the time to load.
    pub saved: Duration,
}

/// What must be equal for an executable to be shared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoadedKey {
    key: Key,
    client: u64,
    dispatch: Dispatch,
}

/// The result of a lookup in the cache.
pub(crate) enum Lookup {
    /// With where it was found, as records call it.
    Executable(Executable, &'static str),
    /// The place for the program once it is compiled; none if it must not be kept.
    Nothing(Option<LoadedKey>),
    /// More than was to be loaded.
    Large,
}

/// What is on disk.
impl std::ops::Deref for Cache {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Cache {
    /// The cache in the folder `root`, which is created with the first entry.
    pub fn new(root: &Path, max_bytes: u64, in_process: Arc<InProcess>) -> Cache {
        Cache { store: Arc::new(Store::new(root, max_bytes)), in_process }
    }

    /// Removes all of it; executables that somebody has stay as they are, but are not given out once more.
    ///
    /// # Errors
    /// `Io` when entries are left.
    pub fn clear(&self) -> Result<Removed> {
        if let Some(mut known) = process::lock(&self.in_process.known) {
            known.clear();
        }
        self.store.clear()
    }

    /// Looks for a program, and loads it if it has no more than so many bytes.
    ///
    /// # Errors
    /// The errors of [`Executable::compile`] about options and devices.
    pub(crate) fn find(
        &self,
        devices: &[Device],
        program: &Program,
        options: &CompileOptions,
        most_bytes: u64,
    ) -> Result<Lookup> {
        let _phase = trace::span(Activity::Phase, || Details::named("look in the cache"));
        options.check_devices(devices)?;
        device::check_any_addressable(devices)?;
        let client = devices[0].client();
        client.handle()?;
        if key::is_dumped(client, options) {
            return Ok(Lookup::Nothing(None));
        }
        let Some(key) = self.key(devices, program, options) else { return Ok(Lookup::Nothing(None)) };
        let place = LoadedKey { key, client: client.id(), dispatch: options.dispatch };
        if let Some(executable) = self.in_process.find(&place) {
            executable.check_functions()?;
            self.in_process.count(|counts| counts.shared += 1);
            return Ok(Lookup::Executable(executable, "shared"));
        }
        if most_bytes < u64::MAX && self.store.bytes(&key) > most_bytes {
            return Ok(Lookup::Large);
        }
        Ok(match self.load(&key, devices, options) {
            Some(executable) => Lookup::Executable(self.in_process.share(place, executable), "from the cache"),
            None => Lookup::Nothing(Some(place)),
        })
    }

    /// Keeps a new program. If another thread kept it first, returns that one.
    pub(crate) fn keep(&self, place: Option<LoadedKey>, executable: Executable) -> Executable {
        let Some(place) = place else { return executable };
        let _phase = trace::span(Activity::Phase, || Details::named("keep in the cache"));
        executable.note_miss();
        self.in_process.count(|counts| counts.misses += 1);
        self.save(&place.key, &executable);
        self.in_process.share(place, executable)
    }

    fn key(&self, devices: &[Device], program: &Program, options: &CompileOptions) -> Option<Key> {
        match Target::of(&devices[0], Some(self.root())) {
            Ok(target) => Some(Key::new(target, devices, program, options)),
            Err(error) => {
                self.in_process.complain(error.message());
                None
            }
        }
    }

    /// The entry of this key, loaded.
    fn load(&self, key: &Key, devices: &[Device], options: &CompileOptions) -> Option<Executable> {
        let start = Instant::now();
        let content = match self.store.get(key) {
            Ok(content) => content?,
            Err(error) => {
                self.in_process.complain(&format!("cannot read {key}: {error}"));
                return None;
            }
        };
        let destination =
            Destination { client: devices[0].client(), devices, options: None, dispatch: options.dispatch };
        match load(&content, key, &destination) {
            Ok(executable) => {
                let saved = executable.compile_time().saturating_sub(start.elapsed());
                self.in_process.count(|counts| {
                    counts.hits += 1;
                    counts.saved += saved;
                });
                Some(executable)
            }
            Err(error) => {
                self.in_process.complain(&format!("dropped {key}: {}", error.message()));
                self.store.remove(key);
                None
            }
        }
    }

    fn save(&self, key: &Key, executable: &Executable) {
        match self.try_save(key, executable) {
            Ok(removed) => self.in_process.count(|counts| counts.evictions += removed.entries),
            // The plugin cannot save programs, which is not an error.
            Err(error) if error.is_unsupported() => {}
            Err(error) => self.in_process.complain(&format!("cannot keep {key}: {}", error.message())),
        }
    }

    fn try_save(&self, key: &Key, executable: &Executable) -> Result<Removed> {
        if !executable.is_self_contained() {
            return Ok(Removed::default());
        }
        let content = executable.serialize_as(key.bytes(), Some(self.root()))?;
        self.store.put(key, &content).map_err(|error| Error::new(Kind::Io, error.to_string()))
    }
}

/// Reads an entry and lets the plugin load it.
fn load(content: &[u8], key: &Key, destination: &Destination<'_>) -> Result<Executable> {
    let serialized = Serialized::read(content)?;
    // The key covers all of the environment, but a file may have been renamed.
    ensure!(serialized.header.key == key.bytes(), SerializedMismatch, "It belongs to another program.");
    serialized.hand_over(destination, destination.devices, Origin::Cache)
}

impl InProcess {
    pub fn counts(&self) -> Counts {
        process::lock(&self.counts).map_or_else(Counts::default, |counts| *counts)
    }

    /// The failures since the last call, a line each.
    pub fn take_messages(&self) -> Vec<String> {
        process::lock(&self.messages).map(|mut messages| std::mem::take(&mut *messages)).unwrap_or_default()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        if let Some(mut counts) = process::lock(&self.counts) {
            change(&mut counts);
        }
    }

    fn complain(&self, message: &str) {
        const MOST: usize = 100;
        self.count(|counts| counts.errors += 1);
        let Some(mut messages) = process::lock(&self.messages) else { return };
        if messages.len() < MOST {
            messages.push(format!("cache: {message}"));
        }
    }

    fn find(&self, place: &LoadedKey) -> Option<Executable> {
        process::lock(&self.known)?.iter().find(|(other, _)| other == place)?.1.upgrade().filter(is_alive)
    }

    /// Registers an executable. Returns the registered one if another thread was faster.
    fn share(&self, place: LoadedKey, executable: Executable) -> Executable {
        let Some(mut known) = process::lock(&self.known) else { return executable };
        known.retain(|(_, weak)| !weak.is_dead());
        let other = known.iter().find(|(other, _)| *other == place).and_then(|(_, weak)| weak.upgrade());
        other.filter(is_alive).unwrap_or_else(|| {
            known.push((place, executable.downgrade()));
            executable
        })
    }
}

/// Whether an executable's client can still be used.
fn is_alive(executable: &Executable) -> bool {
    executable.client().handle().is_ok()
}
