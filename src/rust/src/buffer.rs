//! Buffers: from R vectors to a device, and what a buffer says of itself.

use crate::conditions::{entry, flag, refuse, Outcome};
use crate::handle::{self, Empty};
use crate::sexp::{self, Protected};
use crate::transfer::reordered;
use crate::{device, dtype, memory, pins};
use extendr_ffi::*;
use pjrt_core::convert::{self, HostValues};
use pjrt_core::reorder::Plan;
use pjrt_core::{layout, Buffer, DType, Device, HostMemory, Spec};
use std::mem::ManuallyDrop;

/// `buffer_new(data, dtype, device, shape, check)`: a buffer from a logical, integer, double or integer64 vector.
pub extern "C" fn buffer_new(data: SEXP, dtype: SEXP, device: SEXP, shape: SEXP, check: SEXP) -> SEXP {
    entry(|| {
        let check = flag(check, "check")?;
        let (values, default) = values(data)?;
        let dtype = dtype::parse(dtype, Some(default))?;
        values.check_dtype(dtype)?;
        let dims = if sexp::is_nil(shape) { own_shape(data) } else { given_shape(shape)? };
        let spec = Spec::new(dtype, &dims)?;
        check_length(sexp::len(data), &spec)?;
        if check {
            check_values(&values, dtype)?;
        }
        let single = sexp::len(data) == 1;
        let source = if single { vec![0; dims.len()] } else { layout::column_major(&dims) };
        upload(handle::get(device, "device")?, spec, |spec, target| unsafe {
            values.encode(spec.dtype, &Plan::new(&spec.dims, &source, &layout::row_major(&spec.dims)), target)
        })
    })
}

/// `buffer_from_raw(data, dtype, device, shape, row_major)`: a buffer from the bytes of its elements.
pub extern "C" fn buffer_from_raw(data: SEXP, dtype: SEXP, device: SEXP, shape: SEXP, row_major: SEXP) -> SEXP {
    entry(|| {
        let row_major = flag(row_major, "row_major")?;
        let spec = Spec::new(dtype::parse(dtype, None)?, &given_shape(shape)?)?;
        let bytes = sexp::raws(data);
        if bytes.len() != spec.bytes() {
            let dims: Vec<_> = spec.dims.iter().map(i64::to_string).collect();
            refuse!(
                InvalidInput,
                "Raw data has {} bytes, but dtype \"{}\" with shape ({}) requires {} bytes.",
                bytes.len(),
                spec.dtype,
                dims.join(", "),
                spec.bytes()
            );
        }
        let order = order(row_major, &spec);
        upload(handle::get(device, "device")?, spec, |spec, target| unsafe {
            let plan = Plan::new(&spec.dims, &order, &layout::row_major(&spec.dims));
            convert::copy(spec.dtype, &plan, bytes.as_ptr(), target);
            Ok(())
        })
    })
}

