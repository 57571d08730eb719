//! Progress and cancellation: one object that every slow step reports to.

use super::Progress;
use pjrt_base::error::{Error, Kind, Result};
use std::time::{Duration, Instant};

/// The longest time between calls of the caller's function.
pub(super) const SLICE: Duration = Duration::from_millis(50);
/// The most bytes between calls of the caller's function.
const STEP: u64 = 1 << 20;

/// Reports progress to the caller, at reasonable intervals, and asks whether to continue.
pub(super) struct Watch<'a> {
    progress: &'a mut Progress<'a>,
    /// The bytes of earlier steps, and of all steps.
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

    /// Begins a step: `before` bytes were done earlier, and all steps have `whole` bytes.
    pub fn begin(&mut self, before: u64, whole: Option<u64>) {
        (self.before, self.whole, self.done, self.total) = (before, whole, before, whole);
    }

    /// Reports progress to the caller.
    ///
    /// # Errors
    /// `Interrupted` if the caller cancels the work. This applies to all methods below.
    pub fn tell(&mut self) -> Result<()> {
        self.told_at = Instant::now();
        self.told_done = self.done;
        if (self.progress)(self.done, self.total) {
            return Ok(());
        }
        Err(Error::new(Kind::Interrupted, "The installation of the plugin was interrupted.")
            .hint("Nothing was installed. The partial download is kept for the next attempt."))
    }

    /// Reports progress to the caller if it is due.
    pub fn tick(&mut self) -> Result<()> {
        if self.told_at.elapsed() >= SLICE || self.done.abs_diff(self.told_done) >= STEP {
            self.tell()?;
        }
        Ok(())
    }

    /// Records that `done` of this step's `total` bytes are done.
    pub fn reach(&mut self, done: u64, total: Option<u64>) -> Result<()> {
        self.done = self.before + done;
        self.total = self.whole.or(total.map(|total| self.before + total));
        self.tick()
    }

    /// Waits, unless the caller cancels the work.
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
