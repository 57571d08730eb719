//! Barriers behind constants of an HLO module.

use super::wire::{
    self,
    field::{ID, INSTRUCTION, NAME},
};
use super::{HloInstructionProto, HloModuleProto};
use crate::module::Value;
use pjrt_base::error::Result;
use prost::encoding::{int64, string};
use prost::Message;
use std::collections::HashSet;

/// Current modules have the number of the computation in the upper half of an instruction's number.
const OWN_NUMBERS: i64 = 1 << 32;

/// The module with barriers behind these constants, the values of [`HloModuleProto::to_module`]. A barrier gets the name and the
/// number of its constant, so what uses the constant then uses the barrier.
///
/// # Errors
/// `InvalidFile` for a damaged module.
pub fn with_barriers(code: &[u8], module: &HloModuleProto, constants: &HashSet<Value>) -> Result<Vec<u8>> {
    let last = |instructions: &[HloInstructionProto]| instructions.iter().map(|i| i.id).max().unwrap_or(0);
    let mut own: Vec<_> = module.computations.iter().map(|computation| last(&computation.instructions)).collect();
    let mut next = own.iter().copied().max().unwrap_or(0);
    let mut values = (0..).map(Value);
    wire::with_instructions(code, module, |computation, constant, content, out| {
        if !values.next().is_some_and(|value| constants.contains(&value)) {
            return false;
        }
        let number = if own[computation] < OWN_NUMBERS { &mut next } else { &mut own[computation] };
        *number += 1;
        put_hidden(out, constant, content, *number);
        true
    })
}

/// Writes a constant under another number, and a barrier that has its number. Of a field that is there twice, the last counts.
fn put_hidden(out: &mut Vec<u8>, constant: &HloInstructionProto, raw: &[u8], number: i64) {
    let mut hidden = raw.to_vec();
    string::encode(NAME, &format!("pjrt_{}", constant.name), &mut hidden);
    int64::encode(ID, &number, &mut hidden);
    wire::put(out, INSTRUCTION, &hidden);
    let barrier = HloInstructionProto {
        name: constant.name.clone(),
        opcode: "opt-barrier".into(),
        shape: constant.shape.clone(),
        id: constant.id,
        operand_ids: vec![number],
        ..Default::default()
    };
    wire::put(out, INSTRUCTION, &barrier.encode_to_vec());
}

#[cfg(test)]
mod tests {
    use super::super::HloComputationProto;
    use super::*;

    #[test]
    fn what_uses_a_constant_uses_its_barrier() {
        let of = |first: i64| {
            let instruction = |id: i64, opcode: &str, operands: &[i64]| HloInstructionProto {
                name: format!("{opcode}.{id}"),
                opcode: opcode.into(),
                id: first + id,
                operand_ids: operands.iter().map(|id| first + id).collect(),
                ..Default::default()
            };
            let instructions = vec![
                instruction(1, "constant", &[]),
                instruction(2, "constant", &[]),
                instruction(3, "maximum", &[1, 2]),
            ];
            let computation = HloComputationProto { instructions, root_id: first + 3, ..Default::default() };
            let module = HloModuleProto { name: "m".into(), computations: vec![computation], ..Default::default() };
            let code = with_barriers(&module.encode_to_vec(), &module, &[Value(1)].into()).unwrap();
            let found = HloModuleProto::decode(code.as_slice()).unwrap();
            assert_eq!((found.name, found.computations[0].root_id), (module.name, first + 3));
            let instructions = found.computations[0].instructions.clone();
            let shown = instructions.into_iter().map(|i| (i.name, i.id - first, i.operand_ids));
            shown.collect::<Vec<_>>()
        };
        for first in [0, OWN_NUMBERS] {
            let expected = [
                ("constant.1".to_string(), 1, vec![]),
                ("pjrt_constant.2".into(), 4, vec![]),
                ("constant.2".into(), 2, vec![first + 4]),
                ("maximum.3".into(), 3, vec![first + 1, first + 2]),
            ];
            assert_eq!(of(first), expected);
        }
    }
}
