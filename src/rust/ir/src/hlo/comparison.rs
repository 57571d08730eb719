//! The order of comparisons. XLA since 2026 writes it to a field that older XLA does not know, which then takes the default: numbers
//! beside NaN compare as false, and a sort leaves them where they are.

use super::wire;
use super::{HloComputationProto, HloInstructionProto, HloModuleProto};
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use prost::encoding::string;
use std::collections::HashSet;

/// The older field, and its value for floats in total order.
const TYPE: u32 = 72;
const TOTAL_ORDER: &str = "TOTALORDER";

/// The module with the older field, too, where a comparison has only the newer one. `None` if none has.
///
/// # Errors
/// `InvalidFile` for a damaged module.
pub fn with_order(code: &[u8], module: &HloModuleProto) -> Result<Option<Vec<u8>>> {
    let untyped: Vec<_> = module.computations.iter().map(HloComputationProto::untyped).collect();
    if untyped.iter().all(HashSet::is_empty) {
        return Ok(None);
    }
    let mut order = Vec::new();
    string::encode(TYPE, &TOTAL_ORDER.to_owned(), &mut order);
    let added = |computation: usize, comparison: &HloInstructionProto| {
        untyped[computation].contains(&comparison.id).then(|| order.clone())
    };
    wire::with_added(code, module, added).map(Some)
}

impl HloComputationProto {
    /// The numbers of the comparisons of floats whose total order only the newer field states. Integers have no other order.
    fn untyped(&self) -> HashSet<i64> {
        let is_untyped = |i: &&HloInstructionProto| i.comparison_order == "TOTAL" && i.comparison_type.is_empty();
        let mut untyped = self.instructions.iter().filter(is_untyped).peekable();
        if untyped.peek().is_none() {
            return HashSet::new();
        }
        let is_float = |instruction: &&HloInstructionProto| {
            let dtype = instruction.shape.as_ref().and_then(|shape| DType::from_xla_code(shape.element_type));
            dtype.is_some_and(DType::is_float)
        };
        let floats: HashSet<i64> = self.instructions.iter().filter(is_float).map(|known| known.id).collect();
        untyped.filter(|i| i.operand_ids.first().is_some_and(|id| floats.contains(id))).map(|i| i.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ShapeProto;
    use super::*;
    use prost::Message;

    #[test]
    fn floats_in_total_order_say_so_in_both_fields() {
        let code = |kind: DType, order: &str| {
            let shape = ShapeProto { element_type: kind.info().xla_code, ..Default::default() };
            let parameter =
                HloInstructionProto { opcode: "parameter".into(), id: 1, shape: Some(shape), ..Default::default() };
            let compare = HloInstructionProto {
                opcode: "compare".into(),
                id: 2,
                operand_ids: vec![1, 1],
                comparison_direction: "LT".into(),
                comparison_order: order.into(),
                ..Default::default()
            };
            let computation = HloComputationProto { instructions: vec![parameter, compare], ..Default::default() };
            let module = HloModuleProto { name: "m".into(), computations: vec![computation], ..Default::default() };
            (module.encode_to_vec(), module)
        };
        let (bytes, module) = code(DType::F32, "TOTAL");
        let found = HloModuleProto::decode(with_order(&bytes, &module).unwrap().unwrap().as_slice()).unwrap();
        let mut expected = module;
        expected.computations[0].instructions[1].comparison_type = TOTAL_ORDER.into();
        assert_eq!(found, expected);
        for (kind, order) in [(DType::F32, "PARTIAL"), (DType::F32, ""), (DType::I32, "TOTAL")] {
            let (bytes, module) = code(kind, order);
            assert!(with_order(&bytes, &module).unwrap().is_none(), "{kind:?} {order}");
        }
    }
}
