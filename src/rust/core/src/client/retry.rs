//! A second try where memory ran out.

use crate::client::holdings;
use crate::host::pool;
use crate::runtime::oom;
use pjrt_base::error::{Error, Kind, Result, RESOURCE_EXHAUSTED};

/// Runs `make`. If memory is exhausted, collects garbage (see [`oom::set_collector`]) or waits until the thread that has a
/// collector has done so, frees the memory that is kept for later use, and tries once more. `asked` says what the memory is
/// for.
///
/// # Errors
/// The errors of `make`, and of the collector.
pub fn with_retry<T>(asked: impl FnOnce() -> String, mut make: impl FnMut() -> Result<T>) -> Result<T> {
    match make() {
        Err(first) if first.code() == Some(RESOURCE_EXHAUSTED) => {
            oom::collect()?;
            pool::clear();
            // The first error says more if the second try lost the plugin.
            let telling = |again: Error| if again.kind() == Kind::PluginPoisoned { first } else { again };
            make().map_err(|again| holdings::explain(telling(again), asked))
        }
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    thread_local! {
        static COLLECTIONS: Cell<usize> = const { Cell::new(0) };
    }

    fn full<T>() -> Result<T> {
        Err(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), "Full."))
    }

    #[test]
    fn garbage_is_collected_once_before_the_second_try() {
        oom::set_collector(|| {
            COLLECTIONS.set(COLLECTIONS.get() + 1);
            Ok(())
        });
        let asked = || "much".to_owned();
        assert_eq!(with_retry(asked, || if COLLECTIONS.get() == 0 { full() } else { Ok(1) }).unwrap(), 1);
        assert_eq!(COLLECTIONS.get(), 1);
        let error = with_retry(asked, full::<()>).unwrap_err();
        assert_eq!((error.hints()[0].to_string(), COLLECTIONS.get()), ("Asked for much.".into(), 2));
        // Other errors are final.
        assert!(with_retry(asked, || Err::<(), _>(Error::new(Kind::Internal, "Broken."))).is_err());
        assert_eq!(COLLECTIONS.get(), 2);
    }

    #[test]
    fn a_collector_that_is_interrupted_ends_the_call() {
        oom::set_collector(|| Err(Error::new(Kind::Interrupted, "Interrupted.")));
        let mut tries = 0;
        let made = with_retry(String::new, || {
            tries += 1;
            full::<()>()
        });
        assert_eq!((made.unwrap_err().kind(), tries), (Kind::Interrupted, 1));
    }

    #[test]
    fn a_thread_without_memory_retries_after_a_garbage_collection() {
        let tries = AtomicUsize::new(0);
        let make = || if tries.fetch_add(1, Ordering::Relaxed) == 0 { full() } else { Ok(()) };
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(|| with_retry(String::new, make));
            while !oom::is_collection_wanted() {
                std::thread::yield_now();
            }
            oom::collected();
            thread.join().unwrap()
        });
        assert!(outcome.is_ok());
        assert_eq!(tries.into_inner(), 2);
        // Nobody answers.
        assert!(with_retry(String::new, full::<()>).is_err());
        oom::collected();
    }
}
