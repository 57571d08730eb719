//! Buffers: arrays on a device. A buffer knows its type, shape and device at once, and its content later.

use crate::api::call;
use crate::backing::Backing;
use crate::client::Client;
use crate::device::Device;
use crate::event::Event;
use crate::exhausted;
use crate::host::HostMemory;
use crate::launch::Launch;
use crate::memory::Memory;
use crate::registry::Place;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_sys::*;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};
use std::sync::Arc;

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
    /// Where it stands among the client's buffers.
    place: Place,
    device: usize,
    /// Position among the client's memory spaces of the one it lies in, where that was asked for.
    memory: Option<usize>,
    spec: Arc<Spec>,
    /// Null while the launch that makes it has not run, and for ever when it failed.
    handle: AtomicPtr<PJRT_Buffer>,
    /// The launch that makes it, when that runs on the dispatch thread.
    launch: Option<Arc<Launch>>,
    /// [`ALIVE`], or why nobody may read it any more.
    state: AtomicU8,
    /// Known to be complete, without error.
    settled: AtomicBool,
    /// The files that its content depends on; for most, there are none.
    backing: Option<Arc<Backing>>,
}

const ALIVE: u8 = 0;
/// Given away to an execution.
const DONATED: u8 = 1;
const DELETED: u8 = 2;
/// Never made, which is the error of its use.
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
        launch: Arc<Launch>,
        backing: Option<Arc<Backing>>,
    ) -> Buffer {
        Buffer::make(client, device, None, spec, null_mut(), Some(launch), backing)
    }

    fn make(
        client: Client,
        device: usize,
        memory: Option<usize>,
        spec: Arc<Spec>,
        handle: *mut PJRT_Buffer,
        launch: Option<Arc<Launch>>,
        backing: Option<Arc<Backing>>,
    ) -> Buffer {
        client.count_buffer(spec.bytes());
        let buffer = Arc::new(Inner {
            client,
            place: Place::default(),
            device,
            memory,
            spec,
            handle: AtomicPtr::new(handle),
            launch,
            state: AtomicU8::new(ALIVE),
            settled: AtomicBool::new(false),
            backing,
        });
        buffer.client.buffers().enter(&buffer, &buffer.place);
        let buffer = Buffer(buffer);
        if !handle.is_null() {
            buffer.watch_files();
        }
        buffer
    }

    /// Moves an array that lies row-major in `data` to `device`. On a device that shares host memory the array stays
    /// where it is, if that is aligned: nobody may write to `data` any more, except the device where they are not lent. They
    /// are let go of when both sides are done.
    ///
    /// # Errors
    /// `InvalidInput` when sizes do not fit; the plugin's own errors.
    pub fn from_host(device: &Device, spec: Spec, data: &Arc<HostMemory>) -> Result<Buffer> {
        let handle = start_upload(device, &spec, data)?;
        Ok(Buffer::adopt(device.client().clone(), device.index(), Arc::new(spec), handle, None))
    }

    /// The same for data in the memory of a mapped file, which `backing` tells.
    pub(crate) fn from_file(
        device: &Device,
        spec: Spec,
        data: &Arc<HostMemory>,
        backing: Arc<Backing>,
    ) -> Result<Buffer> {
        let handle = start_upload(device, &spec, data)?;
        Ok(Buffer::adopt(device.client().clone(), device.index(), Arc::new(spec), handle, Some(backing)))
    }

    /// The same with data that `write` has yet to write, on another thread. The buffer can be used at once; what goes wrong
    /// is the error of its use.
    ///
    /// # Errors
    /// `InvalidInput` when sizes do not fit, `Internal` when the system gives no thread.
    pub fn from_host_later(
        device: &Device,
        spec: Spec,
        data: Arc<HostMemory>,
        write: impl FnOnce(*mut u8) -> Result<()> + Send + 'static,
    ) -> Result<Buffer> {
        let client = device.client();
        client.handle()?;
        check_size(&spec, &data)?;
        let launch = client.new_launch();
        let buffer = Buffer::pending(client.clone(), device.index(), Arc::new(spec), launch.clone(), None);
        let (device, promised) = (device.clone(), buffer.clone());
        client.uploader().submit(launch, move || {
            // Nothing is to be done when nobody holds the buffer any more.
            if Arc::strong_count(&promised.0) > 1 {
                write(data.data())?;
                let started = exhausted::with_retry(|| start_upload(&device, promised.spec(), &data));
                promised.fulfil(started.map_err(|error| promised.failed(error))?);
            }
            Ok(())
        })?;
        Ok(buffer)
    }

    /// Copies a small array that lies row-major in `data` to `device`, during the call.
    ///
    /// # Errors
    /// `InvalidInput` when sizes do not fit; the plugin's own errors.
    pub fn from_bytes(device: &Device, spec: Spec, data: &[u8]) -> Result<Buffer> {
        if data.len() < spec.bytes() {
            return Err(too_short(&spec, data.len()));
        }
        let semantics = PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
        let (handle, done) = hand_over(device, &spec, data.as_ptr(), semantics)?;
        drop(done);
        Ok(Buffer::adopt(device.client().clone(), device.index(), Arc::new(spec), handle, None))
    }

    pub fn client(&self) -> &Client {
        &self.0.client
    }

    pub fn device(&self) -> Device {
        Device::new(self.0.client.clone(), self.0.device)
    }

    /// Position of its device among the client's.
    pub fn device_index(&self) -> usize {
        self.0.device
    }

    pub fn spec(&self) -> &Arc<Spec> {
        &self.0.spec
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

    /// Frees its memory on the device, now or, where launches that were handed over before still need it, after those. From
    /// now on it only tells what it was. One that is dead, or whose client is closed, stays as it is.
    ///
    /// # Errors
    /// `Forked`, the plugin's own, and `Internal` when the system gives no thread.
    pub fn delete(&self) -> Result<()> {
        if self.0.client.is_closed() {
            return Ok(());
        }
        self.0.client.handle()?;
        if !self.end_as(DELETED) {
            return Ok(());
        }
        // Launches that wait hold the buffer, as views of its memory do.
        if Arc::strong_count(&self.0) == 1 {
            return self.free();
        }
        let buffer = self.clone();
        self.0.client.dispatcher(self.0.device).submit(self.0.client.new_launch(), move || {
            buffer.made()?;
            buffer.free()
        })
    }

    /// Has the plugin free the memory, as soon as nothing on the device needs it.
    fn free(&self) -> Result<()> {
        let handle = self.raw_handle();
        if !handle.is_null() {
            call!(self.0.client.plugin().api(), PJRT_Buffer_Delete { buffer: handle }).map_err(|e| self.named(e))?;
        }
        Ok(())
    }

    /// Whether both are one buffer.
    pub fn same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The memory space it lies in; `None` when the plugin does not say.
    ///
    /// # Errors
    /// As [`Buffer::wait`].
    pub fn memory(&self) -> Result<Option<Memory>> {
        self.check_alive()?;
        let client = &self.0.client;
        if let Some(index) = self.0.memory {
            return Ok(Some(Memory::new(client.clone(), index)));
        }
        if self.unfinished_launch().is_some() && client.shares_host_memory() {
            // Where all memory is the host's, programs know no other.
            return Ok(self.device().default_memory());
        }
        let found = call!(client.plugin().api(), PJRT_Buffer_Memory { buffer: self.made()? })?.memory;
        Ok(client.memories().find(|memory| memory.facts().handle == found))
    }

    /// Whether its content is complete (or its making failed). Does not block.
    ///
    /// # Errors
    /// `DeletedBuffer`, `Forked`, `ClientClosed`, or the plugin's own errors.
    pub fn is_ready(&self) -> Result<bool> {
        self.check_alive()?;
        if self.0.settled.load(Ordering::Acquire) {
            return Ok(true);
        }
        match &self.0.launch {
            Some(launch) if !launch.is_done() => return Ok(false),
            Some(launch) if launch.outcome().is_err() => return Ok(true),
            _ => {}
        }
        self.ready_event()?.is_ready()
    }

    /// Waits until its content is complete.
    ///
    /// # Errors
    /// The error that happened on the device while it was made; `DeletedBuffer`, `Forked`, `ClientClosed`, `Interrupted`;
    /// `FileChanged` for what depends on a file that was changed.
    pub fn wait(&self) -> Result<()> {
        self.check_alive()?;
        self.settle()?;
        self.check_in_place()
    }

    /// An error if it lies in the memory of a file that was changed: to be asked after that memory was read.
    pub(crate) fn check_in_place(&self) -> Result<()> {
        match &self.0.backing {
            Some(backing) if backing.is_in_place() => backing.check(),
            _ => Ok(()),
        }
    }

    /// The files that its content depends on, for all that is known yet.
    #[inline]
    pub(crate) fn backing(&self) -> Option<&Arc<Backing>> {
        let backing = self.0.backing.as_ref()?;
        (backing.is_in_place() || !self.0.settled.load(Ordering::Acquire)).then_some(backing)
    }

    /// The same for a buffer that may have been given away, to the launch that waits.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.0.settled.load(Ordering::Acquire) {
            return Ok(());
        }
        self.made()?;
        // The launch may have told so.
        if self.0.settled.load(Ordering::Acquire) {
            return Ok(());
        }
        self.ready_event()?.wait().map_err(|e| self.named(e))?;
        if let Some(backing) = &self.0.backing {
            backing.settle()?;
        }
        self.0.settled.store(true, Ordering::Release);
        Ok(())
    }

    /// Copies the buffer to another device of any client on the same plugin; returns before the copy is done.
    ///
    /// # Errors
    /// As [`Buffer::wait`], and the plugin's own.
    pub fn copy_to(&self, device: &Device) -> Result<Buffer> {
        device.check_addressable()?;
        if device.client().plugin().path() != self.0.client.plugin().path() {
            fail!(DeviceMismatch, "A buffer cannot be copied to a device of another plugin directly.");
        }
        self.copy(device.clone(), None)
    }

    /// Copies the buffer to another memory space of its client; returns before the copy is done. The copy belongs to the
    /// buffer's device if that can use the memory space.
    ///
    /// # Errors
    /// As [`Buffer::wait`], and the plugin's own.
    pub fn copy_to_memory(&self, memory: &Memory) -> Result<Buffer> {
        if !memory.client().same(&self.0.client) {
            fail!(DeviceMismatch, "A buffer cannot be copied to a memory space of another client directly.");
        }
        let own = memory.devices().find(|device| device.index() == self.0.device);
        let Some(device) = own.or_else(|| memory.devices().next()) else {
            fail!(DeviceMismatch, "No device of this process can use memory space {}.", memory.label());
        };
        self.copy(device, Some(memory.clone()))
    }

    /// Starts a copy, now or, when the buffer is not made yet, after that.
    fn copy(&self, device: Device, memory: Option<Memory>) -> Result<Buffer> {
        self.check_alive()?;
        let client = device.client();
        client.handle()?;
        let index = memory.as_ref().map(Memory::index);
        // A copy within a plugin keeps the memory order.
        let spec = self.0.spec.clone();
        let backing = Backing::of(&[self])?.map(Arc::new);
        if self.unfinished_launch().is_none() {
            let handle = self.start_copy(&device, memory.as_ref())?;
            let copy = Buffer::make(client.clone(), device.index(), index, spec, handle, None, backing);
            copy.count_in_flight()?;
            return Ok(copy);
        }
        let launch = client.new_launch();
        let copy = Buffer::make(client.clone(), device.index(), index, spec, null_mut(), Some(launch.clone()), backing);
        let (source, promised) = (self.clone(), copy.clone());
        self.0.client.dispatcher(self.0.device).submit(launch, move || {
            let started = exhausted::with_retry(|| source.start_copy(&device, memory.as_ref()));
            promised.fulfil(started.map_err(|error| promised.failed(error))?);
            promised.count_in_flight()
        })?;
        Ok(copy)
    }

    /// Has its device know of it until it is complete: programs that wait for it fill the device's queue.
    fn count_in_flight(&self) -> Result<()> {
        self.0.client.in_flight(self.0.device).count(&self.ready_event()?);
        Ok(())
    }

    fn start_copy(&self, device: &Device, memory: Option<&Memory>) -> Result<*mut PJRT_Buffer> {
        let (api, buffer) = (self.0.client.plugin().api(), self.made()?);
        let copied = match memory {
            Some(memory) => call!(api, PJRT_Buffer_CopyToMemory { buffer: buffer, dst_memory: memory.facts().handle })
                .map(|args| args.dst_buffer),
            None => call!(api, PJRT_Buffer_CopyToDevice { buffer: buffer, dst_device: device.facts().handle })
                .map(|args| args.dst_buffer),
        };
        copied.map_err(|e| self.named(e))
    }

    /// That the buffer may be used.
    ///
    /// # Errors
    /// `DeletedBuffer`, `ClientClosed` and `Forked`.
    pub fn check_alive(&self) -> Result<()> {
        self.0.client.handle()?;
        if self.is_dead() {
            return Err(self.dead_error());
        }
        Ok(())
    }

    /// The buffer's handle, for a call that reads it. Waits for the launch that makes it.
    pub(crate) fn live(&self) -> Result<*mut PJRT_Buffer> {
        self.check_alive()?;
        self.made()
    }

    /// The handle, once the launch that makes it is made. On a dispatch thread, too: such a launch was handed over earlier,
    /// to this thread or to another device's, so the wait for it ends.
    pub(crate) fn made(&self) -> Result<*mut PJRT_Buffer> {
        if let Some(launch) = self.unfinished_launch() {
            launch.wait().map_err(|e| self.named(e))?;
        }
        Ok(self.raw_handle())
    }

    /// The handle as it is: null while its launch has not run or when that failed.
    pub(crate) fn raw_handle(&self) -> *mut PJRT_Buffer {
        self.0.handle.load(Ordering::Acquire)
    }

    /// The launch that makes it, unless it is already made.
    pub(crate) fn unfinished_launch(&self) -> Option<&Arc<Launch>> {
        if self.raw_handle().is_null() {
            self.0.launch.as_ref()
        } else {
            None
        }
    }

    /// Notes that its content is known to be complete, without error. What depends on a file is asked later.
    pub(crate) fn note_complete(&self) {
        if self.0.backing.is_none() {
            self.0.settled.store(true, Ordering::Release);
        }
    }

    /// Gives a pending buffer its handle.
    pub(crate) fn fulfil(&self, handle: *mut PJRT_Buffer) {
        self.0.handle.store(handle, Ordering::Release);
        self.watch_files();
    }

    /// Has the files asked once the content is complete: it depends on them no longer than that.
    fn watch_files(&self) {
        let Some(backing) = self.0.backing.as_ref().filter(|backing| !backing.is_in_place()) else { return };
        let backing = backing.clone();
        let watched = self.ready_event().and_then(|event| event.on_ready(move |_| drop(backing.settle())));
        // Without this, they are asked when somebody waits for the content.
        drop(watched);
    }

    /// Marks it as given away.
    pub(crate) fn mark_donated(&self) {
        self.end_as(DONATED);
    }

    /// Notes that it was not made after all, and takes no memory.
    pub(crate) fn mark_failed(&self) {
        self.end_as(FAILED);
    }

    /// Ends its life unless that has ended before; tells whether it has not.
    fn end_as(&self, state: u8) -> bool {
        let next = |now: u8| matches!(now, ALIVE | FAILED).then_some(state);
        let before = self.0.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        if before == Ok(ALIVE) {
            self.0.client.uncount_buffer(self.0.spec.bytes());
        }
        before.is_ok()
    }

    /// The event of its completion, made anew: kept for as long as the buffer, it would cost more memory than time.
    fn ready_event(&self) -> Result<Event> {
        let plugin = self.0.client.plugin();
        let made = call!(plugin.api(), PJRT_Buffer_ReadyEvent { buffer: self.raw_handle() })?;
        Ok(Event::new(plugin, made.event))
    }

    fn named(&self, error: Error) -> Error {
        exhausted::explain(error.on_platform(self.0.client.platform()), || exhausted::arrays([&**self.spec()]))
    }

    /// The error why it was not made.
    #[cold]
    fn failed(&self, error: Error) -> Error {
        self.mark_failed();
        self.named(error)
    }

    #[cold]
    fn dead_error(&self) -> Error {
        self.explain_death(format!("The function was called on deleted or donated buffer {}.", self.0.spec))
    }

    /// The error for a use of a dead buffer, which says how it came to its end.
    #[cold]
    pub(crate) fn explain_death(&self, message: String) -> Error {
        let error = Error::new(Kind::DeletedBuffer, message).on_platform(self.0.client.platform());
        if self.0.state.load(Ordering::Acquire) == DELETED {
            error.hint("pjrt_delete() has freed its memory: create it anew, or delete it after its last use.")
        } else {
            error
                .hint("A program that donates its input takes the memory: use the program's output instead.")
                .hint("Or keep the input: pjrt_execution_options(non_donatable_input_indices = ) at the execution.")
        }
    }
}

