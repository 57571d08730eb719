//! Work of a handler on several threads of the plugin.

use crate::frame::{call, Frame};
use pjrt_base::sync::Unpoisoned;
use pjrt_sys::*;
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

impl Frame<'_> {
    /// Calls `work` with every number below `count`, on this thread and on the plugin's free threads.
    pub fn parallel(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let helpers = self.threads().unwrap_or(0).min(count).saturating_sub(1);
        if helpers == 0 {
            (0..count).for_each(work);
            return;
        }
        let shared = Arc::new(Shared::new(count, work));
        for _ in 0..helpers {
            let data = Arc::into_raw(shared.clone());
            // The task owns this reference, and catches panics.
            let (task, argument) = (Some(Shared::help as _), data.cast_mut().cast());
            let scheduled = self.api().and_then(|(api, ctx)| {
                call!(api, XLA_FFI_ThreadPool_Schedule { ctx: ctx, task: task, data: argument })
            });
            if scheduled.is_none() {
                // SAFETY: the plugin did not take it.
                drop(unsafe { Arc::from_raw(data) });
                break;
            }
        }
        shared.run();
        shared.close();
    }
}

/// Work that several threads share. A thread that comes late does not touch the work, which may be gone.
struct Shared {
    work: *const (dyn Fn(usize) + Sync),
    count: usize,
    next: AtomicUsize,
    is_aborted: AtomicBool,
    state: Mutex<Helpers>,
    changed: Condvar,
}

#[derive(Default)]
struct Helpers {
    helping: usize,
    is_closed: bool,
}

// SAFETY: the work may be called from any thread, and nobody calls it after `close`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn new<'a>(count: usize, work: &'a (dyn Fn(usize) + Sync + 'a)) -> Shared {
        // SAFETY: only the lifetime differs, and `close` ends the use of the work.
        let work =
            unsafe { std::mem::transmute::<&'a (dyn Fn(usize) + Sync + 'a), &'static (dyn Fn(usize) + Sync)>(work) };
        Shared {
            work,
            count,
            next: AtomicUsize::new(0),
            is_aborted: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Does what is left of the work.
    fn run(&self) {
        let done = catch_unwind(AssertUnwindSafe(|| loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.count {
                break;
            }
            // SAFETY: the owner waits in `close` for this thread.
            unsafe { (*self.work)(index) };
        }));
        if done.is_err() {
            self.is_aborted.store(true, Ordering::Relaxed);
            self.next.store(self.count, Ordering::Relaxed);
        }
    }

    unsafe extern "C" fn help(data: *mut c_void) {
        // SAFETY: `parallel` gave this task a reference.
        let shared = unsafe { Arc::from_raw(data.cast_const().cast::<Shared>()) };
        {
            let mut state = shared.state.lock().unpoisoned();
            if state.is_closed {
                return;
            }
            state.helping += 1;
        }
        shared.run();
        shared.state.lock().unpoisoned().helping -= 1;
        shared.changed.notify_all();
    }

    /// Waits for the threads that help, and keeps others from starting.
    fn close(&self) {
        let mut state = self.state.lock().unpoisoned();
        state.is_closed = true;
        drop(self.changed.wait_while(state, |state| state.helping > 0));
        assert!(!self.is_aborted.load(Ordering::Relaxed), "a part of the work panicked");
    }
}
