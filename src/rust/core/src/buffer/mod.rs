//! Buffers: arrays on a device. A buffer's type, shape and device are known at once, its content later.

pub(crate) mod backing;
pub mod borrowed;
mod copy;
pub mod download;
pub mod lend;
pub mod living;
pub mod missing;
pub(crate) mod order;
pub mod read;
pub mod shard;
pub mod slice;
pub mod upload;

use crate::buffer::backing::Backing;
use crate::buffer::read::Ready;
use crate::client::device::Device;
use crate::client::holdings;
use crate::client::memory_space::MemorySpace;
use crate::client::Client;
use crate::runtime::dispatch::Dispatched;
use crate::runtime::event::{Event, OnDrop};
use crate::runtime::plugin::where_there;
use crate::runtime::registry::{Resource, Slot};
use pjrt_base::callbacks;
use pjrt_base::coarse;
use pjrt_base::console;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_base::trace::{self, Activity};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_ffi::api::call;
use pjrt_sys::*;
use std::any::Any;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// An array on a device; clones share it.
///
/// ```
/// # use pjrt_core::{Buffer, Client, Plugin};
/// # use pjrt_data::{array::Spec, dtype::DType};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// let device = client.devices().next().unwrap();
/// let numbers = [1.0f32, 2.0, 3.0].map(f32::to_ne_bytes).concat();
/// let buffer = Buffer::from_bytes(&device, Spec::new(DType::F32, &[3])?, &numbers)?;
/// assert_eq!((buffer.dtype(), buffer.dims()), (DType::F32, &[3][..]));
/// assert_eq!(buffer.read()?.bytes(), numbers);
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Buffer(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    client: Client,
    /// Its slot in the client's list of buffers.
    slot: Slot,
    device: usize,
    /// The index of its memory space in the client's list, once it has been queried.
    memory: Option<usize>,
    /// As expected when it was created.
    spec: Arc<Spec>,
    /// Another memory order, which the plugin reported when the launch had run.
    laid_out: OnceLock<Arc<Spec>>,
    /// Null until the launch that makes it has run, and permanently if the launch failed.
    handle: AtomicPtr<PJRT_Buffer>,
    /// The launch that makes it, if it runs on the dispatch thread.
    dispatched: Option<Arc<Dispatched>>,
    /// [`ALIVE`], or why it cannot be read any more.
    state: AtomicU8,
    /// Known to be complete, without error.
    is_complete: AtomicBool,
    /// The files that its content depends on; for most buffers, none.
    backing: Option<Arc<Backing>>,
    /// How many others use its memory: see module `lend`.
    loans: AtomicU32,
    /// Held while the plugin counts them, which it does without a lock.
    counting: Mutex<()>,
    created: Duration,
}

const ALIVE: u8 = 0;
/// Donated to an execution.
const DONATED: u8 = 1;
const DELETED: u8 = 2;
/// Creation failed; using the buffer raises the error.
const FAILED: u8 = 3;

impl Buffer {
    /// Takes ownership of a buffer that the plugin made.
    pub(crate) fn adopt(
        client: Client,
        device: usize,
        spec: Arc<Spec>,
        handle: *mut PJRT_Buffer,
        backing: Option<Arc<Backing>>,
    ) -> Buffer {
        Buffer::make(client, device, None, spec, handle, None, backing)
    }

    /// A buffer that `launch` will make.
    pub(crate) fn pending(
        client: Client,
        device: usize,
        spec: Arc<Spec>,
        dispatched: Arc<Dispatched>,
        backing: Option<Arc<Backing>>,
    ) -> Buffer {
        Buffer::make(client, device, None, spec, null_mut(), Some(dispatched), backing)
    }

    fn make(
        client: Client,
        device: usize,
        memory: Option<usize>,
        spec: Arc<Spec>,
        handle: *mut PJRT_Buffer,
        dispatched: Option<Arc<Dispatched>>,
        backing: Option<Arc<Backing>>,
    ) -> Buffer {
        client.usage().add_buffer(spec.bytes());
        let buffer = Arc::new(Inner {
            client,
            slot: Slot::default(),
            device,
            memory,
            spec,
            laid_out: OnceLock::new(),
            handle: AtomicPtr::new(handle),
            dispatched,
            state: AtomicU8::new(ALIVE),
            is_complete: AtomicBool::new(false),
            backing,
            loans: AtomicU32::new(0),
            counting: Mutex::new(()),
            created: coarse::now(),
        });
        buffer.client.buffers().enter(&buffer, &buffer.slot);
        if let Some(site) = trace::site() {
            buffer.client.buffers().set_site(&buffer.slot, site);
        }
        let buffer = Buffer(buffer);
        if !handle.is_null() {
            buffer.watch_files();
        }
        buffer
    }

