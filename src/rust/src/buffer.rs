//! Buffers: from R vectors to a device, and what a buffer says of itself.

use crate::conditions::{entry, flag, Result};
use crate::describe::describe;
use crate::handle::{self, Empty};
use crate::memory::{BACKGROUND, IMMEDIATE};
use crate::pins::{self, Pin};
use crate::sexp::{self, Protected};
use crate::transfer::reordered;
use crate::{device, dtype, memory};
use extendr_ffi::*;
use pjrt_base::process::check_interrupt_now_and_then;
use pjrt_core::client::holdings;
use pjrt_core::{Buffer, Device, HostMemory, Memory};
use pjrt_data::convert::{self, HostValues, LossReport};
use pjrt_data::layout::{self, Strides};
use pjrt_data::transpose::Plan;
use pjrt_data::{array::Spec, dtype::DType};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Up to this size, the plugin copies an array while it is called: to share memory costs more.
const SMALL: usize = 2048;

/// From this size on, R's own memory is used in place where that is possible: below, a copy is cheap, and the R object can
/// still be changed in place.
const SHARED: usize = 16 << 10;

/// `buffer_new(data, dtype, device, shape, check)`: a buffer from a logical, integer, double, complex or integer64 vector.
pub extern "C" fn buffer_new(data: SEXP, dtype: SEXP, device: SEXP, shape: SEXP, check: SEXP) -> SEXP {
    entry(|| {
        let device = device::resolve(device)?;
        let dims = if sexp::is_nil(shape) { own_shape(data) } else { given_shape(shape)? };
        from_vector(data, dtype, device, &dims, check)
    })
}

/// `buffer_scalar(data, dtype, device, check)`: a buffer of rank 0 from such a vector, which has one value.
pub extern "C" fn buffer_scalar(data: SEXP, dtype: SEXP, device: SEXP, check: SEXP) -> SEXP {
    entry(|| {
        if sexp::len(data) != 1 {
            bail!(InvalidInput, "data must have length 1, not {}.", sexp::len(data));
        }
        from_vector(data, dtype, device::resolve(device)?, &[], check)
    })
}

fn from_vector(data: SEXP, dtype: SEXP, device: &Device, dims: &[i64], check: SEXP) -> Result<SEXP> {
    let check = flag(check, "check")?;
    let kind = Kind::of(data)?;
    let dtype = dtype::parse(dtype, Some(kind.default_dtype()))?;
    kind.values(&[]).check_dtype(dtype)?;
    let spec = Spec::new(dtype, dims)?;
    let len = sexp::len(data);
    check_length(len, &spec)?;
    let plan = Plan::new(dims, &layout::column_major(dims), &layout::row_major(dims));
    let total = spec.len();
    let numeric = matches!(sexp::kind(data), SEXPTYPE::INTSXP | SEXPTYPE::REALSXP);
    if numeric && sexp::is_compact(data) && (plan.is_contiguous() || len == 1) {
        let source = Source { vector: data, in_place: None, now: true };
        let compact = Compact(data);
        return upload(device, spec, source, move |target| compact.encode(kind, dtype, total, target, check));
    }
    let values = kind.values(kind.bytes(data));
    let in_place = len == total && plan.is_contiguous() && values.are_elements(dtype) && !check;
    let source = Source { vector: data, in_place: in_place.then(|| values.data()), now: check };
    // SAFETY: the vector has one value or as many as the shape, for whose bytes there is room.
    upload(device, spec, source, move |target| unsafe { values.encode(dtype, &plan, total, target, check) })
}

