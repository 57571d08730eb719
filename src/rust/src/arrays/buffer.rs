//! Buffers: from R vectors to a device, and the properties of a buffer.

use crate::arrays::dtype;
use crate::clients::device;
use crate::memory;
use crate::r::conditions::{flag, Failure, Result};
use crate::r::describe::describe;
use crate::r::handle::{self, EmptyHandle};
use crate::r::pins;
use crate::r::sexp::{self, Protected};
use extendr_ffi::*;
use pjrt_base::counted::counted;
use pjrt_base::{error::Error, error::Kind};
use pjrt_core::buffer::upload::{Upload, UploadRoute};
use pjrt_core::client::holdings;
use pjrt_core::host::array::HostPieces;
use pjrt_core::{Buffer, Device, HostArray, HostContent, HostOrder, MemorySpace};
use pjrt_data::array::Spec;
use pjrt_data::convert::{Check, HostValues, LossReport};
use pjrt_data::dtype::{DType, HostType};
use pjrt_data::layout;
use smallvec::SmallVec;
use std::mem::ManuallyDrop;

/// As many values are checked faster than an R option is found.
const FEW: usize = 16;

owned! {
    Buffer, c"PJRTBuffer", sent,
    const ARGUMENT: &'static str = "buffer";
    fn announce() {
        memory::count_buffer();
    }
}

/// `buffer_new(data, dtype, device, shape, check)`: a buffer from a logical, integer, double, complex or integer64 vector.
pub fn buffer_new(data: SEXP, dtype: SEXP, device: SEXP, shape: SEXP, check: SEXP) -> Result<SEXP> {
    let device = device::resolve(device)?;
    let dims = if sexp::is_nil(shape) { own_dims(data) } else { given_shape(shape, Some(sexp::len(data)))?.into() };
    from_vector(data, dtype, device, &dims, check)
}

/// `buffer_scalar(data, dtype, device, check)`: a buffer of rank 0 from such a vector, which has one value.
pub fn buffer_scalar(data: SEXP, dtype: SEXP, device: SEXP, check: SEXP) -> Result<SEXP> {
    ensure!(sexp::len(data) == 1, InvalidInput, "data must have length 1, not {}.", sexp::len(data));
    from_vector(data, dtype, device::resolve(device)?, &[], check)
}

fn from_vector(data: SEXP, dtype: SEXP, device: &Device, dims: &[i64], check: SEXP) -> Result<SEXP> {
    let host_type = r_type_of(data)?;
    let dtype = if sexp::is_nil(dtype) { default_dtype(host_type)? } else { dtype::parse(dtype, None)? };
    let elements = dims.iter().fold(1, |product: usize, &dim| product.saturating_mul(dim as usize));
    if sexp::is_nil(check) && elements <= FEW {
        // Only values that do not fit make the option matter.
        if let Ok(buffer) = uploaded_or_lost(data, host_type, dtype, device, dims, Check::All)? {
            return Ok(buffer);
        }
    }
    let check = if checks(check)? { Check::All } else { Check::Missing };
    uploaded(data, host_type, dtype, device, dims, check)
}

/// Whether values are checked: as the argument says, or if it is nil, an option, FALSE by default.
pub fn checks(check: SEXP) -> Result<bool> {
    if !sexp::is_nil(check) {
        return flag(check, "check");
    }
    let option = sexp::option(c"pjrt.check");
    match sexp::flag(option) {
        Some(value) => Ok(value),
        None if sexp::is_nil(option) => Ok(false),
        None => bail!(InvalidType, "`options(pjrt.check = )` must be TRUE or FALSE, not {}.", describe(option)),
    }
}

/// The buffer of a vector of R data, which has this type; not protected.
pub fn uploaded(
    data: SEXP,
    host_type: HostType,
    dtype: DType,
    device: &Device,
    dims: &[i64],
    check: Check,
) -> Result<SEXP> {
    const HINT: &str =
        "as_array() reads ui64 from 2^63 on as NA or negative integer64: pjrt_buffer(x, \"ui64\") takes these back.";
    let unfit = |lost| match (host_type, dtype) {
        (HostType::Integer64, DType::U64) => Failure(misfits(lost, dtype).0.hint(HINT)),
        _ => misfits(lost, dtype),
    };
    uploaded_or_lost(data, host_type, dtype, device, dims, check)?.map_err(unfit)
}

