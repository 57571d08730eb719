//! Floats of sixteen bits and less: the values of their bits, and the bits nearest to a double. Knows numbers only, not
//! arrays or host vectors.
//!
//! Every conversion rounds once, from the double itself, to nearest and ties to even. What is too large becomes infinity
//! or, in formats without one, NaN.

use crate::dtype::DType;

/// How a format of eight bits and less represents zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zero {
    /// Positive and negative, as in IEEE's formats.
    Signed,
    /// Positive only; the bits of the negative one mean NaN (`fnuz`).
    Unsigned,
    /// None, and no sign at all (`fnu`).
    Absent,
}

/// A float format of eight bits and less.
#[derive(Debug)]
pub struct Format {
    bits: u32,
    mantissa: u32,
    /// The power of two below which steps have the same size.
    lowest: f64,
    /// The bits for all larger values: the ones after the largest finite value, which mean infinity or NaN; in a format
    /// that has neither, the largest finite value itself.
    limit: f64,
    zero: Zero,
    /// Bits of the largest finite value. Bits of magnitudes are in the order of the magnitudes.
    max: u8,
    /// The bits of NaN, or of its replacement in a format without NaN. The sign of a double's NaN inverts the sign bit.
    nan: u8,
    table: [f64; 256],
}

/// A limit beyond all formats of eight bits.
const ANYTHING: f64 = power_of_two(200);

/// One row per format. The compiler makes the decoding table.
macro_rules! formats {
    ($($dtype:ident: $bits:literal bits, $mantissa:literal of mantissa, lowest 2^$lowest:literal,
       zero $zero:ident, max $max:literal, limit $limit:expr, nan $nan:literal;)*) => {
        $(
            #[doc = concat!("The format of `DType::", stringify!($dtype), "`.")]
            pub static $dtype: Format = Format {
                bits: $bits,
                mantissa: $mantissa,
                lowest: power_of_two($lowest),
                limit: $limit,
                zero: Zero::$zero,
                max: $max,
                nan: $nan,
                table: [0.0; 256],
            }
            .tabulated();
        )*

        impl Format {
            /// The format of a dtype; `None` if it is not a float of eight bits and less.
            pub fn of(dtype: DType) -> Option<&'static Format> {
                match dtype {
                    $(DType::$dtype => Some(&$dtype),)*
                    _ => None,
                }
            }
        }
    };
}

#[rustfmt::skip]
formats! {
    F8E5M2: 8 bits, 2 of mantissa, lowest 2^-14, zero Signed, max 0x7b, limit 65_536.0, nan 0x7e;
    F8E4M3FN: 8 bits, 3 of mantissa, lowest 2^-6, zero Signed, max 0x7e, limit 480.0, nan 0x7f;
    F8E4M3B11FNUZ: 8 bits, 3 of mantissa, lowest 2^-10, zero Unsigned, max 0x7f, limit 32.0, nan 0x80;
    F8E5M2FNUZ: 8 bits, 2 of mantissa, lowest 2^-15, zero Unsigned, max 0x7f, limit 65_536.0, nan 0x80;
    F8E4M3FNUZ: 8 bits, 3 of mantissa, lowest 2^-7, zero Unsigned, max 0x7f, limit 256.0, nan 0x80;
    F8E4M3: 8 bits, 3 of mantissa, lowest 2^-6, zero Signed, max 0x77, limit 256.0, nan 0x7c;
    F8E3M4: 8 bits, 4 of mantissa, lowest 2^-2, zero Signed, max 0x6f, limit 16.0, nan 0x78;
    F8E8M0FNU: 8 bits, 0 of mantissa, lowest 2^-127, zero Absent, max 0xfe, limit power_of_two(128), nan 0xff;
    F4E2M1FN: 4 bits, 1 of mantissa, lowest 2^0, zero Signed, max 0x07, limit 6.0, nan 0x08;
}

impl Format {
    /// The values of all bytes. Only the low bits count for types narrower than a byte.
    pub fn table(&self) -> &[f64; 256] {
        &self.table
    }

    /// The bits of the value nearest to `x`; ties go to the even significand.
    ///
    /// Values beyond the largest finite one and half a step, and infinities, become infinity, or NaN in a format
    /// without infinity; f4e2m1fn, which has neither, saturates, and NaN becomes a zero there. In f8e8m0fnu, zero and
    /// negative numbers become NaN, and positive ones below its range the smallest value.
    #[inline]
    pub fn encode(&self, x: f64) -> u8 {
        let bits = if x.is_nan() { self.nan } else { self.magnitude(x, self.limit) as u8 };
        let sign_bit = 1 << (self.bits - 1);
        let sign = if x.is_sign_negative() { sign_bit } else { 0 };
        match self.zero {
            Zero::Signed => bits ^ sign,
            Zero::Unsigned if bits == 0 => 0,
            Zero::Unsigned => bits | sign,
            Zero::Absent if x > 0.0 => bits,
            Zero::Absent => self.nan,
        }
    }

