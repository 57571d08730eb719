//! R functions that wait for results. Plugins' threads note which results are ready; R's main thread calls the functions.

use crate::arrays::r#async;
use crate::r::conditions::Result;
use crate::r::{handle, idle, sexp};
use extendr_api::prelude::*;
use pjrt_base::error;
use pjrt_base::process;
use pjrt_core::{Buffer, Compiling};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

/// The numbers of results that are ready, in order.
#[derive(Debug)]
struct Ready {
    numbers: VecDeque<u64>,
    /// The child of a fork does not call its parent's functions.
    generation: u32,
}

static READY: Mutex<Ready> = Mutex::new(Ready { numbers: VecDeque::new(), generation: 0 });
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// While this is not 0, no function is called.
static PAUSES: AtomicU32 = AtomicU32::new(0);
static IS_ENDED: AtomicBool = AtomicBool::new(false);

/// Watches a buffer, transfer or compilation; anything else counts as ready. Returns the number under which R keeps its
/// function. `number` is that of an event loop of package later, which is woken, too.
pub fn ready_watch(x: Robj, number: i32) -> Result<Robj> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    IS_ENDED.store(false, Ordering::Relaxed);
    idle::watch();
    let own = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let x = sexp::of(&x);
    // If this fails, R keeps no function for the number.
    let callback = move || push(own, number);
    if let Some(buffer) = handle::find::<Buffer>(x) {
        buffer.on_ready(callback)?;
    } else if let Some(promise) = handle::find::<r#async::Promise>(x) {
        promise.transfer.on_ready(callback)?;
    } else if let Some(compiling) = handle::find::<Compiling>(x) {
        compiling.on_ready(callback)?;
    } else if handle::is_null(x) {
        return Err(handle::no_handle::<Buffer>(x, "`x`"));
    } else {
        callback();
    }
    Ok((own as f64).into())
}

/// Forgets results that are ready, so that a cancelled function leaves nothing behind.
pub fn ready_forget(numbers: &[f64]) {
    if let Some(mut ready) = process::lock(&READY) {
        ready.numbers.retain(|&number| !numbers.contains(&(number as f64)));
    }
}

fn push(own: u64, number: c_int) {
    if let Some(mut ready) = process::lock(&READY) {
        ready.forget_parents();
        ready.numbers.push_back(own);
        IS_ANY.store(true, Ordering::Release);
    }
    pjrt_base::idle::wake(number);
}

fn next() -> Option<u64> {
    let mut ready = process::lock(&READY)?;
    ready.forget_parents();
    let first = ready.numbers.pop_front();
    IS_ANY.store(!ready.numbers.is_empty(), Ordering::Release);
    first
}

impl Ready {
    fn forget_parents(&mut self) {
        let generation = process::generation();
        if self.generation != generation {
            *self = Ready { numbers: VecDeque::new(), generation };
        }
    }
}

/// Calls the functions for results that are ready. Does not jump.
///
/// # Errors
/// `Interrupted` if the user interrupts one; the next call goes on with the others.
#[inline]
pub fn run() -> error::Result<()> {
    if IS_ANY.load(Ordering::Acquire) {
        run_all()
    } else {
        Ok(())
    }
}

#[cold]
fn run_all() -> error::Result<()> {
    while PAUSES.load(Ordering::Relaxed) == 0 && !IS_ENDED.load(Ordering::Relaxed) {
        let Some(number) = next() else { break };
        // It handles R errors, and returns whether the user interrupted.
        let mut is_interrupted = false;
        sexp::guarded(|| {
            let number = sexp::Protected::new(sexp::new_whole_numbers(&[number as i64]));
            is_interrupted = sexp::flag(sexp::call_ours(c"call_on_ready", number.sexp())) == Some(true);
        })?;
        ensure!(!is_interrupted, Interrupted, "Interrupted.");
    }
    Ok(())
}

/// While this lives, no function is called.
pub struct Pause(());

impl Pause {
    pub fn start() -> Pause {
        PAUSES.fetch_add(1, Ordering::Relaxed);
        Pause(())
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        PAUSES.fetch_sub(1, Ordering::Relaxed);
        if IS_ANY.load(Ordering::Acquire) {
            pjrt_base::idle::wake(0);
        }
    }
}

/// Calls no function any more: the session ends, or the package is unloaded.
pub fn end() {
    IS_ENDED.store(true, Ordering::Relaxed);
    pjrt_base::idle::end();
}
