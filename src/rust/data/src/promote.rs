//! The dtype of an operation on two dtypes: one lattice, pred below integers below floats below complex.
//!
//! | one | other | result |
//! |---|---|---|
//! | any | the same | the same |
//! | pred | any | the other |
//! | signed | signed | the wider |
//! | unsigned | unsigned | the wider |
//! | signed | narrower unsigned | the signed |
//! | signed | unsigned that is not narrower | the next signed type above the unsigned; f64 for ui64 |
//! | integer | float or complex | the float or complex |
//! | f64 | other float | f64 |
//! | f32 | narrower float | f32 |
//! | f16 | bf16 | f32 |
//! | f16 | f8, f4 | f16; f32 for f8e8m0fnu, whose range f16 lacks |
//! | bf16 | f8, f4 | bf16 |
//! | f8, f4 | other f8, f4 | bf16, which holds them all |
//! | c128 | any | c128 |
//! | c64 | f64 | c128 |
//! | c64 | other | c64 |

use crate::dtype::{DType, HostType};

/// The common dtype to which two dtypes are promoted.
pub fn promote(one: DType, other: DType) -> DType {
    if one == other {
        return one;
    }
    let (low, high) = if level(one) <= level(other) { (one, other) } else { (other, one) };
    match (level(low), level(high)) {
        (0, _) | (1, 2) => high,
        (1, 1) => integers(low, high),
        (2, 2) => floats(low, high),
        _ if low == DType::F64 || low == DType::C128 => DType::C128,
        _ => high,
    }
}

fn level(dtype: DType) -> u8 {
    match dtype.info().host_type {
        HostType::Logical => 0,
        HostType::Integer | HostType::Integer64 => 1,
        HostType::Double => 2,
        HostType::Complex => 3,
    }
}

/// The signed type with more than so many bits; beyond 64 bits, the float that comes closest.
fn signed_above(bits: u32) -> DType {
    match bits {
        0..=2 => DType::I4,
        3..=4 => DType::I8,
        5..=8 => DType::I16,
        9..=16 => DType::I32,
        17..=32 => DType::I64,
        _ => DType::F64,
    }
}

fn integers(one: DType, other: DType) -> DType {
    let (narrow, wide) = if one.info().bits <= other.info().bits { (one, other) } else { (other, one) };
    let (signed, unsigned) = if one.is_signed() { (one, other) } else { (other, one) };
    if one.is_signed() == other.is_signed() || (wide == signed && wide.info().bits > narrow.info().bits) {
        wide
    } else {
        signed_above(unsigned.info().bits)
    }
}

fn floats(one: DType, other: DType) -> DType {
    let either = |dtype| one == dtype || other == dtype;
    if either(DType::F64) {
        DType::F64
    } else if either(DType::F32) || (either(DType::F16) && (either(DType::BF16) || either(DType::F8E8M0FNU))) {
        DType::F32
    } else if either(DType::F16) {
        DType::F16
    } else {
        DType::BF16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::ALL;

    #[test]
    fn dtypes_meet_as_the_table_says() {
        let meet = |one: &str, other: &str| promote(DType::parse(one).unwrap(), DType::parse(other).unwrap()).name();
        for (one, other, both) in [
            ("pred", "i2", "i2"),
            ("pred", "f8e5m2", "f8e5m2"),
            ("i8", "i32", "i32"),
            ("ui8", "ui64", "ui64"),
            ("i16", "ui8", "i16"),
            ("i8", "ui8", "i16"),
            ("i8", "ui16", "i32"),
            ("i2", "ui2", "i4"),
            ("i4", "ui4", "i8"),
            ("i32", "ui32", "i64"),
            ("i64", "ui32", "i64"),
            ("i8", "ui64", "f64"),
            ("i64", "f16", "f16"),
            ("ui64", "f32", "f32"),
            ("f16", "bf16", "f32"),
            ("f16", "f8e4m3fn", "f16"),
            ("f16", "f8e8m0fnu", "f32"),
            ("bf16", "f4e2m1fn", "bf16"),
            ("f8e5m2", "f8e4m3fn", "bf16"),
            ("f32", "f64", "f64"),
            ("c64", "f32", "c64"),
            ("c64", "i64", "c64"),
            ("c64", "f64", "c128"),
            ("c128", "bf16", "c128"),
        ] {
            assert_eq!(meet(one, other), both, "{one} and {other}");
        }
    }

    #[test]
    fn order_and_repetition_do_not_matter() {
        for &one in ALL {
            for &other in ALL {
                let both = promote(one, other);
                assert_eq!(both, promote(other, one), "{one} and {other}");
                assert_eq!(both, promote(both, one), "{one} and {other}");
            }
        }
    }
}