/// `buffer_from_raw(data, dtype, device, shape, row_major)`: a buffer from the bytes of its elements.
pub extern "C" fn buffer_from_raw(data: SEXP, dtype: SEXP, device: SEXP, shape: SEXP, row_major: SEXP) -> SEXP {
    entry(|| {
        let device = device::resolve(device)?;
        let row_major = flag(row_major, "row_major")?;
        let spec = Spec::new(dtype::parse(dtype, None)?, &given_shape(shape)?)?;
        let bytes = sexp::raws(data);
        if bytes.len() != spec.bytes() {
            let dims: Vec<_> = spec.dims.iter().map(i64::to_string).collect();
            bail!(
                InvalidInput,
                "Raw data has {} bytes, but dtype \"{}\" with shape ({}) requires {} bytes.",
                bytes.len(),
                spec.dtype,
                dims.join(", "),
                spec.bytes()
            );
        }
        let plan = Plan::new(&spec.dims, &order(row_major, &spec), &layout::row_major(&spec.dims));
        let in_place = plan.is_contiguous().then_some(bytes.as_ptr());
        let (dtype, empty) = (spec.dtype, spec.is_empty());
        upload(device, spec, Source { vector: data, in_place, now: false }, move |target| {
            if !empty {
                // SAFETY: both sides have the spec's bytes.
                unsafe { convert::copy(dtype, &plan, bytes.as_ptr(), target)? };
            }
            Ok(None)
        })
    })
}

/// `buffer_empty(dtype, shape, device)`: a buffer whose elements are all zero.
pub extern "C" fn buffer_empty(dtype: SEXP, shape: SEXP, device: SEXP) -> SEXP {
    entry(|| {
        let device = device::resolve(device)?;
        let spec = Spec::new(dtype::parse(dtype, None)?, &given_shape(shape)?)?;
        let size = spec.bytes();
        upload(device, spec, Source { vector: sexp::nil(), in_place: None, now: false }, move |target| {
            // SAFETY: the memory has room for the spec's bytes.
            unsafe { std::ptr::write_bytes(target, 0, size) };
            Ok(None)
        })
    })
}

/// `buffer_dtype(buffer)`: the dtype as a `PJRTElementType`.
pub extern "C" fn buffer_dtype(buffer: SEXP) -> SEXP {
    entry(|| Ok(dtype::element_type(get(buffer)?.dtype())))
}

/// `buffer_shape(buffer)`: the dimensions.
pub extern "C" fn buffer_shape(buffer: SEXP) -> SEXP {
    entry(|| Ok(sexp::new_whole_numbers(get(buffer)?.dims())))
}

/// `buffer_device(buffer)`: the one R object of its device.
pub extern "C" fn buffer_device(buffer: SEXP) -> SEXP {
    entry(|| {
        let buffer = get(buffer)?;
        Ok(device::object(buffer.client(), buffer.device_index()))
    })
}

/// `buffer_platform(buffer)`: the platform of its client.
pub extern "C" fn buffer_platform(buffer: SEXP) -> SEXP {
    entry(|| Ok(sexp::new_string(get(buffer)?.client().platform())))
}

/// `buffer_copy(buffer, device)`: the same buffer when it is on that device already, else a copy there.
pub extern "C" fn buffer_copy(buffer: SEXP, device: SEXP) -> SEXP {
    entry(|| {
        let source = get(buffer)?;
        let target: &Device = handle::get(device, "device")?;
        if source.device() == *target {
            source.check_alive()?;
            return Ok(buffer);
        }
        let handle = Empty::<Buffer>::new();
        let _protected = Protected::new(handle.sexp());
        Ok(handle.fill(copy_to(source, target)?))
    })
}

/// `buffer_copy_to_memory(buffer, memory)`: the same for a memory space.
pub extern "C" fn buffer_copy_to_memory(buffer: SEXP, memory: SEXP) -> SEXP {
    entry(|| {
        let source = get(buffer)?;
        let target: &Memory = handle::get(memory, "memory")?;
        if source.memory()?.as_ref() == Some(target) {
            return Ok(buffer);
        }
        let handle = Empty::<Buffer>::new();
        let _protected = Protected::new(handle.sexp());
        if source.client().same(target.client()) {
            let copy = memory::with_retry(|| needs(source.spec()), || source.copy_to_memory(target))?;
            return Ok(handle.fill(copy));
        }
        let Some(device) = target.devices().next() else {
            bail!(DeviceMismatch, "No device of this process can use memory space {}.", target.label());
        };
        let near = copy_to(source, &device)?;
        if near.memory()?.as_ref() == Some(target) {
            return Ok(handle.fill(near));
        }
        let copy = memory::with_retry(|| needs(near.spec()), || near.copy_to_memory(target))?;
        Ok(handle.fill(copy))
    })
}

