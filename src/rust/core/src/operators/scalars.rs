//! Numbers of the host as operands: buffers of rank 0. A program often uses the same few, so the recent ones are kept.

use crate::buffer::upload::Upload;
use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::client::Client;
use crate::host::array::{HostArray, HostContent, HostOrder};
use pjrt_base::error::Result;
use pjrt_data::convert::{Check, HostValues, LossReport};
use pjrt_data::dtype::{DType, HostType};
use std::collections::VecDeque;

/// How many are kept. To look through them takes less time than to make one.
const MOST: usize = 32;

/// A number of the host, as it is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Number {
    bytes: [u8; 16],
    host_type: HostType,
}

impl Number {
    /// A number of one part, whose bytes are these.
    pub fn new(host_type: HostType, value: &[u8]) -> Number {
        let mut bytes = [0; 16];
        bytes[..value.len()].copy_from_slice(value);
        Number { bytes, host_type }
    }

    pub fn complex(parts: [f64; 2]) -> Number {
        Number::new(HostType::Complex, parts.map(f64::to_ne_bytes).as_flattened())
    }
}

/// The buffers of recent numbers.
#[derive(Debug, Default)]
pub struct Scalars {
    /// The newest first.
    recent: VecDeque<Scalar>,
}

#[derive(Debug)]
struct Scalar {
    number: Number,
    /// Its buffer has the client, device and dtype.
    buffer: Buffer,
}

impl Scalars {
    /// The buffer of a number; what it loses, if the dtype cannot hold it.
    ///
    /// # Errors
    /// `UnsupportedDtype` if such numbers do not become elements of the dtype, and the errors of an upload.
    pub fn get(
        &mut self,
        device: &Device,
        dtype: DType,
        number: Number,
        check: Check,
    ) -> Result<std::result::Result<Buffer, LossReport>> {
        let is_it = |known: &&Scalar| {
            known.number == number
                && known.buffer.dtype() == dtype
                && known.buffer.device_index() == device.index()
                && known.buffer.client().same(device.client())
        };
        if let Some(known) = self.recent.iter().find(is_it) {
            return Ok(Ok(known.buffer.clone()));
        }
        // SAFETY: the value is of this type, and outlives the call, during which it is copied.
        let made = unsafe {
            let values = HostValues::new(number.host_type, number.bytes.as_ptr(), 1);
            let array = HostArray { dims: &[], order: HostOrder::RowMajor, content: HostContent::Values(values) };
            Upload::new(device, dtype, &array, check)?.run(())?
        };
        if let Ok(buffer) = &made {
            self.recent.push_front(Scalar { number, buffer: buffer.clone() });
            self.recent.truncate(MOST);
        }
        Ok(made)
    }

    /// Drops the buffers of a client.
    pub fn forget(&mut self, client: &Client) {
        self.recent.retain(|scalar| !scalar.buffer.client().same(client));
    }
}
