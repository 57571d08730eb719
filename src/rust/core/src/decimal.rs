//! Writes numbers in decimal as C's `printf` does (`%.4e`, `%.4f`): correctly rounded, ties to even, without a heap
//! allocation of its own. Knows floats and integers only, nothing of dtypes, buffers or layouts.
//!
//! `std` rounds the same way but takes 70 to 200 ns a number. The paths here take a fraction of that, and hand the rare
//! number that they cannot decide back to `std`.

use std::cmp::Ordering;
use std::fmt::Write;

/// Appends `value` in the form of `%.<precision>e`, e.g. `1.2300e+00`. Beyond 16 digits after the point it is `std`
/// that does the work. Infinities and NaN are for the caller: they come out as `std` spells them.
pub(crate) fn scientific(value: f64, precision: u32, out: &mut String) {
    let (mantissa, exponent) = parts(value);
    let fast = value.is_finite() && mantissa != 0 && precision < MAX_DIGITS;
    match if fast { significant(mantissa, exponent, precision + 1) } else { None } {
        Some((digits, power)) => write_scientific(value < 0.0, digits, precision + 1, power, out),
        None => scientific_by_std(value, precision, out),
    }
}

/// Appends an integer, given as sign and magnitude, in the form of `%.4e`.
pub(crate) fn integer_scientific(negative: bool, magnitude: u64, out: &mut String) {
    const DIGITS: u32 = 5;
    let mut power = magnitude.checked_ilog10().unwrap_or(0);
    let mut digits = match power.checked_sub(DIGITS - 1) {
        None | Some(0) => magnitude * 10u64.pow(DIGITS - 1 - power),
        Some(dropped) => {
            let unit = 10u64.pow(dropped);
            round_half_even(magnitude / unit, (magnitude % unit).cmp(&(unit / 2)))
        }
    };
    if digits == 10u64.pow(DIGITS) {
        digits /= 10;
        power += 1;
    }
    write_scientific(negative, digits, DIGITS, power as i32, out);
}

/// Appends `value` in the form of `%.4f`, e.g. `-10.1213`.
pub(crate) fn fixed4(value: f64, out: &mut String) {
    const SCALE: u64 = 10_000;
    if value.is_nan() || value.abs() >= 1e15 {
        let _ = write!(out, "{value:.4}");
        return;
    }
    // Exact: the product has at most 67 bits, and a number below 2^52 has an exponent below zero.
    let (mantissa, exponent) = parts(value);
    let product = u128::from(mantissa) * u128::from(SCALE);
    let shift = exponent.unsigned_abs();
    let scaled = if shift > 100 {
        0
    } else {
        let rest = product & ((1 << shift) - 1);
        round_half_even((product >> shift) as u64, rest.cmp(&(1 << (shift - 1))))
    };
    let mut text = Text::new();
    let mut fraction = scaled % SCALE;
    for _ in 0..4 {
        text.prepend(b'0' + (fraction % 10) as u8);
        fraction /= 10;
    }
    text.prepend(b'.');
    text.prepend_integer(scaled / SCALE);
    text.prepend_sign(value.is_sign_negative());
    out.push_str(text.as_str());
}

/// `floor(log10(|value|))` of a finite value other than zero, with `log10` rounded to a double.
pub(crate) fn exponent10(value: f64) -> i32 {
    value.abs().log10().floor() as i32
}

/// `value / 10^power`, also where the power of ten itself is out of range.
pub(crate) fn scale_down(value: f64, power: i32) -> f64 {
    if power < -300 {
        value * 1e300 / 10f64.powi(power + 300)
    } else {
        value / 10f64.powi(power)
    }
}

/// Most digits that the fast path of [`scientific`] gives.
const MAX_DIGITS: u32 = 17;

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