/// A copy on another device: through the host when that is another plugin's.
fn copy_to(source: &Buffer, target: &Device) -> Result<Buffer> {
    if source.client().plugin().path() == target.client().plugin().path() {
        return Ok(memory::with_retry(|| needs(source.spec()), || source.copy_to(target))?);
    }
    let spec = source.spec();
    let elements = reordered(spec, &source.read()?, &layout::row_major(&spec.dims))?;
    Ok(Buffer::from_host(target, Spec::new(spec.dtype, &spec.dims)?, &elements)?)
}

/// Keeps a vector that is read while R goes on, for which there must be room: see [`pins::reserve`].
fn keep(vector: SEXP) -> Result<Pin> {
    let Some(pin) = pins::pin(vector) else { bail!(Internal, "Not enough memory to keep a vector.") };
    Ok(pin)
}

/// What a buffer takes of memory, in words.
pub fn needs(spec: &Spec) -> String {
    holdings::arrays([spec])
}

/// Strides of the order that a flag asks for: row-major, or R's.
pub fn order(row_major: bool, spec: &Spec) -> Strides {
    if row_major {
        layout::row_major(&spec.dims)
    } else {
        layout::column_major(&spec.dims)
    }
}

/// The buffer of a handle.
pub fn get<'a>(buffer: SEXP) -> Result<&'a Buffer> {
    handle::get(buffer, "buffer")
}

/// Where the content of a new buffer comes from.
struct Source {
    /// The R vector that is read, or nil.
    vector: SEXP,
    /// Where its elements lie in the very form and order of the buffer's, if they do.
    in_place: Option<*const u8>,
    /// Whether it must be read before the call ends.
    now: bool,
}

/// How the content gets to the device.
#[derive(Clone, Copy, PartialEq)]
enum Route {
    /// Written to the stack, and copied by the plugin.
    Small,
    /// The device uses R's memory.
    Shared,
    /// Written to new memory while R goes on.
    Background,
    /// Written to new memory.
    Now,
}

impl Route {
    fn of(device: &Device, spec: &Spec, source: &Source) -> Route {
        let size = spec.bytes();
        let shares = device.client().shares_host_memory() && !spec.dtype.is_packed();
        if size <= SMALL {
            Route::Small
        } else if shares && size >= SHARED && source.in_place.is_some_and(HostMemory::is_aligned) {
            Route::Shared
        } else if size >= BACKGROUND && !source.now {
            Route::Background
        } else {
            Route::Now
        }
    }
}

