//! Callbacks: calls from programs of functions that only one thread may run, the host's. A call waits here until that thread
//! waits for something, polls or is idle, and no other thread waits for it.

use crate::error::{Error, Kind, Result};
use crate::process;
use crate::sync::Unpoisoned;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A call of a function of the host.
pub trait Callback: Send + Sync {
    /// Runs the function and reports to the program, on the host's thread.
    fn run(&self) -> Ran;

    /// Reports to the program that the function will not run. Does nothing after an earlier report.
    fn cancel(&self);

    /// The launch of the program; 0 if unknown.
    fn launch(&self) -> u64;

    /// Whether other parts of the program may end the process if they wait for too long for this one.
    fn is_urgent(&self) -> bool {
        false
    }
}

/// How a run of a callback ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// The outcome was reported to the program.
    Reported,
    /// The user interrupted it: it runs again later, from its start.
    Interrupted,
}

struct CallbackQueue {
    queue: VecDeque<Arc<dyn Callback>>,
    /// The host runs none any more.
    is_closed: bool,
    /// The user interrupted: an idle host runs none until it waits or polls again.
    is_paused: bool,
    /// The child of a fork does not run the callbacks of its parent.
    generation: u32,
}

static STATE: Mutex<CallbackQueue> =
    Mutex::new(CallbackQueue { queue: VecDeque::new(), is_closed: false, is_paused: false, generation: 0 });

static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Wakes the host's thread where it waits for work.
static BELL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
static IS_ASLEEP: AtomicBool = AtomicBool::new(false);

/// The number of waits of the host's thread, one in a callback of the other, that run callbacks.
static WAITS: AtomicU32 = AtomicU32::new(0);

/// Wakes an idle host.
static WAKER: Mutex<Option<fn()>> = Mutex::new(None);

thread_local! {
    static IS_HOST: Cell<bool> = const { Cell::new(false) };
    /// The callbacks that run, each in a wait of the one before.
    static RUNNING: RefCell<Vec<Arc<dyn Callback>>> = const { RefCell::new(Vec::new()) };
}

/// Makes this thread the host's.
pub fn run_on_this_thread() {
    IS_HOST.set(true);
}

/// Lets an idle host be woken by `waker`, which any thread may call.
pub fn set_waker(waker: fn()) {
    *WAKER.lock().unpoisoned() = Some(waker);
}

/// Whether this thread runs callbacks.
#[inline]
pub fn is_host() -> bool {
    IS_HOST.try_with(Cell::get).unwrap_or(false)
}

/// Adds a callback. Any thread may call this.
pub fn push(callback: Arc<dyn Callback>) {
    let Some(mut state) = process::lock(&STATE) else { return };
    state.forget_parents();
    if state.is_closed {
        drop(state);
        return callback.cancel();
    }
    state.queue.push_back(callback);
    IS_ANY.store(true, Ordering::SeqCst);
    drop(state);
    ring();
    wake_if_idle();
}

/// Whether the host runs no callbacks any more.
pub fn is_closed() -> bool {
    process::lock(&STATE).is_none_or(|state| state.is_closed)
}

#[inline]
pub fn are_waiting() -> bool {
    IS_ANY.load(Ordering::SeqCst)
}

/// Runs the callbacks that wait, if this thread is the host's. Called where the host waits or polls.
///
/// # Errors
/// `Interrupted` if the user interrupts one; it stays, and runs again later.
#[inline]
pub fn serve() -> Result<()> {
    if are_waiting() && is_host() {
        serve_now(true)
    } else {
        Ok(())
    }
}

/// The same where the host is idle: after an interrupt, only a wait or a poll goes on.
///
/// # Errors
/// As [`serve`].
pub fn serve_idle() -> Result<()> {
    if is_host() {
        let _wait = Wait::start();
        serve_now(false)
    } else {
        Ok(())
    }
}

fn serve_now(resumes: bool) -> Result<()> {
    // What comes meanwhile is the next turn's, after a look at what the host waits for.
    let count = {
        let Some(mut state) = process::lock(&STATE) else { return Ok(()) };
        state.forget_parents();
        state.is_paused &= !resumes;
        if state.is_held() {
            return Ok(());
        }
        state.queue.len()
    };
    for _ in 0..count {
        let Some(callback) = next() else { break };
        RUNNING.with_borrow_mut(|running| running.push(callback.clone()));
        let ran = callback.run();
        RUNNING.with_borrow_mut(Vec::pop);
        if ran == Ran::Interrupted {
            if let Some(mut state) = process::lock(&STATE) {
                state.queue.push_front(callback);
                state.is_paused = true;
                IS_ANY.store(true, Ordering::SeqCst);
            }
            return Err(Error::new(Kind::Interrupted, "Interrupted."));
        }
    }
    Ok(())
}

fn next() -> Option<Arc<dyn Callback>> {
    let mut state = process::lock(&STATE)?;
    let callback = state.queue.pop_front();
    IS_ANY.store(!state.queue.is_empty(), Ordering::SeqCst);
    callback
}

/// Keeps an idle host from running callbacks until it waits or polls again: the user has interrupted.
pub fn pause() {
    if let Some(mut state) = process::lock(&STATE) {
        state.is_paused = true;
    }
}

/// Ends all callbacks, also those that run and those to come: the host ends.
pub fn end() {
    let mut ended = Vec::new();
    if let Some(mut state) = process::lock(&STATE) {
        state.forget_parents();
        state.is_closed = true;
        ended.extend(state.queue.drain(..));
        IS_ANY.store(false, Ordering::SeqCst);
    }
    let running = RUNNING.try_with(|running| running.try_borrow().map(|running| running.clone()));
    ended.extend(running.ok().and_then(std::result::Result::ok).unwrap_or_default());
    ended.iter().for_each(|callback| callback.cancel());
}

