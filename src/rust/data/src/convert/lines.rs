//! Conversion of a line of elements, compiled for the processor's instructions.

use super::values::{Decode, Encode};
#[cfg(target_arch = "x86_64")]
use crate::registers::{registers, Registers};

/// How many values did not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub missing: usize,
    pub out_of_range: usize,
}

/// Converts a line: source, destination, number of elements.
type Plain = unsafe fn(*const u8, *mut u8, usize);

/// Converts a line and counts what does not fit, or only what is missing.
pub type Counting = unsafe fn(*const u8, *mut u8, usize) -> Tally;

/// The conversion of elements of one type to another.
#[derive(Clone, Copy)]
pub struct Conversion {
    pub src_width: usize,
    pub dst_width: usize,
    pub plain: Plain,
    pub counting: Counting,
    /// Counts missing values only; `None` if the elements keep them.
    pub noting: Option<Counting>,
}

/// Makes a function from two: one for any processor of the architecture, one for processors with wide registers.
macro_rules! by_cpu_feature {
    ($plain:ident, $wide:ident, $body:ident, [$($generics:tt)*], [$($names:tt)*], $output:ty) => {
        unsafe fn $plain<$($generics)*>(src: *const u8, dst: *mut u8, len: usize) -> $output {
            $body::<$($names)*>(src.cast(), dst.cast(), len)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        unsafe fn $wide<$($generics)*>(src: *const u8, dst: *mut u8, len: usize) -> $output {
            $body::<$($names)*>(src.cast(), dst.cast(), len)
        }
    };
}

#[inline(always)]
unsafe fn encode_line<S: Copy, E: Encode<S>>(src: *const S, dst: *mut E, len: usize) {
    for i in 0..len {
        dst.add(i).write_unaligned(E::encode(src.add(i).read_unaligned()));
    }
}

#[inline(always)]
unsafe fn encode_counting<S: Copy, E: Encode<S>>(src: *const S, dst: *mut E, len: usize) -> Tally {
    let mut plain = true;
    for i in 0..len {
        let x = src.add(i).read_unaligned();
        dst.add(i).write_unaligned(E::encode(x));
        plain &= E::is_plain(x);
    }
    if plain {
        Tally::default()
    } else {
        count_misfits::<S, E>(std::slice::from_raw_parts(src, len))
    }
}

#[inline(always)]
unsafe fn encode_noting<S: Copy, E: Encode<S>>(src: *const S, dst: *mut E, len: usize) -> Tally {
    let mut any = false;
    for i in 0..len {
        let x = src.add(i).read_unaligned();
        dst.add(i).write_unaligned(E::encode(x));
        any |= E::is_missing(x);
    }
    if any {
        let missing = |i: &usize| E::is_missing(src.add(*i).read_unaligned());
        Tally { missing: (0..len).filter(missing).count(), out_of_range: 0 }
    } else {
        Tally::default()
    }
}

#[cold]
fn count_misfits<S: Copy, E: Encode<S>>(values: &[S]) -> Tally {
    let mut tally = Tally::default();
    for &x in values {
        let missing = E::is_missing(x);
        tally.missing += usize::from(missing);
        tally.out_of_range += usize::from(!missing && !E::encode(x).stands_for(x));
    }
    tally
}

#[inline(always)]
unsafe fn decode_line<E: Decode<T>, T>(src: *const E, dst: *mut T, len: usize) {
    for i in 0..len {
        dst.add(i).write_unaligned(src.add(i).read_unaligned().decode());
    }
}

#[inline(always)]
unsafe fn decode_counting<E: Decode<T>, T>(src: *const E, dst: *mut T, len: usize) -> Tally {
    let mut tally = Tally::default();
    for i in 0..len {
        let element = src.add(i).read_unaligned();
        dst.add(i).write_unaligned(element.decode());
        tally.out_of_range += usize::from(element.is_lost());
    }
    tally
}

by_cpu_feature!(encode_any, encode_wide, encode_line, [S: Copy, E: Encode<S>], [S, E], ());
by_cpu_feature!(encode_counting_any, encode_counting_wide, encode_counting, [S: Copy, E: Encode<S>], [S, E], Tally);
by_cpu_feature!(encode_noting_any, encode_noting_wide, encode_noting, [S: Copy, E: Encode<S>], [S, E], Tally);
by_cpu_feature!(decode_any, decode_wide, decode_line, [E: Decode<T>, T], [E, T], ());
by_cpu_feature!(decode_counting_any, decode_counting_wide, decode_counting, [E: Decode<T>, T], [E, T], Tally);

impl Conversion {
    /// From values `S` of a host vector to elements `E`.
    pub fn encoding<S: Copy, E: Encode<S>>() -> Conversion {
        let (src_width, dst_width) = (size_of::<S>(), size_of::<E>());
        #[cfg(target_arch = "x86_64")]
        if registers() == Registers::Avx2 {
            return Conversion {
                src_width,
                dst_width,
                plain: encode_wide::<S, E>,
                counting: encode_counting_wide::<S, E>,
                noting: if E::KEEPS_MISSING { None } else { Some(encode_noting_wide::<S, E>) },
            };
        }
        Conversion {
            src_width,
            dst_width,
            plain: encode_any::<S, E>,
            counting: encode_counting_any::<S, E>,
            noting: if E::KEEPS_MISSING { None } else { Some(encode_noting_any::<S, E>) },
        }
    }

    /// From elements `E` to values `T` of a host vector.
    pub fn decoding<E: Decode<T>, T>() -> Conversion {
        let (src_width, dst_width) = (size_of::<E>(), size_of::<T>());
        #[cfg(target_arch = "x86_64")]
        if registers() == Registers::Avx2 {
            return Conversion {
                src_width,
                dst_width,
                plain: decode_wide::<E, T>,
                counting: decode_counting_wide::<E, T>,
                noting: None,
            };
        }
        Conversion {
            src_width,
            dst_width,
            plain: decode_any::<E, T>,
            counting: decode_counting_any::<E, T>,
            noting: None,
        }
    }
}
