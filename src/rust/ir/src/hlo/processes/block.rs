//! New instructions in a computation, and the ticket that they pass on.

use super::super::wire::field::{ID, INSTRUCTION, NAME, OPERANDS, SHAPE};
use super::super::wire::{self, damage, fields};
use super::super::{HloComputationProto, HloInstructionProto, LiteralProto, OutputOperandAliasing, ShapeProto, TUPLE};
use super::tickets::Passes;
use pjrt_base::error::Result;
use prost::Message;

const S32: i32 = 4;
const TYPED_FFI: i32 = 4;

/// An array's instruction and dimensions.
pub struct Operand {
    pub id: i64,
    pub element_type: i32,
    pub dims: Vec<i64>,
}

impl Operand {
    pub fn of(made: &HloInstructionProto) -> Operand {
        let (element_type, dims) =
            made.shape.as_ref().map(|s| (s.element_type, s.dimensions.clone())).unwrap_or_default();
        Operand { id: made.id, element_type, dims }
    }
}

pub struct Block<'a> {
    computation: &'a HloComputationProto,
    /// What is made for an instruction, in order, each with the fields that it keeps of one of the program.
    made: Vec<(HloInstructionProto, Vec<u8>)>,
    next_id: i64,
    /// The instruction that has the current ticket.
    ticket: i64,
}