    pub fn client(&self) -> &Client {
        &self.0.client
    }

    pub fn device(&self) -> Device {
        Device::new(self.0.client.clone(), self.0.device)
    }

    /// The index of its device in the client's list.
    pub fn device_index(&self) -> usize {
        self.0.device
    }

    /// Its type, shape and memory order. The order is certain when the launch that makes it has run.
    #[inline]
    pub fn spec(&self) -> &Arc<Spec> {
        self.0.laid_out.get().unwrap_or(&self.0.spec)
    }

    pub fn dtype(&self) -> DType {
        self.0.spec.dtype
    }

    pub fn dims(&self) -> &[i64] {
        &self.0.spec.dims
    }

    /// Whether it was donated or deleted.
    pub fn is_dead(&self) -> bool {
        matches!(self.0.state.load(Ordering::Acquire), DONATED | DELETED)
    }

    /// Whether it was donated to a program.
    pub fn is_donated(&self) -> bool {
        self.0.state.load(Ordering::Acquire) == DONATED
    }

    /// Frees its memory on the device: now, or after earlier launches that still need it. Only its description remains
    /// usable. Does nothing to a dead buffer or one whose client is closed.
    ///
    /// # Errors
    /// `Forked`, the plugin's own, and `Internal` if the system cannot start a thread.
    pub fn delete(&self) -> Result<()> {
        if self.0.client.is_closed() {
            return Ok(());
        }
        self.0.client.handle()?;
        if !self.end_as(DELETED) {
            return Ok(());
        }
        // Waiting launches hold the buffer, and so do views of its memory.
        if Arc::strong_count(&self.0) == 1 {
            return self.free();
        }
        self.free_after_launches()
    }

    /// Frees its memory after the launches that wait now, those from callbacks too.
    fn free_after_launches(&self) -> Result<()> {
        let (buffer, client) = (self.clone(), &self.0.client);
        let (work, depth) = (client.work(), callbacks::depth());
        let last = |depth| {
            let last = client.new_dispatched();
            work.dispatcher_at(depth, self.0.device).submit(last.clone(), || Ok(())).map(|()| last)
        };
        let last = (1..=depth).map(last).collect::<Result<Vec<_>>>()?;
        work.dispatcher_at(0, self.0.device).submit(client.new_dispatched(), move || {
            last.iter().try_for_each(|last| last.wait())?;
            buffer.made()?;
            buffer.free()
        })
    }

    /// Lets the plugin free the memory as soon as nothing on the device needs it.
    fn free(&self) -> Result<()> {
        let handle = self.raw_handle();
        if handle.is_null() || self.is_lent() {
            return Ok(());
        }
        match call!(self.0.client.plugin().api(), PJRT_Buffer_Delete { buffer: handle }) {
            Err(error) if error.is_unsupported() => self.0.release(),
            deleted => drop(deleted.map_err(|e| self.named(e))?),
        }
        Ok(())
    }

