//! Compilers in separate processes: if a compiler crashes, it ends its helper, not the session. Must not know clients:
//! a helper creates its own.
//!
//! A helper is a small executable over this crate. It creates a client with the options and the environment of the session's, and
//! answers one request after the other with a serialized executable. It ends when its socket closes.

mod cancel;
mod pool;
#[cfg(unix)]
mod process;
pub mod protocol;

pub(crate) use cancel::end_all;
pub use cancel::Cancel;
pub(crate) use pool::Pool;
pub use pool::{has_helper, set_helper};

use std::time::Duration;

/// Where programs are compiled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Place {
    /// In this process.
    #[default]
    Inside,
    /// In a helper's process, if the platform's plugin and the system allow it.
    Apart(Limits),
}

/// What a compiler in a helper's process may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Resident memory in bytes.
    pub memory: Option<u64>,
    pub time: Option<Duration>,
}