/// The number of callbacks that run on this thread, each in a wait of the one before.
#[inline]
pub fn depth() -> usize {
    RUNNING.try_with(|running| running.borrow().len()).unwrap_or(0)
}

/// The launches of the programs whose callbacks run on this thread.
pub fn running_launches() -> Vec<u64> {
    RUNNING.with_borrow(|running| running.iter().map(|callback| callback.launch()).collect())
}

/// A wait of the host's thread, which runs callbacks.
pub struct Wait(());

impl Wait {
    pub fn start() -> Wait {
        WAITS.fetch_add(1, Ordering::SeqCst);
        Wait(())
    }

    /// Sleeps until a callback waits or [`ring`] is called, unless `is_over`, for at most so long.
    pub fn sleep(&self, is_over: impl Fn() -> bool, most: Duration) {
        let Some(asleep) = process::lock(&BELL.0) else { return };
        IS_ASLEEP.store(true, Ordering::SeqCst);
        if !(is_over() || are_waiting()) {
            drop(BELL.1.wait_timeout(asleep, most));
        }
        IS_ASLEEP.store(false, Ordering::SeqCst);
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        WAITS.fetch_sub(1, Ordering::SeqCst);
        if are_waiting() {
            wake_if_idle();
        }
    }
}

/// Wakes the host's thread if it waits for anything.
#[inline]
pub fn ring() {
    if IS_ASLEEP.load(Ordering::SeqCst) {
        // A thread that looked before the change sleeps once its lock is free.
        drop(process::lock(&BELL.0));
        BELL.1.notify_all();
    }
}

fn wake_if_idle() {
    if WAITS.load(Ordering::SeqCst) > 0 {
        return;
    }
    let is_held = process::lock(&STATE).is_none_or(|state| state.is_held());
    let waker = process::lock(&WAKER).and_then(|waker| *waker);
    if let Some(waker) = waker.filter(|_| !is_held) {
        waker();
    }
}

impl CallbackQueue {
    /// Whether an idle host runs none.
    fn is_held(&self) -> bool {
        self.is_paused && !self.queue.iter().any(|callback| callback.is_urgent())
    }

    fn forget_parents(&mut self) {
        let generation = process::generation();
        if self.generation != generation {
            // Their programs are the parent's.
            std::mem::forget(std::mem::take(&mut self.queue));
            (self.is_paused, self.generation) = (false, generation);
            IS_ANY.store(false, Ordering::SeqCst);
        }
    }
}

/// The message of an error that a callback raised, with the number by which the host finds its own error.
pub fn mark(message: &str, number: u64) -> String {
    format!("{message}{MARK}{number}]")
}

const MARK: &str = " [callback ";

/// Takes the number out of a message, around which others may have put words.
pub fn unmark(message: &str) -> Option<(String, u64)> {
    let (before, rest) = message.rsplit_once(MARK)?;
    let (number, after) = rest.split_once(']')?;
    Some((format!("{before}{after}"), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Noted {
        name: &'static str,
        ran: Ran,
        log: Arc<Mutex<Vec<String>>>,
    }

    impl Callback for Noted {
        fn run(&self) -> Ran {
            let depth = depth();
            self.log.lock().unwrap().push(format!("{} {depth}", self.name));
            // What it waits for may need other callbacks.
            serve().unwrap();
            self.ran
        }

        fn cancel(&self) {
            self.log.lock().unwrap().push(format!("no {}", self.name));
        }

        fn launch(&self) -> u64 {
            7
        }
    }

    #[test]
    fn callbacks_run_in_order_on_the_hosts_thread_alone_until_the_end() {
        static WOKEN: AtomicU32 = AtomicU32::new(0);
        let log = Arc::new(Mutex::new(Vec::new()));
        let add = |name, ran| push(Arc::new(Noted { name, ran, log: log.clone() }));
        let taken = || std::mem::take(&mut *log.lock().unwrap());
        set_waker(|| {
            WOKEN.fetch_add(1, Ordering::Relaxed);
        });
        add("a", Ran::Reported);
        add("b", Ran::Reported);
        serve().unwrap();
        assert!(are_waiting() && taken().is_empty());
        run_on_this_thread();
        serve().unwrap();
        // The second runs in a wait of the first.
        assert_eq!(taken(), ["a 1", "b 2"]);
        assert!(!are_waiting() && depth() == 0);
        assert_eq!(WOKEN.load(Ordering::Relaxed), 2);

        add("c", Ran::Interrupted);
        assert_eq!(serve().unwrap_err().kind(), Kind::Interrupted);
        serve_idle().unwrap();
        assert_eq!(taken(), ["c 1"]);
        assert_eq!(serve().unwrap_err().kind(), Kind::Interrupted);
        assert_eq!(taken(), ["c 1"]);

        // A wait ends at once when a callback comes.
        let wait = Wait::start();
        std::thread::scope(|scope| {
            scope.spawn(|| add("d", Ran::Reported));
            while !STATE.lock().unwrap().queue.iter().any(|callback| callback.launch() == 7) {
                wait.sleep(|| false, Duration::from_secs(60));
            }
        });
        end();
        assert_eq!(taken(), ["no c", "no d"]);
        add("e", Ran::Reported);
        assert_eq!(taken(), ["no e"]);
    }

    #[test]
    fn the_number_is_found_in_a_message_with_more_words() {
        let marked = mark("a: b [callback x]", 12);
        assert_eq!(
            unmark(&format!("INTERNAL: {marked} (again)")),
            Some(("INTERNAL: a: b [callback x] (again)".into(), 12))
        );
        assert_eq!(unmark("a [callback x]"), None);
        assert_eq!(unmark("a"), None);
    }
}
