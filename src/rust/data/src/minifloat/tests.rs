use super::*;
use crate::dtype::ALL;
use half::{bf16, f16};

/// The finite values of a format that are not negative, ascending, each with its bits; zero once.
fn ladder(format: &Format) -> Vec<(f64, u8)> {
    (0..=format.max).map(|bits| (format.table[usize::from(bits)], bits)).collect()
}

fn formats() -> impl Iterator<Item = (DType, &'static Format)> {
    ALL.iter().filter_map(|&dtype| Format::of(dtype).map(|format| (dtype, format)))
}

fn of(dtype: DType) -> &'static Format {
    Format::of(dtype).unwrap()
}

/// The double after a positive one.
fn above(x: f64) -> f64 {
    f64::from_bits(x.to_bits() + 1)
}

/// The double before a positive one.
fn below(x: f64) -> f64 {
    f64::from_bits(x.to_bits() - 1)
}

/// `x` as bits and back.
fn rounded(format: &Format, x: f64) -> f64 {
    format.table[usize::from(format.encode(x))]
}

#[test]
fn each_float_of_eight_bits_and_less_has_a_format_and_nothing_else_has() {
    for &dtype in ALL {
        let small = dtype.name().starts_with("f8") || dtype.name().starts_with("f4");
        assert_eq!(Format::of(dtype).map(|format| format.bits), small.then_some(dtype.info().bits), "{dtype}");
    }
}

#[test]
fn values_match_the_formats_definitions() {
    let value = |dtype, bits: u8| of(dtype).table()[usize::from(bits)];
    assert_eq!(value(DType::F8E5M2, 0x01), 2f64.powi(-16));
    assert_eq!(value(DType::F8E5M2, 0xfb), -57_344.0);
    assert_eq!(value(DType::F8E5M2, 0xfc), f64::NEG_INFINITY);
    assert_eq!(value(DType::F8E4M3FN, 0x7e), 448.0);
    assert_eq!(value(DType::F8E4M3B11FNUZ, 0x7f), 30.0);
    assert_eq!(value(DType::F8E5M2FNUZ, 0x7f), 57_344.0);
    assert_eq!(value(DType::F8E4M3FNUZ, 0x7f), 240.0);
    assert_eq!(value(DType::F8E4M3, 0x77), 240.0);
    assert_eq!(value(DType::F8E3M4, 0x6f), 15.5);
    assert_eq!(value(DType::F8E8M0FNU, 0x00), 2f64.powi(-127));
    assert_eq!(value(DType::F8E8M0FNU, 0xfe), 2f64.powi(127));
    let f4: Vec<_> = (0..8).map(|bits| value(DType::F4E2M1FN, bits)).collect();
    assert_eq!(f4, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
    assert_eq!(value(DType::F4E2M1FN, 0xf9), -0.5, "only the low bits count");
}

#[test]
fn every_pattern_survives_a_round_trip() {
    for (dtype, format) in formats() {
        for bits in 0..1u16 << format.bits {
            let x = format.table[usize::from(bits)];
            let back = format.encode(x);
            if x.is_nan() {
                assert!(rounded(format, x).is_nan(), "{dtype} {bits:#x}");
            } else {
                assert_eq!(u16::from(back), bits, "{dtype} {x}");
            }
            assert!(format.fits(x));
        }
    }
}

#[test]
fn midpoints_go_to_the_even_neighbour_and_all_else_to_the_nearer() {
    for (dtype, format) in formats() {
        for pair in ladder(format).windows(2) {
            let ((low, low_bits), (high, high_bits)) = (pair[0], pair[1]);
            let middle = low + (high - low) / 2.0;
            // The significand of f8e8m0fnu is always 1, so that the even one is that of the next power.
            let even = if format.zero == Zero::Absent || high_bits % 2 == 0 { high_bits } else { low_bits };
            for (x, bits) in [(middle, even), (above(middle), high_bits), (below(middle), low_bits)] {
                assert_eq!(format.encode(x), bits, "{dtype} {x:e}");
                assert!(format.fits(x));
                if format.zero != Zero::Absent {
                    assert_eq!(rounded(format, -x), -rounded(format, x), "{dtype} {x:e}");
                    assert!(format.fits(-x));
                }
            }
        }
    }
}

#[test]
fn values_that_are_too_large_become_infinity_or_nan_or_saturate() {
    for (dtype, last, beyond) in [
        (DType::F8E5M2, below(61_440.0), f64::INFINITY),
        (DType::F8E4M3FN, 464.0, f64::NAN),
        (DType::F8E4M3B11FNUZ, below(31.0), f64::NAN),
        (DType::F8E5M2FNUZ, below(61_440.0), f64::NAN),
        (DType::F8E4M3FNUZ, below(248.0), f64::NAN),
        (DType::F8E4M3, below(248.0), f64::INFINITY),
        (DType::F8E3M4, below(15.75), f64::INFINITY),
        (DType::F8E8M0FNU, below(1.5 * 2f64.powi(127)), f64::NAN),
        (DType::F4E2M1FN, below(7.0), 6.0),
    ] {
        let format = of(dtype);
        let max = format.table[usize::from(format.max)];
        assert_eq!(rounded(format, last), max, "{dtype}");
        assert!(format.fits(last));
        for x in [above(last), 2.0 * last, 1e300, f64::MAX, f64::INFINITY] {
            let got = rounded(format, x);
            assert!(got == beyond || got.is_nan() && beyond.is_nan(), "{dtype} {x:e}: {got}");
            assert_eq!(format.fits(x), x == beyond, "{dtype} {x:e}");
            assert_eq!(format.fits(-x), x == beyond, "{dtype} -{x:e}");
        }
    }
}

#[test]
fn nan_and_zeros_follow_the_format() {
    for (dtype, format) in formats() {
        let has_nan = dtype != DType::F4E2M1FN;
        for nan in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)] {
            assert_eq!(rounded(format, nan).is_nan(), has_nan);
            assert_eq!(format.fits(nan), has_nan);
        }
        let tiny = [f64::from_bits(1), f64::MIN_POSITIVE, 1e-300];
        if format.zero == Zero::Absent {
            assert!(tiny.iter().all(|&x| format.encode(x) == 0 && format.fits(x)));
            assert!([0.0, -0.0, -1.0, -1e-300].iter().all(|&x| rounded(format, x).is_nan() && !format.fits(x)));
        } else {
            let minus_zero = if format.zero == Zero::Signed { 1 << (format.bits - 1) } else { 0 };
            for x in tiny.into_iter().chain([0.0]) {
                assert_eq!((format.encode(x), format.encode(-x)), (0, minus_zero), "{dtype}");
                assert!(format.fits(x) && format.fits(-x));
            }
        }
    }
    assert_eq!(of(DType::F8E5M2).encode(f64::NAN), 0x7e);
    assert_eq!(of(DType::F8E5M2).encode(-f64::NAN), 0xfe);
    assert_eq!(of(DType::F8E4M3FNUZ).encode(-f64::NAN), 0x80);
}

