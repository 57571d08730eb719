//! Safe Rust over PJRT plugins: clients, devices, buffers, executables, and files of arrays. Must not know R.
//!
//! The folders are layers, lowest first, and `tests/layers.rs` holds their order.
//!
//! What is made once, when it is first needed, is a `std` `OnceLock` where that cannot fail, and an `OnceCell` of `once_cell`,
//! filled by `get_or_try_init`, where it can: a failure is returned and the next caller tries again.

#[macro_use]
extern crate pjrt_base;

pub mod ffi;

pub mod runtime;

pub mod host;

pub mod client;

pub mod buffer;

pub mod executable;

pub mod cache;

pub mod compile;

pub mod safetensors;

pub use buffer::Buffer;
pub use client::device::Device;
pub use client::memory_space::Memory;
pub use client::Client;
pub use compile::queue::Compiling;
pub use executable::Executable;
pub use ffi::api::{Api, Value};
pub use host::array::{HostArray, HostContent, HostOrder};
pub use host::memory::HostMemory;
pub use runtime::plugin::Plugin;

/// The version of the PJRT C API that this crate was made for, major and minor.
pub const API_VERSION: (u32, u32) = (pjrt_sys::PJRT_API_MAJOR, pjrt_sys::PJRT_API_MINOR);
