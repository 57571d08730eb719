//! Plugins as files: finds, downloads and verifies them, and the libraries that CUDA plugins need.
//! Must not know clients, arrays or programs.

#[macro_use]
extern crate pjrt_base;

pub mod cuda;
pub mod find;
pub mod install;
pub mod library;
pub mod trial;
