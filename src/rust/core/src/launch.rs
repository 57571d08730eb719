//! The dispatch thread: launches that would keep the caller busy happen here, one after the other, in order.

use crate::error::{Error, Kind, Result};
use crate::event::Signal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A launch that was handed to the dispatch thread.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    done: Signal,
    outcome: OnceLock<Result<()>>,
}

impl Launch {
    /// Whether it has been made, successfully or not.
    pub(crate) fn is_done(&self) -> bool {
        self.done.is_raised()
    }

    /// What came of it; fine while it has not been made.
    pub(crate) fn outcome(&self) -> Result<()> {
        self.outcome.get().cloned().unwrap_or(Ok(()))
    }

    /// Waits until it is made.
    pub(crate) fn wait(&self) -> Result<()> {
        self.done.wait()?;
        self.outcome()
    }

    fn finish(&self, outcome: Result<()>) {
        // Finished once, by the thread that ran it.
        let _ = self.outcome.set(outcome);
        self.done.raise();
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs in the order of their coming; started by the first, gone with the process.
#[derive(Debug, Default)]
pub(crate) struct Dispatcher {
    sender: Mutex<Option<Sender<Job>>>,
    unfinished: Arc<AtomicUsize>,
}

impl Dispatcher {
    /// Hands `work` over; `launch` tells when it is done.
    ///
    /// # Errors
    /// `Internal` when the system gives no thread.
    pub(crate) fn submit(&self, launch: Arc<Launch>, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let unfinished = self.unfinished.clone();
        unfinished.fetch_add(1, Ordering::AcqRel);
        let job: Job = Box::new(move || {
            launch.finish(work());
            unfinished.fetch_sub(1, Ordering::AcqRel);
        });
        let job = match sender.as_ref() {
            Some(open) => match open.send(job) {
                Ok(()) => return Ok(()),
                Err(returned) => returned.0,
            },
            None => job,
        };
        let opened = sender.insert(start()?);
        if opened.send(job).is_err() {
            fail!(Internal, "The dispatch thread ended at once.");
        }
        Ok(())
    }

    /// Whether jobs are waiting or running.
    pub(crate) fn is_busy(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) > 0
    }

    /// Waits until all jobs are done, at most for `limit`; tells whether they are.
    pub(crate) fn drain(&self, limit: Duration) -> bool {
        let (done, all_done) = channel::<()>();
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        match sender.take() {
            // Dropping the sender ends the thread after this last job.
            Some(open) => {
                open.send(Box::new(move || drop(done))).is_err()
                    || all_done.recv_timeout(limit) != Err(RecvTimeoutError::Timeout)
            }
            None => true,
        }
    }
}

fn start() -> Result<Sender<Job>> {
    let (sender, receiver) = channel::<Job>();
    let run = move || receiver.into_iter().for_each(|job| job());
    std::thread::Builder::new()
        .name("pjrt-dispatch".into())
        .spawn(run)
        .map_err(|error| Error::new(Kind::Internal, format!("The system gives no thread for dispatch: {error}.")))?;
    Ok(sender)
}
