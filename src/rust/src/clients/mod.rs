//! Clients, their devices and memory spaces.

pub mod client;
pub mod device;
pub mod memory_space;
