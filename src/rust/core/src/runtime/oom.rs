//! Memory that ran out: a second try once garbage is gone.

use pjrt_base::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Whether the error is that there is no memory.
pub fn is_exhausted(error: &Error) -> bool {
    error.kind() == Kind::Pjrt(RESOURCE_EXHAUSTED)
}

/// How long a thread waits for the owner's garbage to be gone, who may do something else.
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

/// Whether a thread without memory waits for the owner of all objects to drop those that it does not need. To be asked by
/// the owner, now and then; [`collected`] is the answer.
#[inline]
pub fn is_collection_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}

/// Lets threads go on that waited for garbage to be gone.
pub fn collected() {
    IS_WANTED.store(false, Ordering::Relaxed);
    *ROUNDS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    ROUND_ENDS.notify_all();
}

/// Runs `make` on a thread that is not the owner's; once more, when there was no memory and the owner drops its garbage.
pub(crate) fn with_retry<T>(make: impl Fn() -> Result<T>) -> Result<T> {
    match make() {
        Err(error) if is_exhausted(&error) && await_collection() => make().map_err(|again| telling(error, again)),
        made => made,
    }
}

/// Of the errors of two tries the one that tells more: the first, if the plugin was lost by that.
pub(crate) fn telling(first: Error, again: Error) -> Error {
    if again.kind() == Kind::PluginPoisoned {
        first
    } else {
        again
    }
}

fn await_collection() -> bool {
    let rounds = ROUNDS.lock().unwrap_or_else(PoisonError::into_inner);
    let now = *rounds;
    IS_WANTED.store(true, Ordering::Relaxed);
    let waited = ROUND_ENDS.wait_timeout_while(rounds, PATIENCE, |rounds| *rounds == now);
    let (rounds, _) = waited.unwrap_or_else(PoisonError::into_inner);
    *rounds != now
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_thread_without_memory_tries_again_when_garbage_is_gone() {
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
