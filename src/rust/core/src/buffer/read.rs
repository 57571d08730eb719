//! Reading buffers back to the host: in place if the device shares host memory, otherwise by a transfer.

use crate::buffer::backing::Backing;
use crate::buffer::order;
use crate::buffer::Buffer;
use crate::client::holdings;
use crate::client::retry::with_retry;
use crate::client::Client;
use crate::host::memory::HostMemory;
use crate::runtime::dispatch::Dispatched;
use crate::runtime::event::{Event, OnDrop};
use pjrt_base::error::Result;
use pjrt_base::trace::{self, Activity, Details};
use pjrt_data::array::Spec;
use pjrt_ffi::api::call;
use pjrt_sys::PJRT_Api;
use std::mem::offset_of;
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
            HostView::Shared { data, len, .. } => unsafe { pjrt_ffi::api::slice(*data, *len) },
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

/// A buffer whose content is complete: what can be read. Holds nothing that must be dropped.
#[derive(Debug, Clone, Copy)]
pub struct Ready<'a>(&'a Buffer);

/// A transfer whose bytes have arrived. Holds nothing that must be dropped.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a>(&'a HostCopy);

impl Arrived<'_> {
    /// The array that was transferred.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.0.spec
    }

    /// The bytes.
    pub fn view(self) -> HostView {
        HostView::Copied(self.0.memory.clone())
    }
}

/// A transfer to the host that is under way.
///
/// ```
/// # use pjrt_core::{Buffer, Client, Plugin};
/// # use pjrt_data::{array::Spec, dtype::DType};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// # let device = client.devices().next().unwrap();
/// let buffer = Buffer::from_bytes(&device, Spec::new(DType::U8, &[3])?, &[1, 2, 3])?;
/// let transfer = buffer.start_read()?;
/// // Other work can be done here.
/// let view = transfer.wait()?.view();
/// assert_eq!(view.bytes(), [1, 2, 3]);
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Transfer {
    client: Client,
    /// The launch that starts it, if the buffer itself is not made yet.
    dispatched: Option<Arc<Dispatched>>,
    /// Set once it is started.
    copy: Arc<OnceLock<HostCopy>>,
    /// Files that the content depends on.
    backing: Option<Backing>,
}

/// The plugin's copy to host memory; without an event if there is nothing to copy.
#[derive(Debug)]
struct HostCopy {
    memory: Arc<HostMemory>,
    spec: Arc<Spec>,
    done: Option<Event>,
}

impl Transfer {
    /// Whether the bytes have arrived (or the transfer failed). Does not block.
    ///
    /// # Errors
    /// The plugin's, if it cannot tell.
    pub fn is_ready(&self) -> Result<bool> {
        self.client.handle()?;
        match &self.dispatched {
            Some(dispatched) if !dispatched.is_done() => Ok(false),
            _ => self.copy.get().and_then(|copy| copy.done.as_ref()).map_or(Ok(true), Event::is_ready),
        }
    }

    /// Calls `callback` once [`Transfer::is_ready`] is true, on any thread: now, on this one, if it is already.
    ///
    /// # Errors
    /// `Forked`, `ClientClosed`; the callback is called then, too.
    pub fn on_ready(&self, callback: impl FnOnce() + Send + 'static) -> Result<()> {
        let callback = OnDrop::new(callback);
        self.client.handle()?;
        let copy = self.copy.clone();
        let started = OnDrop::new(move || {
            if let Some(done) = copy.get().and_then(|copy| copy.done.as_ref()) {
                // If the plugin refuses, waiting says why.
                let _ = done.on_ready(move |_| drop(callback));
            }
        });
        if let Some(dispatched) = &self.dispatched {
            dispatched.then(started);
        }
        Ok(())
    }

    /// Waits for the bytes.
    ///
    /// # Errors
    /// The error that happened on the device, or `Interrupted`; the transfer then goes on.
    pub fn wait(&self) -> Result<Arrived<'_>> {
        self.client.handle()?;
        let _span = trace::span(Activity::Wait, || Details::named("transfer"));
        if let Some(dispatched) = &self.dispatched {
            dispatched.wait()?;
        }
        let Some(copy) = self.copy.get() else { bail!(Internal, "A transfer was not started.") };
        if let Some(done) = &copy.done {
            done.wait()?;
        }
        if let Some(backing) = &self.backing {
            backing.complete()?;
        }
        Ok(Arrived(copy))
    }
}

/// Starts the plugin's copy of a buffer to memory that outlives the copy.
fn start(buffer: &Buffer) -> Result<HostCopy> {
    let handle = buffer.made()?;
    let spec = buffer.spec().clone();
    let memory = HostMemory::new(spec.bytes())?;
    if memory.is_empty() {
        return Ok(HostCopy { memory, spec, done: None });
    }
    let (plugin, platform) = (buffer.client().plugin(), buffer.client().platform());
    let started = call!(
        plugin.api(),
        PJRT_Buffer_ToHostBuffer { src: handle, dst: memory.data().cast(), dst_size: memory.len() }
    );
    let done = Event::new(plugin, started.map_err(|e| e.on_platform(platform))?.event);
    if trace::is_on() {
        let details = || buffer.spec().details().outcome("to the host");
        let span = trace::device_span(Activity::Transfer, buffer.device().label(), details);
        // If the plugin refuses, it is not recorded.
        let _ = done.on_ready(move |_| drop(span));
    }
    memory.keep_until(&done);
    buffer.client().work().transfers.count(&done);
    Ok(HostCopy { memory, spec, done: Some(done) })
}

