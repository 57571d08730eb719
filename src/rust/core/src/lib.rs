//! Safe Rust over PJRT plugins. Knows nothing of R.

pub mod dtype;
pub mod error;

pub use dtype::DType;
pub use error::{Error, Kind, Result};
