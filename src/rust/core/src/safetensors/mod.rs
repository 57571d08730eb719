//! Model files in the safetensors format: a header of JSON that says what tensors there are, and their bytes. Nothing in a
//! file is believed before it was checked.

mod header;
mod index;
mod load;
mod model;
mod packed;
mod part;
mod save;

pub use header::{Header, Tensor};
pub use load::Loading;
pub use model::Model;
pub use part::load_part;
pub use save::{save, Saving};

/// Texts by name, in the order of the file.
pub type Metadata = Vec<(String, String)>;

/// Is called now and then with the bytes that are done.
pub type Progress<'a> = dyn FnMut(u64) + 'a;
