//! Uploads: arrays in host memory become buffers. An array's size, type and order decide how it gets to the device.

use crate::buffer::backing::Backing;
use crate::buffer::missing::{self, Missing};
use crate::buffer::order;
use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::client::holdings;
use crate::client::retry::with_retry;
use crate::host::array::{HostArray, HostContent, HostOrder, HostPieces};
use crate::host::memory::HostMemory;
use crate::runtime::event::Event;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_base::trace::{self, Activity};
use pjrt_data::array::Spec;
use pjrt_data::convert::{self, Check, HostValues, LossReport};
use pjrt_data::dtype::{DType, HostType};
use pjrt_data::layout;
use pjrt_data::transpose::Plan;
use pjrt_ffi::api::call;
use pjrt_sys::*;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// Up to this size, the plugin copies an array while it is called: to share memory costs more.
const SMALL: usize = 2048;

/// From this size on, the caller's memory is used in place where that is possible. Below, a copy is cheap, and leaves the
/// caller free to change the array.
const SHARED: usize = 16 << 10;

/// From this size on, an array is converted in the background, while the caller goes on.
pub const BACKGROUND: usize = 8 << 20;

/// Up to this size, an array that is used in place is searched for missing values at once. Larger ones are searched in the
/// background, as no call should take longer for them.
const SEARCHED: usize = 64 << 10;

/// What an upload reads. Unlike content, pieces stay on the caller's thread.
#[derive(Clone, Copy)]
enum UploadSource<'a> {
    Content(HostContent<'a>),
    Pieces(HostPieces<'a>),
}

/// How an array gets to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadRoute {
    /// It is written to the stack, from where the plugin copies it.
    Small,
    /// The device uses the caller's memory.
    Shared,
    /// It is written to new memory while the caller goes on.
    Background,
    /// It is written to new memory.
    Now,
}

impl UploadRoute {
    /// Whether the caller's memory is read after the call.
    pub fn keeps_source(self) -> bool {
        matches!(self, UploadRoute::Shared | UploadRoute::Background)
    }

    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            UploadRoute::Small => "copied by the plugin",
            UploadRoute::Shared => "in place",
            UploadRoute::Background => "in the background",
            UploadRoute::Now => "converted",
        }
    }

    /// Whether the array is written to new memory.
    pub fn is_staged(self) -> bool {
        matches!(self, UploadRoute::Now | UploadRoute::Background)
    }
}

/// An upload that is checked and planned, and not started.
pub struct Upload<'a> {
    device: &'a Device,
    spec: Spec,
    plan: Plan,
    source: UploadSource<'a>,
    check: Check,
    route: UploadRoute,
}

impl<'a> Upload<'a> {
    /// Plans the upload of an array as elements of `dtype`.
    ///
    /// # Errors
    /// `UnsupportedDtype` when the values cannot become such elements; `InvalidInput` and `ShapeMismatch` when the array has
    /// another number of them than its dimensions say.
    pub fn new(device: &'a Device, dtype: DType, array: &HostArray<'a>, check: Check) -> Result<Self> {
        if let HostContent::Values(values) = &array.content {
            values.check_dtype(dtype)?;
        }
        let spec = Spec::new(dtype, array.dims)?;
        match &array.content {
            HostContent::Values(values) => check_length(values.len(), &spec)?,
            HostContent::Elements(bytes) => {
                check_bytes(bytes.len(), &spec)?;
                spec.check_elements(bytes)?;
            }
            HostContent::Zeros => {}
        }
        Ok(Self::planned(device, spec, array.order, UploadSource::Content(array.content), check))
    }

    /// The same for values that a function writes, row-major.
    ///
    /// # Errors
    /// As [`Upload::new`].
    pub fn in_pieces(
        device: &'a Device,
        dtype: DType,
        dims: &[i64],
        pieces: HostPieces<'a>,
        check: Check,
    ) -> Result<Self> {
        // SAFETY: nothing is read.
        unsafe { HostValues::new(pieces.host_type, NonNull::<u64>::dangling().as_ptr().cast(), 0) }
            .check_dtype(dtype)?;
        let spec = Spec::new(dtype, dims)?;
        check_length(pieces.len, &spec)?;
        if pieces.host_type == HostType::Complex {
            bail!(Internal, "Complex values cannot be read in pieces.");
        }
        Ok(Self::planned(device, spec, HostOrder::RowMajor, UploadSource::Pieces(pieces), check))
    }

