//! Compilations that nobody waits for any more end with their helpers.

use pjrt_base::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

/// Whether a compilation is still wanted.
#[derive(Debug)]
pub struct Cancel {
    number: u64,
    generation: u32,
    is_cancelled: AtomicBool,
}

/// The helpers at work: the number of the compilation, and the process.
static AT_WORK: Mutex<Vec<(u64, i32)>> = Mutex::new(Vec::new());

/// Set at the end of the session, when no helper may start.
static IS_OVER: AtomicBool = AtomicBool::new(false);

impl Default for Cancel {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Cancel {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            generation: process::generation(),
            is_cancelled: AtomicBool::new(false),
        }
    }
}

impl Cancel {
    /// Ends the helper that works on it, now or later. A helper of a process that this one is a fork of is not touched.
    pub fn cancel(&self) {
        if self.generation != process::generation() {
            return;
        }
        self.is_cancelled.store(true, Ordering::Release);
        let Some(at_work) = process::lock(&AT_WORK) else { return };
        at_work.iter().filter(|(number, _)| *number == self.number).for_each(|&(_, helper)| kill(helper));
    }

    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire) || IS_OVER.load(Ordering::Acquire)
    }

    /// Lets this end the process of a helper from now on. Returns false if it is cancelled already.
    #[cfg(unix)]
    pub(super) fn enter(&self, helper: i32) -> bool {
        let Some(mut at_work) = process::lock(&AT_WORK) else { return false };
        // After the lock: `cancel` sets the flag before it takes the lock.
        if self.is_cancelled() {
            return false;
        }
        at_work.push((self.number, helper));
        true
    }

    /// Leaves the helper alone from now on. Its process must not be awaited before, or another process could get its number.
    #[cfg(unix)]
    pub(super) fn leave(&self) {
        if let Some(mut at_work) = process::lock(&AT_WORK) {
            at_work.retain(|(number, _)| *number != self.number);
        }
    }
}

/// Ends all helpers at work, and lets no other start: for the end of the session.
pub(crate) fn end_all() {
    IS_OVER.store(true, Ordering::Release);
    if let Some(at_work) = process::lock(&AT_WORK) {
        at_work.iter().for_each(|&(_, helper)| kill(helper));
    }
}

fn kill(helper: i32) {
    #[cfg(unix)]
    // SAFETY: signals a child of this process that nobody has awaited.
    unsafe {
        libc::kill(helper, libc::SIGKILL);
    }
    #[cfg(not(unix))]
    let _ = helper;
}
