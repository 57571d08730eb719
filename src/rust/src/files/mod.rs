//! Files of arrays.

use extendr_api::prelude::*;

pub mod map;
pub mod npy;
pub mod safetensors;
pub mod stored;

extendr_module! {
    mod files;
    use map;
    use npy;
    use safetensors;
}