/// Makes a buffer of `spec` on `device`, its bytes written by `write`, which tells what the dtype cannot hold.
fn upload(
    device: &Device,
    spec: Spec,
    source: Source,
    write: impl FnOnce(*mut u8) -> pjrt_base::error::Result<Option<LossReport>> + Send + 'static,
) -> Result<SEXP> {
    let client = device.client();
    let (size, dtype) = (spec.bytes(), spec.dtype);
    let route = Route::of(device, &spec, &source);
    if matches!(route, Route::Now | Route::Background) && size < IMMEDIATE {
        memory::find_memory(size)?;
    }
    if route == Route::Background {
        memory::relieve_scarcity(client)?;
    } else {
        memory::relieve_pressure(client)?;
    }
    if route == Route::Now {
        memory::find_room(size, || needs(&spec))?;
    }
    // R may leave its allocations by a long jump: nothing may wait to be dropped meanwhile.
    let owned = ManuallyDrop::new((spec, write));
    if matches!(route, Route::Shared | Route::Background) {
        pins::reserve();
    }
    // R weighs the buffer by what its handle holds. Arrays in the background are too large for that: such a vector would
    // have R collect all its garbage first.
    let companion = match route {
        Route::Shared => sexp::list_of(source.vector),
        Route::Small | Route::Now if client.shares_host_memory() => memory::weight(size),
        _ => sexp::nil(),
    };
    let companion = Protected::new(companion);
    let handle = if sexp::is_nil(companion.sexp()) { Empty::sized(size) } else { Empty::over(companion.sexp()) };
    let _protected = Protected::new(handle.sexp());
    let (spec, write) = ManuallyDrop::into_inner(owned);

    let buffer = match route {
        Route::Small => {
            let mut bytes = [0u64; SMALL / 8];
            check_misfits(write(bytes.as_mut_ptr().cast())?, dtype)?;
            // SAFETY: as many bytes as the array has.
            let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), size) };
            memory::with_retry(|| needs(&spec), || Buffer::from_bytes(device, spec.clone(), bytes))?
        }
        Route::Shared => {
            let pin = keep(source.vector)?;
            let data = source.in_place.and_then(|data| NonNull::new(data.cast_mut())).unwrap_or(NonNull::dangling());
            // SAFETY: the vector is kept, and not changed, until the pin is dropped.
            let memory = unsafe { HostMemory::lent(data, size, move || drop(pin)) };
            memory::with_retry(|| needs(&spec), || Buffer::from_host(device, spec.clone(), &memory))?
        }
        Route::Background => {
            let memory = memory::with_retry(|| needs(&spec), || HostMemory::new(size))?;
            let pin = if sexp::is_nil(source.vector) { None } else { Some(keep(source.vector)?) };
            Buffer::from_host_later(device, spec, memory, move |target| {
                let _pin = pin;
                write(target).map(drop)
            })?
        }
        Route::Now => {
            let memory = memory::with_retry(|| needs(&spec), || HostMemory::new(size))?;
            check_misfits(write(memory.data())?, dtype)?;
            memory::with_retry(|| needs(&spec), || Buffer::from_host(device, spec.clone(), &memory))?
        }
    };
    if !sexp::is_nil(companion.sexp()) {
        client.forget_new_bytes(size);
    }
    Ok(handle.fill(buffer))
}

/// The types of R vectors that buffers are made from.
#[derive(Clone, Copy)]
enum Kind {
    Logical,
    Integer,
    Double,
    Integer64,
    Complex,
}

impl Kind {
    fn of(data: SEXP) -> Result<Kind> {
        match sexp::kind(data) {
            SEXPTYPE::LGLSXP => Ok(Kind::Logical),
            SEXPTYPE::INTSXP => Ok(Kind::Integer),
            SEXPTYPE::REALSXP if sexp::inherits(data, c"integer64") => Ok(Kind::Integer64),
            SEXPTYPE::REALSXP => Ok(Kind::Double),
            SEXPTYPE::CPLXSXP => Ok(Kind::Complex),
            _ => bail!(
                InvalidInput,
                "`data` must be a logical, integer, double, complex, integer64 or raw vector, not {}.",
                describe(data)
            ),
        }
    }

    fn default_dtype(self) -> DType {
        match self {
            Kind::Logical => DType::Pred,
            Kind::Integer => DType::I32,
            Kind::Double => DType::F32,
            Kind::Integer64 => DType::I64,
            Kind::Complex => DType::C64,
        }
    }

