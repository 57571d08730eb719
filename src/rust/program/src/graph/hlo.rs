//! The graph of an HLO module.

use super::{short_number, type_text, Body, Graph, Kind, Op};
use crate::hlo::{HloComputationProto, HloInstructionProto, HloModuleProto, ShapeProto, TUPLE};
use pjrt_data::dtype::DType;
use std::collections::HashMap;

pub(super) fn read(module: &HloModuleProto) -> Graph {
    let numbers: HashMap<i64, usize> = module.computations.iter().enumerate().map(|(i, c)| (c.id, i)).collect();
    let bodies = module.computations.iter().map(|computation| body(module, computation, &numbers)).collect();
    let entry = numbers.get(&module.entry_computation_id).copied().unwrap_or(0);
    Graph { bodies, entry }
}

fn body(module: &HloModuleProto, computation: &HloComputationProto, numbers: &HashMap<i64, usize>) -> Body {
    let places: HashMap<i64, usize> = computation.instructions.iter().enumerate().map(|(i, n)| (n.id, i)).collect();
    let is_entry = computation.id == module.entry_computation_id;
    let op = |instruction: &HloInstructionProto| {
        let at = places.get(&instruction.id).copied().unwrap_or(0);
        // Operands come first, also in a damaged module.
        let before = |id: &i64| places.get(id).copied().filter(|&place| place < at);
        Op {
            kind: match instruction.opcode.as_str() {
                "parameter" => Kind::Input,
                "tuple" | "get-tuple-element" | "bitcast" | "opt-barrier" => Kind::Transparent,
                _ => Kind::Plain,
            },
            label: label(instruction),
            detail: instruction.shape.as_ref().map(shape_text).unwrap_or_default(),
            value: Some(instruction).filter(|i| i.opcode == "constant").and_then(|i| short_number(&i.value_text()?)),
            operands: instruction.operand_ids.iter().filter_map(before).collect(),
            inner: instruction.called_computation_ids.iter().filter_map(|id| numbers.get(id).copied()).collect(),
            place: module.place(instruction).map(|(file, line)| format!("{file}:{line}")).unwrap_or_default(),
        }
    };
    let mut ops: Vec<Op> = computation.instructions.iter().map(op).collect();
    let root = places.get(&computation.root_id).copied();
    if let Some(root) = root.filter(|_| is_entry) {
        let results = match ops[root].kind {
            Kind::Transparent if computation.instructions[root].opcode == "tuple" => ops[root].operands.clone(),
            _ => vec![root],
        };
        for (i, result) in results.into_iter().enumerate() {
            let (label, detail) = (format!("output {}", i + 1), ops[result].detail.clone());
            ops.push(Op { kind: Kind::Output, label, detail, operands: vec![result], ..Op::default() });
        }
    }
    Body { name: computation.name.clone(), ops }
}

fn label(instruction: &HloInstructionProto) -> String {
    match instruction.opcode.as_str() {
        "parameter" => instruction.metadata.as_ref().map(|m| &m.op_name).filter(|n| !n.is_empty()),
        // Compilers name fusions after what is in them.
        "fusion" => {
            let name = instruction.name.split('.').next().unwrap_or_default();
            let name = name.trim_end_matches("fusion").trim_end_matches('_').trim_start_matches("wrapped_");
            return if name.is_empty() { "fusion".into() } else { format!("fusion {name}") };
        }
        "custom-call" => return format!("custom-call {}", instruction.custom_call_target),
        opcode => return opcode.to_owned(),
    }
    .unwrap_or(&instruction.name)
    .clone()
}

/// The type as text; for a tuple, the first one's.
fn shape_text(shape: &ShapeProto) -> String {
    if shape.element_type == TUPLE {
        return match shape.tuple_shapes.as_slice() {
            [] => "()".into(),
            [one] => shape_text(one),
            [first, ..] => format!("{}, ...", shape_text(first)),
        };
    }
    let element = DType::from_xla_code(shape.element_type).map_or("?", DType::name);
    type_text(shape.dimensions.iter().map(i64::to_string), element)
}
