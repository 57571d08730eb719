//! A clock for ages: a few milliseconds coarse, and so cheap that every object can have the time of its creation.

use std::time::Duration;

/// The time since some moment in the past.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes the time there; if it cannot, the time stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn now() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_advances() {
        let start = now();
        std::thread::sleep(Duration::from_millis(100));
        assert!(now() > start);
    }
}
