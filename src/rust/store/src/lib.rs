//! Key-value stores that the processes of a job share, for the little that they must tell each other before devices can
//! talk. Must not know plugins or the host language.

mod address;
mod redis_store;

pub use address::Address;
pub use redis_store::RedisStore;

pub use pjrt_base::error::{DEADLINE_EXCEEDED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED};

use pjrt_base::error::{Error, Kind, Result};
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The codes of errors of stores, the same as for plugins.
pub const CANCELLED: u32 = 1;
pub const INTERNAL: u32 = 13;
pub const UNAVAILABLE: u32 = 14;
pub const UNAUTHENTICATED: u32 = 16;

/// The longest value, which is that of Redis.
pub const MAX_VALUE: usize = 512 << 20;

/// The error for a longer value.
pub fn too_long(value: &[u8]) -> Error {
    let message = format!("The store takes values of up to {MAX_VALUE} bytes, not of {}.", value.len());
    Error::new(Kind::Pjrt(INVALID_ARGUMENT), message)
}

/// A store. Keys and values are any bytes. All calls may be made from any thread, several at a time.
///
/// Errors have the codes above: `UNAVAILABLE` if the server is lost, `UNAUTHENTICATED` if it refuses the password,
/// `RESOURCE_EXHAUSTED` if its memory is full, `INVALID_ARGUMENT` for a value that is too long.
pub trait Store: Send + Sync + Debug {
    /// The value of a key, once there is one.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED`; `CANCELLED` soon after `patience` is cancelled.
    fn get(&self, key: &[u8], patience: &Patience<'_>) -> Result<Vec<u8>>;

    /// The value of a key now. `None` if it has none.
    ///
    /// # Errors
    /// The store's own.
    fn try_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Sets the value of a key, which may have one.
    ///
    /// # Errors
    /// The store's own.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Adds to a counter, which begins at 0, and returns the sum. Counters have keys of their own.
    ///
    /// # Errors
    /// The store's own. The sum may have been changed even so.
    fn increment(&self, key: &[u8], by: i64) -> Result<i64>;
}

/// How long to wait for others, and whether the wait is still wanted.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    deadline: Instant,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> Patience<'a> {
    pub fn new(wait: Duration, is_cancelled: &'a dyn Fn() -> bool) -> Patience<'a> {
        /// An `Instant` cannot be any later.
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
        Patience { deadline: Instant::now() + wait.min(LONGEST), is_cancelled }
    }

    /// The time that is left; `None` if it is up.
    pub fn left(&self) -> Option<Duration> {
        Some(self.deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Checks that the wait is still wanted.
    ///
    /// # Errors
    /// `CANCELLED`.
    pub fn check(&self) -> Result<()> {
        if (self.is_cancelled)() {
            return Err(Error::new(Kind::Pjrt(CANCELLED), "The wait was cancelled."));
        }
        Ok(())
    }
}

/// A wait of this length that nobody cancels.
pub fn wait(wait: Duration) -> Patience<'static> {
    Patience::new(wait, &|| false)
}
