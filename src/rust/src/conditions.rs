//! Failures on their way to R: each becomes a classed R condition, made by `signal_failure()` in R/conditions.R.

use crate::describe::describe;
use crate::handle::sent;
use crate::sexp::{self, Protected};
use crate::{memory, on_ready, pins, trace};
use extendr_api::prelude::*;
use extendr_ffi::*;
use pjrt_base::console;
use pjrt_base::error::{Error, Kind};
use pjrt_base::reason::{Hint, Reason};
use pjrt_core::buffer::missing;
use pjrt_core::dlpack;
use std::cell::RefCell;
use std::ffi::CStr;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The error type of a bridge function.
#[derive(Debug)]
pub struct Failure(pub Error);

/// The result of a bridge function.
pub type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure(error)
    }
}

/// For functions with typed arguments: the failure as the value of extendr's error condition, which `call_native()`
/// in R passes on to `signal_failure()`.
impl From<Failure> for Robj {
    fn from(failure: Failure) -> Self {
        let value = failure_list(&failure.0);
        sexp::robj(value)
    }
}

/// The value of an argument that must be TRUE or FALSE.
pub fn flag(x: SEXP, argument: &str) -> Result<bool> {
    match sexp::flag(x) {
        Some(value) => Ok(value),
        None => bail!(InvalidType, "`{argument}` must be TRUE or FALSE, not {}.", describe(x)),
    }
}

/// The same for an argument that may be nil: then an R option, FALSE by default, says it.
pub fn flag_or_option(x: SEXP, argument: &str, option: &CStr) -> Result<bool> {
    if !sexp::is_nil(x) {
        return flag(x, argument);
    }
    let value = sexp::option(option);
    match sexp::flag(value) {
        Some(value) => Ok(value),
        None if sexp::is_nil(value) => Ok(false),
        None => {
            bail!(
                InvalidType,
                "`options({} = )` must be TRUE or FALSE, not {}.",
                option.to_string_lossy(),
                describe(value)
            )
        }
    }
}

thread_local! {
    /// The failure on its way to R: kept here so that no frame owns anything when R jumps.
    static STAGED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Runs the body of an entry point that R calls with plain values. A failure or a panic becomes an R condition. Runs
/// the body again if a user interrupts and then resumes it, and once a handle of another session has its value.
pub fn entry(body: impl Fn() -> Result<SEXP>) -> SEXP {
    pins::drain();
    dlpack::release_pending();
    if sent::is_staged() {
        sent::take_staged();
    }
    loop {
        let run = || {
            let mut call = if pjrt_base::trace::is_on() { trace::entered() } else { None };
            memory::collect_for_others()?;
            let result = body();
            if let Some(call) = &mut call {
                call.check(&result);
            }
            result
        };
        let failed = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(value)) if console::is_waiting() || missing::is_noted() => return after_notes(value),
            Ok(Ok(value)) => return value,
            Ok(Err(Failure(error))) => error,
            Err(_) => Error::new(Kind::Internal, "A fault inside pjrt was caught.")
                .hint("The session continues. Please report how to reproduce the fault."),
        };
        if failed.kind() == Kind::InvalidPointer && sent::is_staged() {
            drop(failed);
            // A handle of another session, which came with its content.
            sent::revive_staged();
            continue;
        }
        // The error is the more important one.
        let _ = console::flush();
        STAGED.with(|staged| *staged.borrow_mut() = Some(failed));
        // Nothing in this frame is left to drop: the call below leaves it by R's long jump.
        signal();
    }
}

