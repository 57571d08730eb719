//! How long a program occupies the thread that launches it: predicted from its code, and measured from its runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A prediction from a program's code. XLA's CPU client runs programs of few floating point operations on the launching
/// thread; transcendental functions, copies and loop iterations do not count as such, however long they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DispatchHint {
    /// It runs on the launching thread, perhaps for long enough to matter.
    pub runs_on_caller: bool,
    /// A device with many queued runs of it is busy for long enough to matter.
    pub is_long: bool,
    /// Its duration hardly depends on its inputs, so earlier runs predict the next one.
    pub is_predictable: bool,
}

impl DispatchHint {
    /// Whether a launch may occupy the calling thread for long, after these runs.
    pub(crate) fn keeps_caller(self, runs: &RunHistory) -> bool {
        self.runs_on_caller && !(self.is_predictable && runs.are_quick())
    }
}

/// How long a program's runs have occupied the launching thread.
#[derive(Debug, Default)]
pub(crate) struct RunHistory {
    /// The number of quick runs in a row, up to now.
    quick: AtomicU32,
    /// The duration of the last run in microseconds.
    last: AtomicU32,
}

impl RunHistory {
    /// A run up to this long blocks the caller no longer than other calls do.
    const QUICK: Duration = Duration::from_micros(100);
    /// After this number of quick runs in a row, the next one is expected to be quick.
    const ENOUGH: u32 = 3;

    /// Records a run. Of two that end at once, one may be lost.
    pub(crate) fn note(&self, took: Duration) {
        let quick = if took > Self::QUICK { 0 } else { self.quick.load(Ordering::Relaxed).saturating_add(1) };
        self.quick.store(quick, Ordering::Relaxed);
        self.last.store(took.as_micros().try_into().unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Whether the next run of a predictable program will be quick.
    fn are_quick(&self) -> bool {
        self.quick.load(Ordering::Relaxed) >= Self::ENOUGH
    }

    /// The duration of the last run; zero before the first.
    pub(crate) fn last(&self) -> Duration {
        Duration::from_micros(self.last.load(Ordering::Relaxed).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predictable_program_is_launched_inline_after_quick_runs_and_until_a_long_one() {
        let (short, long) = (Duration::from_micros(30), Duration::from_millis(1));
        let hint = |is_predictable| DispatchHint { runs_on_caller: true, is_long: true, is_predictable };
        let history = RunHistory::default();
        for _ in 0..RunHistory::ENOUGH {
            assert!(hint(true).keeps_caller(&history));
            history.note(short);
        }
        assert!(!hint(true).keeps_caller(&history));
        assert!(hint(false).keeps_caller(&history), "its next run may take any time");
        assert_eq!(history.last(), short);
        history.note(long);
        assert!(hint(true).keeps_caller(&history));
        assert!(!DispatchHint::default().keeps_caller(&history), "it runs elsewhere");
        history.note(Duration::MAX);
        assert_eq!(history.last(), Duration::from_micros(u32::MAX.into()));
    }
}