/// The same, or the values that the dtype cannot hold.
pub fn uploaded_or_lost(
    data: SEXP,
    host_type: HostType,
    dtype: DType,
    device: &Device,
    dims: &[i64],
    check: Check,
) -> Result<std::result::Result<SEXP, LossReport>> {
    let (order, len) = (HostOrder::ColumnMajor, sexp::len(data));
    let numeric = matches!(sexp::kind(data), SEXPTYPE::INTSXP | SEXPTYPE::REALSXP);
    if numeric && sexp::is_compact(data) && (len == 1 || order.is_row_major(dims)) {
        let read = |start, count, to| read_region(data, start, count, to);
        let pieces = HostPieces { host_type, len, read: &read };
        return upload(Upload::in_pieces(device, dtype, dims, pieces, check)?, data);
    }
    let content = HostContent::Values(values(data, host_type));
    upload(Upload::new(device, dtype, &HostArray { dims, order, content }, check)?, data)
}

/// `buffer_from_raw(data, dtype, device, shape, row_major)`: a buffer from the bytes of its elements.
pub fn buffer_from_raw(data: SEXP, dtype: SEXP, device: SEXP, shape: SEXP, row_major: SEXP) -> Result<SEXP> {
    let device = device::resolve(device)?;
    let order = order(flag(row_major, "row_major")?);
    let dtype = dtype::parse(dtype, None)?;
    let dims = given_shape(shape, Some(sexp::len(data) / dtype.host_bytes()))?;
    from_elements(data, dtype, &dims, order, device)
}

/// A buffer of the elements in a raw vector, which the caller protects; not protected.
pub fn from_elements(data: SEXP, dtype: DType, dims: &[i64], order: HostOrder, device: &Device) -> Result<SEXP> {
    // SAFETY: the caller protects the vector, and a pin keeps what outlives the call.
    let content = HostContent::Elements(unsafe { sexp::raws(data) });
    whole(dtype, &HostArray { dims, order, content }, device, data)
}

/// A buffer of an array whose elements have this type; not protected. `vector` is what it reads, or nil.
fn whole(dtype: DType, array: &HostArray, device: &Device, vector: SEXP) -> Result<SEXP> {
    let made = upload(Upload::new(device, dtype, array, Check::Missing)?, vector)?;
    made.map_err(|lost| misfits(lost, dtype))
}

/// `buffer_empty(dtype, shape, device)`: a buffer whose elements are all zero.
pub fn buffer_empty(dtype: SEXP, shape: SEXP, device: SEXP) -> Result<SEXP> {
    let device = device::resolve(device)?;
    let (dtype, dims) = (dtype::parse(dtype, None)?, given_shape(shape, None)?);
    zeros(dtype, &dims, device)
}

/// `buffer_dtype(buffer)`: the dtype as a `PJRTElementType`.
pub fn buffer_dtype(buffer: SEXP) -> Result<SEXP> {
    Ok(dtype::element_type(get(buffer)?.dtype()))
}

/// `buffer_shape(buffer)`: the dimensions.
pub fn buffer_shape(buffer: SEXP) -> Result<SEXP> {
    Ok(sexp::new_whole_numbers(get(buffer)?.dims()))
}

/// `buffer_device(buffer)`: the one R object of its device.
pub fn buffer_device(buffer: SEXP) -> Result<SEXP> {
    let buffer = get(buffer)?;
    Ok(device::object(buffer.client(), buffer.device_index()))
}

/// `buffer_platform(buffer)`: the platform of its client.
pub fn buffer_platform(buffer: SEXP) -> Result<SEXP> {
    Ok(sexp::new_string(get(buffer)?.client().platform()))
}

/// `buffer_copy(buffer, device)`: the same buffer when it is on that device already, else a copy there.
pub fn buffer_copy(buffer: SEXP, device: SEXP) -> Result<SEXP> {
    let target: &Device = handle::get(device, "device")?;
    copied(buffer, target)
}

/// The buffer itself if it is on that device already, else a copy; not protected.
pub fn copied(buffer: SEXP, target: &Device) -> Result<SEXP> {
    let source = get(buffer)?;
    if source.device() == *target {
        source.check_alive()?;
        return Ok(buffer);
    }
    made(|| needs(source.spec()), || source.copy_to(target))
}