impl<'a> Block<'a> {
    pub fn new(computation: &'a HloComputationProto) -> Block<'a> {
        let last = computation.instructions.iter().map(|instruction| instruction.id).max().unwrap_or(0);
        // A damaged module may have the last of all numbers.
        let next_id = last.min(i64::MAX / 2);
        Block { computation, made: Vec::new(), next_id, ticket: 0 }
    }

    /// Makes the first ticket, or the parameter that it comes by.
    pub fn begin(&mut self, passes: Passes, has_calls: bool) {
        match passes {
            Passes::None if has_calls => {
                self.ticket = self.constant(S32, LiteralProto { s32s: vec![0], ..Default::default() });
            }
            Passes::AsParameter => {
                let number = self.computation.parameters().len();
                let made = self.add("parameter", shape_of_ticket(), &[]);
                made.parameter_number = number as i64;
                self.ticket = made.id;
            }
            _ => {}
        }
    }

    /// A parameter that comes together with the ticket.
    pub fn parameter(&mut self, of: &HloInstructionProto) -> Result<()> {
        let shape = shape_of(of)?;
        let both = self.add("parameter", with_ticket(&shape), &[]).id;
        self.part(both, 0, shape);
        self.name_as(of);
        self.ticket = self.part(both, 1, shape_of_ticket());
        Ok(())
    }

    /// A loop, branch or call that takes the ticket and returns it.
    pub fn container(&mut self, of: &HloInstructionProto, raw: &[u8]) -> Result<()> {
        let shape = shape_of(of)?;
        let mut operands = of.operand_ids.clone();
        match of.opcode.as_str() {
            "call" => operands.push(self.ticket),
            opcode => {
                // The first operand of a conditional is the choice.
                for operand in operands.iter_mut().skip(usize::from(opcode == "conditional")) {
                    let found = self.computation.find(*operand);
                    let of = shape_of(found.ok_or_else(|| damage("an operand is missing"))?)?;
                    *operand = self.add("tuple", with_ticket(&of), &[*operand, self.ticket]).id;
                }
            }
        }
        // The opcode is one of the fields that stay as they are.
        let (made, kept) = self.push("", with_ticket(&shape), &operands);
        made.name = format!("{}.with.ticket", of.name);
        let id = made.id;
        for field in fields(raw)?.iter().filter(|field| ![NAME, SHAPE, ID, OPERANDS].contains(&field.number)) {
            kept.extend_from_slice(field.raw);
        }
        self.part(id, 0, shape);
        self.name_as(of);
        self.ticket = self.part(id, 1, shape_of_ticket());
        Ok(())
    }

    /// The result of a computation that returns the ticket.
    pub fn root(&mut self) -> Result<i64> {
        let root_id = self.computation.root_id;
        let root = self.computation.find(root_id).ok_or_else(|| damage("a computation has no result"))?;
        Ok(self.add("tuple", with_ticket(&shape_of(root)?), &[root_id, self.ticket]).id)
    }

    /// Writes what was made, and forgets it.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        for (made, kept) in self.made.drain(..) {
            wire::put(out, INSTRUCTION, &[kept, made.encode_to_vec()].concat());
        }
    }

    pub fn add(&mut self, opcode: &str, shape: ShapeProto, operands: &[i64]) -> &mut HloInstructionProto {
        &mut self.push(opcode, shape, operands).0
    }

    fn push(&mut self, opcode: &str, shape: ShapeProto, operands: &[i64]) -> &mut (HloInstructionProto, Vec<u8>) {
        self.next_id += 1;
        let instruction = HloInstructionProto {
            name: format!("process.{}.{}", self.computation.id, self.next_id & 0xffff_ffff),
            opcode: opcode.into(),
            shape: Some(shape),
            id: self.next_id,
            operand_ids: operands.into(),
            ..Default::default()
        };
        self.made.push((instruction, Vec::new()));
        let last = self.made.len() - 1;
        &mut self.made[last]
    }

    /// Gives the last instruction the name and number of the one that it replaces.
    pub fn name_as(&mut self, of: &HloInstructionProto) {
        if let Some((last, _)) = self.made.last_mut() {
            last.id = of.id;
            last.name.clone_from(&of.name);
            last.metadata.clone_from(&of.metadata);
            last.control_predecessor_ids.clone_from(&of.control_predecessor_ids);
        }
    }

    /// A constant of one element.
    pub fn constant(&mut self, element_type: i32, literal: LiteralProto) -> i64 {
        let shape = ShapeProto::row_major(element_type, &[]);
        let made = self.add("constant", shape.clone(), &[]);
        made.literal = Some(LiteralProto { shape: Some(shape), ..literal });
        made.id
    }

    /// A part of a tuple.
    fn part(&mut self, tuple: i64, index: i64, shape: ShapeProto) -> i64 {
        let made = self.add("get-tuple-element", shape, &[tuple]);
        made.tuple_index = index;
        made.id
    }

    pub fn reshape(&mut self, x: &Operand, dims: &[i64]) -> Operand {
        Operand::of(self.add("reshape", ShapeProto::row_major(x.element_type, dims), &[x.id]))
    }

    /// Moves dimension `from` to `to`.
    pub fn move_dimension(&mut self, x: &Operand, from: usize, to: usize) -> Operand {
        let mut order: Vec<i64> = (0..x.dims.len() as i64).collect();
        let moved = order.remove(from);
        order.insert(to, moved);
        let dims: Vec<i64> = order.iter().map(|&d| x.dims[d as usize]).collect();
        let made = self.add("transpose", ShapeProto::row_major(x.element_type, &dims), &[x.id]);
        made.dimensions = order;
        Operand::of(made)
    }

    /// A call of a function that communicates. Only row-major arrays are passed.
    pub fn call(&mut self, target: &str, attributes: &str, x: &Operand, dims: &[i64]) -> Operand {
        let result = ShapeProto::row_major(x.element_type, dims);
        let made = self.add("custom-call", with_ticket(&result), &[x.id, self.ticket]);
        made.custom_call_target = format!("pjrt_mpi_{target}");
        made.backend_config = format!("{{{attributes}, ticket = true}}").into_bytes();
        made.custom_call_api_version = TYPED_FFI;
        made.custom_call_has_side_effect = true;
        made.constrain_layout = true;
        if target == "all_reduce" {
            // In place: XLA copies an operand that something else uses, too.
            made.output_operand_aliasing =
                vec![OutputOperandAliasing { output_shape_index: vec![0], ..Default::default() }];
        }
        made.operand_shapes_with_layout = vec![ShapeProto::row_major(x.element_type, &x.dims), shape_of_ticket()];
        let id = made.id;
        self.ticket = self.part(id, 1, shape_of_ticket());
        let id = self.part(id, 0, result);
        Operand { id, element_type: x.element_type, dims: dims.into() }
    }

    /// An operand of an instruction.
    pub fn operand(&self, id: i64) -> Result<Operand> {
        let found = self.computation.find(id).filter(|i| i.shape.as_ref().is_some_and(|shape| shape.spec().is_some()));
        let not_array = || damage("a collective operation has an operand that is not an array");
        found.map(Operand::of).ok_or_else(not_array)
    }
}

fn shape_of(instruction: &HloInstructionProto) -> Result<ShapeProto> {
    instruction.shape.clone().ok_or_else(|| damage("an instruction has no shape"))
}

fn shape_of_ticket() -> ShapeProto {
    ShapeProto::row_major(S32, &[])
}

/// A tuple of a value and the ticket.
fn with_ticket(shape: &ShapeProto) -> ShapeProto {
    ShapeProto { element_type: TUPLE, tuple_shapes: vec![shape.clone(), shape_of_ticket()], ..Default::default() }
}
