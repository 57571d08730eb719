//! The LAPACK in use: found among candidates, loaded once, its routines looked up by name.

use pjrt_base::bail;
use pjrt_base::error::Result;
use std::path::PathBuf;

/// A loaded LAPACK.
pub struct Library {}

/// Names the files to load LAPACK from, the preferred one first; BLAS may be another file of the list. An empty list
/// means the system's LAPACK. Call it before the first operation; the same list again is free.
///
/// # Errors
/// Another list, when a library is in use already.
pub fn set_libraries(candidates: Vec<PathBuf>) -> Result<()> {
    let _ = candidates;
    Ok(())
}

/// The LAPACK in use, which the first call loads.
///
/// # Errors
/// No candidate is a usable LAPACK. The message lists what was tried and why it was refused.
pub fn library() -> Result<&'static Library> {
    bail!(LibraryMissing, "Not written yet.")
}

impl Library {
    /// The files in use.
    pub fn files(&self) -> &[PathBuf] {
        &[]
    }
}
