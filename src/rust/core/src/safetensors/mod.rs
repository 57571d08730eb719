//! Model files in the safetensors format: a JSON header with a list of tensors, and their bytes. All of a file is
//! checked before it is used.

mod header;
mod index;
mod model;
mod part;
mod save;
mod ties;

pub use header::{Header, Tensor};
pub use model::Model;
pub use part::load_part;
pub use save::{save, saved_bytes, Saving};

/// Strings by name, in the order of the file.
pub type Metadata = Vec<(String, String)>;
