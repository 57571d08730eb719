//! Reading buffers back to the host: in place where the device shares host memory, else by a transfer.

use crate::api::call;
use crate::buffer::Buffer;
use crate::error::{Kind, Result};
use crate::event::Event;
use crate::host::HostMemory;
use std::sync::Arc;

/// A buffer's bytes on the host: the dense array in the buffer's memory order, types narrower than a byte one byte each.
#[derive(Debug)]
pub enum HostView {
    /// The device's own memory, which the buffer keeps alive.
    Shared { data: *const u8, len: usize, buffer: Buffer },
    /// A copy.
    Copied(Arc<HostMemory>),
}

impl HostView {
    pub fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: the buffer was complete when the view was made and lives as long as the view.
            HostView::Shared { data, len, .. } => unsafe { crate::api::slice(*data, *len) },
            // SAFETY: the transfer was complete when the view was made.
            HostView::Copied(memory) => unsafe { memory.bytes() },
        }
    }
}

/// A transfer to the host that is under way.
#[derive(Debug)]
pub struct Transfer {
    memory: Arc<HostMemory>,
    done: Option<Event>,
}

impl Transfer {
    /// Whether the bytes have arrived (or the transfer failed). Does not block.
    ///
    /// # Errors
    /// The plugin's, when it cannot tell.
    pub fn is_ready(&self) -> Result<bool> {
        self.done.as_ref().map_or(Ok(true), Event::is_ready)
    }

    /// Waits for the bytes.
    ///
    /// # Errors
    /// The error that happened on the device, or `Interrupted`; the transfer then goes on.
    pub fn wait(&self) -> Result<HostView> {
        if let Some(done) = &self.done {
            done.wait()?;
        }
        Ok(HostView::Copied(self.memory.clone()))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // The plugin may still write: the memory lives until it is done.
        if let Some(done) = &self.done {
            let memory = self.memory.clone();
            if done.on_ready(move |_| drop(memory)).is_err() {
                std::mem::forget(self.memory.clone());
            }
        }
    }
}

impl Buffer {
    /// Waits for the content and gives it on the host, without a copy where the device shares host memory.
    ///
    /// # Errors
    /// As [`Buffer::wait`], and the plugin's own.
    pub fn read(&self) -> Result<HostView> {
        self.wait()?;
        let len = self.spec().bytes();
        if len == 0 {
            return Ok(HostView::Copied(HostMemory::new(0, 0)?));
        }
        if self.client().shares_host_memory() && self.dtype().info().bits >= 8 {
            let api = self.client().plugin().api();
            let found = call!(api, PJRT_Buffer_UnsafePointer { buffer: self.live()? });
            match found {
                Ok(args) => {
                    let data = args.buffer_pointer as *const u8;
                    return Ok(HostView::Shared { data, len, buffer: self.clone() });
                }
                Err(error) if error.kind() == Kind::UnsupportedCall => {}
                Err(error) => return Err(error),
            }
        }
        self.start_read()?.wait()
    }

    /// Starts a transfer to the host and returns at once; the buffer may be donated or dropped meanwhile.
    ///
    /// # Errors
    /// As [`Buffer::wait`] for a launch that failed, and the plugin's own.
    pub fn start_read(&self) -> Result<Transfer> {
        let handle = self.live()?;
        let len = self.spec().bytes();
        let memory = HostMemory::new(len, 0)?;
        if len == 0 {
            return Ok(Transfer { memory, done: None });
        }
        let plugin = self.client().plugin();
        let started =
            call!(plugin.api(), PJRT_Buffer_ToHostBuffer { src: handle, dst: memory.data().cast(), dst_size: len })
                .map_err(|e| e.on_platform(self.client().platform()))?;
        Ok(Transfer { memory, done: Some(Event::new(plugin, started.event)) })
    }
}