/// The first `count` significant digits of `mantissa * 2^exponent`, correctly rounded, and the power of ten of the
/// first one; `None` where 128 bits of a power of ten do not decide the rounding (about one in 2^64, and exact ties of
/// large numbers). `mantissa` is not zero, the number is within the range of doubles, `count` is 1 to 17.
fn significant(mantissa: u64, exponent: i32, count: u32) -> Option<(u64, i32)> {
    let zeros = mantissa.leading_zeros();
    let (mantissa, exponent) = (mantissa << zeros, exponent - zeros as i32);
    // floor(log10(2^(exponent + 63))), which is at most one too small.
    let mut power = ((exponent + 63) * 1_262_611) >> 22;
    let mut digits = scaled(mantissa, exponent, count as i32 - 1 - power);
    if digits.0 >= 10u64.pow(count) {
        power += 1;
        digits = scaled(mantissa, exponent, count as i32 - 1 - power);
    }
    let (quotient, rest_to_half) = digits;
    let rounded = round_half_even(quotient, rest_to_half?);
    if rounded == 10u64.pow(count) {
        return Some((rounded / 10, power + 1));
    }
    Some((rounded, power))
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

/// Powers of ten of which the table holds every bit: `5^55 < 2^128`.
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
    if zeros == 0 {
        return bits;
    }
    let next = if top >= 4 { number[top - 4] } else { 0 };
    bits << zeros | (next >> (32 - zeros)) as u128
}

/// `digits` has exactly `count` digits, the first one worth `10^power`.
fn write_scientific(negative: bool, digits: u64, count: u32, power: i32, out: &mut String) {
    let mut text = Text::new();
    let magnitude = power.unsigned_abs();
    text.prepend_integer(u64::from(magnitude));
    if magnitude < 10 {
        text.prepend(b'0');
    }
    text.prepend(if power < 0 { b'-' } else { b'+' });
    text.prepend(b'e');
    let lead = if count > 1 {
        let unit = 10u64.pow(count - 1);
        let before = text.start;
        text.prepend_integer(digits % unit);
        while before - text.start < count as usize - 1 {
            text.prepend(b'0');
        }
        text.prepend(b'.');
        digits / unit
    } else {
        digits
    };
    text.prepend(b'0' + (lead % 10) as u8);
    text.prepend_sign(negative);
    out.push_str(text.as_str());
}

/// The same by `std`, whose exponents (`e0`, `e-7`) need a sign and two digits.
fn scientific_by_std(value: f64, precision: u32, out: &mut String) {
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
    /// Sign, 20 digits of an integer, point, 4 digits; or sign, point, 17 digits, exponent.
    const CAPACITY: usize = 32;

    fn new() -> Self {
        Text { bytes: [0; Self::CAPACITY], start: Self::CAPACITY }
    }

    fn prepend(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }

    fn prepend_sign(&mut self, negative: bool) {
        if negative {
            self.prepend(b'-');
        }
    }

    fn prepend_integer(&mut self, mut value: u64) {
        while value >= 100 {
            let pair = (value % 100) as usize * 2;
            value /= 100;
            self.prepend(PAIRS[pair + 1]);
            self.prepend(PAIRS[pair]);
        }
        if value >= 10 {
            self.prepend(b'0' + (value % 10) as u8);
            value /= 10;
        }
        self.prepend(b'0' + value as u8);
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[self.start..]).unwrap_or_default()
    }
}

