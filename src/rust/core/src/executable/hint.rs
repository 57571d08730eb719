//! How long a program keeps the thread that launches it: what its code says beforehand, and what its runs have shown.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What a program's code says. XLA's CPU client runs programs of few floating point operations on the thread that launches
/// them; transcendental functions, copies and turns of loops do not count as such, however long they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// It runs on the thread that launches it, perhaps for long enough to matter.
    pub runs_on_caller: bool,
    /// A device that was given many of these is busy for long enough to matter.
    pub is_long: bool,
    /// It takes about as long whatever its inputs hold, so that earlier runs tell how long the next one takes.
    pub is_predictable: bool,
}

impl Pace {
    /// Whether a launch may keep the calling thread for long, after runs such as these.
    pub(crate) fn keeps_caller(self, runs: &Record) -> bool {
        self.runs_on_caller && !(self.is_predictable && runs.are_quick())
    }
}

/// How long a program's runs have kept the launching thread.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Runs in a row, up to now, that were quick.
    quick: AtomicU32,
    /// Microseconds of the last run.
    last: AtomicU32,
}

impl Record {
    /// Up to this, a run keeps R no longer than other things that R does.
    const QUICK: Duration = Duration::from_micros(100);
    /// So many quick runs in a row make the next one a quick one, too.
    const ENOUGH: u32 = 3;

    /// Notes a run. Of two that end at once, one may be lost.
    pub(crate) fn note(&self, took: Duration) {
        let quick = if took > Self::QUICK { 0 } else { self.quick.load(Ordering::Relaxed).saturating_add(1) };
        self.quick.store(quick, Ordering::Relaxed);
        self.last.store(took.as_micros().try_into().unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Whether the next run of a predictable program will be quick.
    fn are_quick(&self) -> bool {
        self.quick.load(Ordering::Relaxed) >= Self::ENOUGH
    }

    /// How long the last run took; zero before the first.
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
        let pace = |is_predictable| Pace { runs_on_caller: true, is_long: true, is_predictable };
        let record = Record::default();
        for _ in 0..Record::ENOUGH {
            assert!(pace(true).keeps_caller(&record));
            record.note(short);
        }
        assert!(!pace(true).keeps_caller(&record));
        assert!(pace(false).keeps_caller(&record), "its next run may take any time");
        assert_eq!(record.last(), short);
        record.note(long);
        assert!(pace(true).keeps_caller(&record));
        assert!(!Pace::default().keeps_caller(&record), "it runs elsewhere");
        record.note(Duration::MAX);
        assert_eq!(record.last(), Duration::from_micros(u32::MAX.into()));
    }
}
