//! What the process does around us: fork, exit, and a user who wants to interrupt a wait.

use crate::client;
use crate::error::{Error, Kind, Result};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Once;

/// Counts forks: it is one higher in a child than in its parent. Objects remember the value at their making.
static GENERATION: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static INTERRUPT_POLL: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// The number of forks between the first process and this one.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// The error for an object that was made before a fork.
#[cold]
pub fn forked() -> Error {
    Error::new(
        Kind::Forked,
        "This process is a fork of one that used a client; the device runtime does not survive fork().",
    )
}

/// Lets waits on this thread end early: `poll` is asked about every 50 ms and returns true when the user interrupts.
pub fn set_interrupt_poll(poll: fn() -> bool) {
    INTERRUPT_POLL.set(Some(poll));
}

/// Asks this thread's poll.
///
/// # Errors
/// `Interrupted` when the user wants the wait to end.
pub fn check_interrupt() -> Result<()> {
    match INTERRUPT_POLL.get() {
        Some(poll) if poll() => Err(Error::new(Kind::Interrupted, "Interrupted.")),
        _ => Ok(()),
    }
}

/// Watches for forks from now on; done before the first plugin is used.
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    #[cfg(unix)]
    // SAFETY: registers a handler that only touches an atomic.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    #[cfg(not(unix))]
    let _ = (&ONCE, in_child as extern "C" fn());
}

/// Has the clients destroyed when the process exits, before the plugin's own exit handlers run.
///
/// Handlers run last-registered first, and a plugin registers its own while it works, so this is called after each
/// step that may have made it do so; running twice is harmless.
pub(crate) fn watch_exit() {
    extern "C" fn at_exit() {
        client::close_all();
    }
    // SAFETY: registers a handler; failing to (no memory) leaves exit as it would be without.
    unsafe {
        libc::atexit(at_exit);
    }
}

/// Has the process end without the exit handlers and destructors of its libraries, one of which still works on a thread that
/// cannot be stopped. Only where the C library tells the status to end with.
pub(crate) fn skip_exit_handlers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::{c_int, c_void};
        extern "C" {
            fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
        }
        extern "C" fn leave(status: c_int, _: *mut c_void) {
            // SAFETY: writes out what streams hold, and ends the process.
            unsafe {
                libc::fflush(std::ptr::null_mut());
                libc::_exit(status);
            }
        }
        // SAFETY: registers a handler, which runs before all others, being the last; failing to leaves exit as it would be without.
        unsafe { on_exit(leave, std::ptr::null_mut()) };
    }
}
