use super::*;

fn encode_checked<const N: usize>(values: HostValues, dtype: DType, check: Check) -> ([u8; N], Option<LossReport>) {
    let mut out = [0u8; N];
    let len = values.len();
    // SAFETY: `out` has room for every element: each caller says how much.
    let found = unsafe { values.encode(dtype, &Plan::contiguous(len), len, out.as_mut_ptr(), check).unwrap() };
    (out, found)
}

fn encode<const N: usize>(values: HostValues, dtype: DType) -> [u8; N] {
    encode_checked(values, dtype, Check::Missing).0
}

fn losses(values: HostValues, dtype: DType) -> Option<LossReport> {
    encode_checked::<256>(values, dtype, Check::All).1
}

const NA_REAL: f64 = f64::from_bits(0x7ff0_0000_0000_07a2);

#[test]
fn doubles_saturate_and_nan_is_the_smallest() {
    let x = [f64::NAN, -1e300, 1e300, 2.9, -2.9];
    assert_eq!(encode::<5>(HostValues::Double(&x), DType::I8).map(|b| b as i8), [-128, -128, 127, 2, -2]);
    assert_eq!(encode::<5>(HostValues::Double(&x), DType::U8), [0, 0, 255, 2, 0]);
    assert_eq!(encode::<5>(HostValues::Double(&x), DType::I4), [8, 8, 7, 2, 14]);
    assert_eq!(encode::<5>(HostValues::Double(&x), DType::U2), [0, 0, 3, 2, 0]);
    let words = encode::<20>(HostValues::Double(&x), DType::I32);
    let words: Vec<i32> = words.chunks(4).map(|b| i32::from_ne_bytes(b.try_into().unwrap())).collect();
    assert_eq!(words, [i32::MIN, i32::MIN, i32::MAX, 2, -2]);
    let big = [9_007_199_254_740_993.0, 3e9];
    let bytes = encode::<16>(HostValues::Double(&big), DType::I64);
    assert_eq!(i64::from_ne_bytes(bytes[8..].try_into().unwrap()), 3_000_000_000);
}

#[test]
fn signalling_nan_as_na_is_the_smallest_integer_too() {
    let signalling = std::hint::black_box(f64::from_bits(0x7ff0_0000_0000_07a2));
    let x = [signalling, 1.0, -signalling, -1.0];
    assert_eq!(encode::<4>(HostValues::Double(&x), DType::I8).map(|b| b as i8), [-128, 1, -128, -1]);
    assert_eq!(encode::<4>(HostValues::Double(&x), DType::U8), [0, 1, 0, 0]);
    assert_eq!(encode::<4>(HostValues::Double(&x), DType::I4), [8, 1, 8, 15]);
    assert_eq!(encode::<4>(HostValues::Double(&x), DType::U4), [0, 1, 0, 0]);
    assert_eq!(encode::<8>(HostValues::Double(&x), DType::I16), [0, 128, 1, 0, 0, 128, 255, 255]);
    let x = [signalling, -signalling];
    assert_eq!(encode::<8>(HostValues::Double(&x), DType::I32), [0, 0, 0, 128, 0, 0, 0, 128]);
    assert_eq!(encode::<8>(HostValues::Double(&x), DType::U32), [0; 8]);
    assert_eq!(encode::<8>(HostValues::Double(&x[..1]), DType::I64), i64::MIN.to_ne_bytes());
    assert_eq!(encode::<8>(HostValues::Double(&x[..1]), DType::U64), [0; 8]);
}

#[test]
fn integers_wrap_and_logicals_become_bytes() {
    assert_eq!(encode::<3>(HostValues::Integer(&[256, -1, 300]), DType::U8), [0, 255, 44]);
    assert_eq!(encode::<3>(HostValues::Integer(&[16, -1, 9]), DType::I4), [0, 15, 9]);
    assert_eq!(encode::<3>(HostValues::Logical(&[0, 1, NA_INTEGER]), DType::Pred), [0, 1, 1]);
}

#[test]
fn one_value_fills_an_array() {
    for len in [2usize, 5, 1000, 100_000] {
        let mut out = vec![0u32; len];
        let values = HostValues::Double(&[7.0]);
        let plan = Plan::contiguous(len);
        // SAFETY: `out` has room for every element.
        unsafe { values.encode(DType::I32, &plan, len, out.as_mut_ptr().cast(), Check::Missing).unwrap() };
        assert!(out.iter().all(|&x| x == 7));
    }
}

