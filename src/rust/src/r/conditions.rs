//! Failures on their way to R: each becomes a classed R condition, made by `signal_failure()` in R/conditions.R.

use crate::r::describe::describe;
use crate::r::sexp;
use extendr_api::prelude::*;
use extendr_ffi::*;
use pjrt_base::error::{Error, Kind};
use pjrt_base::reason::{Hint, Reason};
use std::cell::{Cell, RefCell};

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

thread_local! {
    /// The failure on its way to R: kept here so that no frame owns anything when R jumps.
    static STAGED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Raises a failure as an R condition. Returns only from an interrupt that the user resumes. The caller owns nothing else: R
/// leaves this by a long jump.
pub fn signal(failure: Error) {
    STAGED.with(|staged| *staged.borrow_mut() = Some(failure));
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
    let hint = |hint: &Hint| match hint {
        Hint::Text(text) => sexp::new_string(text),
        Hint::Reason(reason) => reason_list(reason),
    };
    let text = |value: Option<&str>| value.map_or(sexp::nil(), sexp::new_string);
    sexp::record(&[
        ("class", &|| sexp::new_string(error.kind().class())),
        ("message", &|| sexp::new_string(error.message())),
        ("hints", &|| sexp::list(error.hints().iter().map(hint))),
        ("call_name", &|| text(error.call_name())),
        ("platform", &|| text(error.platform())),
        ("code", &|| error.code().map_or(sexp::nil(), |code| sexp::new_whole_numbers(&[i64::from(code)]))),
        ("condition", &|| if error.kind() == Kind::Interrupted { take_raised() } else { sexp::nil() }),
    ])
}

/// A reason's name and fields, which `advice` in R/conditions.R words; not protected.
fn reason_list(reason: &Reason) -> SEXP {
    let mut fields = reason.fields();
    fields.push(("reason", vec![reason.name().to_owned()]));
    let texts = |(_, texts): &(_, Vec<String>)| sexp::new_strings(texts.iter().map(String::as_str));
    sexp::named(fields.iter().map(|(name, _)| *name), fields.iter().map(texts))
}

thread_local! {
    /// The R error that ended a wait; none if the user interrupted it.
    static RAISED: Cell<Option<SEXP>> = const { Cell::new(None) };
}

/// Keeps the R error that ended a wait until the failure is raised.
pub fn keep_raised(error: SEXP) {
    sexp::preserve(error);
    RAISED.replace(Some(error)).into_iter().for_each(sexp::release);
}

/// Takes that error, which only R owns from now on; not protected.
fn take_raised() -> SEXP {
    let raised = RAISED.take();
    raised.into_iter().for_each(sexp::release);
    raised.unwrap_or_else(sexp::nil)
}
