//! Memory of this process that devices read from and write to.

pub mod array;
pub(crate) mod heap;
pub mod memory;
pub mod pool;
