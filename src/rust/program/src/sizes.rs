//! Arrays of impossible sizes: their number of bytes does not fit into 64 bits, so a compiler throws a C++ exception or
//! computes with the truncated number.

use crate::hlo::{HloModuleProto, ShapeProto};
use pjrt_base::error::Result;

/// The most elements of an array: of the largest type, they have 2^63 bytes.
const MOST: u128 = 1 << 59;

/// Checks the sizes of an array. Sizes of 0 do not count: a compiler multiplies the others anyway. Nor do negative ones, which stand
/// for unknown sizes.
///
/// # Errors
/// `InvalidInput`.
pub(crate) fn check(dims: impl IntoIterator<Item = u64>) -> Result<()> {
    let elements = dims.into_iter().fold(1u128, |all, dim| all.saturating_mul(u128::from(dim.max(1))));
    if elements > MOST {
        bail!(InvalidInput, "The program has an array of {elements} elements, which no memory can hold.");
    }
    Ok(())
}

/// Checks the arrays in text without strings and comments: wherever sizes are written as in `2x3x`.
pub(crate) fn check_text(code: &[u8]) -> Result<()> {
    // Two sizes below 2^29 have at most nine digits each.
    const SHORT: usize = 18;
    let is_size = |byte: u8| byte.is_ascii_digit() || byte == b'x' || byte == b'?';
    let mut start = 0;
    while let Some(found) = code[start..].iter().position(|&byte| byte.is_ascii_digit() || byte == b'?') {
        start += found;
        let length = code[start..].iter().take_while(|&&byte| is_size(byte)).count();
        let sizes = &code[start..start + length];
        let is_word = start > 0 && (code[start - 1].is_ascii_alphanumeric() || b"_.%@#".contains(&code[start - 1]));
        if length >= SHORT && !is_word && sizes.contains(&b'x') {
            // The last part is the start of the element's type, or empty.
            let sizes = std::str::from_utf8(sizes).unwrap_or_default();
            let whole = if sizes.ends_with('x') { sizes } else { sizes.rsplit_once('x').map_or("", |(all, _)| all) };
            let is_known = |size: &&str| !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit());
            check(whole.split('x').filter(is_known).map(|size| size.parse().unwrap_or(u64::MAX)))?;
        }
        start += length;
    }
    Ok(())
}

/// Checks the arrays of a module.
pub(crate) fn check_module(module: &HloModuleProto) -> Result<()> {
    let program = module.host_program_shape.iter();
    let of_program = program.flat_map(|shape| shape.parameters.iter().chain(&shape.result));
    let instructions = module.computations.iter().flat_map(|computation| &computation.instructions);
    instructions.filter_map(|instruction| instruction.shape.as_ref()).chain(of_program).try_for_each(check_shape)
}

fn check_shape(shape: &ShapeProto) -> Result<()> {
    check(shape.dimensions.iter().map(|&dim| u64::try_from(dim).unwrap_or(0)))?;
    shape.tuple_shapes.iter().try_for_each(check_shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::{HloComputationProto, HloInstructionProto};

    #[test]
    fn impossible_sizes_are_refused_in_text() {
        for text in [
            "tensor<4294967296x4294967296xf32>",
            "tensor<4294967296x4294967296x!quant.uniform<i8:f32, 1.0>>",
            "tensor<0x4294967296x4294967296xf32>",
            "tensor<?x1000000000000x1000000000000xi1>",
            "memref<99999999999999999999xf32>",
        ] {
            assert!(check_text(text.as_bytes()).is_err(), "{text}");
        }
        for text in [
            "tensor<4294967296x1024xf32>",
            "dense<0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF>",
            "dense<0x1234567890123456>",
            "%1234567890x1234567890x1234567890",
            "array<i64: 1234567890123456789012>",
        ] {
            assert!(check_text(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn impossible_sizes_are_refused_in_modules() {
        let with = |dimensions: Vec<i64>| {
            let array = ShapeProto { dimensions, ..Default::default() };
            let tuple = ShapeProto { tuple_shapes: vec![array], ..Default::default() };
            let instruction = HloInstructionProto { shape: Some(tuple), ..Default::default() };
            let computation = HloComputationProto { instructions: vec![instruction], ..Default::default() };
            check_module(&HloModuleProto { computations: vec![computation], ..Default::default() })
        };
        assert!(with(vec![1 << 32, 1 << 32]).is_err());
        assert!(with(vec![0, 1 << 32, 1 << 32]).is_err());
        assert!(with(vec![1 << 32, 1 << 20]).is_ok());
        assert!(with(vec![-1, 2]).is_ok());
    }
}
