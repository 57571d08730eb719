//! The callbacks through which a plugin reads and writes a store. Plugins call them on any thread, several at a time,
//! and as long as the client lives.

use pjrt_base::error::{Error, Kind, Result, NOT_FOUND, RESOURCE_EXHAUSTED};
use pjrt_base::process;
use pjrt_base::sync::Unpoisoned;
use pjrt_ffi::api::bytes;
use pjrt_store::{Patience, Store, CANCELLED, INTERNAL, UNAVAILABLE};
use pjrt_sys::*;
use std::ffi::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Whether a creation of a client is still wanted.
#[derive(Debug)]
pub(crate) struct Cancel {
    is_cancelled: AtomicBool,
    pub deadline: Instant,
    generation: u32,
    /// How many calls wait for the store's answer.
    asking: AtomicUsize,
}

/// A call that waits for the store's answer.
pub(crate) struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Cancel {
    pub fn new(timeout: Duration) -> Cancel {
        Cancel {
            is_cancelled: AtomicBool::new(false),
            deadline: Instant::now() + timeout,
            generation: process::generation(),
            asking: AtomicUsize::new(0),
        }
    }

    /// Counts a call to the store while the value lives.
    pub fn ask(&self) -> Asking<'_> {
        self.asking.fetch_add(1, Ordering::AcqRel);
        Asking(&self.asking)
    }

    pub fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Acquire) > 0
    }

    pub fn now(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Whether this process runs it, and not one that this is a fork of.
    pub fn is_here(&self) -> bool {
        self.generation == process::generation()
    }
}

/// A plugin's access to a store.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// `None` once closed.
    store: Mutex<Option<Arc<dyn Store>>>,
    creation: Arc<Cancel>,
    is_created: AtomicBool,
    /// The last failure of the store, which a plugin may not mention.
    failure: Mutex<Option<Error>>,
}

impl Exchange {
    /// Lives until the process ends, because threads of the plugin may.
    pub fn new(store: Arc<dyn Store>, creation: Arc<Cancel>) -> &'static Exchange {
        Box::leak(Box::new(Exchange {
            store: Mutex::new(Some(store)),
            creation,
            is_created: AtomicBool::new(false),
            failure: Mutex::default(),
        }))
    }

    /// The argument for the callbacks.
    pub fn user_arg(&'static self) -> *mut c_void {
        (self as *const Exchange).cast_mut().cast()
    }

    /// From now on, the plugin waits as long as it wants.
    pub fn end_creation(&self) {
        self.is_created.store(true, Ordering::Release);
    }

    /// Refuses all further calls, and drops the connections.
    pub fn close(&self) {
        self.creation.now();
        let store = self.store.lock().unpoisoned().take();
        drop(store);
    }

    /// The last failure of the store.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().unpoisoned().clone()
    }

    fn get(&self, key: &[u8], milliseconds: i32) -> Result<Vec<u8>> {
        let is_creating = !self.is_created.load(Ordering::Acquire);
        let mut wait = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
        if is_creating {
            wait = wait.min(self.creation.deadline.saturating_duration_since(Instant::now()));
        }
        let is_cancelled = || self.creation.is_cancelled();
        self.ask(|store| store.get(key, &Patience::new(wait, &is_cancelled)))
    }

    fn try_get(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.ask(|store| store.try_get(key))?.ok_or_else(|| {
            Error::new(Kind::Pjrt(NOT_FOUND), format!("The key '{}' is not set.", String::from_utf8_lossy(key)))
        })
    }

    /// Asks the store, and notes its failure.
    fn ask<T>(&self, question: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        let store = self.store.lock().unpoisoned().clone();
        let store = store.ok_or_else(|| Error::new(Kind::Pjrt(UNAVAILABLE), "The client is closed."))?;
        let _asking = self.creation.ask();
        question(&*store).inspect_err(|error| {
            if error.code() != Some(CANCELLED) {
                *self.failure.lock().unpoisoned() = Some(error.clone());
            }
        })
    }
}

/// Answers a callback: a panic becomes an error, and an error one of the plugin's own.
///
/// # Safety
/// `user_arg` is that of an [`Exchange`], and `callback_error` is null or points to the plugin's function.
unsafe fn answer(
    user_arg: *mut c_void,
    callback_error: *mut PJRT_CallbackError,
    work: impl FnOnce(&'static Exchange) -> Result<()>,
) -> *mut PJRT_Error {
    let exchange = user_arg.cast::<Exchange>().cast_const();
    let done = catch_unwind(AssertUnwindSafe(|| match exchange.as_ref() {
        Some(exchange) => work(exchange),
        None => Err(Error::new(Kind::Internal, "The callback has no argument.")),
    }));
    let error = match done {
        Ok(Ok(())) => return null_mut(),
        Ok(Err(error)) => error,
        Err(_) => Error::new(Kind::Internal, "The callback was aborted by a fault."),
    };
    let Some(make) = callback_error.as_ref().copied().flatten() else { return null_mut() };
    let code = PJRT_Error_Code(error.code().unwrap_or(INTERNAL));
    make(code, error.message().as_ptr().cast(), error.message().len())
}

/// A copy of a value that the plugin frees with [`free_value`].
fn lend(value: &[u8]) -> Result<*mut c_char> {
    // SAFETY: has no conditions.
    let copy = unsafe { libc::malloc(value.len().max(1)) }.cast::<u8>();
    if copy.is_null() {
        let message = format!("Not enough memory for a value of {} bytes.", value.len());
        return Err(Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message));
    }
    // SAFETY: the new memory is as long.
    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), copy, value.len()) };
    Ok(copy.cast())
}

unsafe extern "C" fn free_value(value: *mut c_char) {
    libc::free(value.cast());
}

/// `PJRT_KeyValueGetCallback`: waits for a key.
pub(crate) unsafe extern "C" fn get(args: *mut PJRT_KeyValueGetCallback_Args) -> *mut PJRT_Error {
    let args = &mut *args;
    answer(args.user_arg, args.callback_error, |exchange| {
        let value = exchange.get(bytes(args.key, args.key_size), args.timeout_in_ms)?;
        args.value = lend(&value)?;
        args.value_size = value.len();
        args.value_deleter_callback = Some(free_value);
        Ok(())
    })
}

/// `PJRT_KeyValueTryGetCallback`: the same without waiting.
pub(crate) unsafe extern "C" fn try_get(args: *mut PJRT_KeyValueTryGetCallback_Args) -> *mut PJRT_Error {
    let args = &mut *args;
    answer(args.user_arg, args.callback_error, |exchange| {
        let value = exchange.try_get(bytes(args.key, args.key_size))?;
        args.value = lend(&value)?;
        args.value_size = value.len();
        args.value_deleter_callback = Some(free_value);
        Ok(())
    })
}

/// `PJRT_KeyValuePutCallback`: sets a key.
pub(crate) unsafe extern "C" fn put(args: *mut PJRT_KeyValuePutCallback_Args) -> *mut PJRT_Error {
    let args = &mut *args;
    answer(args.user_arg, args.callback_error, |exchange| {
        exchange.ask(|store| store.put(bytes(args.key, args.key_size), bytes(args.value, args.value_size)))
    })
}
