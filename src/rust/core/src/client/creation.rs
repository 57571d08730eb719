//! Creates clients on a separate thread: this may take a plugin minutes, and the user may interrupt the wait.

use crate::client::exchange::Cancel;
use crate::client::Client;
use crate::runtime::plugin::Plugin;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process::{self, ExitDeadline, ShownWait};
use pjrt_base::sync::Unpoisoned;
use pjrt_base::threads;
use pjrt_ffi::poison;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long the creating thread sleeps between checks for interrupts.
const SLICE: Duration = Duration::from_millis(50);

/// The creations in progress.
static RUNNING: Mutex<Vec<Arc<Cancel>>> = Mutex::new(Vec::new());
static CREATION_ENDS: Condvar = Condvar::new();

/// Creates a client on another thread, and waits for it until the user interrupts, or `check` fails. The plugin may go on for a
/// while then; its client is destroyed.
///
/// # Errors
/// As `create` and `check`; `Interrupted`; the code of `RESOURCE_EXHAUSTED` without a thread.
pub(super) fn on_another_thread(
    plugin: &'static Plugin,
    cancel: &Arc<Cancel>,
    create: impl FnOnce() -> Result<Client> + Send + 'static,
    check: impl Fn() -> Result<()>,
) -> Result<Client> {
    let (sender, receiver) = channel();
    RUNNING.lock().unpoisoned().push(cancel.clone());
    let work = {
        let cancel = cancel.clone();
        move || {
            let created = catch_unwind(AssertUnwindSafe(create)).unwrap_or_else(|_| {
                Err(Error::new(Kind::Internal, "The creation of a client was aborted by a fault."))
            });
            // Nobody waits any more for a client that comes too late.
            if let Err(unsent) = sender.send(created) {
                let _ = unsent.0.inspect(|client| client.discard());
            }
            end(&cancel);
            if poison::has_thrown_here() {
                poison::park_for_good();
            }
        }
    };
    // As large as a main thread's.
    threads::start("pjrt-client", 8 << 20, "to create a client", work).inspect_err(|_| end(cancel))?;
    let mut shown = ShownWait::default();
    loop {
        match receiver.recv_timeout(SLICE) {
            Ok(created) => return created,
            Err(RecvTimeoutError::Disconnected) => bail!(Internal, "The creation of a client was cut short."),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let goes_on = process::check_interrupt()
            .and_then(|()| shown.goes_on())
            .and_then(|()| plugin.api().poison().check_wait())
            .and_then(|()| check());
        if let Err(error) = goes_on {
            cancel.now();
            return Err(error);
        }
    }
}

fn end(cancel: &Arc<Cancel>) {
    RUNNING.lock().unpoisoned().retain(|other| !Arc::ptr_eq(other, cancel));
    CREATION_ENDS.notify_all();
}

/// Ends all creations at the end of the process. Returns whether they ended in time.
pub(super) fn finish(patience: &ExitDeadline) -> bool {
    // In a fork there are no threads to wait for.
    match process::lock(&RUNNING) {
        Some(running) if running.iter().all(|cancel| cancel.is_here()) => {
            running.iter().for_each(|cancel| cancel.now())
        }
        _ => return true,
    }
    patience.until(|slice| {
        let waited = CREATION_ENDS.wait_timeout_while(RUNNING.lock().unpoisoned(), slice, |left| !left.is_empty());
        waited.unpoisoned().0.is_empty()
    })
}
