//! Clients, their devices and memory spaces.

use extendr_api::prelude::*;

pub mod client;
pub mod device;
pub mod memory_space;

extendr_module! {
    mod clients;
    use client;
    use device;
    use memory_space;
}