/// Checks one of the formats of sixteen bits at all patterns and around the midpoints of all neighbours.
fn check_wide(encode: impl Fn(f64) -> u16, decode: impl Fn(u16) -> f64, infinity: u16) {
    let quiet_bit = 1 << (infinity.trailing_zeros() - 1);
    for bits in 0..=u16::MAX {
        let x = decode(bits);
        let quiet = if x.is_nan() { quiet_bit } else { 0 };
        assert_eq!(encode(x), bits | quiet, "{bits:#x}");
    }
    for bits in 0..infinity {
        let low = decode(bits);
        // Infinity counts as the power of two that would follow.
        let step = if bits + 1 == infinity { low - decode(bits - 1) } else { decode(bits + 1) - low };
        let middle = low + step / 2.0;
        let even = bits + bits % 2;
        for (x, bits) in [(middle, even), (above(middle), bits + 1), (below(middle), bits)] {
            assert_eq!(encode(x), bits, "{x:e}");
            assert_eq!(encode(-x), bits | 0x8000, "-{x:e}");
        }
    }
    for x in [1e300, f64::MAX, f64::INFINITY] {
        assert_eq!((encode(x), encode(-x)), (infinity, infinity | 0x8000));
    }
    for x in [f64::from_bits(1), 1e-300, 0.0] {
        assert_eq!((encode(x), encode(-x)), (0, 0x8000));
    }
    // A payload that has no room leaves a NaN.
    assert_eq!(encode(f64::from_bits(0x7ff0_0000_0000_07a2)) & !infinity, quiet_bit);
}

#[test]
fn f16_is_rounded_once() {
    check_wide(f16_from_f64, |bits| f16::from_bits(bits).to_f64(), f16::INFINITY.to_bits());
    assert_eq!(f16_from_f64(1.0 + 2f64.powi(-11) + 2f64.powi(-40)), f16::from_f64(1.0 + 2f64.powi(-10)).to_bits());
}

#[test]
fn bf16_is_rounded_once() {
    check_wide(bf16_from_f64, |bits| bf16::from_bits(bits).to_f64(), bf16::INFINITY.to_bits());
    assert_eq!(bf16_from_f64(1.0 + 2f64.powi(-8) + 2f64.powi(-40)), bf16::from_f64(1.0 + 2f64.powi(-7)).to_bits());
}
