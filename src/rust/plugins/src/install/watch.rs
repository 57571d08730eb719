//! Progress and cancellation: one object that every slow step reports to.

use super::Progress;
use pjrt_base::error::{Error, Kind, Result};
use std::time::{Duration, Instant};

/// Longest time without a word to the caller.
pub(super) const SLICE: Duration = Duration::from_millis(50);
/// Most bytes without a word to the caller.
const STEP: u64 = 1 << 20;

/// Tells the caller how far the work is, neither too often nor too rarely, and hears whether to go on.
pub(super) struct Watch<'a> {
    progress: &'a mut Progress<'a>,
    /// What earlier steps brought, and what all will bring.
    before: u64,
    whole: Option<u64>,
    done: u64,
    total: Option<u64>,
    told_at: Instant,
    told_done: u64,
}

impl<'a> Watch<'a> {
    pub fn new(progress: &'a mut Progress<'_>) -> Self {
        Watch { progress, before: 0, whole: None, done: 0, total: None, told_at: Instant::now(), told_done: 0 }
    }

    /// Begins a step: so much was brought before it, and so much will be brought in all.
    pub fn begin(&mut self, before: u64, whole: Option<u64>) {
        (self.before, self.whole, self.done, self.total) = (before, whole, before, whole);
    }

    /// Tells the caller where the work stands.
    ///
    /// # Errors
    /// `Interrupted` if the caller wants no more; so for all of these.
    pub fn tell(&mut self) -> Result<()> {
        self.told_at = Instant::now();
        self.told_done = self.done;
        if (self.progress)(self.done, self.total) {
            return Ok(());
        }
        Err(Error::new(Kind::Interrupted, "The installation of the plugin was interrupted.")
            .hint("Nothing was installed. The partial download is kept for the next attempt."))
    }

    /// Tells the caller where the work stands, if that is due.
    pub fn tick(&mut self) -> Result<()> {
        if self.told_at.elapsed() >= SLICE || self.done.abs_diff(self.told_done) >= STEP {
            self.tell()?;
        }
        Ok(())
    }

    /// Notes that `done` bytes of this step are there, of `total`.
    pub fn reach(&mut self, done: u64, total: Option<u64>) -> Result<()> {
        self.done = self.before + done;
        self.total = self.whole.or(total.map(|total| self.before + total));
        self.tick()
    }

    /// Does nothing for a while, and lets the caller stop that.
    pub fn pause(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.tick()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(SLICE));
        }
    }
}
