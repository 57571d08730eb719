//! Calls of a plugin's functions: one macro makes all calls, checks them, and handles C++ exceptions. Must not know what
//! the calls are for: clients, buffers, programs.

#[macro_use]
extern crate pjrt_base;

pub mod api;
pub mod exception;
pub mod poison;
