//! Memory and sizes that operations keep from one matrix of a batch to the next.

use crate::library::{library, Library};
use pjrt_base::error::Result;

/// The library in use, and memory for its work. It may be used for any operation, type and size, but sizes that repeat
/// cost least.
pub struct Workspace {
    _library: &'static Library,
}

impl Workspace {
    /// A workspace of the library in use, without memory yet.
    ///
    /// # Errors
    /// As [`library`].
    pub fn new() -> Result<Workspace> {
        Ok(Workspace { _library: library()? })
    }
}
