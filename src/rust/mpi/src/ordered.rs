//! Minima and maxima of floats, computed on integers in the same order. For MPI, the result for `NaN` and a number is one of both,
//! which may even differ from process to process; here it is `NaN`, as in programs, and -0 is less than 0.

use crate::communicator::Op;
use pjrt_data::dtype::DType;

/// The integers that stand for floats in this operation, if some do.
pub(crate) fn integers_for(op: Op, dtype: DType) -> Option<DType> {
    match dtype {
        DType::F32 if matches!(op, Op::Min | Op::Max) => Some(DType::I32),
        DType::F64 if matches!(op, Op::Min | Op::Max) => Some(DType::I64),
        _ => None,
    }
}

/// Replaces floats by integers. `NaN` becomes the one that wins.
pub(crate) fn to_integers(op: Op, dtype: DType, bytes: &mut [u8]) {
    let [narrow, wide] = if op == Op::Min { [i32::MIN as i64, i64::MIN] } else { [i32::MAX as i64, i64::MAX] };
    match dtype {
        DType::F32 => each(bytes, |bits| {
            let number = f32::from_ne_bytes(bits);
            (if number.is_nan() { narrow as i32 } else { turned_32(number.to_bits() as i32) }).to_ne_bytes()
        }),
        _ => each(bytes, |bits| {
            let number = f64::from_ne_bytes(bits);
            (if number.is_nan() { wide } else { turned_64(number.to_bits() as i64) }).to_ne_bytes()
        }),
    }
}

/// The reverse of `to_integers`.
pub(crate) fn to_floats(dtype: DType, bytes: &mut [u8]) {
    match dtype {
        DType::F32 => each(bytes, |bits| turned_32(i32::from_ne_bytes(bits)).to_ne_bytes()),
        _ => each(bytes, |bits| turned_64(i64::from_ne_bytes(bits)).to_ne_bytes()),
    }
}

fn each<const WIDTH: usize>(bytes: &mut [u8], of: impl Fn([u8; WIDTH]) -> [u8; WIDTH]) {
    for part in bytes.chunks_exact_mut(WIDTH) {
        let mut bits = [0; WIDTH];
        bits.copy_from_slice(part);
        part.copy_from_slice(&of(bits));
    }
}

/// Negative floats are in reverse order as integers.
fn turned_32(bits: i32) -> i32 {
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

fn turned_64(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_the_order_of_floats_and_nan_wins() {
        let numbers = [f64::NEG_INFINITY, -1.5, -f64::MIN_POSITIVE, -0.0, 0.0, 5e-324, 2.0, f64::INFINITY];
        let all = [numbers.as_slice(), &[f64::NAN, -f64::NAN]].concat();
        for op in [Op::Min, Op::Max] {
            let mut wide: Vec<u8> = all.iter().flat_map(|number| number.to_ne_bytes()).collect();
            let mut narrow: Vec<u8> = all.iter().flat_map(|number| (*number as f32).to_ne_bytes()).collect();
            to_integers(op, DType::F64, &mut wide);
            to_integers(op, DType::F32, &mut narrow);
            let integers: Vec<i64> = wide.chunks(8).map(|part| i64::from_ne_bytes(part.try_into().unwrap())).collect();
            let narrow_integers: Vec<i32> =
                narrow.chunks(4).map(|part| i32::from_ne_bytes(part.try_into().unwrap())).collect();
            assert!(integers[..8].is_sorted_by(|a, b| a < b), "{integers:?}");
            assert!(narrow_integers[..8].is_sorted(), "{narrow_integers:?}");
            let wins = |i: usize| if op == Op::Min { integers[i] < integers[0] } else { integers[i] > integers[7] };
            assert!(wins(8) && wins(9));
            to_floats(DType::F64, &mut wide);
            to_floats(DType::F32, &mut narrow);
            for (i, number) in all.iter().enumerate() {
                let found = f64::from_ne_bytes(wide[8 * i..][..8].try_into().unwrap());
                let found_narrow = f32::from_ne_bytes(narrow[4 * i..][..4].try_into().unwrap());
                assert!(found.to_bits() == number.to_bits() || found.is_nan() && number.is_nan());
                let number = *number as f32;
                assert!(found_narrow.to_bits() == number.to_bits() || found_narrow.is_nan() && number.is_nan());
            }
        }
    }
}
