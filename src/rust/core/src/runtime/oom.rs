//! Out of memory: retries after a garbage collection.

use pjrt_base::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use pjrt_base::sync::Unpoisoned;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Whether the error means that memory is exhausted.
pub fn is_exhausted(error: &Error) -> bool {
    error.kind() == Kind::Pjrt(RESOURCE_EXHAUSTED)
}

/// How long a thread waits for the owner, who may be busy, to collect garbage.
const PATIENCE: Duration = Duration::from_secs(1);

static IS_WANTED: AtomicBool = AtomicBool::new(false);
static ROUNDS: Mutex<u64> = Mutex::new(0);
static ROUND_ENDS: Condvar = Condvar::new();

thread_local! {
    static COLLECTOR: Cell<Option<Collector>> = const { Cell::new(None) };
}

/// Drops a thread's garbage.
pub type Collector = fn() -> Result<()>;

/// Sets what drops the garbage of this thread, which owns objects of this crate. It runs when a call on this thread finds no
/// memory; an error of it ends that call.
pub fn set_collector(collect: Collector) {
    COLLECTOR.set(Some(collect));
}

/// Drops this thread's garbage, where it has a collector.
pub(crate) fn collect() -> Result<()> {
    COLLECTOR.get().map_or(Ok(()), |collect| collect())
}

/// Whether a thread without memory waits for the owner of all objects to collect garbage. The owner must call this
/// regularly, and answer with [`collected`].
#[inline]
pub fn is_collection_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}

/// Wakes threads that waited for a garbage collection.
pub fn collected() {
    IS_WANTED.store(false, Ordering::Relaxed);
    *ROUNDS.lock().unpoisoned() += 1;
    ROUND_ENDS.notify_all();
}

/// Runs `make` on a thread that is not the owner's. If memory is exhausted and the owner collects garbage, runs it
/// again.
pub(crate) fn with_retry<T>(make: impl Fn() -> Result<T>) -> Result<T> {
    match make() {
        Err(error) if is_exhausted(&error) && await_collection() => make().map_err(|again| telling(error, again)),
        made => made,
    }
}

/// The more useful error of two tries: the first, if it lost the plugin.
pub(crate) fn telling(first: Error, again: Error) -> Error {
    if again.kind() == Kind::PluginPoisoned {
        first
    } else {
        again
    }
}

fn await_collection() -> bool {
    let rounds = ROUNDS.lock().unpoisoned();
    let now = *rounds;
    IS_WANTED.store(true, Ordering::Relaxed);
    let waited = ROUND_ENDS.wait_timeout_while(rounds, PATIENCE, |rounds| *rounds == now);
    let (rounds, _) = waited.unpoisoned();
    *rounds != now
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_thread_without_memory_retries_after_a_garbage_collection() {
        let full = || Err::<(), _>(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), "Full."));
        let tries = AtomicUsize::new(0);
        let outcome = std::thread::scope(|scope| {
            let thread =
                scope.spawn(|| with_retry(|| if tries.fetch_add(1, Ordering::Relaxed) == 0 { full() } else { Ok(()) }));
            while !is_collection_wanted() {
                std::thread::yield_now();
            }
            collected();
            thread.join().unwrap()
        });
        assert!(outcome.is_ok());
        assert_eq!(tries.into_inner(), 2);
        // Nobody answers.
        assert!(with_retry(full).is_err());
        collected();
    }
}
