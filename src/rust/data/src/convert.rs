//! Conversion of host values to the elements of a dtype and back, which [`crate::transpose`] applies in one pass over
//! an array. Module `values` converts single values.
//!
//! Conversion to integers cuts doubles towards zero and saturates; NaN becomes the smallest value of a signed type (the
//! host's NA) and 0 of an unsigned one. Narrower integers wrap, as in C. Conversion to floats rounds to nearest, ties
//! to even; missing values become NaN.

mod lines;
mod values;

use crate::dtype::{DType, HostType};
use crate::transpose::Plan;
use lines::{Conversion, Counting, Tally};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use values::is_na;
use values::*;

/// The missing value (NA) of integer and logical vectors.
pub const NA_INTEGER: i32 = i32::MIN;

/// The missing value (NA) of 64-bit integer vectors.
pub const NA_INTEGER64: i64 = i64::MIN;

/// The elements of a host vector.
#[derive(Debug, Clone, Copy)]
pub enum HostValues<'a> {
    Logical(&'a [i32]),
    Integer(&'a [i32]),
    Double(&'a [f64]),
    Integer64(&'a [i64]),
    /// Real and imaginary part.
    Complex(&'a [[f64; 2]]),
}

/// The host vector that receives elements.
#[derive(Debug, Clone, Copy)]
pub struct HostTarget {
    pub host_type: HostType,
    /// Its first element, aligned for the type.
    pub data: *mut u8,
}

/// Which values that a dtype cannot hold are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Missing values, where the dtype has no NaN.
    Missing,
    /// All: also numbers outside its range, whole numbers that a float would round, and missing values that become NaN.
    All,
}

/// Values that a dtype cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossReport {
    pub missing: usize,
    pub out_of_range: usize,
    /// Position of the first, from 0.
    pub first: usize,
}

/// Runs `$body` with `$T` as the element type of a float, and `$other` for all other dtypes.
#[rustfmt::skip]
macro_rules! with_float {
    ($dtype:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $dtype {
            DType::F16 => { type $T = F16; $body }
            DType::BF16 => { type $T = BF16; $body }
            DType::F32 => { type $T = f32; $body }
            DType::F64 => { type $T = f64; $body }
            DType::F8E5M2 => { type $T = F8E5M2; $body }
            DType::F8E4M3FN => { type $T = F8E4M3FN; $body }
            DType::F8E4M3B11FNUZ => { type $T = F8E4M3B11FNUZ; $body }
            DType::F8E5M2FNUZ => { type $T = F8E5M2FNUZ; $body }
            DType::F8E4M3FNUZ => { type $T = F8E4M3FNUZ; $body }
            DType::F8E4M3 => { type $T = F8E4M3; $body }
            DType::F8E3M4 => { type $T = F8E3M4; $body }
            DType::F8E8M0FNU => { type $T = F8E8M0FNU; $body }
            DType::F4E2M1FN => { type $T = F4E2M1FN; $body }
            _ => $other,
        }
    };
}

/// The same for a real dtype.
#[rustfmt::skip]
macro_rules! with_real {
    ($dtype:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $dtype {
            DType::I2 => { type $T = I2; $body }
            DType::I4 => { type $T = I4; $body }
            DType::I8 => { type $T = i8; $body }
            DType::I16 => { type $T = i16; $body }
            DType::I32 => { type $T = i32; $body }
            DType::I64 => { type $T = i64; $body }
            DType::U2 => { type $T = U2; $body }
            DType::U4 => { type $T = U4; $body }
            DType::U8 => { type $T = u8; $body }
            DType::U16 => { type $T = u16; $body }
            DType::U32 => { type $T = u32; $body }
            DType::U64 => { type $T = u64; $body }
            _ => with_float!($dtype, $T => $body, _ => $other),
        }
    };
}

/// The same for a real or complex dtype.
macro_rules! with_number {
    ($dtype:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $dtype {
            DType::C64 => {
                type $T = C64;
                $body
            }
            DType::C128 => {
                type $T = C128;
                $body
            }
            _ => with_real!($dtype, $T => $body, _ => $other),
        }
    };
}

impl<'a> HostValues<'a> {
    /// The values of a vector of this type.
    ///
    /// # Safety
    /// From `data` on lie `len` values of the type, which stay valid and unchanged for the lifetime. `data` may be anything
    /// where there are none.
    pub unsafe fn new(host_type: HostType, data: *const u8, len: usize) -> Self {
        unsafe fn slice<'a, T>(data: *const u8, len: usize) -> &'a [T] {
            if len == 0 {
                return &[];
            }
            // SAFETY: the caller vouches for it.
            unsafe { std::slice::from_raw_parts(data.cast(), len) }
        }
        match host_type {
            HostType::Logical => HostValues::Logical(slice(data, len)),
            HostType::Integer => HostValues::Integer(slice(data, len)),
            HostType::Double => HostValues::Double(slice(data, len)),
            HostType::Integer64 => HostValues::Integer64(slice(data, len)),
            HostType::Complex => HostValues::Complex(slice(data, len)),
        }
    }

    /// The type of the values.
    pub fn host_type(&self) -> HostType {
        match self {
            HostValues::Logical(_) => HostType::Logical,
            HostValues::Integer(_) => HostType::Integer,
            HostValues::Double(_) => HostType::Double,
            HostValues::Integer64(_) => HostType::Integer64,
            HostValues::Complex(_) => HostType::Complex,
        }
    }

    /// Elements of the vector.
    pub fn len(&self) -> usize {
        match self {
            HostValues::Logical(x) | HostValues::Integer(x) => x.len(),
            HostValues::Double(x) => x.len(),
            HostValues::Integer64(x) => x.len(),
            HostValues::Complex(x) => x.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of the values.
    pub fn data(&self) -> *const u8 {
        match self {
            HostValues::Logical(x) | HostValues::Integer(x) => x.as_ptr().cast(),
            HostValues::Double(x) => x.as_ptr().cast(),
            HostValues::Integer64(x) => x.as_ptr().cast(),
            HostValues::Complex(x) => x.as_ptr().cast(),
        }
    }

    /// Whether the values have the memory format of elements of `dtype`.
    pub fn are_elements(&self, dtype: DType) -> bool {
        matches!(
            (self, dtype),
            (HostValues::Integer(_), DType::I32)
                | (HostValues::Double(_), DType::F64)
                | (HostValues::Integer64(_), DType::I64 | DType::U64)
                | (HostValues::Complex(_), DType::C128)
        )
    }

    fn conversion(&self, dtype: DType) -> Option<Conversion> {
        match self {
            HostValues::Logical(_) => match dtype {
                DType::Pred => Some(Conversion::encoding::<Logical, Pred>()),
                _ => with_number!(dtype, T => Some(Conversion::encoding::<Logical, T>()), _ => None),
            },
            HostValues::Integer(_) => with_number!(dtype, T => Some(Conversion::encoding::<i32, T>()), _ => None),
            HostValues::Double(_) => match dtype {
                DType::Pred => Some(Conversion::encoding::<f64, Pred>()),
                _ => with_number!(dtype, T => Some(Conversion::encoding::<f64, T>()), _ => None),
            },
            HostValues::Integer64(_) => match dtype {
                DType::I64 => Some(Conversion::encoding::<i64, i64>()),
                DType::U64 => Some(Conversion::encoding::<i64, u64>()),
                DType::U32 => Some(Conversion::encoding::<i64, u32>()),
                _ => with_float!(dtype, T => Some(Conversion::encoding::<i64, T>()), _ => None),
            },
            HostValues::Complex(_) => match dtype {
                DType::C64 => Some(Conversion::encoding::<[f64; 2], C64>()),
                DType::C128 => Some(Conversion::encoding::<[f64; 2], C128>()),
                _ => None,
            },
        }
    }

    /// Whether these values can become elements of `dtype`.
    ///
    /// # Errors
    /// `UnsupportedDtype` if they cannot.
    pub fn check_dtype(&self, dtype: DType) -> Result<()> {
        self.conversion(dtype).map(drop).ok_or_else(|| self.unsupported(dtype))
    }

    #[cold]
    fn unsupported(&self, dtype: DType) -> Error {
        let (source, reason) = match self {
            HostValues::Integer64(_) => {
                let message = format!("integer64 input only supports i64 or ui64 dtype, got {dtype}.");
                return Error::new(Kind::UnsupportedDtype, message)
                    .hint("ui32 and floats also accept integer64. A double holds whole numbers up to 2^53 exactly.")
                    .hint(Reason::ConversionNeeded { to: &["double"] });
            }
            HostValues::Logical(_) => ("logical", Reason::ConversionNeeded { to: &["integer"] }),
            HostValues::Integer(_) => ("integer", Reason::ConversionNeeded { to: &["logical"] }),
            HostValues::Double(_) => ("double", Reason::ConversionNeeded { to: &["logical"] }),
            HostValues::Complex(_) => ("complex", Reason::ComplexValues),
        };
        Error::new(Kind::UnsupportedDtype, format!("Unsupported type: {dtype} for {source} data.")).hint(reason)
    }

    /// Writes the values as elements of `dtype`, in the plan's order. A single value fills the whole array of `len`
    /// elements. Returns the values that are looked for and found.
    ///
    /// # Errors
    /// `UnsupportedDtype`, as [`HostValues::check_dtype`]; `Interrupted`, as [`Plan::run`].
    ///
    /// # Safety
    /// The vector has one value or `len`, which is what the plan reaches, and `dst` has room for as many elements of
    /// `dtype`.
    pub unsafe fn encode(
        &self,
        dtype: DType,
        plan: &Plan,
        len: usize,
        dst: *mut u8,
        check: Check,
    ) -> Result<Option<LossReport>> {
        let conversion = self.conversion(dtype).ok_or_else(|| self.unsupported(dtype))?;
        let src = self.data();
        let one = Plan::contiguous(1);
        let fills = self.len() == 1 && len > 1;
        let counting = match check {
            Check::Missing => conversion.noting,
            Check::All => Some(conversion.counting),
        };
        let tally = conversion.run(if fills { &one } else { plan }, src, dst, counting)?;
        if fills {
            fill(dst, conversion.dst_width, len);
        }
        Ok(counting.filter(|_| tally != Tally::default()).map(|counting| LossReport {
            missing: tally.missing,
            out_of_range: tally.out_of_range,
            first: conversion.first_found(counting, src, self.len()),
        }))
    }

    /// Whether such values can be missing without being NaN.
    pub fn may_have_missing_elements(&self) -> bool {
        matches!(self, HostValues::Logical(_) | HostValues::Integer(_) | HostValues::Integer64(_))
    }

    /// The missing values among values that [`HostValues::are_elements`] of a dtype: nothing converts them.
    pub fn missing_elements(&self) -> Option<LossReport> {
        fn find<T: Copy + PartialEq>(values: &[T], na: T) -> Option<LossReport> {
            const LINE: usize = 1024;
            let is_in = |line: &&[T]| line.iter().fold(false, |any, x| any | (*x == na));
            let count = |line: &[T]| line.iter().filter(|x| **x == na).count();
            let missing = values.chunks(LINE).filter(is_in).map(count).sum();
            let first = (missing > 0).then(|| values.iter().position(|x| *x == na))??;
            Some(LossReport { missing, out_of_range: 0, first })
        }
        match self {
            HostValues::Logical(x) | HostValues::Integer(x) => find(x, NA_INTEGER),
            HostValues::Integer64(x) => find(x, NA_INTEGER64),
            HostValues::Double(_) | HostValues::Complex(_) => None,
        }
    }
}

/// Copies the first of `len` elements into all others.
unsafe fn fill(dst: *mut u8, width: usize, len: usize) {
    let total = len * width;
    let mut filled = width;
    while filled < total {
        // At most as much as fits into a cache.
        let next = filled.min(total - filled).min(1 << 14);
        std::ptr::copy_nonoverlapping(dst, dst.add(filled), next);
        filled += next;
    }
}

/// The conversion of elements of a dtype to host values of a type, if there is one.
fn decoding(dtype: DType, host_type: HostType) -> Option<Conversion> {
    Some(match (host_type, dtype) {
        (HostType::Logical, DType::Pred) => Conversion::decoding::<Pred, Logical>(),
        (HostType::Complex, DType::C64) => Conversion::decoding::<C64, [f64; 2]>(),
        (HostType::Complex, DType::C128) => Conversion::decoding::<C128, [f64; 2]>(),
        (HostType::Integer64, DType::U32) => Conversion::decoding::<u32, i64>(),
        (HostType::Integer64, DType::I64) => Conversion::decoding::<i64, i64>(),
        (HostType::Integer64, DType::U64) => Conversion::decoding::<u64, i64>(),
        (HostType::Integer, DType::I2) => Conversion::decoding::<I2, i32>(),
        (HostType::Integer, DType::I4) => Conversion::decoding::<I4, i32>(),
        (HostType::Integer, DType::I8) => Conversion::decoding::<i8, i32>(),
        (HostType::Integer, DType::I16) => Conversion::decoding::<i16, i32>(),
        (HostType::Integer, DType::I32) => Conversion::decoding::<i32, i32>(),
        (HostType::Integer, DType::I64) => Conversion::decoding::<i64, i32>(),
        (HostType::Integer, DType::U2) => Conversion::decoding::<U2, i32>(),
        (HostType::Integer, DType::U4) => Conversion::decoding::<U4, i32>(),
        (HostType::Integer, DType::U8) => Conversion::decoding::<u8, i32>(),
        (HostType::Integer, DType::U16) => Conversion::decoding::<u16, i32>(),
        (HostType::Integer, DType::U32) => Conversion::decoding::<u32, i32>(),
        (HostType::Integer, DType::U64) => Conversion::decoding::<u64, i32>(),
        (HostType::Double, _) => with_real!(dtype, T => Conversion::decoding::<T, f64>(), _ => return None),
        _ => return None,
    })
}

/// Reads elements of `dtype` into a host vector, in the plan's order. With `check`, returns the number of elements that
/// become another value: those that the host type cannot hold, and those that mean NA there.
///
/// # Errors
/// `UnsupportedDtype` when the dtype has no such host form; `Interrupted`, as [`Plan::run`].
///
/// # Safety
/// `src` holds as many elements as the plan reaches, and `dst` has room for as many of its type.
pub unsafe fn decode(dtype: DType, plan: &Plan, src: *const u8, dst: HostTarget, check: bool) -> Result<usize> {
    match decoding(dtype, dst.host_type) {
        Some(conversion) => {
            let counting = check.then_some(conversion.counting);
            Ok(conversion.run(plan, src, dst.data, counting)?.out_of_range)
        }
        None => bail!(UnsupportedDtype, "Elements of type {dtype} cannot be read as type {:?}.", dst.host_type),
    }
}

/// Copies elements of `dtype` as they are, in the plan's order.
///
/// # Errors
/// As [`Plan::run`].
///
/// # Safety
/// `src` holds as many elements as the plan reaches, and `dst` has room for as many.
pub unsafe fn copy(dtype: DType, plan: &Plan, src: *const u8, dst: *mut u8) -> Result<()> {
    let width = dtype.host_bytes();
    // SAFETY: the plan calls this with `len` elements in both arrays.
    plan.run(src, width, dst, width, &|src, dst, len| unsafe {
        std::ptr::copy_nonoverlapping(src, dst, len * width);
    })
}

impl Conversion {
    unsafe fn run(&self, plan: &Plan, src: *const u8, dst: *mut u8, counting: Option<Counting>) -> Result<Tally> {
        let Some(counting) = counting else {
            let plain = self.plain;
            // SAFETY: as in `copy`.
            plan.run(src, self.src_width, dst, self.dst_width, &|src, dst, len| unsafe { plain(src, dst, len) })?;
            return Ok(Tally::default());
        };
        let (missing, out_of_range) = (AtomicUsize::new(0), AtomicUsize::new(0));
        plan.run(src, self.src_width, dst, self.dst_width, &|src, dst, len| {
            // SAFETY: as in `copy`.
            let found = unsafe { counting(src, dst, len) };
            if found != Tally::default() {
                missing.fetch_add(found.missing, Ordering::Relaxed);
                out_of_range.fetch_add(found.out_of_range, Ordering::Relaxed);
            }
        })?;
        Ok(Tally { missing: missing.into_inner(), out_of_range: out_of_range.into_inner() })
    }

    /// Position of the first value that is counted; there is one.
    unsafe fn first_found(&self, counting: Counting, src: *const u8, len: usize) -> usize {
        let mut scratch = [0u64; 2];
        let mut is_counted = |i: &usize| {
            let found = counting(src.add(i * self.src_width), scratch.as_mut_ptr().cast(), 1);
            found != Tally::default()
        };
        (0..len).find(|i| is_counted(i)).unwrap_or(len)
    }
}

#[cfg(test)]
mod tests;
