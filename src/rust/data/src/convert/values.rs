//! Conversion of single values: a host value to an element, and back.

use super::{NA_INTEGER, NA_INTEGER64};
use crate::minifloat::{self, bf16_from_f64, f16_from_f64};

/// An element of a dtype in its host format that can be made from a value of type `S`.
pub trait Encode<S>: Copy {
    /// Whether the element of a missing value is NaN.
    const KEEPS_MISSING: bool = false;

    fn encode(x: S) -> Self;

    /// Whether `x` is certainly neither missing nor out of range. If false, the other methods decide.
    fn is_plain(x: S) -> bool;

    /// Whether `x` is the missing value.
    fn is_missing(x: S) -> bool;

    /// Whether the element made from `x`, which is not missing, equals `x` up to rounding.
    #[inline(always)]
    fn stands_for(self, x: S) -> bool {
        Self::is_plain(x)
    }
}

/// An element of a dtype that can be read as a value of type `T`.
pub trait Decode<T>: Copy {
    fn decode(self) -> T;

    /// Whether the value changes its meaning: it is out of the range of `T`, or NA there.
    #[inline(always)]
    fn is_lost(self) -> bool {
        false
    }
}

/// A logical value of the host: 0, NA, or anything else for true.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Logical(i32);

impl Logical {
    /// 0, 1 or NA.
    #[inline(always)]
    fn number(self) -> i32 {
        if self.0 == NA_INTEGER {
            NA_INTEGER
        } else {
            i32::from(self.0 != 0)
        }
    }
}

/// NA of doubles: the NaN with this low half.
const NA_DOUBLE: f64 = f64::from_bits(0x7ff0_0000_0000_07a2);

#[inline(always)]
pub(crate) fn is_na(x: f64) -> bool {
    x.is_nan() & (x.to_bits() as u32 == NA_DOUBLE.to_bits() as u32)
}

// Pred

#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Pred(u8);

impl Encode<Logical> for Pred {
    #[inline(always)]
    fn encode(x: Logical) -> Self {
        Pred(u8::from(x.0 != 0))
    }
    #[inline(always)]
    fn is_plain(x: Logical) -> bool {
        x.0 != NA_INTEGER
    }
    #[inline(always)]
    fn is_missing(x: Logical) -> bool {
        x.0 == NA_INTEGER
    }
}

impl Encode<f64> for Pred {
    #[inline(always)]
    fn encode(x: f64) -> Self {
        Pred(u8::from(x != 0.0))
    }
    #[inline(always)]
    fn is_plain(x: f64) -> bool {
        !x.is_nan()
    }
    #[inline(always)]
    fn is_missing(x: f64) -> bool {
        x.is_nan()
    }
}

impl Decode<Logical> for Pred {
    #[inline(always)]
    fn decode(self) -> Logical {
        Logical(i32::from(self.0 != 0))
    }
}

// Integers

/// Integers narrower than a byte: the low bits of one.
macro_rules! narrow {
    ($($name:ident($byte:ty), $bits:literal;)*) => {$(
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            const SPARE: u32 = 8 - $bits;
            const LOW: i32 = (<$byte>::MIN >> Self::SPARE) as i32;
            const HIGH: i32 = (<$byte>::MAX >> Self::SPARE) as i32;

            #[inline(always)]
            fn of(x: i32) -> Self {
                $name(x as u8 & (u8::MAX >> Self::SPARE))
            }
            #[inline(always)]
            fn value(self) -> i32 {
                i32::from((self.0 << Self::SPARE) as $byte >> Self::SPARE)
            }
        }

        impl Encode<f64> for $name {
            #[inline(always)]
            fn encode(x: f64) -> Self {
                Self::of(clamped(x, Self::LOW.into(), Self::HIGH.into()) as i32)
            }
            #[inline(always)]
            fn is_plain(x: f64) -> bool {
                (x > f64::from(Self::LOW) - 1.0) & (x < f64::from(Self::HIGH) + 1.0)
            }
            #[inline(always)]
            fn is_missing(x: f64) -> bool {
                x.is_nan()
            }
        }

        impl Encode<i32> for $name {
            #[inline(always)]
            fn encode(x: i32) -> Self {
                Self::of(x)
            }
            #[inline(always)]
            fn is_plain(x: i32) -> bool {
                (Self::LOW..=Self::HIGH).contains(&x)
            }
            #[inline(always)]
            fn is_missing(x: i32) -> bool {
                x == NA_INTEGER
            }
        }

        impl Decode<i32> for $name {
            #[inline(always)]
            fn decode(self) -> i32 {
                self.value()
            }
        }

        impl Decode<f64> for $name {
            #[inline(always)]
            fn decode(self) -> f64 {
                self.value().into()
            }
        }
    )*};
}
narrow! {
    I2(i8), 2;
    I4(i8), 4;
    U2(u8), 2;
    U4(u8), 4;
}