    /// A number that clones share, and other buffers do not have.
    pub(crate) fn place(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// The buffer's memory space; `None` if the plugin does not provide it.
    ///
    /// # Errors
    /// As [`Buffer::wait`].
    pub fn memory(&self) -> Result<Option<MemorySpace>> {
        self.check_alive()?;
        let client = &self.0.client;
        if let Some(index) = self.0.memory {
            return Ok(Some(MemorySpace::new(client.clone(), index)));
        }
        if self.unfinished_launch().is_some() && client.shares_host_memory() {
            // If all memory is the host's, programs know no other memory space.
            return Ok(self.device().default_memory());
        }
        let found = where_there(call!(client.plugin().api(), PJRT_Buffer_Memory { buffer: self.made()? }))?;
        Ok(client.memories().find(|memory| found.is_some_and(|found| memory.facts().handle == found.memory)))
    }

    /// Whether its content is complete, or its creation failed. Does not block.
    ///
    /// # Errors
    /// `DeletedBuffer`, `Forked`, `ClientClosed`, or the plugin's own errors.
    pub fn is_ready(&self) -> Result<bool> {
        self.check_alive()?;
        if self.0.is_complete.load(Ordering::Acquire) {
            return Ok(true);
        }
        match &self.0.dispatched {
            Some(dispatched) if !dispatched.is_done() => return Ok(false),
            Some(dispatched) if dispatched.outcome().is_err() => return Ok(true),
            _ => {}
        }
        self.ready_event()?.is_ready()
    }

    /// Calls `callback` once [`Buffer::is_ready`] is true, on any thread: now, on this one, if it is already.
    ///
    /// # Errors
    /// `DeletedBuffer`, `Forked`, `ClientClosed`; the callback is called then, too.
    pub fn on_ready(&self, callback: impl FnOnce() + Send + 'static) -> Result<()> {
        let callback = OnDrop::new(callback);
        self.check_alive()?;
        match self.unfinished_launch() {
            Some(dispatched) => {
                let buffer = self.clone();
                dispatched.then(OnDrop::new(move || buffer.drop_when_complete(callback)));
            }
            None => self.drop_when_complete(callback),
        }
        Ok(())
    }

    /// The same after its launch.
    fn drop_when_complete(&self, callback: OnDrop) {
        if self.0.is_complete.load(Ordering::Acquire) || self.raw_handle().is_null() {
            return;
        }
        // If there is no event, waiting says why.
        let _ = self.ready_event().and_then(|event| event.on_ready(move |_| drop(callback)));
    }

    /// Waits until its content is complete, and can be read.
    ///
    /// # Errors
    /// The error that happened on the device while it was made; `DeletedBuffer`, `Forked`, `ClientClosed`, `Interrupted`;
    /// `FileChanged` for what depends on a file that was changed.
    pub fn wait(&self) -> Result<Ready<'_>> {
        self.check_alive()?;
        self.wait_complete()?;
        // The programs that made it may have printed.
        console::flush()?;
        self.check_in_place()?;
        Ok(Ready::new(self))
    }

    /// Checks that the file whose memory it uses has not changed. Call it after you read that memory.
    pub(crate) fn check_in_place(&self) -> Result<()> {
        let in_place = self.0.backing.as_ref().filter(|backing| backing.is_in_place());
        in_place.map_or(Ok(()), |backing| backing.check())
    }

    /// The files that the content may depend on, if they are known yet.
    #[inline]
    pub(crate) fn backing(&self) -> Option<&Arc<Backing>> {
        let backing = self.0.backing.as_ref()?;
        (backing.is_in_place() || !self.0.is_complete.load(Ordering::Acquire)).then_some(backing)
    }

    /// The same for the launch that waits, whose buffer may have been donated.
    pub(crate) fn wait_complete(&self) -> Result<()> {
        if self.0.is_complete.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut span = trace::span(Activity::Wait, || self.spec().details());
        let waited = self.wait_for_content();
        span.check(&waited);
        waited
    }

    fn wait_for_content(&self) -> Result<()> {
        self.wait_for_launch()?;
        // The launch may have found that there are none.
        if self.0.is_complete.load(Ordering::Acquire) {
            return Ok(());
        }
        self.ready_event()?.wait().map_err(|e| self.named(e))?;
        if let Some(backing) = &self.0.backing {
            backing.complete()?;
        }
        self.0.is_complete.store(true, Ordering::Release);
        Ok(())
    }

    /// Checks that the buffer may be used.
    ///
    /// # Errors
    /// `DeletedBuffer`, `ClientClosed` and `Forked`.
    pub fn check_alive(&self) -> Result<()> {
        self.0.client.handle()?;
        if self.is_dead() {
            return Err(self.explain_death("The function was called on"));
        }
        Ok(())
    }

    /// The buffer's handle, for a call that reads it. Waits for the launch that makes it.
    pub(crate) fn live(&self) -> Result<*mut PJRT_Buffer> {
        self.check_alive()?;
        self.made()
    }

    /// The handle, after the launch that makes it. Works on a dispatch thread, too: the launch was queued earlier, on
    /// this thread or another device's, so the wait for it ends.
    pub(crate) fn made(&self) -> Result<*mut PJRT_Buffer> {
        if self.unfinished_launch().is_some() {
            let mut span = trace::span(Activity::Wait, || self.spec().details());
            let waited = self.wait_for_launch();
            span.check(&waited);
            waited?;
        }
        Ok(self.raw_handle())
    }

    fn wait_for_launch(&self) -> Result<()> {
        self.unfinished_launch().map_or(Ok(()), |launch| launch.wait().map_err(|e| self.named(e)))
    }

    /// The current handle: null until its launch has run, or if the launch failed.
    pub(crate) fn raw_handle(&self) -> *mut PJRT_Buffer {
        self.0.handle.load(Ordering::Acquire)
    }

