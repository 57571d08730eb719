//! The C library's heap, from which plugins take the memory of small results.

/// The C library gives memory at the end of its heap back to the system once there is more than twice this.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: usize = 16 << 20;

/// Has the C library keep freed memory, instead of giving back what the next results need: a program that writes to memory
/// that the system hands out anew takes up to twice as long. glibc does so of its own accord once the process has freed a
/// large block, and `mallopt()` would keep it from adapting further.
pub(crate) fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: a new block is freed once; null may be freed, too.
    unsafe {
        libc::free(std::hint::black_box(libc::malloc(KEPT)));
    }
}
