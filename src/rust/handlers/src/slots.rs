//! The functions that plugins call. A plugin keeps the first function that is registered under a name, so each handler
//! has a slot with its own function, which calls the slot's current content.

use crate::frame::{self, Failure, Frame, Outcome};
use crate::host;
use pjrt_base::error::NOT_FOUND;
use pjrt_base::sync::Unpoisoned;
use pjrt_ffi::exception;
use pjrt_sys::*;
use std::mem::offset_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut};
use std::sync::{Arc, RwLock};

/// A function that follows XLA's FFI.
pub type ForeignHandler = unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

/// A function of Rust.
pub type RustHandler = fn(&Frame<'_>) -> Outcome;

/// A function that programs may call.
#[derive(Debug, Clone, Copy)]
pub enum Handler {
    /// A function that comes with this process, and with every other process that uses these crates.
    BuiltIn(RustHandler),
    /// A function that the user supplies. It comes before a built-in one of the same name.
    Foreign(ForeignHandler),
    /// A function of the user in the host language, by a number that is unique to it. It comes first, too.
    Host(u64),
}

#[derive(Debug)]
struct SlotContent {
    target: Box<str>,
    /// `None` once it was removed.
    handler: Option<Handler>,
}

const ROWS: usize = 64;
const COLUMNS: usize = 16;

/// The number of slots.
pub(super) const COUNT: usize = ROWS * COLUMNS;

static CONTENTS: [RwLock<Option<Arc<SlotContent>>>; COUNT] = [const { RwLock::new(None) }; COUNT];

/// The function of each slot.
static ENTRIES: [[ForeignHandler; COLUMNS]; ROWS] = entries();

/// Sets what a slot calls from now on.
pub(super) fn set(slot: usize, target: &str, handler: Option<Handler>) {
    let content = Arc::new(SlotContent { target: target.into(), handler });
    *CONTENTS[slot].write().unpoisoned() = Some(content);
}

/// The function of a slot.
pub(super) fn entry(slot: usize) -> ForeignHandler {
    ENTRIES[slot / COLUMNS][slot % COLUMNS]
}

unsafe extern "C" fn enter<const ROW: usize, const COLUMN: usize>(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    call(ROW * COLUMNS + COLUMN, frame)
}

macro_rules! row {
    ($row:ident; $($column:literal)*) => { [$(enter::<$row, $column>),*] };
}

const fn row<const ROW: usize>() -> [ForeignHandler; COLUMNS] {
    row!(ROW; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}

macro_rules! rows {
    ($($row:literal)*) => { [$(row::<$row>()),*] };
}

const fn entries() -> [[ForeignHandler; COLUMNS]; ROWS] {
    rows!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
    )
}

/// Calls the slot's content. It never unwinds.
///
/// # Safety
/// `frame` must be one that a plugin passes to a handler.
unsafe fn call(slot: usize, frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    if answer_about_itself(frame) {
        return null_mut();
    }
    // Not locked during the call, which may register handlers.
    let content = CONTENTS[slot].read().unpoisoned().clone();
    let outcome = match content.as_deref() {
        Some(SlotContent { handler: Some(Handler::Foreign(handler)), target }) => {
            // What the handler returns is the plugin's.
            match exception::caught(*handler, frame) {
                Ok(error) => return error,
                Err(what) => {
                    Err(Failure::internal(format!("The handler of '{target}' threw a C++ exception, {what}.")))
                }
            }
        }
        Some(SlotContent { handler: Some(Handler::BuiltIn(handler)), target }) => run(handler, frame, target),
        Some(SlotContent { handler: Some(Handler::Host(function)), target }) => {
            run(|frame: &Frame<'_>| host::start(frame, *function, target), frame, target)
        }
        Some(SlotContent { handler: None, target }) => {
            Err(Failure::new(NOT_FOUND, format!("The custom call '{target}' has no handler any more.")))
        }
        None => Err(Failure::internal("A custom call has no handler.")),
    };
    match outcome {
        Ok(()) => null_mut(),
        Err(failure) => frame::error_of(if frame.is_null() { null() } else { (*frame).api }, &failure),
    }
}

/// # Safety
/// As for [`call`].
unsafe fn run(handler: impl Fn(&Frame<'_>) -> Outcome, frame: *const XLA_FFI_CallFrame, target: &str) -> Outcome {
    let call = || {
        // SAFETY: the plugin's frame is valid during the call.
        let frame = unsafe { Frame::new(frame) }?;
        if frame.is_execution() {
            handler(&frame)
        } else {
            Ok(())
        }
    };
    let done = catch_unwind(AssertUnwindSafe(call));
    let outcome = done.unwrap_or_else(|_| Err(Failure::internal("The handler was aborted by a fault.")));
    outcome.map_err(|failure| failure.of_call(target))
}

/// Answers the question which version of the FFI a handler uses. Plugins ask when they register it. Returns whether the
/// call is that question.
///
/// # Safety
/// As for [`call`].
unsafe fn answer_about_itself(frame: *mut XLA_FFI_CallFrame) -> bool {
    if frame.is_null() || (*frame).struct_size < offset_of!(XLA_FFI_CallFrame, ctx) {
        return false;
    }
    let mut link = (*frame).extension_start;
    while !link.is_null() && (*link).type_ != XLA_FFI_Extension_Type::XLA_FFI_Extension_Metadata {
        link = (*link).next;
    }
    if link.is_null() {
        return false;
    }
    let question: *const XLA_FFI_Metadata_Extension = link.cast();
    if (*link).struct_size < size_of::<XLA_FFI_Metadata_Extension>() || (*question).metadata.is_null() {
        return true;
    }
    let answer = (*question).metadata;
    let theirs = match (*frame).api.as_ref() {
        Some(api) if api.struct_size >= offset_of!(XLA_FFI_Api, internal_api) => {
            (api.api_version.major_version, api.api_version.minor_version)
        }
        _ => OLDEST,
    };
    let (major, minor) = theirs.min((XLA_FFI_API_MAJOR as i32, XLA_FFI_API_MINOR as i32));
    if (*answer).struct_size >= offset_of!(XLA_FFI_Metadata, traits) {
        (*answer).api_version = XLA_FFI_Api_Version {
            struct_size: size_of::<XLA_FFI_Api_Version>(),
            extension_start: null_mut(),
            major_version: major,
            minor_version: minor,
        };
    }
    if (*answer).struct_size >= offset_of!(XLA_FFI_Metadata, traits) + size_of::<XLA_FFI_Handler_Traits>() {
        (*answer).traits = 0;
    }
    true
}

/// The oldest version that plugins accept.
const OLDEST: (i32, i32) = (0, 1);
