//! What the values of host vectors become in a dtype, and back: the conversions, which [`crate::reorder`] applies in its
//! one pass over an array.
//!
//! Into integers, doubles are cut towards zero and saturate; NaN becomes the smallest value of a signed type (NA in R) and
//! 0 of an unsigned one. Narrower integers wrap, as in C. Into floats, values are rounded to nearest, ties to even.

use crate::dtype::{DType, RType};
use crate::error::{Error, Kind, Result};
use crate::reorder::Plan;
use half::{bf16, f16};

/// R's NA in integer and logical vectors.
pub const NA_INTEGER: i32 = i32::MIN;

/// NA in vectors of class integer64.
pub const NA_INTEGER64: i64 = i64::MIN;

/// The elements of a host vector.
#[derive(Debug, Clone, Copy)]
pub enum HostValues<'a> {
    Logical(&'a [i32]),
    Integer(&'a [i32]),
    Double(&'a [f64]),
    Integer64(&'a [i64]),
}

/// The host vector that elements are read into.
#[derive(Debug, Clone, Copy)]
pub enum HostTarget {
    Logical(*mut i32),
    Integer(*mut i32),
    Double(*mut f64),
    Integer64(*mut i64),
}

/// Values that a dtype cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfits {
    pub missing: usize,
    pub out_of_range: usize,
    /// Position of the first, from 0.
    pub first: usize,
}

/// A value that a double can be turned into.
trait FromDouble: Copy {
    fn from_double(x: f64) -> Self;
}

macro_rules! from_double {
    (signed: $($t:ty),*) => {$(impl FromDouble for $t {
        #[inline]
        fn from_double(x: f64) -> $t {
            if x.is_nan() { <$t>::MIN } else { x as $t }
        }
    })*};
    (plain: $($t:ty),*) => {$(impl FromDouble for $t {
        #[inline]
        fn from_double(x: f64) -> $t {
            x as $t
        }
    })*};
}
from_double!(signed: i8, i16, i32, i64);
from_double!(plain: u8, u16, u32, u64, f32, f64);

impl FromDouble for f16 {
    #[inline]
    fn from_double(x: f64) -> f16 {
        f16::from_f64(x)
    }
}

impl FromDouble for bf16 {
    #[inline]
    fn from_double(x: f64) -> bf16 {
        bf16::from_f64(x)
    }
}

/// Runs `$body` with `$T` as the Rust type of a numeric dtype; `$other` for all dtypes else.
#[rustfmt::skip]
macro_rules! with_number {
    ($dtype:expr, $T:ident => $body:expr, _ => $other:expr) => {
        match $dtype {
            DType::I8 => { type $T = i8; $body }
            DType::I16 => { type $T = i16; $body }
            DType::I32 => { type $T = i32; $body }
            DType::I64 => { type $T = i64; $body }
            DType::U8 => { type $T = u8; $body }
            DType::U16 => { type $T = u16; $body }
            DType::U32 => { type $T = u32; $body }
            DType::U64 => { type $T = u64; $body }
            DType::F32 => { type $T = f32; $body }
            DType::F64 => { type $T = f64; $body }
            _ => $other,
        }
    };
}

impl HostValues<'_> {
    /// Elements of the vector.
    #[cfg(test)]
    fn len(&self) -> usize {
        match self {
            HostValues::Logical(x) | HostValues::Integer(x) => x.len(),
            HostValues::Double(x) => x.len(),
            HostValues::Integer64(x) => x.len(),
        }
    }

    /// Whether these values can become elements of `dtype`.
    ///
    /// # Errors
    /// `UnsupportedDtype` when they cannot.
    pub fn check_dtype(&self, dtype: DType) -> Result<()> {
        let number = with_number!(dtype, T => size_of::<T>() > 0, _ => false);
        let half = matches!(dtype, DType::F16 | DType::BF16);
        let supported = match self {
            HostValues::Logical(_) => dtype == DType::Pred,
            HostValues::Integer(_) => number || half,
            HostValues::Double(_) => number || half || dtype == DType::Pred,
            HostValues::Integer64(_) => {
                if !matches!(dtype, DType::I64 | DType::U64) {
                    fail!(UnsupportedDtype, "integer64 input only supports i64 or ui64 dtype, got {dtype}");
                }
                true
            }
        };
        if !supported {
            let source = match self {
                HostValues::Logical(_) => "logical",
                HostValues::Integer(_) => "integer",
                _ => "double",
            };
            return Err(Error::new(Kind::UnsupportedDtype, format!("Unsupported type: {dtype} for {source} data."))
                .hint("Convert the data in R first, or give their bytes as a raw vector."));
        }
        Ok(())
    }

    /// Counts the values that `dtype` cannot hold: NA and NaN, and numbers outside an integer type's range.
    pub fn misfits(&self, dtype: DType) -> Option<Misfits> {
        fn count<T: Copy>(values: &[T], missing: impl Fn(T) -> bool, fits: impl Fn(T) -> bool) -> Option<Misfits> {
            let mut found = Misfits { missing: 0, out_of_range: 0, first: usize::MAX };
            for (i, &value) in values.iter().enumerate() {
                let (lacks, strays) = (missing(value), !missing(value) && !fits(value));
                if lacks || strays {
                    found.missing += usize::from(lacks);
                    found.out_of_range += usize::from(strays);
                    found.first = found.first.min(i);
                }
            }
            (found.first != usize::MAX).then_some(found)
        }
        match *self {
            HostValues::Logical(x) => count(x, |v| v == NA_INTEGER, |_| true),
            HostValues::Integer(x) => {
                let (low, high) = integer_range(dtype);
                count(x, |v| v == NA_INTEGER, |v| (low..=high).contains(&i128::from(v)))
            }
            HostValues::Double(x) => {
                let (low, high) = integer_range(dtype);
                // What is cut towards zero must lie in the range; its bounds are exact as doubles or beyond them.
                let fits = |v: f64| v.trunc() >= low as f64 && v.trunc() < (high + 1) as f64;
                let floating = !is_integer(dtype);
                count(x, f64::is_nan, |v| floating || fits(v))
            }
            HostValues::Integer64(x) => count(x, |v| v == NA_INTEGER64, |v| dtype == DType::I64 || v >= 0),
        }
    }

    /// Writes the values as elements of `dtype`, in the plan's order. A single value fills the whole array.
    ///
    /// # Errors
    /// `UnsupportedDtype`, as [`HostValues::check_dtype`].
    ///
    /// # Safety
    /// The vector has one value or as many as the plan reaches, and `dst` has room for as many elements of `dtype`.
    pub unsafe fn encode(&self, dtype: DType, plan: &Plan, dst: *mut u8) -> Result<()> {
        self.check_dtype(dtype)?;
        match *self {
            HostValues::Logical(x) => plan.run(x.as_ptr(), dst, |v| u8::from(v != 0)),
            HostValues::Integer(x) => {
                let src = x.as_ptr();
                match dtype {
                    DType::F16 => plan.run(src, dst.cast(), |v| f16::from_f64(f64::from(v))),
                    DType::BF16 => plan.run(src, dst.cast(), |v| bf16::from_f64(f64::from(v))),
                    _ => with_number!(dtype, T => plan.run(src, dst.cast(), |v| v as T), _ => {}),
                }
            }
            HostValues::Double(x) => {
                let src = x.as_ptr();
                match dtype {
                    DType::Pred => plan.run(src, dst, |v| u8::from(v != 0.0)),
                    DType::F16 => plan.run(src, dst.cast(), f16::from_double),
                    DType::BF16 => plan.run(src, dst.cast(), bf16::from_double),
                    _ => with_number!(dtype, T => plan.run(src, dst.cast(), T::from_double), _ => {}),
                }
            }
            HostValues::Integer64(x) => plan.run(x.as_ptr(), dst.cast(), |v| v),
        }
        Ok(())
    }
}

/// Reads elements of `dtype` into a host vector, in the plan's order.
///
/// # Errors
/// `UnsupportedDtype` when the dtype has no such host form.
///
/// # Safety
/// `src` holds as many elements as the plan reaches, and `dst` has room for as many.
pub unsafe fn decode(dtype: DType, plan: &Plan, src: *const u8, dst: HostTarget) -> Result<()> {
    match dst {
        HostTarget::Logical(dst) if dtype == DType::Pred => plan.run(src, dst, |v| i32::from(v != 0)),
        HostTarget::Integer(dst) => match dtype {
            DType::I8 => plan.run(src.cast::<i8>(), dst, i32::from),
            DType::U8 => plan.run(src, dst, i32::from),
            // Of narrower types, only the low bits of a byte count.
            DType::I4 => plan.run(src.cast::<i8>(), dst, |v| i32::from(v << 4 >> 4)),
            DType::I2 => plan.run(src.cast::<i8>(), dst, |v| i32::from(v << 6 >> 6)),
            DType::U4 => plan.run(src, dst, |v| i32::from(v & 0x0f)),
            DType::U2 => plan.run(src, dst, |v| i32::from(v & 0x03)),
            DType::I16 => plan.run(src.cast::<i16>(), dst, i32::from),
            DType::U16 => plan.run(src.cast::<u16>(), dst, i32::from),
            DType::I32 => plan.run(src.cast::<i32>(), dst, |v| v),
            _ => return Err(unreadable(dtype)),
        },
        HostTarget::Integer64(dst) => match dtype {
            DType::U32 => plan.run(src.cast::<u32>(), dst, i64::from),
            DType::I64 | DType::U64 => plan.run(src.cast::<i64>(), dst, |v| v),
            _ => return Err(unreadable(dtype)),
        },
        HostTarget::Double(dst) => match dtype {
            DType::F16 => plan.run(src.cast::<f16>(), dst, f64::from),
            DType::BF16 => plan.run(src.cast::<bf16>(), dst, f64::from),
            DType::F32 => plan.run(src.cast::<f32>(), dst, f64::from),
            DType::F64 => plan.run(src.cast::<f64>(), dst, |v| v),
            _ => return Err(unreadable(dtype)),
        },
        HostTarget::Logical(_) => return Err(unreadable(dtype)),
    }
    Ok(())
}

/// Whether [`decode`] reads the dtype into its R type.
pub fn is_readable(dtype: DType) -> bool {
    let info = dtype.info();
    match info.r_type {
        RType::Complex => false,
        RType::Double => info.bits > 8,
        RType::Logical | RType::Integer | RType::Integer64 => true,
    }
}

/// The error for a dtype that no R vector is made from.
#[cold]
pub fn unreadable(dtype: DType) -> Error {
    Error::new(Kind::UnsupportedDtype, format!("Elements of type {dtype} cannot be read into an R vector."))
        .hint("Read their raw bytes, or have the program convert them.")
}

/// Copies elements of `dtype` as they are, in the plan's order.
///
/// # Safety
/// `src` holds as many elements as the plan reaches, `dst` has room for as many, and both are aligned for doubles.
pub unsafe fn copy(dtype: DType, plan: &Plan, src: *const u8, dst: *mut u8) {
    match dtype.host_bytes() {
        1 => plan.run(src, dst, |v| v),
        2 => plan.run(src.cast::<u16>(), dst.cast::<u16>(), |v| v),
        4 => plan.run(src.cast::<u32>(), dst.cast::<u32>(), |v| v),
        8 => plan.run(src.cast::<u64>(), dst.cast::<u64>(), |v| v),
        _ => plan.run(src.cast::<[u64; 2]>(), dst.cast::<[u64; 2]>(), |v| v),
    }
}

fn is_integer(dtype: DType) -> bool {
    matches!(dtype.info().r_type, RType::Integer | RType::Integer64)
}

/// Smallest and largest value of an integer dtype; all that R's integers hold for others.
fn integer_range(dtype: DType) -> (i128, i128) {
    let unbounded = (i128::from(i64::MIN), i128::from(i64::MAX));
    if is_integer(dtype) {
        with_number!(dtype, T => (T::MIN as i128, T::MAX as i128), _ => unbounded)
    } else {
        unbounded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode<const N: usize>(values: HostValues, dtype: DType) -> [u8; N] {
        let n = values.len() as i64;
        let mut out = [0u8; N];
        unsafe { values.encode(dtype, &Plan::new(&[n], &[1], &[1]), out.as_mut_ptr()).unwrap() };
        out
    }

    #[test]
    fn doubles_saturate_and_nan_is_the_smallest() {
        let x = [f64::NAN, -1e300, 1e300, 2.9, -2.9];
        assert_eq!(encode::<5>(HostValues::Double(&x), DType::I8).map(|b| b as i8), [-128, -128, 127, 2, -2]);
        assert_eq!(encode::<5>(HostValues::Double(&x), DType::U8), [0, 0, 255, 2, 0]);
        let big = [9_007_199_254_740_993.0, 3e9];
        let bytes = encode::<16>(HostValues::Double(&big), DType::I64);
        assert_eq!(i64::from_ne_bytes(bytes[8..].try_into().unwrap()), 3_000_000_000);
    }

    #[test]
    fn integers_wrap_and_logicals_become_bytes() {
        assert_eq!(encode::<3>(HostValues::Integer(&[256, -1, 300]), DType::U8), [0, 255, 44]);
        assert_eq!(encode::<3>(HostValues::Logical(&[0, 1, NA_INTEGER]), DType::Pred), [0, 1, 1]);
    }

    #[test]
    fn misfits_are_counted_and_the_first_is_found() {
        let x = [1.0, 127.9, f64::NAN, 128.0, -128.5, -129.0];
        let found = HostValues::Double(&x).misfits(DType::I8);
        assert_eq!(found, Some(Misfits { missing: 1, out_of_range: 2, first: 2 }));
        assert_eq!(HostValues::Double(&[1e30, f64::INFINITY]).misfits(DType::F32), None);
        assert_eq!(HostValues::Double(&[9.3e18]).misfits(DType::I64).map(|m| m.out_of_range), Some(1));
        assert_eq!(HostValues::Integer64(&[-1]).misfits(DType::U64).map(|m| m.out_of_range), Some(1));
        assert_eq!(HostValues::Integer(&[NA_INTEGER, 1]).misfits(DType::F32).map(|m| m.missing), Some(1));
    }

    #[test]
    fn what_a_type_cannot_become_is_refused() {
        assert!(HostValues::Logical(&[]).check_dtype(DType::F32).is_err());
        assert!(HostValues::Integer(&[]).check_dtype(DType::Pred).is_err());
        assert!(HostValues::Double(&[]).check_dtype(DType::C64).is_err());
        let error = HostValues::Integer64(&[]).check_dtype(DType::F32).unwrap_err();
        assert!(error.message().contains("only supports i64 or ui64"));
    }
}