    fn planned(device: &'a Device, spec: Spec, order: HostOrder, source: UploadSource<'a>, check: Check) -> Self {
        let plan = Plan::new(&spec.dims, &order.strides(&spec.dims), &layout::row_major(&spec.dims));
        let route = route(device, &spec, &plan, &source, check);
        Upload { device, spec, plan, source, check, route }
    }

    pub fn device(&self) -> &'a Device {
        self.device
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// How the array gets to the device.
    pub fn route(&self) -> UploadRoute {
        self.route
    }

    /// Makes the buffer. With [`Check::All`], values that the dtype cannot hold are reported instead; with
    /// [`Check::Missing`], module [`missing`] notes them. `lease` is dropped, on any thread, once the array's memory is no
    /// longer needed. This is after the call only if [`UploadRoute::keeps_source`] is true.
    ///
    /// # Errors
    /// The code of `RESOURCE_EXHAUSTED` when there is no memory, also after a second try; `Interrupted`; the plugin's own.
    ///
    /// # Safety
    /// The array's memory stays valid, and nobody writes to it, until `lease` is dropped. The function behind
    /// [`HostPieces`] writes all values that it is asked for.
    pub unsafe fn run<L: Send + 'static>(self, lease: L) -> Result<std::result::Result<Buffer, LossReport>> {
        let Upload { device, spec, plan, source, check, route } = self;
        let (dtype, len, size) = (spec.dtype, spec.len(), spec.bytes());
        let _span = trace::span(Activity::Upload, || spec.details().outcome(route.name()));
        let asked = || holdings::arrays([&spec]);
        // SAFETY: called with room for the spec's elements.
        let write = |target| unsafe {
            let _span = trace::span(Activity::Conversion, || spec.details());
            match &source {
                UploadSource::Content(content) => content.write(dtype, len, &plan, check, target),
                UploadSource::Pieces(pieces) => pieces.write(dtype, len, check, target),
            }
        };
        let refused = |found: Option<LossReport>| refused(&spec, found, check);
        let handle = match route {
            UploadRoute::Small => {
                let mut bytes = [0u64; SMALL / 8];
                if let Some(lost) = refused(write(bytes.as_mut_ptr().cast())?) {
                    return Ok(Err(lost));
                }
                // SAFETY: as many bytes as the array has.
                let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), size) };
                with_retry(asked, || copy_during_call(device, &spec, bytes))?
            }
            UploadRoute::Shared => {
                let data = source.data().and_then(|data| NonNull::new(data.cast_mut())).unwrap_or(NonNull::dangling());
                // SAFETY: the caller keeps the memory unchanged until the lease is dropped.
                let lease = unsafe { search(device, &spec, &source, lease)? };
                // SAFETY: as above.
                let memory = unsafe { HostMemory::lent(data, size, move || drop(lease)) };
                with_retry(asked, || start_upload(device, &spec, &memory))?
            }
            UploadRoute::Background => {
                let memory = with_retry(asked, || HostMemory::new(size))?;
                // SAFETY: the lease lives as long as the closure that reads the content.
                let content = unsafe { source.outliving() };
                let written = spec.clone();
                let write = move |target: *mut u8| {
                    let _lease = lease;
                    let _span = trace::span(Activity::Conversion, || written.details());
                    // SAFETY: the memory was made for the spec's bytes.
                    if let Some(report) = unsafe { content.write(dtype, len, &plan, check, target)? } {
                        missing::note(Missing { spec: written.clone(), report, is_late: true });
                    }
                    Ok(())
                };
                return Buffer::from_host_later(device, spec, memory, write).map(Ok);
            }
            UploadRoute::Now => {
                let memory = with_retry(asked, || HostMemory::new(size))?;
                if let Some(lost) = refused(write(memory.data())?) {
                    return Ok(Err(lost));
                }
                with_retry(asked, || start_upload(device, &spec, &memory))?
            }
        };
        Ok(Ok(adopt(device, spec, handle, None)))
    }
}

