//! The cache of compiled programs.

use crate::r::conditions::Result;
use crate::r::sexp;
use extendr_api::prelude::*;
use pjrt_base::sync::Unpoisoned;
use pjrt_core::cache::{Cache, InProcess, Removed};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The part of the cache in memory, for all folders.
fn in_process() -> &'static Arc<InProcess> {
    static IN_PROCESS: OnceLock<Arc<InProcess>> = OnceLock::new();
    IN_PROCESS.get_or_init(Arc::default)
}

/// The cache for the R list of `cache_settings()`; none for NULL.
pub fn get(settings: &Robj) -> Result<Option<Cache>> {
    /// The last cache used, which knows how much it has written.
    static LAST: Mutex<Option<Cache>> = Mutex::new(None);
    if settings.is_null() {
        return Ok(None);
    }
    let settings = sexp::of(settings);
    // SAFETY: R protects the argument.
    let dir = sexp::element(settings, "dir").and_then(|dir| unsafe { sexp::string(dir) });
    let max_size = sexp::element(settings, "max_size").and_then(sexp::number);
    let (Some(dir), Some(max_size)) = (dir, max_size) else {
        bail!(InvalidInput, "The cache's settings are a folder and a size.");
    };
    let (root, max_bytes) = (Path::new(dir), max_size as u64);
    let mut last = LAST.lock().unpoisoned();
    if last.as_ref().is_none_or(|cache| cache.root() != root || cache.max_bytes() != max_bytes) {
        *last = Some(Cache::new(root, max_bytes, in_process().clone()));
    }
    Ok(last.clone())
}

/// The cache's size on disk, and statistics of this session's use.
pub fn cache_info(settings: Robj) -> Result<List> {
    let cache = get(&settings)?;
    let (entries, bytes) = cache.as_ref().map_or((0, 0), |cache| cache.size());
    let counts = in_process().counts();
    Ok(list!(
        problem = cache.and_then(|cache| cache.problem()),
        entries = entries as f64,
        bytes = bytes as f64,
        hits = counts.hits as f64,
        shared = counts.shared as f64,
        misses = counts.misses as f64,
        evictions = counts.evictions as f64,
        errors = counts.errors as f64,
        saved_seconds = counts.saved.as_secs_f64()
    ))
}

/// The entries, as columns.
pub fn cache_list(settings: Robj) -> Result<List> {
    let entries = get(&settings)?.map_or_else(Vec::new, |cache| cache.list());
    let headers = || entries.iter().map(|entry| entry.header.as_ref());
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let number = |value: Option<f64>| value.map_or(Rfloat::na(), Rfloat::from);
    Ok(list!(
        key = entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>(),
        name = headers().map(|header| Some(header?.name.clone())).collect::<Vec<_>>(),
        platform = headers().map(|header| Some(header?.target.platform.clone())).collect::<Vec<_>>(),
        bytes = entries.iter().map(|entry| entry.bytes as f64).collect::<Vec<_>>(),
        created = headers().map(|header| number(header.map(|h| h.created as f64))).collect::<Doubles>(),
        last_used = entries.iter().map(|entry| seconds(entry.used)).collect::<Vec<_>>(),
        compile_seconds = headers().map(|header| number(header.map(|h| h.compile_seconds))).collect::<Doubles>()
    ))
}

/// Removes everything. Returns the number of entries and their size in bytes.
pub fn cache_clear(settings: Robj) -> Result<Robj> {
    Ok(removed(get(&settings)?.map_or_else(|| Ok(Removed::default()), |cache| cache.clear())?))
}

/// Removes entries that are unused for `max_age` seconds, or exceed the limit.
pub fn cache_prune(settings: Robj, max_age: f64) -> Result<Robj> {
    let max_age = Duration::try_from_secs_f64(max_age).ok();
    Ok(removed(get(&settings)?.map_or_else(Removed::default, |cache| cache.prune(max_age))))
}

/// The failures since the last call, a line each.
pub fn cache_messages() -> Vec<String> {
    in_process().take_messages()
}

fn removed(removed: Removed) -> Robj {
    list!(entries = removed.entries as f64, bytes = removed.bytes as f64).into()
}
