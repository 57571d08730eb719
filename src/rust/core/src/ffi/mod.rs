//! Calls of a plugin's functions: one macro makes them all, checks them, and survives the C++ exceptions that they throw.

pub(crate) mod api;
pub mod exception;
pub(crate) mod poison;