/// `x` brought into a range; NaN becomes the lower end.
///
/// On x86, comparisons are enough, and one instruction each. For other processors the compiler turns them into `maxNum`
/// and `minNum`, which return NaN for a signalling NaN. The host's NA of doubles is one.
#[inline(always)]
fn clamped(x: f64, low: f64, high: f64) -> f64 {
    if cfg!(not(target_arch = "x86_64")) && x.is_nan() {
        return low;
    }
    let above = if x > low { x } else { low };
    if above < high {
        above
    } else {
        high
    }
}

/// The implementation for all integers of whole bytes. Doubles convert by way of the integer type `$through`.
macro_rules! integer {
    ($($t:ty, through $through:ty;)*) => {$(
        impl Encode<f64> for $t {
            #[inline(always)]
            fn encode(x: f64) -> Self {
                // SAFETY: the number is in the range of the type, and not NaN.
                unsafe { clamped(x, <$t>::MIN as f64, <$t>::MAX as f64).to_int_unchecked::<$through>() as $t }
            }
            #[inline(always)]
            fn is_plain(x: f64) -> bool {
                (x > <$t>::MIN as f64 - 1.0) & (x < <$t>::MAX as f64 + 1.0)
            }
            #[inline(always)]
            fn is_missing(x: f64) -> bool {
                x.is_nan()
            }
        }
    )*};
}
integer! {
    i8, through i32;
    i16, through i32;
    i32, through i32;
    u8, through i32;
    u16, through i32;
    u32, through i64;
}

/// The same for types whose limits are not doubles.
macro_rules! long_integer {
    ($($t:ty, $low:literal, $beyond:literal;)*) => {$(
        impl Encode<f64> for $t {
            #[inline(always)]
            fn encode(x: f64) -> Self {
                if x.is_nan() { <$t>::MIN } else { x as $t }
            }
            #[inline(always)]
            fn is_plain(x: f64) -> bool {
                ((x >= $low) | (x > -1.0)) & (x < $beyond)
            }
            #[inline(always)]
            fn is_missing(x: f64) -> bool {
                x.is_nan()
            }
        }
    )*};
}
long_integer! {
    i64, -9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0;
    u64, 0.0, 18_446_744_073_709_551_616.0;
}

/// Conversion between integers: values out of range wrap.
macro_rules! from_integer {
    ($source:ty, $na:expr => $($t:ty),*) => {$(
        impl Encode<$source> for $t {
            #[inline(always)]
            fn encode(x: $source) -> Self {
                x as $t
            }
            #[inline(always)]
            fn is_plain(x: $source) -> bool {
                // Equal after wrapping back, with the same sign.
                (x != $na) & ((x as $t) as $source == x) & ((x < 0) == ((x as $t as i128) < 0))
            }
            #[inline(always)]
            fn is_missing(x: $source) -> bool {
                x == $na
            }
        }
    )*};
}
from_integer!(i32, NA_INTEGER => i8, i16, i32, i64, u8, u16, u32, u64);
from_integer!(i64, NA_INTEGER64 => i64, u32, u64);

macro_rules! widening {
    ($($from:ty => $to:ty),*) => {$(
        impl Decode<$to> for $from {
            #[inline(always)]
            fn decode(self) -> $to {
                self.into()
            }
        }
    )*};
}
widening!(i8 => i32, i16 => i32, u8 => i32, u16 => i32, u32 => i64);
widening!(i8 => f64, i16 => f64, i32 => f64, u8 => f64, u16 => f64, u32 => f64, f32 => f64, f64 => f64);

/// Conversions in which some values change.
macro_rules! narrowing {
    ($($from:ty => $to:ty, lost $x:ident if $lost:expr;)*) => {$(
        impl Decode<$to> for $from {
            #[inline(always)]
            fn decode(self) -> $to {
                self as $to
            }
            #[inline(always)]
            fn is_lost(self) -> bool {
                let $x = self;
                $lost
            }
        }
    )*};
}
narrowing! {
    i32 => i32, lost x if x == NA_INTEGER;
    i64 => i64, lost x if x == NA_INTEGER64;
    u64 => i64, lost x if x > i64::MAX as u64;
    i64 => i32, lost x if (x <= i64::from(NA_INTEGER)) | (x > i64::from(i32::MAX));
    u32 => i32, lost x if x > i32::MAX as u32;
    u64 => i32, lost x if x > i32::MAX as u64;
    i64 => f64, lost x if !is_whole_double(x.unsigned_abs());
    u64 => f64, lost x if !is_whole_double(x);
}

