//! Compilation on other threads, so that the caller can go on, or stop waiting: a compiler cannot be stopped.
//!
//! Each thread takes one program after the other, and ends when none is waiting.

use crate::apart::{self, Cancel};
use crate::cache::{Cache, Lookup};
use crate::client::device::Device;
use crate::client::topology::System;
use crate::client::{self, Client};
use crate::compile::{compile_unless, end, span, FIRST_COMPILE, STACK};
use crate::executable::apart::helpers;
use crate::executable::options::CompileOptions;
use crate::executable::unloaded::Unloaded;
use crate::executable::Executable;
use crate::runtime::event::{OnDrop, Signal};
use crate::runtime::plugin::Plugin;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::parallel::processors;
use pjrt_base::process::{self, ExitDeadline};
use pjrt_base::room;
use pjrt_base::sync::Unpoisoned;
use pjrt_base::threads;
use pjrt_base::trace::{self, Activity, Details};
use pjrt_ffi::poison::{self, Poison};
use pjrt_program::program::Program;
use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;

/// The size in bytes up to which a compiled program loads too quickly for a user to interrupt.
const QUICKLY_LOADED: u64 = 256 << 10;

/// As [`FIRST_COMPILE`], for a compiler that has worked before.
const COMPILE: usize = 320 << 20;

/// The generation of the process that compiles, plus one; 0 before the first compilation.
static COMPILES_IN: AtomicU32 = AtomicU32::new(0);

/// A compilation in progress. If nobody holds this any more, a helper's process ends; a compiler in this process continues, and
/// its executable is dropped.
///
/// ```
/// # use pjrt_core::cache::{Cache, InProcess};
/// # use pjrt_core::executable::options::CompileOptions;
/// # use pjrt_core::{Client, Compiling, Plugin};
/// # use pjrt_program::program::{Format, Program};
/// # use std::sync::Arc;
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let devices: Vec<_> = client.devices().take(1).collect();
/// let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
/// let program = Program::new(text.into(), Format::Mlir)?;
/// let folder = std::env::temp_dir().join(format!("pjrt-cache-{}", std::process::id()));
/// let in_process = Arc::new(InProcess::default());
/// let cache = Cache::new(&folder, 1 << 30, in_process.clone());
/// for _ in 0..2 {
///     let compiling = Compiling::start(Some(&cache), &devices, &program, &CompileOptions::default())?;
///     let executable = compiling.wait()?;
///     assert_eq!(executable.signature().inputs.len(), 1);
/// }
/// // The second time, the program came from the cache.
/// assert_eq!(in_process.counts().misses, 1);
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Compiling {
    client: Client,
    result: Arc<Pending<Executable>>,
    /// Cancels it when dropped.
    _wanted: Arc<Wanted>,
}