    /// Whether [`Format::encode`] only rounds `x`: an infinity or NaN stays what it is, and a finite number stays
    /// finite, within half a step above the largest value, and keeps its sign. A number too small fits, as it rounds to
    /// zero or, in f8e8m0fnu, to the smallest value; zero itself does not fit f8e8m0fnu.
    #[inline]
    pub fn fits(&self, x: f64) -> bool {
        if x.is_nan() {
            self.table[usize::from(self.nan)].is_nan()
        } else if x.is_infinite() {
            self.table[usize::from(self.encode(x))] == x
        } else {
            self.magnitude(x, ANYTHING) <= u64::from(self.max) && (self.zero != Zero::Absent || x > 0.0)
        }
    }

    /// Whether `x` is within this format's range before rounding. Faster than [`Format::fits`].
    #[inline(always)]
    pub fn is_in_range(&self, x: f64) -> bool {
        (x.abs() <= self.table[usize::from(self.max)]) & (self.zero != Zero::Absent || x > 0.0)
    }

    /// The bits of `|x|`, cut off at `limit`.
    #[inline(always)]
    fn magnitude(&self, x: f64, limit: f64) -> u64 {
        let magnitude = magnitude(x, self.mantissa, self.lowest, limit);
        // In a format without zero, the bits 0 are a power of two like all others.
        if self.zero == Zero::Absent {
            magnitude.saturating_sub(1)
        } else {
            magnitude
        }
    }

    /// The format with its table filled.
    const fn tabulated(mut self) -> Self {
        let mut byte = 0;
        while byte < 256 {
            self.table[byte] = self.decode(byte as u64 & ((1 << self.bits) - 1));
            byte += 1;
        }
        self
    }

    /// The value of `bits`.
    const fn decode(&self, bits: u64) -> f64 {
        let sign_bit = 1 << (self.bits - 1);
        let absent = matches!(self.zero, Zero::Absent);
        if matches!(self.zero, Zero::Unsigned) && bits == sign_bit {
            return f64::NAN;
        }
        let negative = !absent && bits & sign_bit != 0;
        let magnitude = if negative { bits - sign_bit } else { bits };
        let size = if magnitude <= self.max as u64 {
            let magnitude = if absent { magnitude + 1 } else { magnitude };
            // From `lowest` on, the bits count on through the powers of two, as a double's do.
            let steps = 1 << self.mantissa;
            if magnitude < steps {
                magnitude as f64 / steps as f64 * self.lowest
            } else {
                f64::from_bits(self.lowest.to_bits() + ((magnitude - steps) << (52 - self.mantissa)))
            }
        } else if magnitude == self.max as u64 + 1 && magnitude != self.nan as u64 {
            f64::INFINITY
        } else {
            f64::NAN
        };
        if negative {
            -size
        } else {
            size
        }
    }
}

/// The f16 nearest to `x`, ties to even; infinity from 65,520 on. NaN becomes a quiet NaN with its sign and the part of
/// its payload that fits.
#[inline(always)]
pub fn f16_from_f64(x: f64) -> u16 {
    const LOWEST: f64 = power_of_two(-14);
    const LIMIT: f64 = power_of_two(16);
    wide(x, 10, LOWEST, LIMIT)
}

/// The bf16 nearest to `x`, ties to even; infinity beyond the largest value and half a step. NaN becomes a quiet NaN
/// with its sign and the part of its payload that fits.
#[inline(always)]
pub fn bf16_from_f64(x: f64) -> u16 {
    const LOWEST: f64 = power_of_two(-126);
    const LIMIT: f64 = power_of_two(128);
    wide(x, 7, LOWEST, LIMIT)
}

/// `x` in an IEEE format of sixteen bits.
#[inline(always)]
fn wide(x: f64, mantissa: u32, lowest: f64, limit: f64) -> u16 {
    // NaN has the magnitude of infinity, to which its payload is added.
    let quiet = 1 << (mantissa - 1);
    let payload = if x.is_nan() { (x.to_bits() >> (52 - mantissa)) & (quiet - 1) | quiet } else { 0 };
    let sign = (x.to_bits() >> 48) & 0x8000;
    (magnitude(x, mantissa, lowest, limit) | payload | sign) as u16
}

/// `|x|`, rounded to so many bits of mantissa, as its bits in a format whose smallest normal number is `lowest`; everything
/// from `limit` on counts as `limit`, and so does NaN.
///
/// Nothing here branches, so that a loop over it becomes one over vectors.
#[inline(always)]
fn magnitude(x: f64, mantissa: u32, lowest: f64, limit: f64) -> u64 {
    // Comparisons, unlike `min` and `max`, are a single instruction.
    let size = if x.abs() < limit { x.abs() } else { limit };
    let power = f64::from_bits(size.to_bits() & f64::INFINITY.to_bits());
    let power = if power > lowest { power } else { lowest };
    // One step of the format at this power is the last place of `unit`, so that the sum is rounded to steps.
    let unit = f64::from_bits(power.to_bits() + (u64::from(52 - mantissa) << 52));
    let steps = (size + unit).to_bits() - unit.to_bits();
    ((power.to_bits() - lowest.to_bits()) >> (52 - mantissa)) + steps
}

/// `2^power`, of those that normal doubles hold.
const fn power_of_two(power: i64) -> f64 {
    f64::from_bits(((power + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests;