#[test]
fn misfits_are_counted_and_the_first_is_found() {
    let x = [1.0, 127.9, f64::NAN, 128.0, -128.5, -129.0];
    let found = losses(HostValues::Double(&x), DType::I8);
    assert_eq!(found, Some(LossReport { missing: 1, out_of_range: 2, first: 2 }));
    assert_eq!(losses(HostValues::Double(&[9.3e18]), DType::I64).map(|m| m.out_of_range), Some(1));
    assert_eq!(losses(HostValues::Double(&[-0.9, i64::MIN as f64, 2.9]), DType::I64), None);
    assert_eq!(losses(HostValues::Double(&[-0.9, 1.8e19]), DType::U64), None);
    assert_eq!(losses(HostValues::Double(&[-1.0]), DType::U64).map(|m| m.out_of_range), Some(1));
    assert_eq!(losses(HostValues::Integer64(&[-1]), DType::U64).map(|m| m.out_of_range), Some(1));
    assert_eq!(
        losses(HostValues::Integer64(&[1 << 32, 5, NA_INTEGER64]), DType::U32),
        Some(LossReport { missing: 1, out_of_range: 1, first: 0 })
    );
    assert_eq!(losses(HostValues::Integer(&[NA_INTEGER, 1]), DType::F32).map(|m| m.missing), Some(1));
    assert_eq!(losses(HostValues::Integer(&[5, -1]), DType::U64).map(|m| m.first), Some(1));
    assert_eq!(losses(HostValues::Integer(&[7, -8, 8]), DType::I4).map(|m| m.first), Some(2));
    assert_eq!(losses(HostValues::Logical(&[1, NA_INTEGER]), DType::Pred).map(|m| m.first), Some(1));
}

#[test]
fn in_floats_na_and_overflow_are_misfits_but_nan_is_not() {
    let plain = [f64::INFINITY, f64::NAN, 1.0, -0.0];
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E5M2] {
        assert_eq!(losses(HostValues::Double(&plain), dtype), None, "{dtype}");
        assert_eq!(losses(HostValues::Double(&[1.0, NA_REAL]), dtype).map(|m| (m.missing, m.first)), Some((1, 1)));
    }
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F8E5M2, DType::F8E4M3FN] {
        assert_eq!(losses(HostValues::Double(&[1e300]), dtype).map(|m| m.out_of_range), Some(1), "{dtype}");
    }
    assert_eq!(
        losses(HostValues::Double(&[f64::INFINITY, f64::NAN]), DType::F4E2M1FN).map(|m| m.out_of_range),
        Some(2)
    );
    assert_eq!(
        losses(HostValues::Complex(&[[1.0, NA_REAL], [1e300, 0.0]]), DType::C64),
        Some(LossReport { missing: 1, out_of_range: 1, first: 0 })
    );
}

fn decoded<const N: usize>(dtype: DType, bytes: &[u8]) -> [f64; N] {
    let mut out = [0.0; N];
    let target = HostTarget { host_type: HostType::Double, data: out.as_mut_ptr().cast() };
    // SAFETY: both have room for `N` elements.
    unsafe { decode(dtype, &Plan::contiguous(N), bytes.as_ptr(), target, false).unwrap() };
    out
}

#[test]
fn missing_values_become_nan_in_every_float() {
    for &dtype in crate::dtype::ALL {
        if !matches!(dtype.info().host_type, HostType::Double) || dtype == DType::F4E2M1FN {
            continue;
        }
        for values in [
            HostValues::Integer(&[1, NA_INTEGER, 2]),
            HostValues::Integer64(&[1, NA_INTEGER64, 2]),
            HostValues::Logical(&[1, NA_INTEGER, 1]),
        ] {
            let (bytes, found) = encode_checked::<24>(values, dtype, Check::Missing);
            assert_eq!(found, None, "{dtype}");
            let [one, na, other] = decoded::<3>(dtype, &bytes);
            assert!(one == 1.0 && na.is_nan() && other >= 1.0, "{dtype}: {na}");
        }
    }
    let (bytes, _) = encode_checked::<8>(HostValues::Integer(&[NA_INTEGER]), DType::F64, Check::Missing);
    assert_eq!(bytes, NA_REAL.to_bits().to_ne_bytes());
    let bytes: [u8; 16] = encode(HostValues::Logical(&[0, NA_INTEGER]), DType::C64);
    assert_eq!(bytes[..8], [0; 8]);
    assert!(f32::from_ne_bytes(bytes[8..12].try_into().unwrap()).is_nan());
}