/// The R object of a buffer that `make` creates; not protected. R may leave this by a long jump before that.
pub fn made(needs: impl FnOnce() -> String, make: impl FnMut() -> pjrt_base::error::Result<Buffer>) -> Result<SEXP> {
    EmptyHandle::<Buffer>::new().filled(|| Ok(memory::with_retry(needs, make)?))
}

/// A buffer of zeros; not protected.
pub fn zeros(dtype: DType, dims: &[i64], device: &Device) -> Result<SEXP> {
    let zeros = HostArray { dims, order: HostOrder::RowMajor, content: HostContent::Zeros };
    whole(dtype, &zeros, device, sexp::nil())
}

/// `buffer_copy_to_memory(buffer, memory)`: the same for a memory space.
pub fn buffer_copy_to_memory(buffer: SEXP, memory: SEXP) -> Result<SEXP> {
    let source = get(buffer)?;
    let target: &MemorySpace = handle::get(memory, "memory")?;
    if source.memory()?.as_ref() == Some(target) {
        return Ok(buffer);
    }
    made(|| needs(source.spec()), || source.copy_to_memory(target))
}

/// What a buffer takes of memory, in words.
pub fn needs(spec: &Spec) -> String {
    holdings::arrays([spec])
}

/// The order that a flag asks for: row-major, or R's.
pub fn order(row_major: bool) -> HostOrder {
    if row_major {
        HostOrder::RowMajor
    } else {
        HostOrder::ColumnMajor
    }
}

/// The buffer of a handle.
pub fn get<'a>(buffer: SEXP) -> Result<&'a Buffer> {
    handle::get(buffer, "buffer")
}

/// Makes the R object of a buffer, or says what the dtype cannot hold. `vector` is what the upload reads, or nil.
fn upload(upload: Upload, vector: SEXP) -> Result<std::result::Result<SEXP, LossReport>> {
    let (client, route) = (upload.device().client(), upload.route());
    let size = upload.spec().bytes();
    memory::prepare(&upload)?;
    // R may leave its allocations by a long jump: nothing may wait to be dropped meanwhile.
    let owned = ManuallyDrop::new(upload);
    if route.keeps_source() {
        pins::reserve();
    }
    // R weighs the buffer by what its handle holds. Arrays in the background are too large for that: such a vector would
    // have R collect all its garbage first.
    let companion = match route {
        UploadRoute::Shared => sexp::list([vector]),
        UploadRoute::Small | UploadRoute::Now if client.shares_host_memory() => memory::weight(size),
        _ => sexp::nil(),
    };
    let companion = Protected::new(companion);
    let handle =
        if sexp::is_nil(companion.sexp()) { EmptyHandle::sized(size) } else { EmptyHandle::over(companion.sexp()) };
    let _protected = Protected::new(handle.sexp());
    let upload = ManuallyDrop::into_inner(owned);

    let pin = if route.keeps_source() && !sexp::is_nil(vector) { Some(pins::pin(vector)?) } else { None };
    // SAFETY: the vector is kept, and not changed, until the pin is dropped.
    let buffer = match unsafe { upload.run(pin)? } {
        Ok(buffer) => buffer,
        Err(lost) => return Ok(Err(lost)),
    };
    if !sexp::is_nil(companion.sexp()) {
        client.usage().subtract_new_bytes(size);
    }
    // SAFETY: protected above.
    Ok(Ok(unsafe { handle.fill(buffer) }))
}

/// The type of an R vector that buffers are made from.
pub fn r_type_of(data: SEXP) -> Result<HostType> {
    match sexp::kind(data) {
        SEXPTYPE::LGLSXP => Ok(HostType::Logical),
        SEXPTYPE::INTSXP => Ok(HostType::Integer),
        SEXPTYPE::REALSXP if sexp::inherits(data, c"integer64") => Ok(HostType::Integer64),
        SEXPTYPE::REALSXP => Ok(HostType::Double),
        SEXPTYPE::CPLXSXP => Ok(HostType::Complex),
        _ => bail!(
            InvalidType,
            "`data` must be a logical, integer, double, complex, integer64 or raw vector, not {}.",
            describe(data)
        ),
    }
}