/// "00", "01" … "99".
static PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut at = 0;
    while at < 100 {
        pairs[2 * at] = b'0' + (at / 10) as u8;
        pairs[2 * at + 1] = b'0' + (at % 10) as u8;
        at += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    fn sci(value: f64, precision: u32) -> String {
        let mut out = String::new();
        scientific(value, precision, &mut out);
        out
    }

    fn by_std(value: f64, precision: u32) -> String {
        let mut out = String::new();
        scientific_by_std(value, precision, &mut out);
        out
    }

    fn fixed(value: f64) -> String {
        let mut out = String::new();
        fixed4(value, &mut out);
        out
    }

    fn integer(value: i64) -> String {
        let mut out = String::new();
        integer_scientific(value < 0, value.unsigned_abs(), &mut out);
        out
    }

    /// Pseudo-random bits, the same in every run.
    fn bits(seed: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(seed), |state| Some(state.wrapping_add(0x9E37_79B9_7F4A_7C15))).map(|state| {
            let x = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            x ^ (x >> 31)
        })
    }

    #[test]
    fn scientific_has_a_sign_and_two_digits_of_exponent() {
        assert_eq!(sci(f64::from(1.23f32), 8), "1.23000002e+00");
        assert_eq!(sci(-3.33, 16), "-3.3300000000000001e+00");
        assert_eq!(sci(1e-7, 4), "1.0000e-07");
        assert_eq!(sci(f64::MAX, 16), "1.7976931348623157e+308");
        assert_eq!(sci(5e-324, 16), "4.9406564584124654e-324");
        assert_eq!(sci(0.0, 8), "0.00000000e+00");
        assert_eq!(sci(-0.0, 8), "-0.00000000e+00");
        assert_eq!(sci(9.99996, 4), "1.0000e+01");
        assert_eq!(sci(7.0, 0), "7e+00");
    }

    #[test]
    fn scientific_agrees_with_std_on_a_million_random_f32() {
        for value in bits(1).map(|b| f32::from_bits(b as u32)).filter(|x| x.is_finite()).take(1_000_000) {
            assert_eq!(sci(value.into(), 8), by_std(value.into(), 8), "{value:e}");
        }
    }

    #[test]
    fn scientific_agrees_with_std_on_a_million_random_f64() {
        for value in bits(2).map(f64::from_bits).filter(|x| x.is_finite()).take(1_000_000) {
            assert_eq!(sci(value, 16), by_std(value, 16), "{value:e}");
            assert_eq!(sci(value, 4), by_std(value, 4), "{value:e}");
        }
    }

    #[test]
    fn scientific_agrees_with_std_next_to_powers_of_ten_and_two_and_on_ties() {
        let tens = (-323..=308).map(|power| format!("1e{power}").parse::<f64>().unwrap());
        let twos = (-1074..=1023).map(|power| 2f64.powi(power));
        let ties = bits(3).take(20_000).map(|b| (b % 1_000_000) as f64 * 10.0 + 5.0);
        let large_ties = bits(4).take(20_000).map(|b| ((b % 10_000_000) as f64 * 10.0 + 5.0) * 1e6);
        let binary_ties = bits(5).take(20_000).map(|b| (b % 1_000_000) as f64 / 64.0);
        let whole = bits(6).take(20_000).map(|b| b as f64);
        for value in tens.chain(twos).chain(ties).chain(large_ties).chain(binary_ties).chain(whole) {
            for value in [value, value.next_up(), value.next_down()] {
                for precision in [0, 1, 4, 5, 8, 15, 16, 17, 20] {
                    assert_eq!(sci(value, precision), by_std(value, precision), "{value:e} {precision}");
                }
            }
        }
    }

    #[test]
    fn the_fast_path_decides_nearly_everything() {
        let undecided = bits(7)
            .map(f64::from_bits)
            .filter(|x| x.is_normal())
            .take(100_000)
            .map(parts)
            .filter(|&(mantissa, exponent)| significant(mantissa, exponent, 17).is_none())
            .count();
        assert_eq!(undecided, 0);
    }

    #[test]
    fn fixed_agrees_with_std() {
        for (value, text) in [(-10.1213, "-10.1213"), (0.00005, "0.0001"), (-0.0, "-0.0000"), (999_999.99999, "1000000.0000")] {
            assert_eq!(fixed(value), text);
        }
        let spread = bits(8).take(300_000).map(|b| f64::from_bits(b >> 2 | b & 1 << 63));
        let usual = bits(9).take(300_000).map(|b| (b as i64 >> 24) as f64 / 1e6);
        let ties = bits(10).take(100_000).map(|b| (b >> 40) as f64 / 32_768.0);
        for value in spread.chain(usual).chain(ties).chain([f64::MAX, 5e-324, 4_503_599_627_370_496.5]) {
            assert_eq!(fixed(value), format!("{value:.4}"), "{value:e}");
        }
    }

    #[test]
    fn integers_round_exactly_with_ties_to_even() {
        assert_eq!(integer(0), "0.0000e+00");
        assert_eq!(integer(7), "7.0000e+00");
        assert_eq!(integer(-10_000_000), "-1.0000e+07");
        assert_eq!(integer(1_234_450), "1.2344e+06");
        assert_eq!(integer(1_234_550), "1.2346e+06");
        assert_eq!(integer(999_995_000), "1.0000e+09");
        assert_eq!(integer(1_234_450_000_000_000_001), "1.2345e+18");
        assert_eq!(integer(i64::MIN), "-9.2234e+18");
        for value in bits(11).take(100_000).map(|b| (b >> 12) as i64) {
            assert_eq!(integer(value), by_std(value as f64, 4));
        }
    }

    #[test]
    fn scaling_down_reaches_every_exponent() {
        for value in [1.5e-320, 2.5e-310, 1.25e-300, 1e-7, 3.0, 1.75e308] {
            let scaled = scale_down(value, exponent10(value));
            assert!((0.99..10.01).contains(&scaled), "{value:e} {scaled}");
        }
        assert_eq!(exponent10(-1e-7), -7);
        assert_eq!(exponent10(f64::from(1e-9f32)), -10);
    }
}