/// Whether a double holds this whole number: at most 53 binary digits from its first to its last nonzero one.
#[inline(always)]
fn is_whole_double(x: u64) -> bool {
    x.leading_zeros() + x.trailing_zeros() >= 64 - f64::MANTISSA_DIGITS
}

// Floats

/// A whole number that rounds to the same narrow float as `x`, and that a double holds: of a large number, digits that do
/// not matter are gathered in one.
#[inline(always)]
fn gathered(x: i64) -> f64 {
    const SPARE: u64 = (1 << 11) - 1;
    let size = x.unsigned_abs();
    let sticky = (size & !SPARE) | u64::from(size & SPARE != 0) << 11;
    let size = if size < 1 << f64::MANTISSA_DIGITS { size } else { sticky } as f64;
    if x < 0 {
        -size
    } else {
        size
    }
}

/// The conversions of a float type. The arguments say how doubles and 64-bit integers convert, which doubles are certainly in
/// range, which are only rounded, below which size whole numbers are exact, and whether the type has NaN.
macro_rules! float {
    ($($t:ty, $x:ident => $encode:expr, plain $plain:expr, $element:ident fits $fits:expr,
       $whole:ident => $encode_whole:expr, exact below $exact:expr, nan $nan:literal;)*) => {$(
        impl Encode<f64> for $t {
            const KEEPS_MISSING: bool = $nan;

            #[inline(always)]
            fn encode($x: f64) -> Self {
                $encode
            }
            #[inline(always)]
            fn is_plain($x: f64) -> bool {
                $plain
            }
            #[inline(always)]
            fn is_missing(x: f64) -> bool {
                is_na(x)
            }
            #[inline(always)]
            #[allow(unused_variables)]
            fn stands_for(self, $x: f64) -> bool {
                let $element = self;
                $fits
            }
        }

        impl Encode<i32> for $t {
            const KEEPS_MISSING: bool = $nan;

            #[inline(always)]
            fn encode(x: i32) -> Self {
                <$t as Encode<f64>>::encode(if x == NA_INTEGER { NA_DOUBLE } else { x.into() })
            }
            #[inline(always)]
            fn is_plain(x: i32) -> bool {
                (x != NA_INTEGER) & (0..$exact).contains(&u64::from(x.unsigned_abs()))
            }
            #[inline(always)]
            fn is_missing(x: i32) -> bool {
                x == NA_INTEGER
            }
            #[inline(always)]
            fn stands_for(self, x: i32) -> bool {
                <$t as Decode<f64>>::decode(self) == f64::from(x)
            }
        }

        impl Encode<i64> for $t {
            const KEEPS_MISSING: bool = $nan;

            #[inline(always)]
            fn encode($whole: i64) -> Self {
                if $whole == NA_INTEGER64 {
                    <$t as Encode<f64>>::encode(NA_DOUBLE)
                } else {
                    $encode_whole
                }
            }
            #[inline(always)]
            fn is_plain(x: i64) -> bool {
                (0..$exact).contains(&x.unsigned_abs())
            }
            #[inline(always)]
            fn is_missing(x: i64) -> bool {
                x == NA_INTEGER64
            }
            #[inline(always)]
            fn stands_for(self, x: i64) -> bool {
                let y = <$t as Decode<f64>>::decode(self);
                // A double may be larger than all 64-bit integers.
                !y.is_nan() && y as i128 == x.into()
            }
        }
    )*};
}

#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F16(u16);

#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct BF16(u16);

float! {
    f64, x => x, plain !x.is_nan(), _element fits true,
    i => i as f64, exact below 1 << 53, nan true;
    f32, x => x as f32, plain x.abs() <= f32::MAX.into(), y fits !x.is_finite() | y.is_finite(),
    i => i as f32, exact below 1 << 24, nan true;
    F16, x => F16(f16_from_f64(x)), plain x.abs() <= 65504.0, y fits !x.is_finite() | (y.0 & 0x7c00 != 0x7c00),
    i => F16(f16_from_f64(gathered(i))), exact below 1 << 11, nan true;
    BF16, x => BF16(bf16_from_f64(x)), plain x.abs() <= 3e38, y fits !x.is_finite() | (y.0 & 0x7f80 != 0x7f80),
    i => BF16(bf16_from_f64(gathered(i))), exact below 1 << 8, nan true;
}

impl Decode<f64> for F16 {
    #[inline(always)]
    fn decode(self) -> f64 {
        const SMALLEST: f64 = 1.0 / 16_777_216.0;
        let (exponent, mantissa) = (u64::from(self.0 >> 10 & 0x1f), u64::from(self.0 & 0x3ff));
        let normal = f64::from_bits((exponent + 1008) << 52 | mantissa << 42);
        let beyond = f64::from_bits(0x7ff << 52 | mantissa << 42);
        let size = match exponent {
            0 => mantissa as f64 * SMALLEST,
            0x1f => beyond,
            _ => normal,
        };
        f64::from_bits(size.to_bits() | u64::from(self.0 & 0x8000) << 48)
    }
}