/// The dtype of buffers of such numbers, if none is named.
pub fn default_dtype(host_type: HostType) -> Result<DType> {
    let chosen = |name, default, is_allowed: fn(DType) -> bool, kind| match sexp::option(name) {
        option if sexp::is_nil(option) => Ok(default),
        option => match dtype::parse(option, None) {
            Ok(dtype) if is_allowed(dtype) => Ok(dtype),
            _ => bail!(
                InvalidType,
                "`options({} = )` must be {kind}, such as \"{default}\", not {}.",
                name.to_string_lossy(),
                describe(option)
            ),
        },
    };
    match host_type {
        HostType::Logical => Ok(DType::Pred),
        HostType::Integer => chosen(c"pjrt.default_int", DType::I32, DType::is_integer, "an integer dtype"),
        HostType::Double => chosen(c"pjrt.default_float", DType::F32, DType::is_float, "a float dtype"),
        HostType::Integer64 => Ok(DType::I64),
        HostType::Complex => Ok(DType::C64),
    }
}

/// The values of a vector of this type.
pub fn values<'a>(data: SEXP, host_type: HostType) -> HostValues<'a> {
    // SAFETY: the caller found out the vector's type, and R protects it; what outlives the call is kept by a pin.
    unsafe {
        let address = match host_type {
            HostType::Logical | HostType::Integer => sexp::integers(data).as_ptr().cast(),
            HostType::Double | HostType::Integer64 => sexp::doubles(data).as_ptr().cast(),
            HostType::Complex => sexp::complexes(data).as_ptr().cast(),
        };
        HostValues::new(host_type, address, sexp::len(data))
    }
}

/// Copies values of a numeric vector, without R's writing out all of them.
fn read_region(data: SEXP, start: usize, count: usize, to: *mut u8) {
    let (start, count) = (start as R_xlen_t, count as R_xlen_t);
    // SAFETY: there is room for `count` values, and the vector has that many from there on.
    unsafe {
        if sexp::kind(data) == SEXPTYPE::INTSXP {
            sexp::INTEGER_GET_REGION(data, start, count, to.cast());
        } else {
            sexp::REAL_GET_REGION(data, start, count, to.cast());
        }
    }
}

/// The dimensions of R data: the dimensions of an array, or the length of a vector.
pub fn own_dims(data: SEXP) -> SmallVec<[i64; 8]> {
    // An array has one dimension at least.
    // SAFETY: the caller protects the data and so their attributes.
    let dims = unsafe { sexp::dim(data) };
    if dims.is_empty() {
        SmallVec::from_slice(&[sexp::len(data) as i64])
    } else {
        dims.iter().map(|&d| i64::from(d)).collect()
    }
}

/// The dimensions that a user gives. For data of a length, one of them may be -1: as large as the others allow.
fn given_shape(shape: SEXP, len: Option<usize>) -> Result<Vec<i64>> {
    match (sexp::whole_numbers(shape), len) {
        (Some(dims), _) if dims.iter().all(|&d| d >= 0) => Ok(dims),
        (Some(mut dims), Some(len))
            if dims.iter().all(|&d| d >= -1) && dims.iter().filter(|&&d| d < 0).count() == 1 =>
        {
            let others = dims.iter().filter(|&&d| d >= 0).fold(1, |product: i64, &d| product.saturating_mul(d));
            if others == 0 || len as i64 % others != 0 {
                let shown = layout::format_dims(&dims);
                bail!(ShapeMismatch, "Data has length {len}, but specified shape is {shown}: no number fits for -1.");
            }
            dims.iter_mut().filter(|d| **d < 0).for_each(|d| *d = len as i64 / others);
            Ok(dims)
        }
        (Some(dims), Some(_)) if dims.iter().all(|&d| d >= -1) => {
            let count = dims.iter().filter(|&&d| d < 0).count();
            bail!(InvalidType, "`shape` must be whole numbers, with one -1 at most, not {count}.")
        }
        _ => bail!(
            InvalidType,
            "`shape` must be a vector of whole numbers from 0 to 2^53, without NA, not {}.",
            describe(shape)
        ),
    }
}

#[cold]
pub fn misfits(found: LossReport, dtype: DType) -> Failure {
    let mut problems = Vec::new();
    if found.missing > 0 {
        let have = if found.missing == 1 { "has" } else { "have" };
        let missing = counted(found.missing, "NA value");
        problems.push(format!("{missing}, which {have} no representation at the XLA level"));
    }
    if found.out_of_range > 0 {
        problems.push(format!("{} that {dtype} cannot hold", counted(found.out_of_range, "value")));
    }
    let message = format!("`data` has {}; the first is element {}.", problems.join(" and "), found.first + 1);
    Error::new(Kind::InvalidInput, message).into()
}
