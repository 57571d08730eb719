//! DLPack: exchanges arrays with other libraries of this process, without copies where that is possible.
//!
//! An array that another library lends is released by a function of that library, which may need a lock that other threads
//! hold while they wait for a device: Python's. So it is called only in [`release_pending`], where the caller says.

mod export;
mod import;
mod managed;

pub use export::{place, Wanted};
pub use import::Copies;
pub use managed::{release_pending, Managed};
