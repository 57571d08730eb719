//! The dispatch thread: runs launches that would block the caller, one after the other, in order.

use crate::runtime::event::{Event, OnDrop, Signal};
use pjrt_base::callbacks;
use pjrt_base::error::{Error, Kind, Result, FAILED_PRECONDITION};
use pjrt_base::mmap::SignalStacks;
use pjrt_base::process::{self, ExitDeadline};
use pjrt_base::spin;
use pjrt_base::sync::Unpoisoned;
use pjrt_base::threads;
use pjrt_base::trace;
use pjrt_ffi::poison::{self, Poison};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

/// A launch queued on the dispatch thread.
#[derive(Debug)]
pub(crate) struct Dispatched {
    done: Signal,
    outcome: OnceLock<Result<()>>,
    /// The expected duration; zero if unknown.
    expected: Duration,
    /// Unique in the process, and not 0.
    number: u64,
    /// What it waits for: the launch before on its thread, and those that make its inputs.
    after: Mutex<Vec<Weak<Dispatched>>>,
}

impl Dispatched {
    /// A launch with an expected duration; zero if unknown.
    pub(crate) fn new(poison: &'static Poison, expected: Duration) -> Arc<Dispatched> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Dispatched {
            done: Signal::new(poison),
            outcome: OnceLock::new(),
            expected,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            after: Mutex::default(),
        })
    }

    /// A number that no other launch has, and that is not 0.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Notes that it waits for another launch.
    pub(crate) fn note_after(&self, other: &Arc<Dispatched>) {
        self.after.lock().unpoisoned().push(Arc::downgrade(other));
    }

    /// Whether it is one of these launches, or waits for one.
    fn waits_for(&self, launches: &[u64]) -> bool {
        if self.is_done() {
            return false;
        }
        let upgraded =
            |launch: &Self| -> Vec<_> { launch.after.lock().unpoisoned().iter().filter_map(Weak::upgrade).collect() };
        let (mut seen, mut next) = (vec![self.number], upgraded(self));
        if launches.contains(&self.number) {
            return true;
        }
        while let Some(launch) = next.pop() {
            if launch.is_done() || seen.contains(&launch.number) {
                continue;
            }
            if launches.contains(&launch.number) {
                return true;
            }
            seen.push(launch.number);
            next.extend(upgraded(&launch));
        }
        false
    }

    /// Refuses a wait in a callback for the program that waits for the callback.
    #[cold]
    fn check_callbacks(&self) -> Result<()> {
        if self.waits_for(&callbacks::running_launches()) {
            return Err(Error::new(
                Kind::Pjrt(FAILED_PRECONDITION),
                "A function that a program calls cannot wait for that program: the program waits for the function.",
            ));
        }
        Ok(())
    }

    /// Whether it has run, successfully or not.
    pub(crate) fn is_done(&self) -> bool {
        self.done.is_raised()
    }

    /// Its outcome; `Ok` until it has run.
    pub(crate) fn outcome(&self) -> Result<()> {
        self.outcome.get().cloned().unwrap_or(Ok(()))
    }

    /// Waits until it has run.
    ///
    /// # Errors
    /// Its own, `Interrupted`, and the code of `FAILED_PRECONDITION` in a callback that it waits for.
    pub(crate) fn wait(&self) -> Result<()> {
        if callbacks::depth() > 0 {
            self.check_callbacks()?;
        }
        let patience = spin::SHORT + if self.expected <= spin::LONG { 2 * self.expected } else { Duration::ZERO };
        if !spin::until(patience, || self.is_done()) {
            self.done.wait()?;
        }
        self.outcome()
    }

    /// Does `work` once it has run, on the thread that runs it; now, on this one, if it has.
    pub(crate) fn then(&self, work: OnDrop) {
        self.done.then(work);
    }

    fn finish(&self, outcome: Result<()>) {
        self.after.lock().unpoisoned().clear();
        // Finished once, by the thread that ran it.
        let _ = self.outcome.set(outcome);
        self.done.raise();
    }
}

type LaunchJob = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs in order. The first job starts it; it lives until the process ends.
#[derive(Debug)]
pub(crate) struct LaunchThread {
    sender: Mutex<Option<Sender<LaunchJob>>>,
    /// The last job.
    last: Mutex<Weak<Dispatched>>,
    unfinished: Arc<AtomicUsize>,
    poison: &'static Poison,
    name: String,
}

