//! Numbers of 16 bits, which MPI does not reduce: as numbers of 32 bits and back.

use half::{bf16, f16};
use pjrt_data::dtype::DType;

pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

pub(crate) fn widened(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let number = |pair: &[u8]| [pair[0], pair[1]];
    match dtype {
        DType::F16 => bytes.chunks_exact(2).map(|pair| f16::from_ne_bytes(number(pair)).to_f32()).collect(),
        _ => bytes.chunks_exact(2).map(|pair| bf16::from_ne_bytes(number(pair)).to_f32()).collect(),
    }
}

pub(crate) fn narrow(dtype: DType, numbers: &[f32], bytes: &mut [u8]) {
    for (number, pair) in numbers.iter().zip(bytes.chunks_exact_mut(2)) {
        pair.copy_from_slice(&match dtype {
            DType::F16 => f16::from_f32(*number).to_ne_bytes(),
            _ => bf16::from_f32(*number).to_ne_bytes(),
        });
    }
}