#[cold]
fn needs(buffer: &Buffer) -> String {
    format!("a copy of {}", holdings::arrays([&**buffer.spec()]))
}

impl<'a> Ready<'a> {
    pub(crate) fn new(buffer: &'a Buffer) -> Self {
        Ready(buffer)
    }

    /// The buffer.
    pub fn buffer(self) -> &'a Buffer {
        self.0
    }

    /// The content on the host, without a copy where the device shares host memory.
    ///
    /// # Errors
    /// `DeletedBuffer`, `Forked`, `ClientClosed`, when that has happened since; and the plugin's own.
    pub fn view(self) -> Result<HostView> {
        let Ready(buffer) = self;
        let len = buffer.spec().bytes();
        if len == 0 {
            buffer.check_alive()?;
            return Ok(HostView::Copied(HostMemory::new(0)?));
        }
        if buffer.client().shares_host_memory() && !buffer.dtype().is_packed() {
            let api = buffer.client().plugin().api();
            let found = call!(api, PJRT_Buffer_UnsafePointer { buffer: buffer.live()? });
            match found {
                Ok(args) => {
                    let data = args.buffer_pointer as *const u8;
                    return Ok(HostView::Shared { data, len, buffer: buffer.clone() });
                }
                Err(error) if error.is_unsupported() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(buffer.start_read()?.wait()?.view())
    }

    /// Copies `out.len()` bytes from byte `offset` of the dense array on the device. Not for types
    /// narrower than a byte.
    ///
    /// # Errors
    /// As [`Ready::view`], and `Interrupted`.
    pub fn read_range(self, offset: usize, out: &mut [u8]) -> Result<()> {
        let Ready(buffer) = self;
        if out.is_empty() {
            return buffer.check_alive();
        }
        let (plugin, handle) = (buffer.client().plugin(), buffer.live()?);
        let is_scattered =
            !buffer.client().shares_host_memory() && order::is_tiled(plugin.api(), handle, buffer.spec());
        if is_scattered || !plugin.api().has(offset_of!(PJRT_Api, PJRT_Buffer_CopyRawToHost)) {
            return self.copy_range(offset, out);
        }
        // Not into borrowed memory: if the plugin is lost meanwhile, it may still write there.
        let memory = HostMemory::new(out.len())?;
        let started = call!(
            plugin.api(),
            PJRT_Buffer_CopyRawToHost {
                buffer: handle,
                dst: memory.data().cast(),
                offset: offset as i64,
                transfer_size: out.len() as i64,
            }
        );
        let done = match started {
            Err(error) if error.is_unsupported() => return self.copy_range(offset, out),
            started => Event::new(plugin, started?.event),
        };
        memory.keep_until(&done);
        done.wait_through()?;
        // SAFETY: the transfer is complete.
        out.copy_from_slice(unsafe { memory.bytes() });
        buffer.check_in_place()
    }

    /// The same from a transfer of the whole array.
    fn copy_range(self, offset: usize, out: &mut [u8]) -> Result<()> {
        let view = self.view()?;
        let Some(range) = view.bytes().get(offset..offset + out.len()) else {
            bail!(Internal, "{} bytes were read, but not those from {offset} on.", view.bytes().len());
        };
        out.copy_from_slice(range);
        view.check()
    }
}

impl Buffer {
    /// Waits for the content and returns it in host memory: [`Buffer::wait`] and [`Ready::view`] in one step.
    ///
    /// # Errors
    /// As these.
    pub fn read(&self) -> Result<HostView> {
        self.wait()?.view()
    }

    /// Starts a transfer to the host and returns at once; the buffer may be donated or dropped meanwhile.
    ///
    /// # Errors
    /// `DeletedBuffer`, `Forked`, `ClientClosed`, and the plugin's own. [`Transfer::wait`] returns errors of the
    /// buffer's creation.
    pub fn start_read(&self) -> Result<Transfer> {
        self.check_alive()?;
        let backing = Backing::of(&[self])?;
        let mut transfer = Transfer { client: self.client().clone(), dispatched: None, copy: Arc::default(), backing };
        if let Some(launch) = self.unfinished_launch() {
            let dispatched = self.client().new_dispatched();
            dispatched.note_after(launch);
            let (buffer, copy) = (self.clone(), transfer.copy.clone());
            self.client().work().dispatcher(self.device_index()).submit(dispatched.clone(), move || {
                // Nobody else sets it.
                let _ = copy.set(with_retry(|| needs(&buffer), || start(&buffer))?);
                Ok(())
            })?;
            transfer.dispatched = Some(dispatched);
        } else {
            transfer.copy = Arc::new(start(self).map_err(|e| holdings::explain(e, || needs(self)))?.into());
        }
        Ok(transfer)
    }
}
