//! Arrays of Arrow, by its C data interface, as buffers: in place where the device can use their memory.

mod c_data;

pub use c_data::{ArrowArray, ArrowSchema, Pair};

use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::host::memory::HostMemory;
use crate::runtime::event::OnDrop;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_data::array::Spec;
use pjrt_data::arrow::Format;
use pjrt_data::dtype::DType;
use std::ffi::CStr;
use std::ptr::NonNull;

/// Lists may be nested up to this depth.
const DEPTH: usize = 16;

/// Up to this size, an array is copied, which takes less time than to keep track of it.
const SMALL: usize = 2048;

/// An array that was checked.
struct Found {
    spec: Spec,
    /// The first element, or the byte that holds the first bit.
    data: *const u8,
    /// Where the first element is in the data and in the validity map.
    first: usize,
    is_bits: bool,
    /// The validity map, if there are missing values.
    missing: Option<*const u8>,
}

impl Buffer {
    /// Moves an Arrow array to a device. Missing values become NaN. `later` is given the array when it is not needed any
    /// more, on any thread.
    ///
    /// # Errors
    /// `UnsupportedDtype` for elements that are not numbers; `InvalidInput` for missing values in a type without NaN,
    /// and for arrays that break the interface's rules; the plugin's own errors.
    pub fn from_arrow(device: &Device, pair: Pair, later: impl FnOnce(Pair) + Send + 'static) -> Result<Buffer> {
        // SAFETY: the pair owns structs that its producer filled.
        let found = unsafe { find(&pair.array, &pair.schema) };
        // Given back wherever its use ends.
        let pair = OnDrop::new(move || later(pair));
        device.check_addressable()?;
        let found = found?;
        let bytes = found.spec.bytes();
        let shares = device.client().shares_host_memory();
        let in_place = !found.is_bits
            && found.missing.is_none()
            && bytes > SMALL
            && (!shares || HostMemory::is_aligned(found.data));
        if let (true, Some(data)) = (in_place, NonNull::new(found.data.cast_mut())) {
            // SAFETY: the producer keeps the memory, and nobody writes to it, until the pair is released.
            return unsafe { Buffer::borrowed(device, found.spec, data, move || drop(pair)) };
        }
        let memory = HostMemory::new(bytes)?;
        // SAFETY: new memory of this size, which nobody else knows.
        found.copy(unsafe { std::slice::from_raw_parts_mut(memory.data(), bytes) });
        Buffer::from_host(device, found.spec, &memory)
    }
}

/// Checks an array, down to its numbers.
///
/// # Safety
/// The structs are a producer's, not released.
unsafe fn find(array: &ArrowArray, schema: &ArrowSchema) -> Result<Found> {
    let (mut array, mut schema) = (array, schema);
    let mut dims = vec![array.length];
    let (mut first, mut count) = (0i64, array.length);
    for _ in 0..DEPTH {
        check(array, schema)?;
        let last = first.checked_add(count).filter(|&last| last <= array.length);
        let (Some(_), Some(start)) = (last, first.checked_add(array.offset)) else {
            return Err(broken("an array is shorter than its parent needs"));
        };
        first = start;
        match format_of(schema)? {
            Format::Lists(size) => {
                if missing(array, first as usize, count as usize)?.is_some() {
                    bail!(InvalidInput, "The Arrow array has missing lists, which have no values.");
                }
                (array, schema) =
                    (child(array.children, array.n_children)?, child(schema.children, schema.n_children)?);
                dims.push(size);
                (first, count) = match (first.checked_mul(size), count.checked_mul(size)) {
                    (Some(first), Some(count)) => (first, count),
                    _ => return Err(broken("its lists are too large")),
                };
            }
            Format::Numbers(dtype) => return numbers(array, &dims, dtype, first as usize, false),
            Format::Bits => return numbers(array, &dims, DType::Pred, first as usize, true),
        }
    }
    bail!(InvalidInput, "The Arrow array has lists nested more than {DEPTH} times.")
}

