//! Writes numbers in decimal as C's `printf` does (`%.8e`): correctly rounded, ties to even, without heap allocations.
//! Knows floats only, not dtypes, buffers or layouts.
//!
//! `std` rounds the same way but takes 70 to 200 ns a number. [`scientific`] takes a fraction of that, and hands the rare
//! number that it cannot decide back to `std`.

use std::cmp::Ordering;
use std::fmt::Write;

/// Appends `value` in the form of `%.<PRECISION>e`, at most 16, e.g. `1.2300e+00`. Infinities and NaN are for the
/// caller: they come out as `std` spells them.
pub fn scientific<const PRECISION: u32>(value: f64, out: &mut String) {
    const { assert!(PRECISION <= 16) };
    let (mantissa, exponent) = parts(value);
    let decidable = value.is_finite() && mantissa != 0;
    match if decidable { significant::<PRECISION>(mantissa, exponent) } else { None } {
        Some((digits, power)) => write_scientific::<PRECISION>(value < 0.0, digits, power, out),
        None => scientific_by_std(value, PRECISION, out),
    }
}

/// `floor(log10(|value|))` of a finite value other than zero, with `log10` rounded to a double.
pub fn exponent10(value: f64) -> i32 {
    value.abs().log10().floor() as i32
}

/// `value / 10^power`, also where the power of ten itself is out of range.
pub fn scale_down(value: f64, power: i32) -> f64 {
    if power < -300 {
        value * 1e300 / 10f64.powi(power + 300)
    } else {
        value / 10f64.powi(power)
    }
}

/// `|value| = mantissa * 2^exponent`, exactly.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match ((bits >> 52) & 0x7ff) as i32 {
        0 => (fraction, -1074),
        biased => (fraction | 1 << 52, biased - 1075),
    }
}

fn round_half_even(quotient: u64, rest_to_half: Ordering) -> u64 {
    match rest_to_half {
        Ordering::Less => quotient,
        Ordering::Equal => quotient + (quotient & 1),
        Ordering::Greater => quotient + 1,
    }
}

/// The first digit of `mantissa * 2^exponent` and `PRECISION` more, correctly rounded, and the power of ten that the
/// first one counts; `None` where 128 bits of a power of ten do not decide the rounding (about one in 2^64, and exact
/// ties of large numbers). `mantissa` is not zero and the number is within the range of doubles.
fn significant<const PRECISION: u32>(mantissa: u64, exponent: i32) -> Option<(u64, i32)> {
    let too_many = 10u64.pow(PRECISION + 1);
    let zeros = mantissa.leading_zeros();
    let (mantissa, exponent) = (mantissa << zeros, exponent - zeros as i32);
    let mut power = power_below(mantissa, exponent);
    let (mut quotient, mut rest_to_half) = scaled(mantissa, exponent, PRECISION as i32 - power);
    if quotient >= too_many {
        power += 1;
        (quotient, rest_to_half) = scaled(mantissa, exponent, PRECISION as i32 - power);
    }
    let digits = round_half_even(quotient, rest_to_half?);
    Some(if digits == too_many { (digits / 10, power + 1) } else { (digits, power) })
}

/// `floor(log10(mantissa * 2^exponent))`, or one less where that is near an integer. The top bit of `mantissa` is set.
fn power_below(mantissa: u64, exponent: i32) -> i32 {
    // log2(1 + f) >= f, in 16 binary digits; log10(2) in 32 of them, whose error is taken off at the end.
    let log2 = (i64::from(exponent + 63) << 16) + i64::from((mantissa >> 47) as u16);
    ((log2 * 1_292_913_986 - (1 << 28)) >> 48) as i32
}

/// `mantissa * 2^exponent * 10^ten`, which is below 2^60: its integer part, and how the rest compares with one half, if
/// that is sure. The top bit of `mantissa` is set.
fn scaled(mantissa: u64, exponent: i32, ten: i32) -> (u64, Option<Ordering>) {
    let power = POWERS[(ten - FIRST_POWER) as usize];
    // 192 bits of product: `high` holds the upper 128, `low` the rest.
    let lower = u128::from(mantissa) * u128::from(power as u64);
    let high = u128::from(mantissa) * (power >> 64) + (lower >> 64);
    let low = lower as u64;
    // The product's last bit is worth 2^-shift; `high` keeps all that is before the point.
    let shift = -(exponent + ((ten * 1_741_647) >> 19) - 127) - 64;
    let half = 1u128 << (shift - 1);
    let rest = high & ((1 << shift) - 1);
    let order = if EXACT_POWERS.contains(&ten) {
        Some(rest.cmp(&half).then(low.cmp(&0)))
    } else if rest >= half {
        // The table rounds down, so the true rest is greater still.
        Some(Ordering::Greater)
    } else if rest + 2 <= half {
        // The table's error is below 2^64 units of `low`, so the true rest is below `rest + 2`.
        Some(Ordering::Less)
    } else {
        None
    };
    ((high >> shift) as u64, order)
}

