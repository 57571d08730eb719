//! The same text as `std` gives, for every kind of number that could be rounded wrongly.

use super::*;

fn text(write: impl FnOnce(&mut String)) -> String {
    let mut out = String::new();
    write(&mut out);
    out
}

fn sci<const PRECISION: u32>(value: f64) -> String {
    text(|out| scientific::<PRECISION>(value, out))
}

fn by_std(value: f64, precision: u32) -> String {
    text(|out| scientific_by_std(value, precision, out))
}

fn agrees<const PRECISION: u32>(value: f64) {
    assert_eq!(sci::<PRECISION>(value), by_std(value, PRECISION), "{value:e}");
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
    assert_eq!(sci::<8>(f64::from(1.23f32)), "1.23000002e+00");
    assert_eq!(sci::<16>(-3.33), "-3.3300000000000001e+00");
    assert_eq!(sci::<4>(1e-7), "1.0000e-07");
    assert_eq!(sci::<16>(f64::MAX), "1.7976931348623157e+308");
    assert_eq!(sci::<16>(5e-324), "4.9406564584124654e-324");
    assert_eq!(sci::<8>(0.0), "0.00000000e+00");
    assert_eq!(sci::<8>(-0.0), "-0.00000000e+00");
    assert_eq!(sci::<4>(9.99996), "1.0000e+01");
    assert_eq!(sci::<0>(7.0), "7e+00");
}

#[test]
fn scientific_agrees_with_std_on_a_million_random_f32() {
    for value in bits(1).map(|b| f32::from_bits(b as u32)).filter(|x| x.is_finite()).take(1_000_000) {
        agrees::<8>(value.into());
    }
}

#[test]
fn scientific_agrees_with_std_on_a_million_random_f64() {
    for value in bits(2).map(f64::from_bits).filter(|x| x.is_finite()).take(1_000_000) {
        agrees::<16>(value);
        agrees::<4>(value);
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
        for bits in [value.to_bits(), value.to_bits() + 1, value.to_bits().saturating_sub(1)] {
            let value = f64::from_bits(bits);
            agrees::<0>(value);
            agrees::<4>(value);
            agrees::<8>(value);
            agrees::<16>(value);
        }
    }
}

#[test]
fn the_fast_path_decides_nearly_everything() {
    for (mantissa, exponent) in bits(7).map(f64::from_bits).filter(|x| x.is_normal()).take(100_000).map(parts) {
        assert!(significant::<16>(mantissa, exponent).is_some());
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