impl LaunchThread {
    /// A thread of this name for calls of the plugin that `poison` belongs to.
    pub(crate) fn new(poison: &'static Poison, name: impl Into<String>) -> LaunchThread {
        let (last, name) = (Mutex::default(), name.into());
        LaunchThread { sender: Mutex::default(), last, unfinished: Arc::default(), poison, name }
    }

    /// Queues `work`; `launch` signals its end.
    ///
    /// # Errors
    /// The code of `RESOURCE_EXHAUSTED` if the system cannot start a thread.
    pub(crate) fn submit(
        &self,
        dispatched: Arc<Dispatched>,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut sender = self.sender.lock().unpoisoned();
        let open = match sender.as_ref() {
            Some(open) => open,
            None => sender.insert(start(&self.name)?),
        };
        let last = std::mem::replace(&mut *self.last.lock().unpoisoned(), Arc::downgrade(&dispatched));
        if let Some(last) = last.upgrade() {
            dispatched.note_after(&last);
        }
        let (unfinished, cause) = (self.unfinished.clone(), trace::cause());
        let job = move || {
            let _cause = trace::caused_by(cause);
            // Even if the work panics, somebody may wait for it.
            let outcome = catch_unwind(AssertUnwindSafe(work));
            dispatched.finish(
                outcome.unwrap_or_else(|_| Err(Error::new(Kind::Internal, "A launch was aborted by a fault."))),
            );
            unfinished.fetch_sub(1, Ordering::AcqRel);
        };
        self.unfinished.fetch_add(1, Ordering::AcqRel);
        if open.send(Box::new(job)).is_err() {
            self.unfinished.fetch_sub(1, Ordering::AcqRel);
            bail!(Internal, "The dispatch thread has ended.");
        }
        Ok(())
    }

    /// Whether jobs are waiting or running.
    pub(crate) fn is_busy(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) > 0
    }

    /// Waits until all jobs are done. A user's interrupt ends the wait.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        while self.is_busy() {
            let last = Dispatched::new(self.poison, Duration::ZERO);
            self.submit(last.clone(), || Ok(()))?;
            last.wait()?;
        }
        Ok(())
    }

    /// Waits until all jobs are done. Returns whether they were done in time.
    pub(crate) fn drain(&self, patience: &ExitDeadline) -> bool {
        let (done, all_done) = channel::<()>();
        let mut sender = self.sender.lock().unpoisoned();
        match sender.take() {
            // Dropping the sender ends the thread after this last job.
            Some(open) => {
                open.send(Box::new(move || drop(done))).is_err()
                    || patience.until(|slice| all_done.recv_timeout(slice) != Err(RecvTimeoutError::Timeout))
            }
            None => true,
        }
    }
}

/// The pending programs of a device: long ones, copies from other devices, and others while there are any. XLA's CPU
/// client accepts 32 for each device, and blocks the thread that launches one more.
#[derive(Debug)]
pub(crate) struct InFlight {
    count: Arc<AtomicUsize>,
    poison: &'static Poison,
}

impl InFlight {
    /// A queue for the plugin that `poison` belongs to.
    pub(crate) fn new(poison: &'static Poison) -> InFlight {
        InFlight { count: Arc::default(), poison }
    }

