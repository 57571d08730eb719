//! Safe Rust over PJRT plugins: clients, devices, buffers, executables, and files of arrays. Must not know the host
//! language.
//!
//! The folders are layers, lowest first; `tests/layers.rs` enforces their order.
//!
//! Lazily created values use a `std` `OnceLock` if creation cannot fail. Otherwise they use an `OnceCell` of
//! `once_cell` with `get_or_try_init`: a failure is returned, and the next caller tries again.

#[macro_use]
extern crate pjrt_base;

pub mod runtime;

pub mod host;

pub mod apart;

pub mod client;

pub mod buffer;

pub mod executable;

pub mod cache;

pub mod compile;

pub mod arrow;

pub mod operators;

pub mod stored;

pub mod numpy;

pub mod map;

pub mod safetensors;

pub mod dlpack;

pub use buffer::Buffer;
pub use client::device::Device;
pub use client::memory_space::MemorySpace;
pub use client::Client;
pub use compile::queue::Compiling;
pub use executable::Executable;
pub use host::array::{HostArray, HostContent, HostOrder};
pub use host::memory::HostMemory;
pub use pjrt_ffi::api::{Api, PluginValue};
pub use runtime::plugin::Plugin;

/// The version of the PJRT C API that this crate was made for, major and minor.
pub const API_VERSION: (u32, u32) = (pjrt_sys::PJRT_API_MAJOR, pjrt_sys::PJRT_API_MINOR);