#[test]
fn missing_values_without_nan_are_noticed_unasked() {
    let report = |missing, first| Some(LossReport { missing, out_of_range: 0, first });
    let found = |values, dtype| encode_checked::<64>(values, dtype, Check::Missing).1;
    for dtype in [DType::I32, DType::I64, DType::U8, DType::I4, DType::F4E2M1FN] {
        assert_eq!(found(HostValues::Integer(&[1, NA_INTEGER, NA_INTEGER]), dtype), report(2, 1), "{dtype}");
        assert_eq!(found(HostValues::Logical(&[1, 0, NA_INTEGER]), dtype), report(1, 2), "{dtype}");
        assert_eq!(found(HostValues::Double(&[NA_REAL, 1e300]), dtype), report(1, 0), "{dtype}");
    }
    assert_eq!(found(HostValues::Logical(&[0, NA_INTEGER]), DType::Pred), report(1, 1));
    assert_eq!(found(HostValues::Double(&[f64::NAN]), DType::Pred), report(1, 0));
    assert_eq!(found(HostValues::Integer64(&[3, NA_INTEGER64]), DType::U32), report(1, 1));
    assert_eq!(found(HostValues::Integer(&[-1, 1000]), DType::U8), None);
    let mut many = vec![0; 10_000];
    assert_eq!(HostValues::Integer(&many).missing_elements(), None);
    (many[5000], many[9999]) = (NA_INTEGER, NA_INTEGER);
    assert_eq!(HostValues::Integer(&many).missing_elements(), report(2, 5000));
    assert_eq!(HostValues::Integer64(&[NA_INTEGER64]).missing_elements(), report(1, 0));
}

#[test]
fn whole_numbers_that_a_float_rounds_are_reported() {
    let first = |values, dtype| losses(values, dtype).map(|m| (m.out_of_range, m.first));
    let x = [1 << 24, (1 << 24) + 1, -(1 << 24) - 1, (1 << 24) + 2, 0, -5];
    assert_eq!(first(HostValues::Integer(&x), DType::F32), Some((2, 1)));
    assert_eq!(first(HostValues::Integer(&x), DType::F64), None);
    assert_eq!(first(HostValues::Integer(&[2048, 2049]), DType::F16), Some((1, 1)));
    assert_eq!(first(HostValues::Integer(&[256, 257]), DType::BF16), Some((1, 1)));
    assert_eq!(first(HostValues::Integer(&[16, 17]), DType::F8E4M3FN), Some((1, 1)));
    let x = [1 << 53, (1 << 53) + 1, i64::MAX, 1 << 62];
    assert_eq!(first(HostValues::Integer64(&x), DType::F64), Some((2, 1)));
    assert_eq!(first(HostValues::Logical(&[0, 1]), DType::BF16), None);
    assert_eq!(first(HostValues::Integer64(&[4, 0]), DType::F8E8M0FNU), Some((1, 1)));
    // Rounding of doubles is expected.
    assert_eq!(first(HostValues::Double(&[16_777_217.0, 0.1]), DType::F32), None);
}

#[test]
fn long_integers_are_rounded_once() {
    // Just above the middle of two neighbours: a double would be the middle itself.
    for (x, expected) in
        [((1i64 << 62) + (1 << 54) + 1, 2f64.powi(62) + 2f64.powi(55)), (-(257 << 50) - 1, -258.0 * 2f64.powi(50))]
    {
        let bytes: [u8; 2] = encode(HostValues::Integer64(&[x]), DType::BF16);
        assert_eq!(decoded::<1>(DType::BF16, &bytes), [expected], "{x}");
    }
}

#[test]
fn impossible_conversions_are_refused() {
    assert!(HostValues::Integer(&[]).check_dtype(DType::Pred).is_err());
    assert!(HostValues::Complex(&[]).check_dtype(DType::F64).is_err());
    let error = HostValues::Integer64(&[]).check_dtype(DType::I32).unwrap_err();
    assert!(error.message().contains("only supports i64 or ui64"));
}

#[test]
fn long_integers_that_doubles_and_integers_cannot_hold_are_reported() {
    let count = |x: &[i64], dtype, double: bool| {
        let mut out = vec![0f64; x.len()];
        let host_type = if double { HostType::Double } else { HostType::Integer };
        let target = HostTarget { host_type, data: out.as_mut_ptr().cast() };
        // SAFETY: `out` has room for every element, and `x` has as many.
        unsafe { decode(dtype, &Plan::contiguous(x.len()), x.as_ptr().cast(), target, true).unwrap() }
    };
    let x = [1, -1, 1 << 53, (1 << 53) + 1, 1 << 62, i64::MAX, i64::MIN];
    assert_eq!(count(&x, DType::I64, true), 2);
    assert_eq!(count(&x, DType::I64, false), 5);
    assert_eq!(count(&[-1, i64::MIN], DType::U64, true), 1);
    assert_eq!(count(&[i64::from(i32::MAX), i64::from(i32::MIN), 1 << 31], DType::I64, false), 2);
}

#[test]
fn every_dtype_is_read_into_its_r_type() {
    for &dtype in crate::dtype::ALL {
        assert!(decoding(dtype, dtype.info().host_type).is_some(), "{dtype}");
    }
}

#[test]
fn sixteen_bit_floats_match_the_reference() {
    for bits in 0..=u16::MAX {
        // SAFETY: `F16` is a `u16` in memory.
        let f16: f64 = F16::decode(unsafe { std::mem::transmute::<u16, F16>(bits) });
        let expected = half::f16::from_bits(bits).to_f64();
        assert!(f16.to_bits() == expected.to_bits() || (f16.is_nan() && expected.is_nan()), "{bits:x}");
    }
}
