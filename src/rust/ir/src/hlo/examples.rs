//! Small HLO modules of tests.

use super::{HloInstructionProto, LayoutProto, ShapeProto};

pub const F32: i32 = 11;

/// A row-major array of f32.
pub fn array(dims: &[i64]) -> ShapeProto {
    let minor_to_major = (0..dims.len() as i64).rev().collect();
    let layout = Some(LayoutProto { minor_to_major, ..Default::default() });
    ShapeProto { element_type: F32, dimensions: dims.into(), layout, ..Default::default() }
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
