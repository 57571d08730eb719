//! Out of memory: garbage collection, also for threads that own no objects.

use pjrt_base::error::Result;
use pjrt_base::sync::Unpoisoned;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

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

/// Drops this thread's garbage. A thread without a collector waits for a moment until the owner has collected garbage.
pub(crate) fn collect() -> Result<()> {
    COLLECTOR.get().unwrap_or(await_collection)()
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

fn await_collection() -> Result<()> {
    let rounds = ROUNDS.lock().unpoisoned();
    let now = *rounds;
    IS_WANTED.store(true, Ordering::Relaxed);
    let waited = ROUND_ENDS.wait_timeout_while(rounds, PATIENCE, |rounds| *rounds == now);
    drop(waited.unpoisoned());
    Ok(())
}