impl Inner {
    /// What it is, if it takes memory.
    pub(crate) fn living(&self) -> Option<Arc<Spec>> {
        let is_made = !self.handle.load(Ordering::Acquire).is_null();
        (is_made && self.state.load(Ordering::Acquire) == ALIVE).then(|| self.spec.clone())
    }

    /// Waits until it is made and complete, or failed; for a client that ends.
    pub(crate) fn rest(self: Arc<Self>) -> Result<()> {
        let buffer = Buffer(self);
        let outcome = if buffer.is_dead() { buffer.made().map(drop) } else { buffer.settle() };
        // What went wrong with it is of no interest any more.
        outcome.or_else(|error| if error.kind() == Kind::Interrupted { Err(error) } else { Ok(()) })
    }

    /// Gives the plugin's part back.
    pub(crate) fn release(&self) {
        let handle = self.handle.swap(null_mut(), Ordering::AcqRel);
        if !handle.is_null() {
            // Nothing can be done about a failure to free.
            let _ = call!(self.client.plugin().api(), PJRT_Buffer_Destroy { buffer: handle });
        }
    }
}

/// Hands memory over to the plugin, which keeps it as long as it needs it.
fn start_upload(device: &Device, spec: &Spec, data: &Arc<HostMemory>) -> Result<*mut PJRT_Buffer> {
    check_size(spec, data)?;
    let semantics = if !device.client().shares_host_memory() || spec.dtype.is_packed() {
        PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes
    } else if data.is_writable() {
        PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kMutableZeroCopy
    } else {
        PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kImmutableZeroCopy
    };
    let (handle, done) = hand_over(device, spec, data.data(), semantics)?;
    if let Some(done) = done {
        data.keep_until(&done);
    }
    Ok(handle)
}