const FIRST_POWER: i32 = -310;
const LAST_POWER: i32 = 342;

/// Powers of ten that the table holds with every bit: `5^55 < 2^128`.
const EXACT_POWERS: std::ops::RangeInclusive<i32> = 0..=55;

/// `10^FIRST_POWER` to `10^LAST_POWER`: the upper 128 bits of each, rounded down.
static POWERS: [u128; (LAST_POWER - FIRST_POWER + 1) as usize] = powers();

/// Limbs of 32 bits, least first, that hold `5^342` and, as `2^895 / 5^310`, 175 bits of the smallest power.
const LIMBS: usize = 28;

const fn powers() -> [u128; (LAST_POWER - FIRST_POWER + 1) as usize] {
    let mut table = [0; (LAST_POWER - FIRST_POWER + 1) as usize];
    let zero = -FIRST_POWER as usize;
    let mut number = [0u32; LIMBS];
    number[0] = 1;
    let mut at = zero;
    while at < table.len() {
        table[at] = leading_bits(&number);
        let mut carry = 0u64;
        let mut limb = 0;
        while limb < LIMBS {
            carry += number[limb] as u64 * 5;
            number[limb] = carry as u32;
            carry >>= 32;
            limb += 1;
        }
        at += 1;
    }
    number = [0u32; LIMBS];
    number[LIMBS - 1] = 1 << 31;
    at = zero;
    while at > 0 {
        at -= 1;
        let mut rest = 0u64;
        let mut limb = LIMBS;
        while limb > 0 {
            limb -= 1;
            rest = rest << 32 | number[limb] as u64;
            number[limb] = (rest / 5) as u32;
            rest %= 5;
        }
        table[at] = leading_bits(&number);
    }
    table
}

/// The upper 128 bits of a number that is not zero, with the highest one set.
const fn leading_bits(number: &[u32; LIMBS]) -> u128 {
    let mut top = LIMBS - 1;
    while number[top] == 0 {
        top -= 1;
    }
    let zeros = number[top].leading_zeros();
    let mut bits = 0u128;
    let mut taken = 0;
    while taken < 4 {
        bits = bits << 32 | if top >= taken { number[top - taken] as u128 } else { 0 };
        taken += 1;
    }
    let next = if top >= 4 { number[top - 4] as u64 } else { 0 };
    bits << zeros | (next << zeros >> 32) as u128
}

/// `digits` has exactly `PRECISION + 1` digits, the first one worth `10^power`.
fn write_scientific<const PRECISION: u32>(negative: bool, digits: u64, power: i32, out: &mut String) {
    let mut text = Text::new();
    let magnitude = power.unsigned_abs().into();
    if magnitude < 100 {
        text.prepend_digits::<2>(magnitude);
    } else {
        text.prepend_digits::<3>(magnitude);
    }
    text.prepend(if power < 0 { b'-' } else { b'+' });
    text.prepend(b'e');
    let first = text.prepend_digits::<PRECISION>(digits);
    if PRECISION > 0 {
        text.prepend(b'.');
    }
    text.prepend(b'0' + (first % 10) as u8);
    if negative {
        text.prepend(b'-');
    }
    out.push_str(text.as_str());
}

/// The same by `std`, whose exponents (`e0`, `e-7`) need a sign and two digits.
pub fn scientific_by_std(value: f64, precision: u32, out: &mut String) {
    let from = out.len();
    let _ = write!(out, "{value:.*e}", precision as usize);
    let Some(e) = out[from..].rfind('e').map(|e| from + e + 1) else { return };
    if !out[e..].starts_with('-') {
        out.insert(e, '+');
    }
    if out.len() - e < 3 {
        out.insert(e + 1, '0');
    }
}

/// A short ASCII text that grows from its end to its start.
struct Text {
    bytes: [u8; Text::CAPACITY],
    start: usize,
}

impl Text {
    /// Sign, 17 digits and their point, exponent.
    const CAPACITY: usize = 32;

    fn new() -> Self {
        Text { bytes: [0; Self::CAPACITY], start: Self::CAPACITY }
    }

    fn prepend(&mut self, byte: u8) {
        self.start -= 1;
        // The remainder changes nothing but spares a check.
        self.bytes[self.start % Self::CAPACITY] = byte;
    }

    /// Prepends the last `COUNT` digits of `value` and gives the number before them.
    fn prepend_digits<const COUNT: u32>(&mut self, mut value: u64) -> u64 {
        for _ in 0..COUNT / 2 {
            let [tens, ones] = PAIRS[(value % 100) as usize];
            self.prepend(ones);
            self.prepend(tens);
            value /= 100;
        }
        if COUNT % 2 == 1 {
            self.prepend(b'0' + (value % 10) as u8);
            value /= 10;
        }
        value
    }

    fn as_str(&self) -> &str {
        let bytes = self.bytes.get(self.start..).unwrap_or_default();
        // SAFETY: every byte that was prepended is ASCII.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }
}

/// "00", "01" … "99".
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

#[cfg(test)]
mod tests;