    /// Counts a program until it is complete.
    pub(crate) fn count(&self, complete: &Event) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let count = self.count.clone();
        let done = complete.on_ready(move |_| {
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if done.is_err() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Waits until it is empty. A user's interrupt ends the wait.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        const SLICE: Duration = Duration::from_millis(1);
        while !self.is_empty() {
            callbacks::serve()?;
            process::check_interrupt()?;
            self.poison.check()?;
            std::thread::sleep(SLICE);
        }
        Ok(())
    }

    /// Waits until it is empty, or its plugin is lost. Returns whether that was in time.
    pub(crate) fn drain(&self, patience: &ExitDeadline) -> bool {
        let is_over = || self.is_empty() || self.poison.is_noted();
        is_over()
            || patience.until(|slice| {
                std::thread::sleep(slice);
                is_over()
            })
    }

    /// Whether the next launch may have to wait.
    pub(crate) fn is_full(&self) -> bool {
        const NEARLY_ALL: usize = 30;
        self.count.load(Ordering::Relaxed) >= NEARLY_ALL
    }
}

/// The work of a device that was launched there alone: a launch on several devices comes after it.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<Vec<Event>>);

impl Running {
    /// Adds the completion of a program.
    pub(crate) fn add(&self, complete: Event) {
        const MANY: usize = 32;
        let unfinished = |event: &Event| event.is_ready().is_ok_and(|ready| !ready);
        if unfinished(&complete) {
            let mut events = self.take_if(|events| events.len() >= MANY);
            events.retain(unfinished);
            events.push(complete);
            self.lock().append(&mut events);
        }
    }

    /// Returns the events, for a caller who waits for them otherwise.
    pub(crate) fn forget(&self) {
        drop(self.take_if(|_| true));
    }

    /// Waits until nothing runs; errors do not matter.
    pub(crate) fn wait(&self) {
        self.take_if(|_| true).iter().for_each(|event| drop(event.wait_through()));
    }

    /// The events, for calls of the plugin outside the lock: a call that never returns would keep the lock.
    fn take_if(&self, is_wanted: impl Fn(&[Event]) -> bool) -> Vec<Event> {
        let mut events = self.lock();
        if is_wanted(&events) {
            std::mem::take(&mut *events)
        } else {
            Vec::new()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unpoisoned()
    }
}

fn start(name: &str) -> Result<Sender<LaunchJob>> {
    let (sender, receiver) = channel::<LaunchJob>();
    let run = move || {
        let _stacks = SignalStacks::of_this_thread();
        work(&receiver);
    };
    threads::start(name, threads::STACK, "to launch programs", run)?;
    Ok(sender)
}

/// The thread's loop: runs jobs until all senders are gone. If jobs come at short intervals, it polls for the next one.
fn work(jobs: &Receiver<LaunchJob>) {
    let mut patience = spin::SHORT;
    loop {
        let start = Instant::now();
        let mut next = Err(TryRecvError::Empty);
        spin::until(patience, || {
            next = jobs.try_recv();
            !matches!(next, Err(TryRecvError::Empty))
        });
        let next = match next {
            Err(TryRecvError::Empty) => jobs.recv().ok(),
            received => received.ok(),
        };
        let Some(job) = next else { return };
        patience = if start.elapsed() <= spin::LONG { spin::LONG } else { spin::SHORT };
        job();
        if poison::has_thrown_here() {
            poison::park_for_good();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_a_launch_reaches_its_waiter_and_the_next_launch_runs() {
        let poison = Poison::leaked();
        let dispatcher = LaunchThread::new(poison, "pjrt-dispatch");
        let [broken, sound] = [Duration::ZERO; 2].map(|expected| Dispatched::new(poison, expected));
        dispatcher.submit(broken.clone(), || panic!("on purpose")).unwrap();
        dispatcher.submit(sound.clone(), || Ok(())).unwrap();
        assert_eq!(broken.wait().unwrap_err().kind(), Kind::Internal);
        assert!(sound.wait().is_ok());
        assert!(dispatcher.drain(&ExitDeadline::start()));
        assert!(!dispatcher.is_busy());
    }

    #[test]
    fn a_thread_on_which_a_plugin_threw_is_kept_and_what_waits_for_it_ends() {
        let poison = Poison::leaked();
        let dispatcher = LaunchThread::new(poison, "pjrt-dispatch");
        let [throwing, later] = [Duration::ZERO; 2].map(|expected| Dispatched::new(poison, expected));
        dispatcher
            .submit(throwing.clone(), || {
                poison.note("PJRT_Call", "of unknown kind");
                bail!(Internal, "Thrown.")
            })
            .unwrap();
        dispatcher.submit(later.clone(), || Ok(())).unwrap();
        assert_eq!(throwing.wait().unwrap_err().message(), "Thrown.");
        assert_eq!(later.wait().unwrap_err().kind(), Kind::PluginPoisoned);
        assert!(!later.is_done() && InFlight::new(poison).wait_idle().is_ok());
    }
}