unsafe fn numbers(array: &ArrowArray, dims: &[i64], dtype: DType, first: usize, is_bits: bool) -> Result<Found> {
    let spec = Spec::new(dtype, dims)?;
    ensure!(array.n_buffers == 2, broken("an array of numbers must have two buffers"));
    let missing = missing(array, first, spec.len())?;
    if let (Some((_, count)), None) = (missing, nan(dtype)) {
        let message = format!("The Arrow array has {}, which {dtype} does not have.", counted(count, "missing value"));
        return Err(Error::new(Kind::InvalidInput, message).hint(Reason::ArrowNulls));
    }
    let data: *const u8 = (*array.buffers.add(1)).cast();
    if data.is_null() && !spec.is_empty() {
        return Err(broken("an array has no data"));
    }
    let data = if is_bits || spec.is_empty() { data } else { data.add(first * dtype.host_bytes()) };
    Ok(Found { spec, data, first, is_bits, missing: missing.map(|(map, _)| map) })
}

/// The map and the number of missing values among `count` elements from `first` on, if there are any.
unsafe fn missing(array: &ArrowArray, first: usize, count: usize) -> Result<Option<(*const u8, usize)>> {
    if array.null_count == 0 || array.n_buffers < 1 || count == 0 {
        return Ok(None);
    }
    let map: *const u8 = (*array.buffers).cast();
    if map.is_null() {
        return if array.null_count > 0 { Err(broken("it has missing values, but no map of them")) } else { Ok(None) };
    }
    let missing = (first..first + count).filter(|&i| !bit(map, i)).count();
    Ok((missing > 0).then_some((map, missing)))
}

unsafe fn bit(map: *const u8, i: usize) -> bool {
    *map.add(i / 8) >> (i % 8) & 1 == 1
}

unsafe fn check(array: &ArrowArray, schema: &ArrowSchema) -> Result<()> {
    if array.length < 0 || array.offset < 0 || array.n_buffers < 0 || array.length.checked_add(array.offset).is_none() {
        return Err(broken("its sizes are negative"));
    }
    if array.n_buffers > 0 && array.buffers.is_null() {
        return Err(broken("it has no buffers"));
    }
    ensure!(schema.dictionary.is_null(), unsupported("values of a dictionary"));
    Ok(())
}

unsafe fn format_of(schema: &ArrowSchema) -> Result<Format> {
    ensure!(!schema.format.is_null(), broken("it has no type"));
    let format = CStr::from_ptr(schema.format).to_string_lossy();
    Format::parse(&format).map_err(unsupported)
}

unsafe fn child<'a, T>(children: *mut *mut T, count: i64) -> Result<&'a T> {
    if count != 1 || children.is_null() || (*children).is_null() {
        return Err(broken("a list must have one array of values"));
    }
    Ok(&**children)
}

/// The bytes of NaN, for types that have it.
fn nan(dtype: DType) -> Option<&'static [u8]> {
    match dtype {
        DType::F16 => Some(const { &0x7e00u16.to_ne_bytes() }),
        DType::F32 => Some(const { &f32::NAN.to_ne_bytes() }),
        DType::F64 => Some(const { &f64::NAN.to_ne_bytes() }),
        _ => None,
    }
}

impl Found {
    /// Writes the elements, with NaN for missing values.
    fn copy(&self, target: &mut [u8]) {
        if target.is_empty() {
            return;
        }
        if self.is_bits {
            for (i, value) in target.iter_mut().enumerate() {
                // SAFETY: the producer's bits, as many as elements.
                *value = unsafe { bit(self.data, self.first + i) }.into();
            }
            return;
        }
        // SAFETY: the producer's numbers, as many as fit.
        unsafe { std::ptr::copy_nonoverlapping(self.data, target.as_mut_ptr(), target.len()) };
        let (Some(map), Some(nan)) = (self.missing, nan(self.spec.dtype)) else { return };
        for (i, value) in target.chunks_exact_mut(nan.len()).enumerate() {
            // SAFETY: the producer's map has a bit for each element.
            if !unsafe { bit(map, self.first + i) } {
                value.copy_from_slice(nan);
            }
        }
    }
}

fn broken(what: &str) -> Error {
    Error::new(Kind::InvalidInput, format!("The Arrow array is not valid: {what}."))
}

fn unsupported(what: &str) -> Error {
    let message = format!("The Arrow array has {what}, which PJRT lacks.");
    Error::new(Kind::UnsupportedDtype, message).hint(Reason::ArrowConversion)
}
