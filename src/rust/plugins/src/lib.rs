//! Plugins as files: finding, fetching and checking them, and the libraries that those for CUDA need.
//! Must not know clients, arrays or programs.

#[macro_use]
extern crate pjrt_base;

pub mod cuda;
pub mod find;
pub mod install;
pub mod library;
