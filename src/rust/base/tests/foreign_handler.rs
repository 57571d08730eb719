//! Another library sets its own handler of SIGBUS. In a process of its own, since handlers belong to the process.
#![cfg(target_os = "linux")]

use pjrt_base::mmap::SignalStacks;
use std::sync::atomic::{AtomicUsize, Ordering};

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn no_thread_gets_a_message_for_another_handler() {
    // sets the package's handler
    drop(SignalStacks::of_threads_made_by(|| ()));
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGBUS, count as *const () as usize) };
    let (thread, stacks) = SignalStacks::of_threads_made_by(|| std::thread::spawn(SignalStacks::of_this_thread));
    drop((thread.join().unwrap(), stacks));
    assert_eq!(SIGNALS.load(Ordering::SeqCst), 0);
    // SAFETY: as above.
    unsafe { libc::raise(libc::SIGBUS) };
    assert_eq!(SIGNALS.load(Ordering::SeqCst), 1, "the handler is there");
}
