//! Events: something that happens on a device later, possibly with an error.

use crate::api::call;
use crate::error::Result;
use crate::plugin::Plugin;
use crate::poison::Poison;
use crate::process;
use pjrt_sys::*;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a waiter polls before it sleeps: most short programs end within it, and waking a thread costs more.
const SPIN: Duration = Duration::from_micros(20);

/// How long a waiter sleeps before it looks whether the user interrupts.
const SLICE: Duration = Duration::from_millis(50);

/// A PJRT event, owned.
#[derive(Debug)]
pub struct Event {
    plugin: &'static Plugin,
    handle: *mut PJRT_Event,
    generation: u32,
}

// SAFETY: PJRT's event functions may be called from any thread.
unsafe impl Send for Event {}
unsafe impl Sync for Event {}

impl Event {
    /// Takes ownership of an event that the plugin returned.
    pub(crate) fn new(plugin: &'static Plugin, handle: *mut PJRT_Event) -> Self {
        Event { plugin, handle, generation: process::generation() }
    }

    /// Whether it has happened, successfully or not. Does not block.
    ///
    /// # Errors
    /// The plugin's, when it cannot tell.
    pub fn is_ready(&self) -> Result<bool> {
        Ok(call!(self.plugin.api(), PJRT_Event_IsReady { event: self.handle })?.is_ready)
    }

    /// Waits until it has happened; a user's interrupt ends the wait.
    ///
    /// # Errors
    /// The error that the event carries, or `Interrupted`.
    pub fn wait(&self) -> Result<()> {
        let start = Instant::now();
        while !self.is_ready()? {
            if start.elapsed() > SPIN {
                self.signal()?.wait()?;
                break;
            }
            std::hint::spin_loop();
        }
        call!(self.plugin.api(), PJRT_Event_Error { event: self.handle }).map(drop)
    }

    /// Waits until it has happened, whatever the user does. Not in the plugin, where the wait might never end.
    ///
    /// # Errors
    /// The error that the event carries, or `PluginPoisoned`: what the event stands for may then go on.
    pub(crate) fn wait_through(&self) -> Result<()> {
        if !self.is_ready()? {
            self.signal()?.wait_through()?;
        }
        call!(self.plugin.api(), PJRT_Event_Error { event: self.handle }).map(drop)
    }

    /// A signal that is raised when it has happened.
    fn signal(&self) -> Result<Arc<Signal>> {
        let signal = Arc::new(Signal::new(self.plugin.api().poison()));
        let raised = signal.clone();
        self.on_ready(move |_| raised.raise())?;
        Ok(signal)
    }

    /// Calls `callback` once, with the event's outcome, on whichever thread completes the event (at once on this one if
    /// it is complete). The callback must not panic.
    ///
    /// # Errors
    /// The plugin's; the callback is then never called.
    pub fn on_ready<F: FnOnce(Result<()>) + Send + 'static>(&self, callback: F) -> Result<()> {
        struct Job<F> {
            plugin: &'static Plugin,
            callback: F,
        }
        unsafe extern "C" fn run<F: FnOnce(Result<()>)>(error: *mut PJRT_Error, job: *mut c_void) {
            let job = Box::from_raw(job.cast::<Job<F>>());
            let outcome =
                if error.is_null() { Ok(()) } else { Err(job.plugin.api().take_error(error, "PJRT_Event_OnReady")) };
            (job.callback)(outcome);
        }
        let job = Box::into_raw(Box::new(Job { plugin: self.plugin, callback }));
        let called = call!(
            self.plugin.api(),
            PJRT_Event_OnReady { event: self.handle, callback: Some(run::<F>), user_arg: job.cast() }
        );
        if called.is_err() {
            // SAFETY: the plugin refused, so the job is still ours.
            drop(unsafe { Box::from_raw(job) });
        }
        called.map(drop)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.generation == process::generation() {
            // Nothing can be done about a failure to free.
            let _ = call!(self.plugin.api(), PJRT_Event_Destroy { event: self.handle });
        }
    }
}

/// A flag that one thread raises and another waits for, interruptibly. The wait ends also when a plugin is lost, which the one
/// that raises it may be waiting for.
#[derive(Debug)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
    poison: &'static Poison,
}

impl Signal {
    pub(crate) fn new(poison: &'static Poison) -> Signal {
        Signal { raised: Mutex::default(), changed: Condvar::new(), poison }
    }

    pub(crate) fn raise(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_raised(&self) -> bool {
        *self.lock()
    }

    /// Waits until it is raised.
    ///
    /// # Errors
    /// `Interrupted`, `PluginPoisoned`.
    pub(crate) fn wait(&self) -> Result<()> {
        process::check_interrupt_now_and_then()?;
        self.wait_with(process::check_interrupt)
    }

    /// The same, whatever the user does.
    fn wait_through(&self) -> Result<()> {
        self.wait_with(|| Ok(()))
    }

    fn wait_with(&self, goes_on: impl Fn() -> Result<()>) -> Result<()> {
        let mut raised = self.lock();
        while !*raised {
            raised = self.changed.wait_timeout(raised, SLICE).unwrap_or_else(PoisonError::into_inner).0;
            if !*raised {
                drop(raised);
                goes_on()?;
                self.poison.check_wait()?;
                raised = self.lock();
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_wait_for_what_never_comes_ends_when_the_plugin_is_lost() {
        let poison = Poison::leaked();
        let signal = Signal::new(poison);
        std::thread::scope(|scope| {
            let waits = [scope.spawn(|| signal.wait()), scope.spawn(|| signal.wait_through())];
            poison.note("PJRT_Call", "of unknown kind");
            for wait in waits {
                assert_eq!(wait.join().unwrap().unwrap_err().kind(), Kind::PluginPoisoned);
            }
        });
        // What has come before counts.
        signal.raise();
        assert!(signal.wait().is_ok());
    }
}