/// Writes an array as elements of this type and shape, in row-major order, those narrower than a byte in a byte each. Missing
/// values are noted with [`Check::Missing`]; with [`Check::All`], values that the type cannot hold are reported.
///
/// # Errors
/// `UnsupportedDtype`, `InvalidInput` and `ShapeMismatch`, as [`Upload::new`].
///
/// # Safety
/// `target` has room for the elements, and the array's memory is valid.
pub unsafe fn write_elements(
    spec: &Spec,
    array: &HostArray<'_>,
    check: Check,
    target: *mut u8,
) -> Result<Option<LossReport>> {
    if let HostContent::Values(values) = &array.content {
        values.check_dtype(spec.dtype)?;
        check_length(values.len(), spec)?;
    }
    let plan = Plan::new(&spec.dims, &array.order.strides(&spec.dims), &layout::row_major(&spec.dims));
    let found = array.content.write(spec.dtype, spec.len(), &plan, check, target)?;
    Ok(refused(spec, found, check))
}

/// What an upload must not lose. Notes missing values.
fn refused(spec: &Spec, found: Option<LossReport>, check: Check) -> Option<LossReport> {
    let report = found?;
    if check == Check::All {
        return Some(report);
    }
    missing::note(Missing { spec: spec.clone(), report, is_late: false });
    None
}

/// Notes missing values of an array that the device uses in place.
///
/// # Safety
/// The memory stays valid and unchanged until the lease is dropped.
unsafe fn search<L: Send + 'static>(
    device: &Device,
    spec: &Spec,
    source: &UploadSource,
    lease: L,
) -> Result<Arc<Mutex<L>>> {
    let lease = Arc::new(Mutex::new(lease));
    let UploadSource::Content(HostContent::Values(values)) = source else { return Ok(lease) };
    if !values.may_have_missing_elements() {
        return Ok(lease);
    }
    let note = |values: HostValues, spec: Spec, is_late| {
        if let Some(report) = values.missing_elements() {
            missing::note(Missing { spec, report, is_late });
        }
    };
    if spec.bytes() <= SEARCHED {
        note(*values, spec.clone(), false);
    } else {
        let values = HostValues::new(values.host_type(), values.data(), values.len());
        let (spec, kept) = (spec.clone(), lease.clone());
        let client = device.client();
        client.work().uploader.submit(client.new_dispatched(), move || {
            note(values, spec, true);
            drop(kept);
            Ok(())
        })?;
    }
    Ok(lease)
}

fn route(device: &Device, spec: &Spec, plan: &Plan, source: &UploadSource, check: Check) -> UploadRoute {
    let (size, total) = (spec.bytes(), spec.len());
    let shares = device.client().shares_host_memory() && !spec.dtype.is_packed();
    let (is_in_form, now) = match source {
        UploadSource::Content(HostContent::Values(values)) => {
            (values.len() == total && values.are_elements(spec.dtype) && check != Check::All, check == Check::All)
        }
        UploadSource::Content(HostContent::Elements(_)) => (true, false),
        UploadSource::Content(HostContent::Zeros) => (false, false),
        // The caller's function runs on the caller's thread.
        UploadSource::Pieces(_) => (false, true),
    };
    let is_in_place = || is_in_form && plan.is_contiguous() && source.data().is_some_and(HostMemory::is_aligned);
    if size <= SMALL {
        UploadRoute::Small
    } else if shares && size >= SHARED && is_in_place() {
        UploadRoute::Shared
    } else if size >= BACKGROUND && !now {
        UploadRoute::Background
    } else {
        UploadRoute::Now
    }
}

impl UploadSource<'_> {
    fn data(&self) -> Option<*const u8> {
        match self {
            UploadSource::Content(HostContent::Values(values)) => Some(values.data()),
            UploadSource::Content(HostContent::Elements(bytes)) => Some(bytes.as_ptr()),
            UploadSource::Content(HostContent::Zeros) | UploadSource::Pieces(_) => None,
        }
    }

    /// The content, for a reader that outlives the call; pieces are never read by one.
    ///
    /// # Safety
    /// The memory stays valid and unchanged while the reader uses it.
    unsafe fn outliving(self) -> HostContent<'static> {
        match self {
            UploadSource::Content(HostContent::Values(values)) => {
                HostContent::Values(HostValues::new(values.host_type(), values.data(), values.len()))
            }
            UploadSource::Content(HostContent::Elements(bytes)) => {
                HostContent::Elements(std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()))
            }
            UploadSource::Content(HostContent::Zeros) | UploadSource::Pieces(_) => HostContent::Zeros,
        }
    }
}

