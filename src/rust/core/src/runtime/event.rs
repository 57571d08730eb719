//! Events: the completion of work on a device, possibly with an error.

use crate::runtime::plugin::Plugin;
use pjrt_ffi::api::call;
use pjrt_ffi::poison::Poison;

use pjrt_base::callbacks;
use pjrt_base::console;
use pjrt_base::error::{Kind, Result};
use pjrt_base::process;
use pjrt_base::spin;
use pjrt_base::sync::Unpoisoned;
use pjrt_sys::*;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long a waiter sleeps between checks for interrupts.
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
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Takes ownership of an event that the plugin returned.
    pub(crate) fn new(plugin: &'static Plugin, handle: *mut PJRT_Event) -> Self {
        Event { plugin, handle, generation: process::generation() }
    }

    /// Whether it is complete, successfully or not. Does not block.
    ///
    /// # Errors
    /// The plugin's, if it cannot tell.
    pub fn is_ready(&self) -> Result<bool> {
        Ok(call!(self.plugin.api(), PJRT_Event_IsReady { event: self.handle })?.is_ready)
    }

    /// Waits until it is complete. A user's interrupt ends the wait.
    ///
    /// # Errors
    /// The error that the event carries, or `Interrupted`.
    pub fn wait(&self) -> Result<()> {
        let mut looked = Ok(true);
        let is_over = spin::until(spin::SHORT, || {
            looked = self.is_ready();
            !matches!(looked, Ok(false))
        });
        self.or_wait_inside(looked.and_then(|_| if is_over { Ok(()) } else { self.signal()?.wait() }))?;
        // The work may have printed.
        console::flush()?;
        self.outcome()
    }

    /// The outcome of a complete event.
    ///
    /// # Errors
    /// The error that it carries.
    pub(crate) fn outcome(&self) -> Result<()> {
        self.or_wait_inside(call!(self.plugin.api(), PJRT_Event_Error { event: self.handle }).map(drop))
    }

    /// The outcome, or that of a wait in the plugin if it cannot tell or call back: nothing interrupts that wait.
    fn or_wait_inside(&self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if error.is_unsupported() => {
                call!(self.plugin.api(), PJRT_Event_Await { event: self.handle }).map(drop)
            }
            outcome => outcome,
        }
    }

    /// Waits until it is complete, without checks for interrupts. Not inside the plugin, where the wait might never
    /// end.
    ///
    /// # Errors
    /// The error that the event carries, or `PluginPoisoned`, after which the work may still go on.
    pub(crate) fn wait_through(&self) -> Result<()> {
        self.or_wait_inside(self.is_ready().and_then(|is| if is { Ok(()) } else { self.signal()?.wait_through() }))?;
        self.outcome()
    }

    /// A signal that is raised on completion.
    fn signal(&self) -> Result<Arc<Signal>> {
        let signal = Arc::new(Signal::new(self.plugin.api().poison()));
        let raised = signal.clone();
        self.on_ready(move |_| raised.raise())?;
        Ok(signal)
    }

    /// Calls `callback` once, with the event's outcome, on the thread that completes the event (at once on this one if
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

/// Work that is done once, when this is dropped: so it is done even if what drops this fails.
pub(crate) struct OnDrop(Option<Box<dyn FnOnce() + Send>>);

impl OnDrop {
    pub(crate) fn new(work: impl FnOnce() + Send + 'static) -> OnDrop {
        OnDrop(Some(Box::new(work)))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work();
        }
    }
}

impl fmt::Debug for OnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnDrop")
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

/// A flag that one thread raises and another waits for, interruptibly. The wait also ends if a plugin is lost that the
/// raising thread may be waiting for.
#[derive(Debug)]
pub(crate) struct Signal {
    raised: AtomicBool,
    /// The number of threads that sleep until it is raised: waking nobody would cost a system call, too.
    sleepers: AtomicU32,
    sleep: Mutex<()>,
    changed: Condvar,
    /// What to do when it is raised.
    work: Mutex<Vec<OnDrop>>,
    has_work: AtomicBool,
    poison: &'static Poison,
}

