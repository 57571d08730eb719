//! Short waits for other threads, by polling: to sleep and wake up would take longer.

use crate::parallel::processors;
use std::time::{Duration, Instant};

/// The default time to poll: most short programs end within it.
pub const SHORT: Duration = Duration::from_micros(50);

/// The longest time for which polling is useful.
pub const LONG: Duration = Duration::from_micros(200);

/// Polls until `is_over`, for at most `limit`, and returns whether it is over. Yields the processor to other threads.
/// Polls once if there is only one processor.
#[inline]
pub fn until(limit: Duration, mut is_over: impl FnMut() -> bool) -> bool {
    const LOOKS: usize = 16;
    if is_over() {
        return true;
    }
    if processors() == 1 {
        return false;
    }
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            std::hint::spin_loop();
            if is_over() {
                return true;
            }
        }
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_ends_with_its_cause_or_with_its_time() {
        let mut looks = 0;
        assert!(until(Duration::ZERO, || true));
        assert!(!until(Duration::from_micros(1), || false));
        let third = until(Duration::from_secs(60), || {
            looks += 1;
            looks == 3
        });
        assert_eq!(third, processors() > 1);
    }
}
