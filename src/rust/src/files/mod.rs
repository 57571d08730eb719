//! Files of arrays.

pub mod map;
pub mod npy;
pub mod safetensors;
pub mod stored;
