//! Missing values that became numbers, as the elements have no NaN. Uploads note them here, some of them on other threads
//! after the call; the host warns of them.

use pjrt_base::process;
use pjrt_data::array::Spec;
use pjrt_data::convert::LossReport;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

/// What one upload found.
#[derive(Debug, Clone)]
pub struct Missing {
    /// The array on the device.
    pub spec: Spec,
    pub report: LossReport,
    /// Whether the call that began the upload had returned already.
    pub is_late: bool,
}

static NOTED: Mutex<Vec<Missing>> = Mutex::new(Vec::new());

static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Further notes are dropped: a caller may never ask for them.
const MOST: usize = 50;

pub(crate) fn note(missing: Missing) {
    let Some(mut noted) = process::lock(&NOTED) else { return };
    if noted.len() < MOST {
        noted.push(missing);
    }
    IS_ANY.store(true, Ordering::Release);
}

/// Whether there are notes.
#[inline]
pub fn is_noted() -> bool {
    IS_ANY.load(Ordering::Acquire)
}

/// Takes the notes, in the order in which they were made.
pub fn take() -> Vec<Missing> {
    let Some(mut noted) = process::lock(&NOTED) else { return Vec::new() };
    IS_ANY.store(false, Ordering::Release);
    std::mem::take(&mut noted)
}