impl HostContent<'_> {
    /// Writes the elements in row-major order, and reports the values that the dtype cannot hold.
    ///
    /// # Safety
    /// `target` has room for `len` elements of `dtype`, as many as the plan reaches and the content was checked for.
    unsafe fn write(
        &self,
        dtype: DType,
        len: usize,
        plan: &Plan,
        check: Check,
        target: *mut u8,
    ) -> Result<Option<LossReport>> {
        match self {
            HostContent::Values(values) => return values.encode(dtype, plan, len, target, check),
            HostContent::Elements(bytes) if len > 0 => convert::copy(dtype, plan, bytes.as_ptr(), target)?,
            HostContent::Elements(_) => {}
            HostContent::Zeros => std::ptr::write_bytes(target, 0, len * dtype.host_bytes()),
        }
        Ok(None)
    }
}

impl HostPieces<'_> {
    /// Encodes the values piece by piece, so that they are never all in memory. Otherwise as [`HostContent::write`].
    unsafe fn write(&self, dtype: DType, len: usize, check: Check, target: *mut u8) -> Result<Option<LossReport>> {
        const PIECE: usize = 8192;
        let mut piece = [0u64; PIECE];
        let mut all: Option<LossReport> = None;
        for start in (0..self.len).step_by(PIECE) {
            check_interrupt_sometimes()?;
            let count = PIECE.min(self.len - start);
            (self.read)(start, count, piece.as_mut_ptr().cast());
            // SAFETY: the piece holds as many values, and they are used before it is filled again.
            let values = unsafe { HostValues::new(self.host_type, piece.as_ptr().cast(), count) };
            let (plan, reach) = (Plan::contiguous(count), if self.len == 1 { len } else { count });
            let to = target.wrapping_add(start * dtype.host_bytes());
            // SAFETY: the target has room for all elements.
            if let Some(found) = unsafe { values.encode(dtype, &plan, reach, to, check)? } {
                let sum = all.get_or_insert(LossReport { missing: 0, out_of_range: 0, first: start + found.first });
                sum.missing += found.missing;
                sum.out_of_range += found.out_of_range;
            }
        }
        Ok(all)
    }
}

impl Buffer {
    /// Moves the row-major array in `data` to `device`. A device that shares host memory uses aligned data in place:
    /// nobody may write to `data` any more, except the device where they are not lent. `data` is dropped when caller
    /// and device have both released it.
    ///
    /// # Errors
    /// `InvalidInput` when sizes do not fit, and for booleans other than 0 and 1; the plugin's own errors.
    pub fn from_host(device: &Device, spec: Spec, data: &Arc<HostMemory>) -> Result<Buffer> {
        Buffer::from_file(device, spec, data, None)
    }

    /// The same for data that may be in the memory of the mapped file `backing`.
    pub(crate) fn from_file(
        device: &Device,
        spec: Spec,
        data: &Arc<HostMemory>,
        backing: Option<Arc<Backing>>,
    ) -> Result<Buffer> {
        check_memory(&spec, data)?;
        let handle = start_upload(device, &spec, data)?;
        Ok(adopt(device, spec, handle, backing))
    }

    /// The same with data that `write` writes later, on another thread. The buffer can be used at once; if writing
    /// fails, using the buffer raises the error.
    ///
    /// # Errors
    /// `InvalidInput` if sizes do not fit, `Internal` if the system starts no thread.
    pub fn from_host_later(
        device: &Device,
        spec: Spec,
        data: Arc<HostMemory>,
        write: impl FnOnce(*mut u8) -> Result<()> + Send + 'static,
    ) -> Result<Buffer> {
        let client = device.client();
        client.handle()?;
        check_size(&spec, &data)?;
        let dispatched = client.new_dispatched();
        let buffer = Buffer::pending(client.clone(), device.index(), Arc::new(spec), dispatched.clone(), None);
        let (device, promised) = (device.clone(), buffer.clone());
        client.work().uploader.submit(dispatched, move || {
            // Nothing is to be done when nobody holds the buffer any more.
            if Arc::strong_count(&promised.0) > 1 {
                write(data.data())?;
                let asked = || holdings::arrays([&**promised.spec()]);
                let started = with_retry(asked, || start_upload(&device, promised.spec(), &data));
                let handle = started.map_err(|error| promised.failed(error))?;
                promised.fulfil(handle, &laid_out(&device, promised.spec(), handle));
            }
            Ok(())
        })?;
        Ok(buffer)
    }

