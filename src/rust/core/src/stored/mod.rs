//! Arrays in files of any format: where their bytes are, and their way to a device.

pub mod contained;
mod load;
pub(crate) mod packed;

pub use load::Loading;

use pjrt_base::error::{Error, Result};
use pjrt_base::mmap::MappedFile;
use pjrt_data::array::Spec;
use std::fmt;
use std::sync::Arc;

/// Called regularly with the number of bytes done.
pub type Progress<'a> = dyn FnMut(u64) + 'a;

/// An array in a file.
#[derive(Clone)]
pub struct Stored<'a> {
    pub file: &'a Arc<MappedFile>,
    /// Its name for errors, such as `Tensor "w"`.
    pub label: String,
    pub spec: Spec,
    /// Position of its first byte in the file.
    pub start: u64,
    /// Size in bytes in the file.
    pub bytes: usize,
    pub form: Form<'a>,
}

/// How a file stores an array's elements.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    /// Row-major, as in memory.
    Plain {
        /// Whether a device may use the file's memory. Otherwise the file is not needed once the array is loaded.
        in_place: bool,
    },
    /// As plain, with two narrow elements per byte.
    Packed,
    /// Any other way.
    Encoded(&'a dyn Decode),
}

/// Reads the elements of an array that are stored in some other way.
pub trait Decode: Sync {
    /// Writes all elements to `target`, row-major. Called on any thread.
    ///
    /// # Errors
    /// The format's errors, if the data are damaged; `FileChanged`, `Io`.
    fn decode(&self, target: &mut [u8]) -> Result<()>;
}

impl Stored<'_> {
    /// Writes to `target` the elements that are stored in `len` bytes from byte `offset` of the array's data on. Other code
    /// decodes all of them.
    fn read(&self, offset: usize, len: usize, target: &mut [u8]) -> Result<()> {
        let start = self.start + offset as u64;
        match self.form {
            Form::Encoded(code) => code.decode(target),
            Form::Packed => {
                let mut packed = vec![0; len];
                self.file.read(start, &mut packed)?;
                packed::unpack(&packed, target);
                Ok(())
            }
            Form::Plain { .. } => self.file.read(start, target),
        }
    }

    /// Adds the array's name to an error.
    fn about(&self, error: Error) -> Error {
        error.within(&self.label)
    }
}

impl fmt::Debug for Stored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stored { label, spec, start, bytes, .. } = self;
        write!(f, "{label}: {spec} at {start}, {bytes} bytes")
    }
}
