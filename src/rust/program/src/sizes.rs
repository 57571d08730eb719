//! Arrays of impossible sizes: their number of bytes does not fit 64 bits, and a compiler throws a C++ exception or computes with
//! what is left of the number.

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