/// Somebody waits for a compilation.
#[derive(Debug, Default)]
struct Wanted(Arc<Cancel>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Compiling {
    /// Compiles a program as [`compile`](super::compile) does, on another thread and at once: for a caller who waits.
    ///
    /// # Errors
    /// `InvalidInput` for invalid options and devices that do not match them, `Forked` and `ClientClosed` for unusable
    /// devices, and the code of `RESOURCE_EXHAUSTED` without a thread or enough memory. [`Compiling::wait`] returns the
    /// compiler's errors.
    pub fn start(
        cache: Option<&Cache>,
        devices: &[Device],
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiling> {
        let (client, options) = prepared(devices, program, options)?;
        let mut missing = None;
        let span = span();
        if let Some(cache) = cache {
            match cache.find(devices, program, &options, QUICKLY_LOADED)? {
                Lookup::Executable(executable, found) => {
                    return Ok(Compiling::done(client, end(span, found, Ok(executable))?));
                }
                Lookup::Large => {}
                nothing => missing = Some(nothing),
            }
        }
        span.forget();
        Self::enter(cache, missing, client, devices, program, options, usize::MAX)
    }

    /// The same for a caller who goes on: at most as many programs as there are processors compile at once, in the
    /// order of the calls.
    ///
    /// # Errors
    /// As [`Compiling::start`].
    pub fn enqueue(
        cache: Option<&Cache>,
        devices: &[Device],
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiling> {
        let (client, options) = prepared(devices, program, options)?;
        Self::enter(cache, None, client, devices, program, options, processors())
    }

    fn enter(
        cache: Option<&Cache>,
        missing: Option<Lookup>,
        client: Client,
        devices: &[Device],
        program: &Program,
        options: CompileOptions,
        most: usize,
    ) -> Result<Compiling> {
        let (result, wanted) = (Pending::new(client.plugin().api().poison()), Wanted::default());
        let (cancel, is_apart) = (wanted.0.clone(), helpers(&client, &options).is_some());
        let (cache, devices, program) = (cache.cloned(), devices.to_vec(), program.clone());
        let compile = move || compile_unless(&cancel, cache.as_ref(), missing, &devices, &program, &options);
        client.work().note_compile(&result.ended);
        submit(client.plugin(), result.clone(), Box::new(compile), most, is_apart)?;
        Ok(Compiling { client, result, _wanted: Arc::new(wanted) })
    }

    /// A compilation that has ended already.
    fn done(client: Client, executable: Executable) -> Compiling {
        let result = Pending::new(client.plugin().api().poison());
        // The only caller that sets it.
        let _ = result.outcome.set(Ok(executable));
        result.ended.raise();
        Compiling { client, result, _wanted: Arc::default() }
    }

    /// Whether the compilation has ended, successfully or not. Does not block.
    ///
    /// # Errors
    /// `Forked` in a child of the process that started it, `ClientClosed` at the end of the process.
    pub fn is_ready(&self) -> Result<bool> {
        self.client.handle()?;
        Ok(self.result.ended.is_raised())
    }

    /// Calls `callback` once [`Compiling::is_ready`] is true, on any thread: now, on this one, if it is already.
    ///
    /// # Errors
    /// `Forked`, `ClientClosed`; the callback is called then, too.
    pub fn on_ready(&self, callback: impl FnOnce() + Send + 'static) -> Result<()> {
        let callback = OnDrop::new(callback);
        self.client.handle()?;
        self.result.ended.then(callback);
        Ok(())
    }

    /// Waits for the executable. A user's interrupt ends the wait, not the compilation.
    ///
    /// # Errors
    /// As [`Executable::compile`], or `Interrupted`.
    pub fn wait(&self) -> Result<Executable> {
        self.client.check_open()?;
        let _span = trace::span(Activity::Wait, || Details::named("compilation"));
        self.result.wait(self.client.platform())
    }
}

/// Compiles a program for a topology, and waits for it. A user's interrupt ends the wait, not the compilation.
///
/// # Errors
/// As [`Unloaded::compile`]; `Interrupted`, and the code of `RESOURCE_EXHAUSTED` without a thread or enough memory.
pub fn compile_for(
    system: &System,
    program: &Program,
    options: &CompileOptions,
    kept: Option<&Path>,
) -> Result<Arc<Unloaded>> {
    // In a fork the queue may be locked permanently.
    system.handle()?;
    let plugin = system.plugin();
    let platform = system.describe()?.platform.clone();
    let result = Pending::new(plugin.api().poison());
    let (system, program, options) = (system.clone(), program.clone(), options.clone());
    let kept = kept.map(Path::to_owned);
    let compile = move || Unloaded::compile(&system, &program, &options, kept.as_deref()).map(Arc::new);
    submit(plugin, result.clone(), Box::new(compile), usize::MAX, false)?;
    let _span = trace::span(Activity::Wait, || Details::named("compilation"));
    result.wait(&platform)
}

/// Starts a compilation, or puts it in the queue if `most` programs compile already.
fn submit<T: Send + Sync + 'static>(
    plugin: &'static Plugin,
    result: Arc<Pending<T>>,
    compile: Compile<T>,
    most: usize,
    is_apart: bool,
) -> Result<()> {
    let is_first = COMPILES_IN.load(Ordering::Relaxed) == 0;
    // To load what a helper has compiled takes less, but the plugin throws without it, too.
    room::check_address_space(if is_first { FIRST_COMPILE } else { COMPILE }, "to compile")?;
    if !is_apart {
        threads::check(processors() + 2, "to compile")?;
    }
    COMPILES_IN.store(process::generation() + 1, Ordering::Relaxed);
    client::finish_compiles_by(finish);
    let cause = trace::cause();
    let promised = result.clone();
    let run = move || {
        let _cause = cause.is_some().then(|| trace::caused_by(cause));
        // Even after a panic, somebody may wait for it.
        let outcome = catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| Err(cut_short()));
        // Run once, so this is the first outcome.
        let _ = promised.outcome.set(outcome);
    };
    Queue::lock().add(CompileJob { run: Some(Box::new(run)), result, poison: plugin.api().poison() }, most)
}

/// The outcome of a compilation, once there is one.
#[derive(Debug)]
struct Pending<T> {
    ended: Arc<Signal>,
    outcome: OnceLock<Result<T>>,
}

impl<T> Pending<T> {
    fn new(poison: &'static Poison) -> Arc<Pending<T>> {
        Arc::new(Pending { ended: Arc::new(Signal::new(poison)), outcome: OnceLock::new() })
    }
}

impl<T: Clone> Pending<T> {
    fn wait(&self, platform: &str) -> Result<T> {
        self.ended.wait().map_err(|error| error.on_platform(platform))?;
        self.outcome.get().cloned().unwrap_or_else(|| Err(cut_short()))
    }
}

/// A compilation that somebody waits for.
trait Awaited: Send + Sync {
    /// Sets its outcome, if it has none.
    fn fail(&self, error: Error);

    fn end(&self);
}

impl<T: Send + Sync> Awaited for Pending<T> {
    fn fail(&self, error: Error) {
        let _ = self.outcome.set(Err(error));
    }

    fn end(&self) {
        self.ended.raise();
    }
}

/// Work for a thread.
type Compile<T> = Box<dyn FnOnce() -> Result<T> + Send>;

struct CompileJob {
    run: Option<Box<dyn FnOnce() + Send>>,
    result: Arc<dyn Awaited>,
    /// The plugin that compiles it.
    poison: &'static Poison,
}

impl CompileJob {
    fn run(mut self) {
        if let Some(run) = self.run.take() {
            run();
        }
    }
}

/// The client to compile with and the options for the program, once options and devices are checked.
fn prepared(devices: &[Device], program: &Program, options: &CompileOptions) -> Result<(Client, CompileOptions)> {
    let options = options.for_program(program.annotations())?;
    options.check_devices(devices)?;
    let client = devices[0].client().clone();
    // In a fork the queue may be locked permanently.
    client.handle()?;
    Ok((client, options))
}

impl Drop for CompileJob {
    fn drop(&mut self) {
        self.result.end();
    }
}

#[cold]
fn cut_short() -> Error {
    Error::new(Kind::Internal, "A compilation was aborted by a fault or by the end of the process.")
}

/// The programs that wait for a thread, and the threads.
struct Queue {
    waiting: VecDeque<CompileJob>,
    /// The plugin that each working thread is in. A poisoned plugin may keep its thread forever.
    running: Vec<&'static Poison>,
    /// Ended threads, joined later so that none is ending when the process does.
    threads: Vec<JoinHandle<()>>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: VecDeque::new(), running: Vec::new(), threads: Vec::new() });
