//! Safe Rust over PJRT plugins. Knows nothing of R.
//!
//! What is made once, when it is first needed, is a `std` `OnceLock` where that cannot fail, and an `OnceCell` of `once_cell`,
//! filled by `get_or_try_init`, where it can: a failure is returned and the next caller tries again.

#[macro_use]
extern crate pjrt_base;

mod api;
mod backing;
pub mod buffer;
pub mod cache;
pub mod client;
pub mod compiling;
mod defaults;
mod description;
pub mod device;
mod environment;
pub mod event;
pub mod exception;
pub mod executable;
pub mod execute;
pub mod exhausted;
pub mod extension;
pub mod host;
mod identity;
pub mod inspect;
mod launch;
pub mod memory;
pub mod options;
mod pace;
pub mod part;
pub mod plugin;
mod poison;
pub mod pool;
mod processor;
pub mod read;
mod registry;
pub mod safetensors;
pub mod serialized;
pub mod shard;
pub mod sharded;
mod spin;
pub mod topology;

pub use api::{Api, Value};
pub use buffer::Buffer;
pub use client::Client;
pub use compiling::Compiling;
pub use device::Device;
pub use executable::Executable;
pub use host::HostMemory;
pub use memory::Memory;
pub use plugin::Plugin;

/// The version of the PJRT C API that this crate was made for, major and minor.
pub const API_VERSION: (u32, u32) = (pjrt_sys::PJRT_API_MAJOR, pjrt_sys::PJRT_API_MINOR);
