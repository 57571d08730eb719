//! Locks whose data stays usable when a thread panics.

use std::sync::{LockResult, PoisonError};

/// For the result of a lock, or of a wait that locks again. In the child of a fork the lock may never come; see
/// [`crate::process::lock`].
pub trait Unpoisoned<T> {
    /// What was locked, even if a thread panicked while it held the lock.
    fn unpoisoned(self) -> T;
}

impl<T> Unpoisoned<T> for LockResult<T> {
    #[inline]
    fn unpoisoned(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}
