//! Arrays: to devices, from devices, between devices and other libraries.

use extendr_api::prelude::*;

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

extendr_module! {
    mod arrays;
    use arrow;
    use buffers;
    use dlpack;
    use print;
}
