//! Calls of a plugin's functions: one macro makes all calls, checks them, and handles C++ exceptions.

pub(crate) mod api;
pub mod exception;
pub(crate) mod poison;