impl Signal {
    pub(crate) fn new(poison: &'static Poison) -> Signal {
        Signal {
            raised: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            sleep: Mutex::default(),
            changed: Condvar::new(),
            work: Mutex::default(),
            has_work: AtomicBool::new(false),
            poison,
        }
    }

    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // A thread that checked the flag before this raised it sleeps once its lock is free.
            drop(self.sleep.lock().unpoisoned());
            self.changed.notify_all();
        }
        // The host's thread sleeps until this or a callback wakes it.
        callbacks::ring();
        self.work_if_raised();
    }

    /// Does `work` when it is raised, on the thread that raises it; now, on this one, if it is already.
    pub(crate) fn then(&self, work: OnDrop) {
        self.work.lock().unpoisoned().push(work);
        self.has_work.store(true, Ordering::SeqCst);
        self.work_if_raised();
    }

    fn work_if_raised(&self) {
        if self.has_work.load(Ordering::SeqCst) && self.is_raised() {
            let work = std::mem::take(&mut *self.work.lock().unpoisoned());
            drop(work);
        }
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    /// Waits until it is raised.
    ///
    /// # Errors
    /// `Interrupted`, `PluginPoisoned`.
    pub(crate) fn wait(&self) -> Result<()> {
        process::check_interrupt_sometimes()?;
        if self.is_raised() {
            return Ok(());
        }
        if callbacks::is_host() {
            return self.wait_as_host().inspect_err(|error| {
                if error.kind() == Kind::Interrupted {
                    callbacks::pause();
                }
            });
        }
        let mut shown = process::ShownWait::default();
        self.wait_with(|| {
            process::check_interrupt()?;
            shown.goes_on()
        })
    }

    /// The same on the host's thread: what raises it may need callbacks first.
    fn wait_as_host(&self) -> Result<()> {
        let wait = callbacks::Wait::start();
        let mut shown = process::ShownWait::default();
        loop {
            if callbacks::are_waiting() {
                callbacks::serve()?;
                process::check_interrupt_sometimes()?;
                // The program often calls again soon.
                spin::until(spin::SHORT, || self.is_raised() || callbacks::are_waiting());
            } else {
                wait.sleep(|| self.is_raised(), SLICE);
                if !self.is_raised() && !callbacks::are_waiting() {
                    process::check_interrupt()?;
                    shown.goes_on()?;
                }
            }
            if self.is_raised() {
                return Ok(());
            }
            self.poison.check_wait()?;
        }
    }

    /// The same without checks for interrupts.
    fn wait_through(&self) -> Result<()> {
        self.wait_with(|| Ok(()))
    }

    fn wait_with(&self, mut goes_on: impl FnMut() -> Result<()>) -> Result<()> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut waited = Ok(());
        while waited.is_ok() {
            let asleep = self.sleep.lock().unpoisoned();
            if self.is_raised() {
                break;
            }
            drop(self.changed.wait_timeout(asleep, SLICE));
            if self.is_raised() {
                break;
            }
            waited = goes_on().and_then(|()| self.poison.check_wait());
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_wait_ends_when_the_plugin_is_lost() {
        let poison = Poison::leaked();
        let signal = Signal::new(poison);
        std::thread::scope(|scope| {
            let waits = [scope.spawn(|| signal.wait()), scope.spawn(|| signal.wait_through())];
            poison.note("PJRT_Call", "of unknown kind");
            for wait in waits {
                assert_eq!(wait.join().unwrap().unwrap_err().kind(), Kind::PluginPoisoned);
            }
        });
        // An event that came before counts.
        signal.raise();
        assert!(signal.wait().is_ok());
    }

    #[test]
    fn work_is_done_once_when_a_signal_is_raised_early_or_late() {
        let poison = Poison::leaked();
        for _ in 0..500 {
            let (signal, done) = (Signal::new(poison), Arc::new(AtomicU32::new(0)));
            let count = || {
                let done = done.clone();
                OnDrop::new(move || {
                    done.fetch_add(1, Ordering::SeqCst);
                })
            };
            signal.then(count());
            assert_eq!(done.load(Ordering::SeqCst), 0);
            std::thread::scope(|scope| {
                scope.spawn(|| signal.raise());
                signal.then(count());
            });
            signal.then(count());
            assert_eq!(done.load(Ordering::SeqCst), 3);
        }
    }

    #[test]
    fn a_signal_wakes_all_who_wait_for_it_early_or_late() {
        let poison = Poison::leaked();
        for round in 0..500 {
            let signal = Signal::new(poison);
            std::thread::scope(|scope| {
                let waits = [0; 3].map(|_| scope.spawn(|| signal.wait()));
                if round % 2 == 0 {
                    std::thread::yield_now();
                }
                signal.raise();
                for wait in waits {
                    assert!(wait.join().unwrap().is_ok());
                }
            });
            assert!(signal.is_raised());
            assert_eq!(signal.sleepers.load(Ordering::SeqCst), 0);
        }
    }
}
