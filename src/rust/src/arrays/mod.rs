//! Arrays: to devices, from devices, between devices and other libraries.

pub mod arrow;
pub mod r#async;
pub mod buffer;
pub mod buffers;
pub mod dlpack;
pub mod dtype;
pub mod fast_path;
pub mod print;
pub mod slice;
pub mod transfer;
