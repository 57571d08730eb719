//! Safe Rust over PJRT plugins. Knows nothing of R.
//!
//! What is made once, when it is first needed, is a `std` `OnceLock` where that cannot fail, and an `OnceCell` of `once_cell`,
//! filled by `get_or_try_init`, where it can: a failure is returned and the next caller tries again.

#[macro_use]
pub mod error;

pub mod annotations;
mod api;
mod backing;
pub mod buffer;
pub mod bytecode;
pub mod cache;
pub mod client;
pub mod compiling;
pub mod convert;
pub mod cuda;
mod decimal;
mod defaults;
mod depth;
mod description;
pub mod device;
mod digest;
pub mod dtype;
mod element;
mod environment;
pub mod event;
pub mod exception;
pub mod executable;
pub mod execute;
pub mod exhausted;
pub mod extension;
pub mod find;
pub mod hlo;
pub mod host;
mod identity;
pub mod inspect;
pub mod install;
mod launch;
pub mod layout;
pub mod library;
pub mod literal;
pub mod mapping;
pub mod memory;
pub mod minifloat;
pub mod mlir;
mod narrow;
pub mod options;
mod pace;
pub mod part;
mod pieces;
pub mod plugin;
mod poison;
pub mod pool;
pub mod print;
mod private;
pub mod process;
mod processor;
pub mod program;
pub mod read;
mod registers;
mod registry;
pub mod reorder;
pub mod safetensors;
pub mod serialized;
pub mod shard;
pub mod sharded;
pub mod sharding;
mod spin;
pub mod stablehlo;
pub mod topology;

pub use api::{Api, Value};
pub use buffer::{Buffer, Spec};
pub use client::Client;
pub use compiling::Compiling;
pub use device::Device;
pub use dtype::DType;
pub use error::{Error, Kind, Result};
pub use executable::Executable;
pub use host::HostMemory;
pub use memory::Memory;
pub use plugin::Plugin;
pub use program::Program;

/// The version of the PJRT C API that this crate was made for, major and minor.
pub const API_VERSION: (u32, u32) = (pjrt_sys::PJRT_API_MAJOR, pjrt_sys::PJRT_API_MINOR);