    /// Copies the small row-major array in `data` to `device` during the call.
    ///
    /// # Errors
    /// As [`Buffer::from_host`].
    pub fn from_bytes(device: &Device, spec: Spec, data: &[u8]) -> Result<Buffer> {
        spec.check_elements(data)?;
        let handle = copy_during_call(device, &spec, data)?;
        Ok(adopt(device, spec, handle, None))
    }
}

/// The buffer of an array that was handed over.
fn adopt(device: &Device, spec: Spec, handle: *mut PJRT_Buffer, backing: Option<Arc<Backing>>) -> Buffer {
    let spec = laid_out(device, &Arc::new(spec), handle);
    Buffer::adopt(device.client().clone(), device.index(), spec, handle, backing)
}

/// The spec of an array that was handed over, row-major, in the order that the device keeps it. A device that shares the host's
/// memory keeps it as it is.
fn laid_out(device: &Device, spec: &Arc<Spec>, handle: *mut PJRT_Buffer) -> Arc<Spec> {
    match device.client() {
        client if client.shares_host_memory() => spec.clone(),
        client => order::found(client.plugin().api(), handle, spec),
    }
}

/// Checks what others wrote to memory.
fn check_memory(spec: &Spec, data: &Arc<HostMemory>) -> Result<()> {
    check_size(spec, data)?;
    // SAFETY: it has this size, and nobody writes to it any more.
    spec.check_elements(unsafe { std::slice::from_raw_parts(data.data(), spec.bytes()) })
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

/// Has the plugin copy a small array, during the call.
fn copy_during_call(device: &Device, spec: &Spec, data: &[u8]) -> Result<*mut PJRT_Buffer> {
    if data.len() < spec.bytes() {
        return Err(too_short(spec, data.len()));
    }
    let semantics = PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    let (handle, done) = hand_over(device, spec, data.as_ptr(), semantics)?;
    drop(done);
    Ok(handle)
}

/// The plugin's buffer of an array in host memory, and the event that fires when the plugin has finished with that
/// memory.
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
    let done = (!done.is_null()).then(|| Event::new(client.plugin(), done));
    if let (true, false, Some(done)) = (trace::is_on(), client.shares_host_memory(), &done) {
        let span = trace::device_span(Activity::Transfer, device.label(), || spec.details().outcome("to the device"));
        // If the plugin refuses, it is not recorded.
        let _ = done.on_ready(move |_| drop(span));
    }
    Ok((made.buffer, done))
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

fn check_length(len: usize, spec: &Spec) -> Result<()> {
    if len == 0 && !spec.is_empty() {
        let length = match &spec.dims[..] {
            [] => String::new(),
            dims => format!("Data has length 0, but specified shape is {}. ", shown(dims)),
        };
        bail!(InvalidInput, "{length}Empty buffers must have at least one dimension equal to 0.");
    }
    if len > 1 && len != spec.len() {
        bail!(ShapeMismatch, "Data has length {len}, but specified shape is {}.", shown(&spec.dims));
    }
    Ok(())
}

fn shown(dims: &[i64]) -> String {
    if dims.is_empty() {
        "that of a scalar".into()
    } else {
        layout::format_dims(dims)
    }
}

fn check_bytes(len: usize, spec: &Spec) -> Result<()> {
    if len != spec.bytes() {
        let dims: Vec<_> = spec.dims.iter().map(i64::to_string).collect();
        bail!(
            InvalidInput,
            "Raw data has {}, but dtype \"{}\" with shape ({}) requires {}.",
            counted(len, "byte"),
            spec.dtype,
            dims.join(", "),
            counted(spec.bytes(), "byte")
        );
    }
    Ok(())
}