/// `buffer_empty(dtype, shape, device)`: a buffer whose elements are all zero.
pub extern "C" fn buffer_empty(dtype: SEXP, shape: SEXP, device: SEXP) -> SEXP {
    entry(|| {
        let spec = Spec::new(dtype::parse(dtype, None)?, &given_shape(shape)?)?;
        upload(handle::get(device, "device")?, spec, |spec, target| {
            // SAFETY: the memory has room for the spec's bytes.
            unsafe { std::ptr::write_bytes(target, 0, spec.bytes()) };
            Ok(())
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
            return Ok(buffer);
        }
        let handle = Empty::<Buffer>::new();
        let _protected = Protected::new(handle.sexp());
        if source.client().plugin().path() == target.client().plugin().path() {
            let copy = memory::with_retry(target.client(), || source.copy_to(target))?;
            return Ok(handle.fill(copy));
        }
        let spec = source.spec();
        let elements = reordered(spec, &source.read()?, &layout::row_major(&spec.dims))?;
        let copy = Buffer::from_host(target, Spec::new(spec.dtype, &spec.dims)?, &elements)?;
        Ok(handle.fill(copy))
    })
}

/// Strides of the order that a flag asks for: row-major, or R's.
pub fn order(row_major: bool, spec: &Spec) -> Vec<usize> {
    if row_major {
        layout::row_major(&spec.dims)
    } else {
        layout::column_major(&spec.dims)
    }
}

/// The buffer of a handle.
pub fn get<'a>(buffer: SEXP) -> Outcome<&'a Buffer> {
    handle::get(buffer, "buffer")
}

/// Makes a buffer of `spec` on `device`, its bytes written by `write`.
fn upload(device: &Device, spec: Spec, write: impl Fn(&Spec, *mut u8) -> pjrt_core::Result<()>) -> Outcome<SEXP> {
    memory::relieve_pressure(device.client());
    let client = device.client();
    let size = spec.bytes();
    // R may leave its allocations by a long jump: nothing may wait to be dropped meanwhile.
    let owned = ManuallyDrop::new((spec, write));
    let vector = Protected::new(if client.shares_host_memory() { memory::vector(client, size)? } else { sexp::nil() });
    pins::reserve();
    let handle = Empty::over(vector.sexp());
    let _protected = Protected::new(handle.sexp());
    let (spec, write) = ManuallyDrop::into_inner(owned);
    let memory = match memory::of_vector(vector.sexp(), size) {
        Some(memory) => memory,
        None => memory::with_retry(client, || HostMemory::new(size))?,
    };
    write(&spec, memory.data())?;
    let buffer = memory::with_retry(client, || Buffer::from_host(device, spec.clone(), &memory))?;
    Ok(handle.fill(buffer))
}

/// The values of an R vector and the dtype that they take by default.
fn values<'a>(data: SEXP) -> Outcome<(HostValues<'a>, DType)> {
    match sexp::kind(data) {
        SEXPTYPE::LGLSXP => Ok((HostValues::Logical(sexp::integers(data)), DType::Pred)),
        SEXPTYPE::INTSXP => Ok((HostValues::Integer(sexp::integers(data)), DType::I32)),
        SEXPTYPE::REALSXP => {
            let doubles = sexp::doubles(data);
            if sexp::inherits(data, c"integer64") {
                // SAFETY: integer64 vectors are 64-bit integers in the memory of doubles.
                let integers = unsafe { std::slice::from_raw_parts(doubles.as_ptr().cast(), doubles.len()) };
                Ok((HostValues::Integer64(integers), DType::I64))
            } else {
                Ok((HostValues::Double(doubles), DType::F32))
            }
        }
        _ => refuse!(InvalidInput, "`data` must be a logical, integer, double, integer64 or raw vector."),
    }
}

/// The dimensions of R data: those of an array, or the length of a vector; none for an empty vector.
fn own_shape(data: SEXP) -> Vec<i64> {
    let dims = unsafe { Rf_getAttrib(data, R_DimSymbol) };
    match sexp::len(data) {
        _ if !sexp::is_nil(dims) => sexp::integers(dims).iter().map(|&d| i64::from(d)).collect(),
        0 => Vec::new(),
        n => vec![n as i64],
    }
}

fn given_shape(shape: SEXP) -> Outcome<Vec<i64>> {
    match sexp::whole_numbers(shape) {
        Some(dims) if dims.iter().all(|&d| d >= 0) => Ok(dims),
        _ => refuse!(InvalidInput, "`shape` must be a vector of whole numbers from 0 to 2^53, without NA."),
    }
}

fn check_length(len: usize, spec: &Spec) -> Outcome<()> {
    if len == 0 && !spec.is_empty() {
        refuse!(InvalidInput, "Empty buffers must have at least one dimension equal to 0.");
    }
    if len > 1 && len != spec.len() {
        refuse!(ShapeMismatch, "Data has length {len}, but specified shape is {}.", layout::format_dims(&spec.dims));
    }
    Ok(())
}

fn check_values(values: &HostValues, dtype: DType) -> Outcome<()> {
    let Some(found) = values.misfits(dtype) else { return Ok(()) };
    let mut problems = Vec::new();
    if found.missing > 0 {
        problems.push(format!("{} NA value(s), which have no representation at the XLA level", found.missing));
    }
    if found.out_of_range > 0 {
        problems.push(format!("{} value(s) that {dtype} cannot hold", found.out_of_range));
    }
    refuse!(InvalidInput, "`data` has {}; the first is element {}.", problems.join(" and "), found.first + 1)
}
