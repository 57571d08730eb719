//! Callbacks of programs where R is idle: at its prompt, and in `Sys.sleep()`. R watches a pipe there.

use crate::custom_call;
use pjrt_base::callbacks;

/// Has R run callbacks where it is idle.
pub fn watch() {
    #[cfg(unix)]
    unix::watch();
}

/// Runs the callbacks that wait, and writes what programs have printed.
#[cfg_attr(not(unix), allow(dead_code))]
fn serve() {
    // A panic must not reach R. After an interrupt, callbacks wait until R waits or polls.
    let _ = std::panic::catch_unwind(|| {
        if callbacks::serve_idle().is_ok() {
            custom_call::flush_idle();
        }
    });
}

#[cfg(unix)]
mod unix {
    use super::serve;
    use pjrt_base::pipe;
    use std::ffi::{c_int, c_void};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicPtr, Ordering};

    // R's own loop, as in its header R_ext/eventloop.h.
    extern "C" {
        static mut R_InputHandlers: *mut c_void;
        fn addInputHandler(
            handlers: *mut c_void,
            file: c_int,
            handler: unsafe extern "C" fn(*mut c_void),
            activity: c_int,
        ) -> *mut c_void;
        fn removeInputHandler(handlers: *mut *mut c_void, handler: *mut c_void) -> c_int;
    }

    /// Distinguishes our input from that of others.
    const ACTIVITY: c_int = 76;

    /// R's record of our handler; null if there is none.
    static HANDLER: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

    pub fn watch() {
        if !HANDLER.load(Ordering::Relaxed).is_null() {
            return;
        }
        // Without a pipe, callbacks run only where R waits or polls.
        let Some(file) = pipe::open() else { return };
        // SAFETY: on R's main thread; R keeps the handler, which lives as long as this library.
        HANDLER.store(unsafe { addInputHandler(R_InputHandlers, file, answer, ACTIVITY) }, Ordering::Relaxed);
    }

    unsafe extern "C" fn answer(_: *mut c_void) {
        if pipe::empty() {
            serve();
            return;
        }
        // The pipe is that of the process that was forked, which would miss what is read here.
        let handler = HANDLER.swap(null_mut(), Ordering::Relaxed);
        removeInputHandler(&raw mut R_InputHandlers, handler);
    }
}
