//! Small HLO modules of tests.

use super::{HloInstructionProto, ShapeProto};

pub const F32: i32 = 11;

/// A row-major array of f32.
pub fn array(dims: &[i64]) -> ShapeProto {
    ShapeProto::row_major(F32, dims)
}

pub fn instruction(id: i64, opcode: &str, dims: &[i64], operands: &[i64]) -> HloInstructionProto {
    HloInstructionProto {
        name: format!("{opcode}.{id}"),
        opcode: opcode.into(),
        shape: Some(array(dims)),
        id,
        operand_ids: operands.into(),
        ..Default::default()
    }
}
