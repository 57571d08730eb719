//! Calls from R: what happens before, around and after the body of a routine.

use crate::r::conditions::{keep_raised, signal, Failure, Result};
use crate::r::handle::sent;
use crate::r::pins;
use crate::r::sexp;
use extendr_ffi::*;
use pjrt_base::callbacks;
use pjrt_base::console;
use pjrt_base::error::{self, Error, Kind};
use pjrt_base::trace::{self, Cause, Span};
use pjrt_core::buffer::missing;
use pjrt_core::dlpack;
use pjrt_core::runtime::oom;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::OnceLock;

/// What other modules do when R calls this package or waits in it.
pub struct Hooks {
    /// Collects garbage for a thread that waits for memory.
    pub collect: fn() -> error::Result<()>,
    /// Calls R functions whose results are ready.
    pub run_ready: fn() -> error::Result<()>,
    /// Begins the record of a call. R may leave this by a long jump.
    pub record: fn() -> CallRecord,
}

/// A call from R that is being recorded, and what it causes, until this is dropped.
#[derive(Debug)]
pub struct CallRecord {
    pub span: Span,
    pub _cause: Option<Cause>,
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Sets them, when R loads the library.
pub fn set_hooks(hooks: Hooks) {
    // The first ones stay.
    let _ = HOOKS.set(hooks);
}

/// Collects garbage if another thread waits for memory.
///
/// # Errors
/// `Interrupted` when the user interrupts that.
#[inline]
fn collect_for_others() -> error::Result<()> {
    match HOOKS.get() {
        Some(hooks) if oom::is_collection_wanted() => (hooks.collect)(),
        _ => Ok(()),
    }
}

/// Calls R functions whose results are ready. Does not jump.
///
/// # Errors
/// `Interrupted` if the user interrupts one.
pub fn run_ready() -> error::Result<()> {
    HOOKS.get().map_or(Ok(()), |hooks| (hooks.run_ready)())
}

/// Asks R whether the user interrupts a wait, or a time limit is reached. R's own check would jump over our frames; this one
/// returns the answer. Does meanwhile what waits for R's main thread.
pub fn interrupt_pending() -> bool {
    if collect_for_others().is_err() || run_ready().is_err() {
        return true;
    }
    let mut error = sexp::nil();
    // SAFETY: on R's main thread, as all of this crate.
    let asked = sexp::interruptible(|| error = sexp::caught(|| unsafe { sexp::R_CheckUserInterrupt() }));
    if !sexp::is_nil(error) {
        keep_raised(error);
    }
    asked.is_err() || !sexp::is_nil(error)
}

thread_local! {
    /// Whether R functions that programs call in a wait keep their warnings and messages, for the handlers around the wait.
    static KEEPS: Cell<bool> = const { Cell::new(false) };
    /// Whether such functions may have kept some.
    static HAS_KEPT: Cell<bool> = const { Cell::new(false) };
}

/// Whether an R function that a program calls now must keep its warnings and messages until the wait is over: R shows
/// them to no handler that was set up outside.
pub fn keeps_conditions() -> bool {
    let keeps = KEEPS.get();
    HAS_KEPT.set(HAS_KEPT.get() || keeps);
    keeps
}

/// Runs what calls R functions where no handlers are around that they should reach.
pub fn without_handlers(body: impl FnOnce()) {
    let before = KEEPS.replace(false);
    body();
    KEEPS.set(before);
}

/// The same as [`entry`] for routines that wait, or may run R functions of programs otherwise.
pub fn waiting_entry(body: &dyn Fn() -> Result<SEXP>) -> SEXP {
    if !callbacks::is_host() {
        return entry(body);
    }
    // R may leave this by a long jump. It then stays as it is, until the next routine sets it.
    let has_handlers = sexp::flag(sexp::call_ours(c"has_handlers", sexp::nil())) == Some(true);
    let before = KEEPS.replace(has_handlers);
    let value = entry(body);
    KEEPS.set(before);
    value
}

/// Runs the body of an entry point that R calls with plain values. A failure or a panic becomes an R condition. Runs
/// the body again if a user interrupts and then resumes it, and after it needed a handle of another session that came with
/// its content.
pub fn entry(body: &dyn Fn() -> Result<SEXP>) -> SEXP {
    pins::drain();
    dlpack::release_pending();
    sent::forget_needed();
    loop {
        let failed = match run(body) {
            Ok(value) if console::is_waiting() || missing::is_noted() || HAS_KEPT.get() => return after_notes(value),
            Ok(value) => return value,
            Err(failed) => failed,
        };
        if sent::is_needed(&failed) {
            // R may leave the next line by a long jump.
            drop(failed);
            sent::revive_needed();
            continue;
        }
        // The error is the more important one.
        let _ = console::flush();
        signal(failed);
    }
}

/// Runs the body once.
#[inline]
fn run(body: &dyn Fn() -> Result<SEXP>) -> error::Result<SEXP> {
    let run = || {
        let mut record = if trace::is_on() { HOOKS.get().map(|hooks| (hooks.record)()) } else { None };
        collect_for_others()?;
        let result = body();
        if let Some(record) = &mut record {
            record.span.check(&result);
        }
        result
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Failure(error))) => Err(error),
        Err(_) => Err(Error::new(Kind::Internal, "A fault inside pjrt was caught.")
            .hint("The session continues. Please report how to reproduce the fault.")),
    }
}

/// A value, after what programs printed meanwhile is written, and R knows of the conditions of R functions and of missing
/// values. An interrupt is R's, as at any other time.
#[cold]
fn after_notes(value: SEXP) -> SEXP {
    // SAFETY: on R's main thread. R itself undoes the protection when it jumps.
    unsafe { Rf_protect(value) };
    while let Err(interrupted) = console::flush() {
        signal(interrupted);
    }
    if HAS_KEPT.replace(false) {
        // R leaves this by a long jump if a handler does.
        sexp::call_ours(c"signal_kept", sexp::nil());
    }
    let notes = missing_list();
    if !sexp::is_nil(notes) {
        // SAFETY: as above.
        unsafe { Rf_protect(notes) };
        // R leaves this by a long jump if warnings are errors.
        sexp::call_ours(c"warn_missing", notes);
        // SAFETY: as above.
        unsafe { Rf_unprotect(1) };
    }
    // SAFETY: as above.
    unsafe { Rf_unprotect(1) };
    value
}

/// The missing values that uploads noted, as `warn_missing()` in R/conditions.R takes them, nil if there are none; not
/// protected.
fn missing_list() -> SEXP {
    let notes = missing::take();
    if notes.is_empty() {
        return sexp::nil();
    }
    sexp::list(notes.iter().map(|note| {
        sexp::record(&[
            ("count", &|| sexp::new_whole_numbers(&[note.report.missing as i64])),
            ("first", &|| sexp::new_whole_numbers(&[note.report.first as i64 + 1])),
            ("dtype", &|| sexp::new_string(note.spec.dtype.name())),
            ("spec", &|| sexp::new_string(&note.spec.to_string())),
            ("late", &|| sexp::new_flag(note.is_late)),
        ])
    }))
}
