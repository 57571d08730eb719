//! The addresses of a buffer, for code outside this crate.

use crate::buffer::Buffer;
use pjrt_base::error::Result;
use pjrt_ffi::api::call;
use std::ffi::c_void;

impl Buffer {
    /// The address of its content in the device's memory, valid while the buffer lives. Waits until the content is
    /// complete.
    ///
    /// # Errors
    /// As [`Buffer::wait`], and `UnsupportedCall` if the plugin does not provide addresses.
    pub fn device_address(&self) -> Result<*mut c_void> {
        self.wait()?;
        let client = self.client();
        let found = call!(client.plugin().api(), PJRT_Buffer_OpaqueDeviceMemoryDataPointer { buffer: self.live()? });
        let found = found.map_err(|e| e.unsupported(client.platform(), "Addresses of buffers are"))?;
        Ok(found.device_memory_ptr)
    }
}
