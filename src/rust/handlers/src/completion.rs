//! How a program learns that a function of the host has run, without a thread that waits for it where the plugin has
//! futures.

use crate::frame::{call, error_of, reaches, Failure, Frame, Outcome};
use pjrt_base::mmap::SignalStacks;
use pjrt_base::process;
use pjrt_base::spin;
use pjrt_base::sync::Unpoisoned;
use pjrt_sys::*;
use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Condvar, Mutex};

/// Where the outcome of a function goes.
pub(super) enum Completion {
    Future(Future),
    /// A thread of the plugin waits for it.
    Wait(Sender<Outcome>),
}

/// A future of the plugin, to be completed once.
pub(super) struct Future {
    api: *const XLA_FFI_Api,
    future: *mut XLA_FFI_Future,
}

// SAFETY: a future may be completed on any thread.
unsafe impl Send for Future {}

impl Completion {
    /// Has `queue` queue a call, and returns at once if the plugin has futures. Otherwise waits until the program is told.
    pub(super) fn of(frame: &Frame<'_>, queue: impl FnOnce(Completion)) -> Outcome {
        if let Some(future) = Future::of(frame) {
            queue(Completion::Future(future));
            return Ok(());
        }
        let (sender, outcome) = channel();
        queue(Completion::Wait(sender));
        outcome.recv().unwrap_or_else(|_| Err(Failure::internal("The call was dropped.")))
    }

    /// Reports the outcome to the program.
    pub(super) fn complete(self, outcome: Outcome) {
        match self {
            // On a separate thread, where the plugin continues the program, perhaps for a long time.
            Completion::Future(future) => run(Box::new(move || future.set(outcome))),
            // The thread waits until it is told.
            Completion::Wait(sender) => drop(sender.send(outcome)),
        }
    }
}

impl Future {
    /// A future for a call, which the plugin looks at when the handler has returned; `None` if the plugin has none.
    fn of(frame: &Frame<'_>) -> Option<Future> {
        let (api, _) = frame.api()?;
        // SAFETY: only fields that the table has are read.
        unsafe {
            if !reaches(api, offset_of!(XLA_FFI_Api, XLA_FFI_Future_SetError)) {
                return None;
            }
            (*api).XLA_FFI_Future_SetAvailable?;
            (*api).XLA_FFI_Future_SetError?;
        }
        let made = call!(api, XLA_FFI_Future_Create {})?;
        let future = Some(made.future).filter(|future| !future.is_null())?;
        // The size that a frame reports never includes its last field, the future.
        // SAFETY: frames have it since the table has the functions for it.
        unsafe { (*frame.raw().cast_mut()).future = future };
        Some(Future { api, future })
    }

    fn set(self, outcome: Outcome) {
        let Future { api, future } = self;
        // The table lives as long as the plugin, and the future until it is completed, which happens here alone. Nobody is
        // there to hear of a failure.
        if let Err(failure) = outcome {
            // SAFETY: a plugin's table.
            let error = unsafe { error_of(api, &failure) };
            let _ = call!(api, XLA_FFI_Future_SetError { future: future, error: error });
        } else {
            let _ = call!(api, XLA_FFI_Future_SetAvailable { future: future });
        }
    }
}

type CompletionJob = Box<dyn FnOnce() + Send>;

/// Threads that complete futures: as many as programs go on at once, because a part of a program may wait for another part.
struct Threads {
    jobs: VecDeque<CompletionJob>,
    /// The number of threads without a job.
    idle: usize,
    /// The child of a fork has none of its parent's.
    generation: u32,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads { jobs: VecDeque::new(), idle: 0, generation: 0 });
static CHANGED: Condvar = Condvar::new();

/// The number of jobs that wait, for threads that poll.
static WAITING: AtomicUsize = AtomicUsize::new(0);

fn run(job: CompletionJob) {
    let Some(mut threads) = process::lock(&THREADS) else { return };
    let generation = process::generation();
    if threads.generation != generation {
        std::mem::forget(std::mem::take(&mut threads.jobs));
        (threads.idle, threads.generation) = (0, generation);
    }
    threads.jobs.push_back(job);
    WAITING.store(threads.jobs.len(), Ordering::SeqCst);
    if threads.idle >= threads.jobs.len() {
        drop(threads);
        CHANGED.notify_one();
        return;
    }
    drop(threads);
    let started = std::thread::Builder::new().name("pjrt-callbacks".into()).spawn(|| {
        let _stacks = SignalStacks::of_this_thread();
        work();
    });
    if started.is_err() {
        // Better late, on this thread, than never.
        let job = process::lock(&THREADS).and_then(|mut threads| threads.take());
        if let Some(job) = job {
            job();
        }
    }
}

fn work() {
    let mut threads = THREADS.lock().unpoisoned();
    loop {
        if let Some(job) = threads.take() {
            drop(threads);
            job();
            threads = THREADS.lock().unpoisoned();
            continue;
        }
        threads.idle += 1;
        drop(threads);
        // A program that calls again soon finds this thread awake.
        spin::until(spin::SHORT, || WAITING.load(Ordering::SeqCst) > 0);
        threads = CHANGED.wait_while(THREADS.lock().unpoisoned(), |threads| threads.jobs.is_empty()).unpoisoned();
        threads.idle -= 1;
    }
}

impl Threads {
    fn take(&mut self) -> Option<CompletionJob> {
        let job = self.jobs.pop_front();
        WAITING.store(self.jobs.len(), Ordering::SeqCst);
        job
    }
}