/// The plugin's buffer of an array in host memory, and the event that tells when it needs that memory no more.
fn hand_over(
    device: &Device,
    spec: &Spec,
    data: *const u8,
    semantics: PJRT_HostBufferSemantics,
) -> Result<(*mut PJRT_Buffer, Option<Event>)> {
    device.check_addressable()?;
    let client = device.client();
    let made = call!(
        client.plugin().api(),
        PJRT_Client_BufferFromHostBuffer {
            client: client.handle()?,
            data: data.cast(),
            type_: PJRT_Buffer_Type(spec.dtype.info().code),
            dims: spec.dims.as_ptr(),
            num_dims: spec.dims.len(),
            host_buffer_semantics: semantics,
            device: device.facts().handle,
        }
    )
    .map_err(|e| e.on_platform(client.platform()))?;
    let done = made.done_with_host_buffer;
    Ok((made.buffer, (!done.is_null()).then(|| Event::new(client.plugin(), done))))
}

fn check_size(spec: &Spec, data: &HostMemory) -> Result<()> {
    if data.len() < spec.bytes() {
        return Err(too_short(spec, data.len()));
    }
    Ok(())
}

#[cold]
fn too_short(spec: &Spec, len: usize) -> Error {
    Error::new(Kind::InvalidInput, format!("The data have {len} bytes, but {spec} needs {}.", spec.bytes()))
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.state.get_mut() == ALIVE {
            self.client.uncount_buffer(self.spec.bytes());
        }
        // In the child of a fork, another thread may have had the registry.
        if self.client.is_usable() {
            self.client.buffers().leave(&self.place);
            self.release();
        }
    }
}
