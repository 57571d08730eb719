//! The LAPACK that programs use.

use crate::r::conditions::Result;
use pjrt_handlers::lapack;
use std::path::PathBuf;

/// Names the files to load LAPACK from, the preferred one first.
pub fn linear_algebra_libraries(files: Vec<String>) -> Result<()> {
    Ok(lapack::set_libraries(files.into_iter().map(PathBuf::from).collect())?)
}
