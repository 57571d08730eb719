//! Sorts of an HLO module whose comparison also holds for equal elements.

use super::wire::{self, field::IS_STABLE};
use super::{HloComputationProto, HloInstructionProto, HloModuleProto};
use crate::module::are_both_elements;
use pjrt_base::error::Result;
use prost::encoding::bool;

/// The module with a stable order in each sort whose comparison is not known to be strict; `None` if all are.
///
/// # Errors
/// `InvalidFile` for a damaged module.
pub fn with_stable_order(code: &[u8], module: &HloModuleProto) -> Result<Option<Vec<u8>>> {
    let is_loose = |i: &HloInstructionProto| i.opcode == "sort" && !i.is_stable && !module.compares_strictly(i);
    if !module.instructions().any(is_loose) {
        return Ok(None);
    }
    let mut stable = Vec::new();
    bool::encode(IS_STABLE, &true, &mut stable);
    let added = |_, sort: &HloInstructionProto| is_loose(sort).then(|| stable.clone());
    wire::with_added(code, module, added).map(Some)
}

impl HloModuleProto {
    /// Whether a sort's function is one comparison of both elements of an operand, by `<` or `>`.
    fn compares_strictly(&self, sort: &HloInstructionProto) -> bool {
        let id = sort.called_computation_ids.first();
        let function = id.and_then(|&id| self.computations.iter().find(|computation| computation.id == id));
        function.and_then(compared).is_some_and(are_both_elements)
    }
}

/// The numbers of the parameters that a function compares strictly.
fn compared(function: &HloComputationProto) -> Option<[usize; 2]> {
    let root = function.find(function.root_id)?;
    let is_strict = root.opcode == "compare" && matches!(&*root.comparison_direction, "LT" | "GT");
    let number = |&id: &i64| {
        let parameter = function.find(id).filter(|operand| operand.opcode == "parameter")?;
        usize::try_from(parameter.parameter_number).ok()
    };
    let [a, b] = &root.operand_ids[..] else { return None };
    is_strict.then(|| Some([number(a)?, number(b)?]))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    fn instruction(id: i64, opcode: &str, operands: &[i64]) -> HloInstructionProto {
        HloInstructionProto { id, opcode: opcode.into(), operand_ids: operands.to_vec(), ..Default::default() }
    }

    /// A module with a sort, by a function that compares its parameters of these numbers.
    fn module(direction: &str, operands: &[i64], is_stable: bool) -> HloModuleProto {
        let parameter = |number: i64| HloInstructionProto {
            parameter_number: number,
            ..instruction(10 + number, "parameter", &[])
        };
        let mut instructions: Vec<_> = (0..4).map(parameter).collect();
        let operands: Vec<_> = operands.iter().map(|operand| 10 + operand).collect();
        let compare = instruction(20, "compare", &operands);
        instructions.push(HloInstructionProto { comparison_direction: direction.into(), ..compare });
        let function = HloComputationProto { id: 5, instructions, root_id: 20, ..Default::default() };
        let sort = instruction(1, "sort", &[]);
        let sort = HloInstructionProto { called_computation_ids: vec![5], is_stable, ..sort };
        let main = HloComputationProto { id: 6, instructions: vec![sort], root_id: 1, ..Default::default() };
        HloModuleProto { computations: vec![function, main], ..Default::default() }
    }

    #[test]
    fn sorts_by_what_holds_for_equal_elements_become_stable() {
        for (direction, operands) in [("LE", [0, 1]), ("NE", [0, 1]), ("LT", [0, 2]), ("LT", [1, 2]), ("GT", [1, 1])] {
            let loose = module(direction, &operands, false);
            let code = with_stable_order(&loose.encode_to_vec(), &loose).unwrap().unwrap();
            let found = HloModuleProto::decode(code.as_slice()).unwrap();
            assert_eq!(found, module(direction, &operands, true), "{direction} {operands:?}");
            assert!(with_stable_order(&code, &found).unwrap().is_none());
        }
        for (direction, operands) in [("LT", [0, 1]), ("GT", [3, 2])] {
            let strict = module(direction, &operands, false);
            assert!(with_stable_order(&strict.encode_to_vec(), &strict).unwrap().is_none());
        }
    }
}