static THREAD_ENDS: Condvar = Condvar::new();

impl Queue {
    fn lock() -> MutexGuard<'static, Queue> {
        QUEUE.lock().unpoisoned()
    }

    /// Starts a thread for `job` unless there are `most` already.
    fn add(&mut self, job: CompileJob, most: usize) -> Result<()> {
        while let Some(ended) = self.threads.iter().position(JoinHandle::is_finished) {
            join(self.threads.swap_remove(ended));
        }
        if self.working() >= most {
            self.waiting.push_back(job);
            return Ok(());
        }
        let poison = job.poison;
        self.threads.push(threads::start("pjrt-compile", STACK, "to compile", || work(job))?);
        self.running.push(poison);
        Ok(())
    }

    /// The threads that will end.
    fn working(&self) -> usize {
        self.running.iter().filter(|poison| !poison.is_noted()).count()
    }

    /// The next program for a thread that has done one for the plugin of `done`; without one, the thread ends.
    fn next(&mut self, done: &'static Poison) -> Option<CompileJob> {
        let next = if self.working() <= processors() { self.waiting.pop_front() } else { None };
        if let Some(at) = self.running.iter().position(|running| std::ptr::eq(*running, done)) {
            self.running.swap_remove(at);
        }
        match &next {
            Some(job) => self.running.push(job.poison),
            None => THREAD_ENDS.notify_all(),
        }
        next
    }

    /// Removes a thread that a plugin keeps, and starts another for the remaining programs.
    fn leave(&mut self, done: &'static Poison) {
        let here = std::thread::current().id();
        self.threads.retain(|thread| thread.thread().id() != here);
        if let Some(job) = self.next(done) {
            // Undoes the count that `next` has made.
            self.running.pop();
            let result = job.result.clone();
            if let Err(error) = self.add(job, usize::MAX) {
                // Dropping the job has raised the signal.
                result.fail(error);
            }
        }
    }
}

