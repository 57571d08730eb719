//! Buffers for other libraries.

use super::managed::{managed, Managed};
use crate::buffer::Buffer;
use crate::host::memory::HostMemory;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dlpack::{Element, Place, Tensor, IS_COPIED, READ_ONLY};

/// What a consumer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The struct with a version and flags. The other one cannot say that the array is read-only.
    pub is_versioned: bool,
    /// A copy in host memory, which the consumer may write to.
    pub copy: bool,
}

/// Where a buffer is, in terms of DLPack.
///
/// # Errors
/// `UnsupportedCall` for a platform that DLPack does not know; as [`Buffer::memory`].
pub fn place(buffer: &Buffer) -> Result<Place> {
    let platform = buffer.client().platform();
    let (device, host) = match platform {
        "cpu" => return Ok(Place { kind: Place::CPU, id: 0 }),
        "cuda" => (Place::CUDA, Place::CUDA_HOST),
        "rocm" => (Place::ROCM, Place::ROCM_HOST),
        _ => {
            return Err(Error::new(Kind::UnsupportedCall, format!("DLPack has no devices of platform {platform}."))
                .on_platform(platform)
                .hint("A copy in host memory can be exported."))
        }
    };
    let on_host = buffer.memory()?.is_some_and(|memory| memory.kind().contains("host"));
    Ok(Place { kind: if on_host { host } else { device }, id: buffer.device().local_hardware_id() })
}

impl Buffer {
    /// Waits for the content and lends the buffer to another library, which can read it at once on any stream. The
    /// memory stays valid until the other library releases the array, even if the buffer is deleted. The array is
    /// read-only.
    ///
    /// # Errors
    /// `UnsupportedDtype` for types narrower than a byte; as [`place`] and [`Buffer::wait`].
    pub fn export(&self, wanted: Wanted) -> Result<Managed> {
        let spec = self.spec();
        if spec.dtype.is_packed() {
            return Err(Error::new(
                Kind::UnsupportedDtype,
                format!("Elements of type {} are narrower than a byte, and cannot be exported.", spec.dtype),
            )
            .hint("Convert them to a wider type in a program."));
        }
        let array = |data, device| Tensor {
            data,
            device,
            ndim: spec.dims.len() as i32,
            dtype: Element::of(spec.dtype),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let numbers = [spec.dims.to_vec(), spec.strides().into_iter().map(|stride| stride as i64).collect()];
        if wanted.copy {
            let view = self.read()?;
            let memory = HostMemory::new(view.bytes().len())?;
            // SAFETY: there is room, and nobody else has the memory yet.
            unsafe { memory.data().copy_from_nonoverlapping(view.bytes().as_ptr(), view.bytes().len()) };
            view.check()?;
            let tensor = array(memory.data().cast(), Place { kind: Place::CPU, id: 0 });
            return Ok(managed(tensor, numbers, IS_COPIED, wanted.is_versioned, Box::new(memory)));
        }
        let place = place(self)?;
        let loan = self.lend()?;
        let tensor = array(loan.data(), place);
        Ok(managed(tensor, numbers, READ_ONLY, wanted.is_versioned, Box::new(loan)))
    }
}
