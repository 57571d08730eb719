//! The helper that compiles programs in a separate process, for the session that has started it. Must not know R.

fn main() {
    #[cfg(unix)]
    // SAFETY: there is no other thread yet.
    unsafe {
        pjrt_core::compile::serve::serve();
    }
    eprintln!("The R package pjrt starts this program to compile in a separate process.");
    std::process::exit(2);
}