/// Drops the programs that wait for a thread, and waits for the others. Returns whether they have ended in time. For
/// the end of the process: a compiler that works while the plugin's library is torn down may crash.
fn finish(patience: &ExitDeadline) -> bool {
    // A fork does not have the threads.
    if COMPILES_IN.load(Ordering::Relaxed) != process::generation() + 1 {
        return true;
    }
    Queue::lock().waiting.clear();
    apart::end_all();
    let ended = patience.until(|slice| {
        let waited = THREAD_ENDS.wait_timeout_while(Queue::lock(), slice, |queue| queue.working() > 0);
        waited.unpoisoned().0.working() == 0
    });
    // Some threads of a poisoned plugin never end.
    if ended && !poison::is_any() {
        let threads = std::mem::take(&mut Queue::lock().threads);
        threads.into_iter().for_each(join);
    }
    ended
}

fn work(first: CompileJob) {
    let mut next = Some(first);
    while let Some(job) = next {
        let poison = job.poison;
        job.run();
        if poison::has_thrown_here() {
            Queue::lock().leave(poison);
            poison::park_for_good();
        }
        next = Queue::lock().next(poison);
    }
}

fn join(thread: JoinHandle<()>) {
    // Faults are caught where they happen.
    let _ = thread.join();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn programs_wait_for_a_processor() {
        let (poison, running, most) = (Poison::leaked(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let may_end = Arc::new(Signal::new(poison));
        let enqueue = |_| {
            let result = Pending::new(poison);
            let (promised, running, most, may_end) = (result.clone(), running.clone(), most.clone(), may_end.clone());
            let run = move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let ended = may_end.wait();
                running.fetch_sub(1, Ordering::SeqCst);
                promised.outcome.set(ended).unwrap();
            };
            let job = CompileJob { run: Some(Box::new(run)), result: result.clone(), poison };
            Queue::lock().add(job, processors()).unwrap();
            result
        };
        let pending: Vec<_> = (0..processors() + 10).map(enqueue).collect();
        let queue = Queue::lock();
        let counts = (queue.working(), queue.waiting.len());
        drop(queue);
        assert_eq!(counts, (processors(), 10));
        may_end.raise();
        pending.iter().for_each(|result| result.wait("cpu").unwrap());
        assert!((1..=processors()).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }
}
