//! Safe Rust over PJRT plugins. Knows nothing of R.

#[macro_use]
pub mod error;

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
mod registry;
pub mod reorder;
pub mod safetensors;
pub mod serialized;
pub mod sharded;
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