    /// The memory of a vector of this kind.
    fn bytes(self, data: SEXP) -> &'static [u8] {
        unsafe fn bytes<T>(values: &[T]) -> &'static [u8] {
            std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values))
        }
        // SAFETY: what outlives the call is kept by a pin.
        unsafe {
            match self {
                Kind::Logical | Kind::Integer => bytes(sexp::integers(data)),
                Kind::Double | Kind::Integer64 => bytes(sexp::doubles(data)),
                Kind::Complex => bytes(sexp::complexes(data)),
            }
        }
    }

    /// The values that lie in the memory of such a vector.
    fn values(self, bytes: &'static [u8]) -> HostValues<'static> {
        fn slice<T>(bytes: &'static [u8]) -> &'static [T] {
            if bytes.is_empty() {
                return &[];
            }
            // SAFETY: vectors of this kind have values of this type in their memory.
            unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
        }
        match self {
            Kind::Logical => HostValues::Logical(slice(bytes)),
            Kind::Integer => HostValues::Integer(slice(bytes)),
            Kind::Double => HostValues::Double(slice(bytes)),
            Kind::Integer64 => HostValues::Integer64(slice(bytes)),
            Kind::Complex => HostValues::Complex(slice(bytes)),
        }
    }
}

/// A vector that R only describes, and who reads it on R's thread.
#[derive(Clone, Copy)]
struct Compact(SEXP);

// SAFETY: read before the call that brought it ends.
unsafe impl Send for Compact {}

impl Compact {
    /// Encodes the vector piece by piece, so that it is never whole in memory.
    fn encode(
        self,
        kind: Kind,
        dtype: DType,
        total: usize,
        target: *mut u8,
        check: bool,
    ) -> pjrt_base::error::Result<Option<LossReport>> {
        const PIECE: usize = 8192;
        let len = sexp::len(self.0);
        let mut piece = [0u64; PIECE];
        let mut all: Option<LossReport> = None;
        for start in (0..len).step_by(PIECE) {
            check_interrupt_now_and_then()?;
            let count = PIECE.min(len - start);
            let (from, size) = (start as R_xlen_t, count as R_xlen_t);
            // SAFETY: the piece has room for `count` values of 8 bytes, and the vector that many from there on.
            let width = unsafe {
                if sexp::kind(self.0) == SEXPTYPE::INTSXP {
                    sexp::INTEGER_GET_REGION(self.0, from, size, piece.as_mut_ptr().cast());
                    4
                } else {
                    sexp::REAL_GET_REGION(self.0, from, size, piece.as_mut_ptr().cast());
                    8
                }
            };
            // SAFETY: the piece is filled, and used before it is filled again.
            let bytes = unsafe { std::slice::from_raw_parts(piece.as_ptr().cast(), count * width) };
            let (plan, reach) = (Plan::contiguous(count), if len == 1 { total } else { count });
            let to = target.wrapping_add(start * dtype.host_bytes());
            // SAFETY: the target has room for all elements.
            let found = unsafe { kind.values(bytes).encode(dtype, &plan, reach, to, check)? };
            if let Some(found) = found {
                let sum = all.get_or_insert(LossReport { missing: 0, out_of_range: 0, first: start + found.first });
                sum.missing += found.missing;
                sum.out_of_range += found.out_of_range;
            }
        }
        Ok(all)
    }
}

/// The dimensions of R data: those of an array, or the length of a vector; none for an empty vector.
fn own_shape(data: SEXP) -> Vec<i64> {
    // An array has one dimension at least.
    let dims = sexp::dim(data);
    match sexp::len(data) {
        _ if !dims.is_empty() => dims.iter().map(|&d| i64::from(d)).collect(),
        0 => Vec::new(),
        n => vec![n as i64],
    }
}

fn given_shape(shape: SEXP) -> Result<Vec<i64>> {
    match sexp::whole_numbers(shape) {
        Some(dims) if dims.iter().all(|&d| d >= 0) => Ok(dims),
        _ => bail!(
            InvalidInput,
            "`shape` must be a vector of whole numbers from 0 to 2^53, without NA, not {}.",
            describe(shape)
        ),
    }
}

fn shown(dims: &[i64]) -> String {
    if dims.is_empty() {
        "that of a scalar".into()
    } else {
        layout::format_dims(dims)
    }
}

fn check_length(len: usize, spec: &Spec) -> Result<()> {
    if len == 0 && !spec.is_empty() {
        bail!(InvalidInput, "Empty buffers must have at least one dimension equal to 0.");
    }
    if len > 1 && len != spec.len() {
        bail!(ShapeMismatch, "Data has length {len}, but specified shape is {}.", shown(&spec.dims));
    }
    Ok(())
}

fn check_misfits(found: Option<LossReport>, dtype: DType) -> Result<()> {
    let Some(found) = found else { return Ok(()) };
    let mut problems = Vec::new();
    if found.missing > 0 {
        problems.push(format!("{} NA value(s), which have no representation at the XLA level", found.missing));
    }
    if found.out_of_range > 0 {
        problems.push(format!("{} value(s) that {dtype} cannot hold", found.out_of_range));
    }
    bail!(InvalidInput, "`data` has {}; the first is element {}.", problems.join(" and "), found.first + 1)
}
