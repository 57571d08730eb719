//! What R does for this package while it idles: at the prompt, in `Sys.sleep()`, and in the event loop of package later.

use crate::r::{entry, sexp};
use extendr_api::prelude::*;
use pjrt_base::{callbacks, console, idle, process};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Makes R call [`run`] when other threads call `idle::wake()`, as callbacks of programs do. Call it before they may.
pub fn watch() {
    callbacks::set_waker(|| idle::wake(0));
    #[cfg(unix)]
    if let Some(descriptor) = idle::open() {
        handler::add(descriptor);
    }
}

/// Does what waits for R to be idle. Does not jump.
pub fn run() {
    idle::note_awake();
    // After an interrupt, callbacks wait until R waits or polls.
    entry::without_handlers(|| {
        if callbacks::serve_idle().is_ok() {
            // After an interrupt, the rest is written later.
            let _ = console::flush();
        }
    });
    if entry::run_ready().is_err() {
        process::interrupt_again();
    }
}

#[cfg(unix)]
mod handler {
    use super::*;

    type Readable = unsafe extern "C-unwind" fn(*mut c_void);

    /// The first fields of a handler in R's list.
    #[repr(C)]
    struct InputHandler {
        activity: c_int,
        descriptor: c_int,
        handler: Option<Readable>,
        next: *mut InputHandler,
    }

    // Declared in R_ext/eventloop.h, as the type is. R 4.2 does not count getInputHandler(), declared there too, as its API.
    extern "C-unwind" {
        static mut R_InputHandlers: *mut InputHandler;
        fn addInputHandler(
            handlers: *mut InputHandler,
            descriptor: c_int,
            handler: Readable,
            activity: c_int,
        ) -> *mut InputHandler;
        fn removeInputHandler(handlers: *mut *mut InputHandler, handler: *mut InputHandler) -> c_int;
    }

    /// A number for the kind of handler, which R and other packages do not use.
    const ACTIVITY: c_int = 74;

    /// The descriptor that R watches.
    static WATCHED: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

    pub fn add(descriptor: c_int) {
        remove();
        WATCHED.store(descriptor as usize as *mut c_void, Ordering::Relaxed);
        // SAFETY: on R's main thread; the descriptor stays open, and this library in memory.
        unsafe { addInputHandler(R_InputHandlers, descriptor, readable, ACTIVITY) };
    }

    /// In the child of a fork, R watches its parent's pipe.
    fn remove() {
        let descriptor = WATCHED.swap(std::ptr::null_mut(), Ordering::Relaxed) as usize as c_int;
        if descriptor > 0 {
            // SAFETY: on R's main thread, which alone changes the list.
            unsafe {
                let mut found = R_InputHandlers;
                while !found.is_null() && (*found).descriptor != descriptor {
                    found = (*found).next;
                }
                if !found.is_null() {
                    removeInputHandler(&raw mut R_InputHandlers, found);
                }
            }
        }
    }

    unsafe extern "C-unwind" fn readable(_: *mut c_void) {
        if idle::is_open(WATCHED.load(Ordering::Relaxed) as usize as c_int) {
            run();
        } else {
            remove();
        }
    }
}

/// later's function that makes one of its event loops call a function. Any thread may call it.
type Later = unsafe extern "C" fn(extern "C-unwind" fn(*mut c_void), *mut c_void, f64, c_int);

static LATER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

fn schedule(number: c_int) {
    extern "C-unwind" fn scheduled(_: *mut c_void) {
        run();
    }
    let later = LATER.load(Ordering::Relaxed);
    if !later.is_null() {
        // SAFETY: stored by `idle_connect()`, for a library that stays in memory.
        unsafe { std::mem::transmute::<*mut c_void, Later>(later)(scheduled, std::ptr::null_mut(), 0.0, number) };
    }
}

/// Uses the event loops of package later, which is loaded, or stops to use them.
pub fn idle_connect(is_loaded: bool) -> Robj {
    extern "C-unwind" {
        fn R_GetCCallable(package: *const c_char, name: *const c_char) -> *mut c_void;
    }
    let mut found = std::ptr::null_mut();
    if is_loaded {
        // SAFETY: on R's main thread; both texts end with a NUL. R raises an error if later has no such function.
        let look = || found = unsafe { R_GetCCallable(c"later".as_ptr(), c"execLaterNative2".as_ptr()) };
        // Without it, R's own loop remains.
        drop(sexp::guarded(look));
    }
    if !found.is_null() {
        process::keep_library_of(found as usize);
        LATER.store(found, Ordering::Relaxed);
    }
    idle::set_scheduler(if found.is_null() { None } else { Some(schedule) });
    (!found.is_null()).into()
}
