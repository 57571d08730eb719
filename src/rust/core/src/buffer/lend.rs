//! Addresses, and loans: other libraries use a buffer's memory in place. The memory stays valid until the last loan
//! ends, even if the buffer is deleted; a program that donates the buffer works on a copy.

use crate::buffer::{Buffer, DELETED};
use crate::client;
use crate::runtime::registry::Resource;
use pjrt_base::error::{Error, Result};
use pjrt_base::sync::Unpoisoned;
use pjrt_ffi::api::call;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

/// A loan of a buffer's memory, ended when dropped, on any thread.
#[derive(Debug)]
pub struct Loan {
    buffer: ManuallyDrop<Buffer>,
    data: *mut c_void,
    /// Whether the plugin knows of it.
    is_known: bool,
}

// SAFETY: the address of memory that the buffer keeps; the buffer itself may be used from any thread.
unsafe impl Send for Loan {}

impl Loan {
    /// The address of the content in the device's memory; null for an empty buffer.
    pub fn data(&self) -> *mut c_void {
        self.data
    }
}

impl Buffer {
    /// Lends its memory in place, after a wait for its content.
    ///
    /// # Errors
    /// As [`Buffer::wait`], and `UnsupportedCall` if the plugin cannot share memory.
    pub fn lend(&self) -> Result<Loan> {
        self.wait()?;
        // First of all, so that nobody frees the memory in between.
        self.0.loans.fetch_add(1, Ordering::AcqRel);
        let mut loan = Loan { buffer: ManuallyDrop::new(self.clone()), data: std::ptr::null_mut(), is_known: false };
        let client = self.client();
        let (api, buffer) = (client.plugin().api(), self.live()?);
        let unsupported = |e: Error| e.unsupported(client.platform(), "Buffers that share their memory are");
        let counting = self.0.counting.lock().unpoisoned();
        call!(api, PJRT_Buffer_IncreaseExternalReferenceCount { buffer: buffer }).map_err(unsupported)?;
        drop(counting);
        loan.is_known = true;
        if !self.spec().is_empty() {
            let found = call!(api, PJRT_Buffer_OpaqueDeviceMemoryDataPointer { buffer: buffer });
            loan.data = found.map_err(unsupported)?.device_memory_ptr;
        }
        Ok(loan)
    }

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

    pub(crate) fn is_lent(&self) -> bool {
        self.0.loans.load(Ordering::Acquire) > 0
    }
}

impl Loan {
    fn end(&self) {
        let (buffer, client) = (&*self.buffer, self.buffer.client());
        // Nothing can be done about a failure to free, here and below.
        if self.is_known && !client.is_closed() {
            let api = client.plugin().api();
            let _counting = buffer.0.counting.lock().unpoisoned();
            let _ = call!(api, PJRT_Buffer_DecreaseExternalReferenceCount { buffer: buffer.raw_handle() });
        }
        if buffer.0.loans.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if client.is_closed() {
            // What the client has left when it was closed.
            buffer.0.release();
        } else if buffer.0.state.load(Ordering::Acquire) == DELETED {
            let _ = buffer.free();
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let client = self.buffer.client();
        // At the end of the process and in the child of a fork, the plugin is not called any more.
        if client::has_ended() || !client.is_usable() || client.is_poisoned() {
            return;
        }
        self.end();
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.buffer) };
    }
}
