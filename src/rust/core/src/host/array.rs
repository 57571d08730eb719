//! Arrays in memory of the caller.

use pjrt_data::convert::HostValues;
use pjrt_data::dtype::HostType;
use pjrt_data::layout;

/// Memory order of an array on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostOrder {
    RowMajor,
    ColumnMajor,
}

impl HostOrder {
    /// Whether an array with these dimensions is row-major.
    pub fn is_row_major(self, dims: &[i64]) -> bool {
        self == HostOrder::RowMajor || dims.iter().filter(|&&dim| dim != 1).count() <= 1
    }

    /// Strides of a dense array in this order.
    pub fn strides(self, dims: &[i64]) -> layout::Strides {
        match self {
            HostOrder::RowMajor => layout::row_major(dims),
            HostOrder::ColumnMajor => layout::column_major(dims),
        }
    }
}

/// An array in memory of the caller.
///
/// ```
/// # use pjrt_core::buffer::upload::Upload;
/// # use pjrt_core::{Client, HostArray, HostContent, HostOrder, Plugin};
/// # use pjrt_data::convert::{Check, HostValues};
/// # use pjrt_data::dtype::{DType, HostType};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let device = client.devices().next().unwrap();
/// let numbers = [1.0f64, 2.0, 3.0, 4.0];
/// // SAFETY: there are as many numbers.
/// let values = unsafe { HostValues::new(HostType::Double, numbers.as_ptr().cast(), numbers.len()) };
/// let array = HostArray { dims: &[2, 2], order: HostOrder::ColumnMajor, content: HostContent::Values(values) };
/// let upload = Upload::new(&device, DType::F32, &array, Check::Missing)?;
/// // SAFETY: the numbers live until the buffer is read, and nobody changes them.
/// let buffer = unsafe { upload.run(()) }?.expect("all values fit");
/// let expected = [1.0f32, 3.0, 2.0, 4.0].map(f32::to_ne_bytes).concat();
/// assert_eq!(buffer.read()?.bytes(), expected);
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HostArray<'a> {
    pub dims: &'a [i64],
    pub order: HostOrder,
    pub content: HostContent<'a>,
}

/// The content of an array in memory of the caller.
#[derive(Debug, Clone, Copy)]
pub enum HostContent<'a> {
    /// Values, which are converted to the buffer's dtype: one for each element, or one for all.
    Values(HostValues<'a>),
    /// Elements of the buffer's dtype, those narrower than a byte in a byte each.
    Elements(&'a [u8]),
    /// Zeros.
    Zeros,
}

/// Values that are not in memory: a function writes them into memory, some at a time.
#[derive(Clone, Copy)]
pub struct HostPieces<'a> {
    /// [`HostType::Integer`] or another type with values of at most 8 bytes.
    pub host_type: HostType,
    pub len: usize,
    /// Writes so many values, from this one on, to the address, which is aligned for them and has room. Called on the thread
    /// that starts the upload.
    pub read: &'a dyn Fn(usize, usize, *mut u8),
}