impl Decode<f64> for BF16 {
    #[inline(always)]
    fn decode(self) -> f64 {
        f32::from_bits(u32::from(self.0) << 16).into()
    }
}

macro_rules! minifloats {
    ($($name:ident, nan $nan:literal;)*) => {$(
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub struct $name(u8);

        float! {
            $name, x => $name(minifloat::$name.encode(x)), plain minifloat::$name.is_in_range(x),
            _element fits minifloat::$name.fits(x),
            i => $name(minifloat::$name.encode(gathered(i))), exact below 0, nan $nan;
        }

        impl Decode<f64> for $name {
            #[inline(always)]
            fn decode(self) -> f64 {
                minifloat::$name.table()[usize::from(self.0)]
            }
        }
    )*};
}
minifloats! {
    F8E5M2, nan true;
    F8E4M3FN, nan true;
    F8E4M3B11FNUZ, nan true;
    F8E5M2FNUZ, nan true;
    F8E4M3FNUZ, nan true;
    F8E4M3, nan true;
    F8E3M4, nan true;
    F8E8M0FNU, nan true;
    F4E2M1FN, nan false;
}

// Logical values as numbers

macro_rules! from_logical {
    ($($t:ty),*) => {$(
        impl Encode<Logical> for $t {
            const KEEPS_MISSING: bool = <$t as Encode<i32>>::KEEPS_MISSING;

            #[inline(always)]
            fn encode(x: Logical) -> Self {
                <$t as Encode<i32>>::encode(x.number())
            }
            #[inline(always)]
            fn is_plain(x: Logical) -> bool {
                <$t as Encode<i32>>::is_plain(x.number())
            }
            #[inline(always)]
            fn is_missing(x: Logical) -> bool {
                x.0 == NA_INTEGER
            }
            #[inline(always)]
            fn stands_for(self, x: Logical) -> bool {
                <$t as Encode<i32>>::stands_for(self, x.number())
            }
        }
    )*};
}
from_logical!(I2, I4, i8, i16, i32, i64, U2, U4, u8, u16, u32, u64, F16, BF16, f32, f64);
from_logical!(F8E5M2, F8E4M3FN, F8E4M3B11FNUZ, F8E5M2FNUZ, F8E4M3FNUZ, F8E4M3, F8E3M4, F8E8M0FNU, F4E2M1FN);

// Complex numbers

macro_rules! complex {
    ($($name:ident($part:ty);)*) => {$(
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub struct $name([$part; 2]);

        impl Encode<[f64; 2]> for $name {
            const KEEPS_MISSING: bool = true;

            #[inline(always)]
            fn encode(x: [f64; 2]) -> Self {
                $name([x[0] as $part, x[1] as $part])
            }
            #[inline(always)]
            fn is_plain(x: [f64; 2]) -> bool {
                <$part as Encode<f64>>::is_plain(x[0]) & <$part as Encode<f64>>::is_plain(x[1])
            }
            #[inline(always)]
            fn is_missing(x: [f64; 2]) -> bool {
                is_na(x[0]) | is_na(x[1])
            }
            #[inline(always)]
            fn stands_for(self, x: [f64; 2]) -> bool {
                <$part as Encode<f64>>::stands_for(self.0[0], x[0]) & <$part as Encode<f64>>::stands_for(self.0[1], x[1])
            }
        }

        impl Decode<[f64; 2]> for $name {
            #[inline(always)]
            fn decode(self) -> [f64; 2] {
                [self.0[0].into(), self.0[1].into()]
            }
        }
    )*};
}
complex! {
    C64(f32);
    C128(f64);
}

/// Real values as complex numbers.
macro_rules! complex_from_real {
    ($($name:ident from $real:ty;)*) => {$(
        impl Encode<$real> for $name {
            const KEEPS_MISSING: bool = true;

            #[inline(always)]
            fn encode(x: $real) -> Self {
                $name([Encode::<$real>::encode(x), 0.0])
            }
            #[inline(always)]
            fn is_plain(x: $real) -> bool {
                <f32 as Encode<$real>>::is_plain(x)
            }
            #[inline(always)]
            fn is_missing(x: $real) -> bool {
                <f32 as Encode<$real>>::is_missing(x)
            }
            #[inline(always)]
            fn stands_for(self, x: $real) -> bool {
                Encode::<$real>::stands_for(self.0[0], x)
            }
        }
    )*};
}
complex_from_real! {
    C64 from Logical;
    C64 from i32;
    C64 from f64;
    C128 from Logical;
    C128 from i32;
    C128 from f64;
}
