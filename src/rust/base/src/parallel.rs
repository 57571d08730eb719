//! Work in many pieces, shared by several threads while the calling thread checks for interrupts.

use crate::error::{Error, Result};
use crate::sync::Unpoisoned;
use crate::trace::{self, Activity, Details};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread works before it checks for interrupts.
const SLICE: Duration = Duration::from_millis(30);

/// The most threads worth starting: more would wait for the same memory.
const MOST_THREADS: usize = 8;

/// Says when it is time to check for interrupts.
pub struct InterruptTimer(Instant);

impl InterruptTimer {
    pub fn start() -> InterruptTimer {
        InterruptTimer(Instant::now())
    }

    /// Whether it is time. If so, starts the next interval.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.0.elapsed() >= SLICE;
        if is_due {
            self.0 = Instant::now();
        }
        is_due
    }
}

/// Calls `work` once for each number below `count`, from this thread and up to `helpers` others. Calls `watch` from
/// this thread now and then. The first error stops all threads after the pieces in progress.
pub fn run(
    count: usize,
    helpers: usize,
    work: impl Fn(usize) -> Result<()> + Sync,
    watch: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let ended = AtomicBool::new(false);
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let fail = |error| {
        ended.store(true, Ordering::Relaxed);
        failed.lock().unpoisoned().get_or_insert(error);
    };
    // Whether pieces may be left.
    let step = || {
        let piece = next.fetch_add(1, Ordering::Relaxed);
        if piece >= count || ended.load(Ordering::Relaxed) {
            return false;
        }
        work(piece).map_err(fail).is_ok()
    };
    let helpers = helpers.min(MOST_THREADS - 1).min(count.saturating_sub(1));
    let finished = AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut running = 0;
        let cause = trace::cause();
        for number in 1..=helpers {
            let (step, finished) = (&step, &finished);
            let help = move || {
                trace::name_lane(|| format!("worker {number}"));
                let _cause = trace::caused_by(cause);
                let share = trace::span(Activity::Work, Details::default);
                while step() {}
                drop(share);
                finished.fetch_add(1, Ordering::Release);
            };
            // If no thread starts, this one does all the work.
            running += usize::from(thread::Builder::new().spawn_scoped(scope, help).is_ok());
        }
        let mut timer = InterruptTimer::start();
        let mut look = || {
            if timer.is_due() {
                watch().unwrap_or_else(fail);
            }
        };
        while step() {
            look();
        }
        while finished.load(Ordering::Acquire) < running {
            thread::sleep(Duration::from_micros(50));
            look();
        }
    });
    failed.into_inner().unpoisoned().map_or(Ok(()), Err)
}

pub use crate::processors::count as processors;

/// The number of threads besides the calling one that this process may use.
pub fn helpers() -> usize {
    processors() - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::trace::tests::ALONE;

    #[test]
    fn every_piece_is_done_once() {
        let _alone = ALONE.lock();
        let done: Vec<_> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        let work = |piece: usize| {
            done[piece].fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        run(done.len(), 3, work, &mut || Ok(())).unwrap();
        assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn an_error_ends_the_work() {
        let _alone = ALONE.lock();
        let done = AtomicUsize::new(0);
        let work = |piece| {
            done.fetch_add(1, Ordering::Relaxed);
            if piece == 5 {
                bail!(Io, "on purpose");
            }
            thread::sleep(Duration::from_micros(100));
            Ok(())
        };
        assert_eq!(run(100_000, 2, work, &mut || Ok(())).unwrap_err().kind(), Kind::Io);
        assert!(done.load(Ordering::Relaxed) < 1000);
        let slow = |_| {
            thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        let watched = run(100_000, 2, slow, &mut || Err(Error::new(Kind::Interrupted, "on purpose")));
        assert_eq!(watched.unwrap_err().kind(), Kind::Interrupted);
    }
}
