//! Reading buffers back to the host: in place if the device shares host memory, otherwise by a transfer.

use crate::buffer::backing::Backing;
use crate::buffer::Buffer;
use crate::client::holdings;
use crate::client::Client;
use crate::ffi::api::call;
use crate::host::memory::HostMemory;
use crate::runtime::dispatch::Dispatched;
use crate::runtime::event::Event;
use crate::runtime::oom;
use pjrt_base::error::{Error, Kind, Result};
use std::sync::{Arc, OnceLock};

/// A buffer's bytes on the host: the dense array in the buffer's memory order, types narrower than a byte one byte each.
#[derive(Debug)]
pub enum HostView {
    /// The device's own memory, which the buffer keeps alive.
    Shared { data: *const u8, len: usize, buffer: Buffer },
    /// A copy.
    Copied(Arc<HostMemory>),
}

impl HostView {
    /// The bytes; see [`HostView::check`].
    pub fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: the buffer was complete when the view was made and lives as long as the view.
            HostView::Shared { data, len, .. } => unsafe { crate::ffi::api::slice(*data, *len) },
            // SAFETY: the transfer was complete when the view was made.
            HostView::Copied(memory) => unsafe { memory.bytes() },
        }
    }

    /// Checks that the bytes were valid. Call it after you read them.
    ///
    /// # Errors
    /// `FileChanged` if they were in the memory of a file that has changed meanwhile.
    pub fn check(&self) -> Result<()> {
        match self {
            HostView::Shared { buffer, .. } => buffer.check_in_place(),
            HostView::Copied(_) => Ok(()),
        }
    }
}

/// A transfer to the host in progress.
#[derive(Debug)]
pub struct Transfer {
    client: Client,
    /// The launch that starts it, if the buffer itself is not made yet.
    launch: Option<Arc<Dispatched>>,
    /// Set once it is started.
    copy: Arc<OnceLock<HostCopy>>,
    /// Files that the content depends on.
    backing: Option<Backing>,
}

/// The plugin's copy to host memory; without an event if there is nothing to copy.
#[derive(Debug)]
struct HostCopy {
    memory: Arc<HostMemory>,
    done: Option<Event>,
}

impl Transfer {
    /// Whether the bytes have arrived (or the transfer failed). Does not block.
    ///
    /// # Errors
    /// The plugin's, if it cannot tell.
    pub fn is_ready(&self) -> Result<bool> {
        self.client.handle()?;
        match &self.launch {
            Some(launch) if !launch.is_done() => Ok(false),
            _ => self.copy.get().and_then(|copy| copy.done.as_ref()).map_or(Ok(true), Event::is_ready),
        }
    }

    /// Waits for the bytes.
    ///
    /// # Errors
    /// The error that happened on the device, or `Interrupted`; the transfer then continues.
    pub fn wait(&self) -> Result<HostView> {
        self.client.handle()?;
        if let Some(launch) = &self.launch {
            launch.wait()?;
        }
        let Some(copy) = self.copy.get() else { bail!(Internal, "A transfer was not started.") };
        if let Some(done) = &copy.done {
            done.wait()?;
        }
        if let Some(backing) = &self.backing {
            backing.complete()?;
        }
        Ok(HostView::Copied(copy.memory.clone()))
    }
}

/// Starts the plugin's copy of a buffer to memory that outlives the copy.
fn start(buffer: &Buffer) -> Result<HostCopy> {
    let handle = buffer.made()?;
    let memory = HostMemory::new(buffer.spec().bytes())?;
    if memory.is_empty() {
        return Ok(HostCopy { memory, done: None });
    }
    let plugin = buffer.client().plugin();
    let started = call!(
        plugin.api(),
        PJRT_Buffer_ToHostBuffer { src: handle, dst: memory.data().cast(), dst_size: memory.len() }
    )
    .map_err(|e| e.on_platform(buffer.client().platform()))?;
    let done = Event::new(plugin, started.event);
    memory.keep_until(&done);
    buffer.client().transfers().count(&done);
    Ok(HostCopy { memory, done: Some(done) })
}

#[cold]
fn explained(error: Error, buffer: &Buffer) -> Error {
    holdings::explain(error, || format!("a copy of {}", holdings::arrays([&**buffer.spec()])))
}

impl Buffer {
    /// Waits for the content and returns it on the host, without a copy if the device shares host memory.
    ///
    /// # Errors
    /// As [`Buffer::wait`], and the plugin's own.
    pub fn read(&self) -> Result<HostView> {
        self.wait()?;
        let len = self.spec().bytes();
        if len == 0 {
            return Ok(HostView::Copied(HostMemory::new(0)?));
        }
        if self.client().shares_host_memory() && !self.dtype().is_packed() {
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
    /// `DeletedBuffer`, `Forked`, `ClientClosed`, and the plugin's own. [`Transfer::wait`] returns errors of the
    /// buffer's creation.
    pub fn start_read(&self) -> Result<Transfer> {
        self.check_alive()?;
        let backing = Backing::of(&[self])?;
        let mut transfer = Transfer { client: self.client().clone(), launch: None, copy: Arc::default(), backing };
        if self.unfinished_launch().is_some() {
            let launch = self.client().new_dispatched();
            let (buffer, copy) = (self.clone(), transfer.copy.clone());
            self.client().dispatcher(self.device_index()).submit(launch.clone(), move || {
                // Nobody else sets it.
                let _ = copy.set(oom::with_retry(|| start(&buffer)).map_err(|e| explained(e, &buffer))?);
                Ok(())
            })?;
            transfer.launch = Some(launch);
        } else {
            transfer.copy = Arc::new(start(self).map_err(|e| explained(e, self))?.into());
        }
        Ok(transfer)
    }

    /// Copies `out.len()` bytes from byte `offset` of the dense array on the device. The buffer's content must be
    /// complete; not for types narrower than a byte.
    ///
    /// # Errors
    /// As [`Buffer::wait`], and the plugin's own.
    pub fn read_range(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.wait()?;
        if out.is_empty() {
            return Ok(());
        }
        let plugin = self.client().plugin();
        // Not into borrowed memory: if the plugin is lost meanwhile, it may still write there.
        let memory = HostMemory::new(out.len())?;
        let started = call!(
            plugin.api(),
            PJRT_Buffer_CopyRawToHost {
                buffer: self.live()?,
                dst: memory.data().cast(),
                offset: offset as i64,
                transfer_size: out.len() as i64,
            }
        )?;
        let done = Event::new(plugin, started.event);
        memory.keep_until(&done);
        done.wait_through()?;
        // SAFETY: the transfer is complete.
        out.copy_from_slice(unsafe { memory.bytes() });
        self.check_in_place()
    }
}
