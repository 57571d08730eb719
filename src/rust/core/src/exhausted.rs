//! Memory that ran out: what was asked for, what takes it, and a second try once garbage is gone.

use crate::client;
use crate::Client;
use pjrt_base::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};
use pjrt_base::room::size;
use pjrt_data::array::Spec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Adds what is known of memory to the error that there is none left; leaves all others as they are. `asked` says what it
/// was needed for.
#[cold]
pub fn explain(error: Error, asked: impl FnOnce() -> String) -> Error {
    const ADVICE: &str = "Free memory: pjrt_delete() buffers, or drop their names and call gc(); donate inputs that a \
                          program can take over; or use smaller arrays, or a dtype that takes less.";
    if error.code() != Some(RESOURCE_EXHAUSTED) || !error.hints().is_empty() {
        return error;
    }
    let error = error.hint(format!("Asked for {}.", asked()));
    client::all().iter().fold(error, |error, client| error.hint(holdings(client))).hint(ADVICE)
}

/// Arrays with their sizes, in a list of a few: the first ones, and how many more.
pub fn arrays<'a>(specs: impl IntoIterator<Item = &'a Spec>) -> String {
    const FEW: usize = 3;
    let all: Vec<&Spec> = specs.into_iter().collect();
    let mut told: Vec<String> = all.iter().take(FEW).map(|spec| format!("{spec} ({})", size(spec.bytes()))).collect();
    if all.len() > FEW {
        told.push(format!("{} more", all.len() - FEW));
    }
    match told.split_last() {
        None => "nothing that has a size".into(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

/// What a client's buffers take.
fn holdings(client: &Client) -> String {
    let mut specs: Vec<Arc<Spec>> = client.buffers().all().iter().filter_map(|buffer| buffer.living()).collect();
    if specs.is_empty() {
        return format!("The {} client has no buffers.", client.platform());
    }
    specs.sort_by_key(|spec| std::cmp::Reverse(spec.bytes()));
    let total = specs.iter().map(|spec| spec.bytes()).fold(0, usize::saturating_add);
    let (count, largest) = (specs.len(), arrays(specs.iter().map(|spec| &**spec)));
    format!("The {} client has {count} buffer(s) of {} in all: {largest}.", client.platform(), size(total))
}

/// Whether the error is that there is no memory.
pub fn is_exhausted(error: &Error) -> bool {
    error.kind() == Kind::Pjrt(RESOURCE_EXHAUSTED)
}

/// How long a thread waits for the owner's garbage to be gone, who may do something else.
const PATIENCE: Duration = Duration::from_secs(1);

static IS_WANTED: AtomicBool = AtomicBool::new(false);
static ROUNDS: Mutex<u64> = Mutex::new(0);
static ROUND_ENDS: Condvar = Condvar::new();

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
pub fn telling(first: Error, again: Error) -> Error {
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
    use pjrt_data::dtype::DType;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn sizes_are_read_by_people() {
        let said: Vec<_> = [0, 999, 1000, 999_949, 999_950, 1_500_000_000, usize::MAX].map(size).into();
        assert_eq!(said, ["0 bytes", "999 bytes", "1.0 kB", "999.9 kB", "1.0 MB", "1.5 GB", "18.4 EB"]);
    }

    #[test]
    fn a_few_arrays_are_named() {
        let specs: Vec<Spec> = (1..=5).map(|n| Spec::new(DType::F32, &[n, 1000]).unwrap()).collect();
        assert_eq!(arrays(&specs[..0]), "nothing that has a size");
        assert_eq!(arrays(&specs[..1]), "f32[1x1000] (4.0 kB)");
        assert_eq!(arrays(&specs[..2]), "f32[1x1000] (4.0 kB) and f32[2x1000] (8.0 kB)");
        assert!(arrays(&specs).ends_with(", f32[3x1000] (12.0 kB) and 2 more"), "{}", arrays(&specs));
    }

    #[test]
    fn only_errors_of_memory_are_explained_and_only_once() {
        let other = explain(Error::new(Kind::Internal, "Broken."), || unreachable!());
        assert!(other.hints().is_empty());
        let error = explain(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), "Full."), || "a lot".into());
        let hints = error.hints().to_vec();
        assert_eq!(hints[0], "Asked for a lot.");
        assert_eq!(explain(error, || "more".into()).hints(), hints);
    }

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
