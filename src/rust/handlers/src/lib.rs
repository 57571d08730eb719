//! Custom calls: functions that programs call by name, through XLA's FFI. Must not know clients or buffers, nor the host
//! language.
//!
//! A handler is a Rust function of this crate or of its users, or a foreign function that follows XLA's FFI. Handlers
//! run on any thread, several at once. Or it is a function of the host language, which runs on the host's thread alone.

#[macro_use]
extern crate pjrt_base;

mod completion;
pub mod cuda;
pub mod frame;
pub mod host;
pub mod lapack;
pub mod launch;
mod missing;
pub mod mpi;
mod parallel;
pub mod print;
pub mod registry;
mod slots;

pub use frame::{Failure, Frame, Outcome};
pub use missing::{check, check_layouts, explain};
pub use registry::{register, unregister, Handler};