/// A value, after what programs printed meanwhile is written, and R is warned of missing values. An interrupt is R's, as at
/// any other time.
#[cold]
fn after_notes(value: SEXP) -> SEXP {
    // SAFETY: on R's main thread. R itself undoes the protection when it jumps.
    unsafe { Rf_protect(value) };
    while let Err(interrupted) = console::flush() {
        STAGED.with(|staged| *staged.borrow_mut() = Some(interrupted));
        signal();
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
    let list = Protected::new(sexp::vector(SEXPTYPE::VECSXP, notes.len()));
    for (i, note) in notes.iter().enumerate() {
        let count = Protected::new(sexp::new_whole_numbers(&[note.report.missing as i64]));
        let first = Protected::new(sexp::new_whole_numbers(&[note.report.first as i64 + 1]));
        let dtype = Protected::new(sexp::new_string(note.spec.dtype.info().name));
        let spec = Protected::new(sexp::new_string(&format!("{}", note.spec)));
        let late = Protected::new(sexp::new_flag(note.is_late));
        let fields = sexp::named_list(&[
            ("count", count.sexp()),
            ("first", first.sexp()),
            ("dtype", dtype.sexp()),
            ("spec", spec.sexp()),
            ("late", late.sexp()),
        ]);
        sexp::set_at(list.sexp(), i, fields);
    }
    list.sexp()
}

/// Raises the staged failure. Returns only from an interrupt that the user resumes.
fn signal() {
    let arguments = STAGED.with(|staged| {
        // SAFETY: only this thread fills the cell, and R may jump from here without leaving it borrowed.
        let error = unsafe { (*staged.as_ptr()).as_ref() };
        error.map_or(sexp::nil(), failure_list)
    });
    // SAFETY: on R's main thread. R itself undoes the protection when it jumps.
    unsafe {
        Rf_protect(arguments);
        sexp::call_ours(c"signal_failure", arguments);
        Rf_unprotect(1);
    }
}

/// The fields of a failure, as `signal_failure()` takes them; not protected.
fn failure_list(error: &Error) -> SEXP {
    let class = Protected::new(sexp::new_string(error.kind().class()));
    let message = Protected::new(sexp::new_string(error.message()));
    let hints = Protected::new(sexp::vector(SEXPTYPE::VECSXP, error.hints().len()));
    for (i, hint) in error.hints().iter().enumerate() {
        let hint = match hint {
            Hint::Text(text) => sexp::new_string(text),
            Hint::Reason(reason) => reason_list(reason),
        };
        sexp::set_at(hints.sexp(), i, hint);
    }
    let text = |value: Option<&str>| Protected::new(value.map_or(sexp::nil(), sexp::new_string));
    let call_name = text(error.call_name());
    let platform = text(error.platform());
    let raised = Protected::new(if error.kind() == Kind::Interrupted { take_raised() } else { sexp::nil() });
    let code = Protected::new(error.code().map_or(sexp::nil(), |code| sexp::new_whole_numbers(&[i64::from(code)])));
    sexp::named_list(&[
        ("class", class.sexp()),
        ("message", message.sexp()),
        ("hints", hints.sexp()),
        ("call_name", call_name.sexp()),
        ("platform", platform.sexp()),
        ("code", code.sexp()),
        ("condition", raised.sexp()),
    ])
}

/// A reason's name and fields, which `advice` in R/conditions.R words; not protected.
fn reason_list(reason: &Reason) -> SEXP {
    let mut fields = reason.fields();
    fields.push(("reason", vec![reason.name().to_owned()]));
    let empty: Vec<(&str, SEXP)> = fields.iter().map(|(name, _)| (*name, sexp::nil())).collect();
    let list = Protected::new(sexp::named_list(&empty));
    for (i, (_, texts)) in fields.iter().enumerate() {
        let field = sexp::vector(SEXPTYPE::STRSXP, texts.len());
        sexp::set_at(list.sexp(), i, field);
        for (j, text) in texts.iter().enumerate() {
            sexp::set_text(field, j, text);
        }
    }
    list.sexp()
}

/// The R error that ended a wait; nil if the user interrupted it.
static RAISED: AtomicPtr<SEXPREC> = AtomicPtr::new(std::ptr::null_mut());

/// Asks R whether the user interrupts, or a time limit is reached. R's own check would jump over our frames; this one
/// returns the answer. Functions that wait for results are called meanwhile.
pub fn interrupt_pending() -> bool {
    if memory::collect_for_others().is_err() || on_ready::run().is_err() {
        return true;
    }
    let mut error = sexp::nil();
    // SAFETY: on R's main thread, as all of this crate.
    let asked = sexp::interruptible(|| error = sexp::caught(|| unsafe { sexp::R_CheckUserInterrupt() }));
    if !sexp::is_nil(error) {
        sexp::preserve(error);
        drop_raised(RAISED.swap(error, Ordering::Relaxed));
    }
    asked.is_err() || !sexp::is_nil(error)
}

/// Takes that error, which only R owns from now on; not protected.
fn take_raised() -> SEXP {
    let raised = RAISED.swap(std::ptr::null_mut(), Ordering::Relaxed);
    drop_raised(raised);
    if raised.is_null() {
        sexp::nil()
    } else {
        raised
    }
}

fn drop_raised(raised: SEXP) {
    if !raised.is_null() {
        sexp::release(raised);
    }
}
