//! A pipe that wakes an idle host, which watches its files, when a callback waits.

use crate::callbacks;
use crate::process;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

static READS: AtomicI32 = AtomicI32::new(-1);
static WRITES: AtomicI32 = AtomicI32::new(-1);
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Whether there is something to read.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Opens the pipe, and has callbacks write to it. Returns the file to watch; `None` without such a file.
pub fn open() -> Option<c_int> {
    let mut files = [-1; 2];
    // SAFETY: there is room for two files.
    if unsafe { libc::pipe(files.as_mut_ptr()) } != 0 {
        return None;
    }
    for file in files {
        // SAFETY: a file of ours.
        unsafe {
            libc::fcntl(file, libc::F_SETFL, libc::O_NONBLOCK);
            libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    GENERATION.store(process::generation(), Ordering::SeqCst);
    IS_FULL.store(false, Ordering::SeqCst);
    READS.store(files[0], Ordering::SeqCst);
    WRITES.store(files[1], Ordering::SeqCst);
    callbacks::set_waker(wake);
    Some(files[0])
}

/// Takes out what wakes the host. False in the child of the process that opened it: it shares the pipe with its parent.
pub fn empty() -> bool {
    if GENERATION.load(Ordering::SeqCst) != process::generation() {
        return false;
    }
    let mut bytes = [0u8; 16];
    // SAFETY: there is room for so many bytes, and the file does not block.
    while unsafe { libc::read(READS.load(Ordering::SeqCst), bytes.as_mut_ptr().cast(), bytes.len()) } > 0 {}
    IS_FULL.store(false, Ordering::SeqCst);
    true
}

fn wake() {
    let is_ours = GENERATION.load(Ordering::SeqCst) == process::generation();
    if is_ours && !IS_FULL.swap(true, Ordering::SeqCst) {
        // SAFETY: one byte; if the pipe is full, the host will wake up anyway.
        unsafe { libc::write(WRITES.load(Ordering::SeqCst), [0u8].as_ptr().cast(), 1) };
    }
}