    /// The launch that makes it, unless it has run already.
    pub(crate) fn unfinished_launch(&self) -> Option<&Arc<Dispatched>> {
        self.0.dispatched.as_ref().filter(|_| self.raw_handle().is_null())
    }

    /// Records that its content is complete, without error. Files are checked later.
    pub(crate) fn note_complete(&self) {
        if self.0.backing.is_none() {
            self.0.is_complete.store(true, Ordering::Release);
        }
    }

    /// Gives a pending buffer its handle, and the spec that was [`order::found`].
    pub(crate) fn fulfil(&self, handle: *mut PJRT_Buffer, spec: &Arc<Spec>) {
        if !Arc::ptr_eq(spec, &self.0.spec) {
            // Nobody else sets it.
            let _ = self.0.laid_out.set(spec.clone());
        }
        self.0.handle.store(handle, Ordering::Release);
        self.watch_files();
    }

    /// Checks the files once the content is complete, after which it does not depend on them.
    fn watch_files(&self) {
        let Some(backing) = self.0.backing.as_ref().filter(|backing| !backing.is_in_place()) else { return };
        let backing = backing.clone();
        let watched = self.ready_event().and_then(|event| event.on_ready(move |_| drop(backing.complete())));
        // If this fails, they are checked when somebody waits for the content.
        drop(watched);
    }

    pub(crate) fn mark_donated(&self) {
        self.end_as(DONATED);
    }

    /// The same for an execution that has not taken over its memory, which is freed when nothing needs it any more.
    pub(crate) fn give_up_as_donated(&self) -> Result<()> {
        self.end_as(DONATED);
        self.free_after_launches()
    }

    /// Records that its creation failed, so it takes no memory.
    pub(crate) fn mark_failed(&self) {
        self.end_as(FAILED);
    }

    /// Marks it as dead. Returns whether it was alive.
    fn end_as(&self, state: u8) -> bool {
        let next = |now: u8| matches!(now, ALIVE | FAILED).then_some(state);
        let before = self.0.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        if before == Ok(ALIVE) {
            self.0.client.usage().subtract_buffer(self.0.spec.bytes());
        }
        before.is_ok()
    }

    /// A new event of its completion: kept as long as the buffer, it would cost more memory than it saves time.
    fn ready_event(&self) -> Result<Event> {
        let plugin = self.0.client.plugin();
        let made = call!(plugin.api(), PJRT_Buffer_ReadyEvent { buffer: self.raw_handle() })?;
        Ok(Event::new(plugin, made.event))
    }

    fn named(&self, error: Error) -> Error {
        holdings::explain(error.on_platform(self.0.client.platform()), || holdings::arrays([&**self.spec()]))
    }

    /// The error that made its creation fail.
    #[cold]
    fn failed(&self, error: Error) -> Error {
        self.mark_failed();
        self.named(error)
    }

    /// The error for a use of a dead buffer, which follows a text such as "The function was called on". Its hint says
    /// whether the buffer was deleted or donated.
    #[cold]
    pub(crate) fn explain_death(&self, use_of: &str) -> Error {
        let reason = if self.is_donated() { Reason::BufferDonated } else { Reason::BufferDeleted };
        Error::new(Kind::DeletedBuffer, format!("{use_of} deleted or donated buffer {}.", self.0.spec))
            .on_platform(self.0.client.platform())
            .hint(reason)
    }
}

impl Resource for Inner {
    fn array(&self) -> Option<Arc<Spec>> {
        let is_made = !self.handle.load(Ordering::Acquire).is_null();
        (is_made && self.state.load(Ordering::Acquire) == ALIVE).then(|| self.spec.clone())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn wait_idle(self: Arc<Self>) -> Result<()> {
        let buffer = Buffer(self);
        let outcome = if buffer.is_dead() { buffer.made().map(drop) } else { buffer.wait_complete() };
        // Nobody needs its error any more.
        outcome.or_else(|error| if error.kind() == Kind::Interrupted { Err(error) } else { Ok(()) })
    }

    fn release(&self) {
        if self.loans.load(Ordering::Acquire) > 0 {
            return;
        }
        let handle = self.handle.swap(null_mut(), Ordering::AcqRel);
        if !handle.is_null() {
            // Nothing can be done about a failure to free.
            let _ = call!(self.client.plugin().api(), PJRT_Buffer_Destroy { buffer: handle });
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.state.get_mut() == ALIVE {
            self.client.usage().subtract_buffer(self.spec.bytes());
        }
        // In the child of a fork, another thread may have held the registry's lock.
        if self.client.is_usable() {
            self.client.buffers().leave(&self.slot);
            self.release();
        }
    }
}
