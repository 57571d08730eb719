//! Compiling on other threads, so that the caller can go on, or stop waiting: a compiler cannot be stopped.
//!
//! Each thread takes one program after the other, and ends when no more are waiting.

use crate::cache::{self, Cache};
use crate::client::Client;
use crate::device::Device;
use crate::error::{Error, Kind, Result};
use crate::event::Signal;
use crate::executable::Executable;
use crate::options::CompileOptions;
use crate::program::Program;
use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{available_parallelism, Builder, JoinHandle};
use std::time::Duration;

/// Stack for the recursion of compilers, several times what a main thread has; only what is used takes memory.
const STACK: usize = 64 << 20;

/// A program that is being compiled. When nobody holds this any more, the compile goes on, and its executable is dropped.
#[derive(Debug, Clone)]
pub struct Compiling {
    client: Client,
    result: Arc<Pending>,
}

impl Compiling {
    /// Compiles a program as [`cache::compile`] does, on another thread and at once: for a caller who waits.
    ///
    /// # Errors
    /// `InvalidInput` for options that make no sense and devices that do not fit them, `Forked` and `ClientClosed` for such
    /// devices, and `Internal` when the system gives no thread. What the compiler says comes from [`Compiling::wait`].
    pub fn start(
        cache: Option<&Cache>,
        devices: &[Device],
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiling> {
        Self::submit(cache, devices, program, options, usize::MAX)
    }

    /// The same for a caller who goes on: not more programs are compiled at once than there are processors, the others
    /// in the order of their coming.
    ///
    /// # Errors
    /// Those of [`Compiling::start`].
    pub fn enqueue(
        cache: Option<&Cache>,
        devices: &[Device],
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiling> {
        Self::submit(cache, devices, program, options, processors())
    }

    fn submit(
        cache: Option<&Cache>,
        devices: &[Device],
        program: &Program,
        options: &CompileOptions,
        most: usize,
    ) -> Result<Compiling> {
        options.check()?;
        options.check_devices(devices)?;
        let client = devices[0].client().clone();
        // In a fork the queue may be locked for ever.
        client.handle()?;
        let result = Arc::<Pending>::default();
        let job = Job {
            cache: cache.cloned(),
            devices: devices.to_vec(),
            program: program.clone(),
            options: options.clone(),
            result: result.clone(),
        };
        Queue::lock().add(job, most)?;
        Ok(Compiling { client, result })
    }

    /// Whether the compile has ended, successfully or not. Does not block.
    ///
    /// # Errors
    /// `Forked` in a child of the process that started it, `ClientClosed` at the end of the process.
    pub fn is_ready(&self) -> Result<bool> {
        self.client.handle()?;
        Ok(self.result.ended.is_raised())
    }

    /// Waits for the executable; a user's interrupt ends the wait, not the compile.
    ///
    /// # Errors
    /// Those of [`Executable::compile`], or `Interrupted`.
    pub fn wait(&self) -> Result<Executable> {
        self.client.handle()?;
        self.result.ended.wait()?;
        self.result.outcome.get().cloned().unwrap_or_else(|| Err(cut_short()))
    }
}

/// What will come of a compile.
#[derive(Debug, Default)]
struct Pending {
    ended: Signal,
    outcome: OnceLock<Result<Executable>>,
}

/// A program to compile.
struct Job {
    cache: Option<Cache>,
    devices: Vec<Device>,
    program: Program,
    options: CompileOptions,
    result: Arc<Pending>,
}

impl Job {
    fn run(self) {
        let compile = || cache::compile(self.cache.as_ref(), &self.devices, &self.program, &self.options);
        // Whatever happens, somebody may wait for it.
        let outcome = catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| Err(cut_short()));
        // Run once, so this is the first outcome.
        let _ = self.result.outcome.set(outcome);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.result.ended.raise();
    }
}

#[cold]
fn cut_short() -> Error {
    Error::new(Kind::Internal, "A compile was cut short by a fault, or by the end of the process.")
}

/// The programs that wait for a thread, and the threads.
struct Queue {
    waiting: VecDeque<Job>,
    running: usize,
    /// Joined when they have ended, so that none is in the middle of that when the process ends.
    threads: Vec<JoinHandle<()>>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: VecDeque::new(), running: 0, threads: Vec::new() });
static THREAD_ENDS: Condvar = Condvar::new();

impl Queue {
    fn lock() -> MutexGuard<'static, Queue> {
        QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread for `job` unless there are `most` already.
    fn add(&mut self, job: Job, most: usize) -> Result<()> {
        while let Some(ended) = self.threads.iter().position(JoinHandle::is_finished) {
            join(self.threads.swap_remove(ended));
        }
        if self.running >= most {
            self.waiting.push_back(job);
            return Ok(());
        }
        let thread =
            Builder::new().name("pjrt-compile".into()).stack_size(STACK).spawn(|| work(job)).map_err(|error| {
                Error::new(Kind::Internal, format!("The system gives no thread for a compile: {error}."))
            })?;
        self.running += 1;
        self.threads.push(thread);
        Ok(())
    }

    /// The next program for a thread, which ends without one.
    fn next(&mut self) -> Option<Job> {
        let next = if self.running <= processors() { self.waiting.pop_front() } else { None };
        if next.is_none() {
            self.running -= 1;
            THREAD_ENDS.notify_all();
        }
        next
    }
}

/// Drops the programs that wait for a thread, and waits for the others, at most for `limit`; tells whether they have ended.
/// For the end of the process: a compiler that works while the plugin's library is torn down may crash.
pub(crate) fn finish(limit: Duration) -> bool {
    let mut queue = Queue::lock();
    queue.waiting.clear();
    let waited = THREAD_ENDS.wait_timeout_while(queue, limit, |queue| queue.running > 0);
    let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
    if queue.running > 0 {
        return false;
    }
    let threads = std::mem::take(&mut queue.threads);
    drop(queue);
    threads.into_iter().for_each(join);
    true
}

/// What a thread does.
fn work(first: Job) {
    let mut next = Some(first);
    while let Some(job) = next {
        job.run();
        next = Queue::lock().next();
    }
}

fn join(thread: JoinHandle<()>) {
    // Faults are caught where they happen.
    let _ = thread.join();
}

fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| available_parallelism().map_or(1, usize::from))
}
