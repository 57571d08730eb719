//! HLO modules, XLA's form of a program: their inputs, outputs, aliases and text.

use crate::module::annotations::{Annotations, Array};
use crate::module::sizes;
use pjrt_base::error::Result;
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_data::layout;
use prost::{DecodeError, Message};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

#[macro_use]
mod messages;

mod attributes;
pub mod barrier;
mod comparison;
mod constant;
mod cost;
#[cfg(test)]
mod examples;
mod groups;
mod module;
mod order;
pub mod processes;
mod proto;
pub mod sharding;
pub mod sorting;
mod text;
mod wire;

pub use comparison::with_order;
pub use cost::is_transcendental;
pub use cost::{OperationCost, Totals};
pub use groups::*;
pub use order::Unordered;
pub use proto::*;

impl ShapeProto {
    /// The array that the shape describes; `None` for tuples, tokens and types unknown here.
    pub fn spec(&self) -> Option<Spec> {
        let dtype = DType::from_xla_code(self.element_type)?;
        let order = self.layout.as_ref().map(|l| l.minor_to_major.as_slice()).unwrap_or_default();
        let spec = Spec { dtype, dims: self.dimensions.as_slice().into(), minor_to_major: None };
        Some(if layout::is_permutation(order, spec.dims.len()) { spec.in_order(order) } else { spec })
    }

    /// The shape of an array.
    pub fn of(spec: &Spec) -> ShapeProto {
        let mut shape = ShapeProto::row_major(spec.dtype.info().xla_code, &spec.dims);
        if let (Some(layout), Some(order)) = (&mut shape.layout, &spec.minor_to_major) {
            layout.minor_to_major = order.to_vec();
        }
        shape
    }

    fn row_major(element_type: i32, dims: &[i64]) -> ShapeProto {
        let minor_to_major = (0..dims.len() as i64).rev().collect();
        ShapeProto {
            element_type,
            dimensions: dims.into(),
            layout: Some(LayoutProto { minor_to_major, ..Default::default() }),
            is_dynamic_dimension: vec![false; dims.len()],
            ..Default::default()
        }
    }

    /// The arrays of a result: a tuple's arrays, or the one array.
    pub fn specs(&self) -> Option<Vec<Spec>> {
        self.parts().iter().map(ShapeProto::spec).collect()
    }

    /// The shapes in a tuple, or the one shape.
    fn parts(&self) -> &[ShapeProto] {
        match self.element_type {
            TUPLE => &self.tuple_shapes,
            _ => std::slice::from_ref(self),
        }
    }

    /// Whether all of its arrays are row-major. Dimensions of size 1 do not matter.
    fn is_row_major(&self) -> bool {
        let order = self.layout.as_ref().map(|layout| layout.minor_to_major.as_slice()).unwrap_or_default();
        let matters = |&&d: &&i64| self.dimensions.get(d as usize) != Some(&1);
        let is_descending = order.iter().filter(matters).is_sorted_by(|a, b| a > b);
        (is_descending || self.dimensions.contains(&0)) && self.tuple_shapes.iter().all(ShapeProto::is_row_major)
    }

    fn check_sizes(&self) -> Result<()> {
        sizes::check(self.dimensions.iter().map(|&dim| u64::try_from(dim).unwrap_or(0)))?;
        self.tuple_shapes.iter().try_for_each(ShapeProto::check_sizes)
    }

    /// Whether both are arrays, or tuples of the same number of such parts.
    fn is_structured_as(&self, other: &ShapeProto) -> bool {
        let is_tuple = |shape: &ShapeProto| shape.element_type == TUPLE;
        is_tuple(self) == is_tuple(other)
            && self.tuple_shapes.len() == other.tuple_shapes.len()
            && self.tuple_shapes.iter().zip(&other.tuple_shapes).all(|(part, other)| part.is_structured_as(other))
    }

    fn debug_text(&self, out: &mut String, indent: usize) {
        let pad = " ".repeat(indent);
        let _ = writeln!(out, "{pad}element_type: {}", self.element_type);
        out.extend(self.dimensions.iter().map(|d| format!("{pad}dimensions: {d}\n")));
        for part in &self.tuple_shapes {
            let _ = writeln!(out, "{pad}tuple_shapes {{");
            part.debug_text(out, indent + 2);
            let _ = writeln!(out, "{pad}}}");
        }
    }
}

// Reading and writing a module is much generic code, which a more optimized crate would compile again.
impl HloModuleProto {
    /// Reads a serialized module.
    ///
    /// # Errors
    /// That of prost's `decode()`.
    #[inline(never)]
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<HloModuleProto, DecodeError> {
        HloModuleProto::decode(bytes)
    }

    /// The serialized module.
    #[inline(never)]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

impl HloModuleProto {
    /// Checks that no array has an impossible size.
    ///
    /// # Errors
    /// `InvalidInput`.
    pub fn check_sizes(&self) -> Result<()> {
        let of_program = self.host_program_shape.iter().flat_map(|shape| shape.parameters.iter().chain(&shape.result));
        let shapes = self.instructions().filter_map(|instruction| instruction.shape.as_ref());
        shapes.chain(of_program).try_for_each(ShapeProto::check_sizes)
    }

    /// The computations by number.
    fn by_id(&self) -> HashMap<i64, Computation<'_>> {
        let with_id = self.computations.iter().map(|proto| {
            let instructions = proto.instructions.iter().map(|i| (i.id, i)).collect();
            (proto.id, Computation { proto, instructions })
        });
        with_id.collect()
    }

    fn instructions(&self) -> impl Iterator<Item = &HloInstructionProto> {
        self.computations.iter().flat_map(|computation| &computation.instructions)
    }

    /// The calls of functions by name, with their computations.
    fn calls(&self) -> impl Iterator<Item = (&HloComputationProto, &HloInstructionProto)> {
        let all = self.computations.iter().flat_map(|c| c.instructions.iter().map(move |i| (c, i)));
        all.filter(|(_, instruction)| instruction.opcode == "custom-call")
    }

    /// Whether any computation holds an instruction with this opcode.
    pub fn has_opcode(&self, opcode: &str) -> bool {
        self.instructions().any(|i| i.opcode == opcode)
    }

    /// Whether the duration of a run hardly depends on the inputs: the compiler knows the number of iterations of every
    /// loop, and the module has no branches or calls of functions that are not XLA's operations.
    pub fn takes_a_known_time(&self) -> bool {
        let known = |i: &HloInstructionProto| match i.opcode.as_str() {
            "while" => i.trip_count().is_some(),
            "conditional" | "custom-call" => false,
            _ => true,
        };
        self.instructions().all(known)
    }

    /// The functions that the program calls by name and that do not come with XLA's plugins, judged by name: they may be
    /// absent in another process.
    pub fn foreign_functions(&self) -> impl Iterator<Item = &str> {
        const PREFIXES: [&str; 2] = ["__", "xla."];
        const NAMES: [&str; 5] = ["MoveToDevice", "MoveToHost", "Sharding", "TopK", "annotate_device_placement"];
        let is_known = |name: &str| NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        self.calls().map(|(_, call)| call.custom_call_target.as_str()).filter(move |name| !is_known(name))
    }

    /// The functions that the program calls with an operand or result that is not row-major.
    pub fn functions_in_other_layouts(&self) -> impl Iterator<Item = &str> {
        let calls = self.calls().filter(|(computation, call)| {
            let operands = call.operand_ids.iter().filter_map(|&id| computation.find(id));
            !operands.chain([*call]).filter_map(|i| i.shape.as_ref()).all(ShapeProto::is_row_major)
        });
        calls.map(|(_, call)| call.custom_call_target.as_str())
    }

    /// The calls of functions by name, with their operands and results if these are known.
    pub fn custom_calls(&self) -> impl Iterator<Item = (&str, Option<Vec<Spec>>)> {
        self.calls().map(|(computation, call)| (call.custom_call_target.as_str(), computation.arrays(call)))
    }

    pub fn entry(&self) -> Option<&HloComputationProto> {
        self.computations.iter().find(|c| c.id == self.entry_computation_id)
    }

    /// Whether the module's inputs and outputs match its entry computation's: XLA relies on it.
    pub fn has_consistent_shape(&self) -> bool {
        let (Some(entry), Some(program)) = (self.entry(), &self.host_program_shape) else { return true };
        let agree = |declared: Option<&ShapeProto>, own: &Option<ShapeProto>| {
            declared.zip(own.as_ref()).is_some_and(|(declared, own)| declared.is_structured_as(own))
        };
        let parameters = entry.parameters();
        let declared = |number: i64| program.parameters.get(usize::try_from(number).ok()?);
        parameters.len() == program.parameters.len()
            && parameters.iter().all(|parameter| agree(declared(parameter.parameter_number), &parameter.shape))
            && entry.find(entry.root_id).is_some_and(|root| agree(program.result.as_ref(), &root.shape))
    }

    /// File and line of an instruction's source, if a compiler recorded them.
    pub fn place<'a>(&'a self, instruction: &'a HloInstructionProto) -> Option<(&'a str, i32)> {
        let metadata = instruction.metadata.as_ref()?;
        if !metadata.source_file.is_empty() {
            return Some((&metadata.source_file, metadata.source_line));
        }
        self.stack_frame_index.as_ref()?.place(metadata.stack_frame_id)
    }

    /// The names of the inputs: the names in the source if a compiler recorded them, otherwise the parameters' own.
    pub fn input_names(&self) -> Vec<String> {
        self.parameters().map(|p| p.name_in_source().unwrap_or(&p.name).replace('\0', "\u{fffd}")).collect()
    }

    /// The names of the inputs in the source, if a compiler recorded them.
    pub fn recorded_names(&self) -> Vec<Option<String>> {
        self.parameters().map(|p| p.name_in_source().map(str::to_owned)).collect()
    }

    /// The parameters of the entry computation in their order.
    fn parameters(&self) -> impl Iterator<Item = &HloInstructionProto> {
        self.entry().into_iter().flat_map(HloComputationProto::parameters)
    }

    /// The module's annotations about devices. Their number is not one of them.
    pub fn annotations(&self) -> Annotations {
        let (Some(entry), Some(program)) = (self.entry(), &self.host_program_shape) else {
            return Annotations::default();
        };
        let array = |shape: &ShapeProto, sharding: Option<&OpSharding>| Array {
            dims: shape.spec().map(|spec| spec.dims.into_vec()),
            has_sharding: sharding.is_some(),
            ..Array::default()
        };
        let divided = entry.parameters().into_iter().filter_map(|p| Some((p.parameter_number, p.sharding.as_ref()?)));
        let divided: BTreeMap<_, _> = divided.collect();
        let sharding = |number: usize| divided.get(&(number as i64)).copied();
        let inputs = program.parameters.iter().enumerate().map(|(i, shape)| array(shape, sharding(i))).collect();
        let declared = entry.find(entry.root_id).and_then(|root| root.sharding.as_ref());
        let outputs = program.result.as_ref().map(|result| match result.element_type {
            TUPLE => {
                let declared = declared.map(|declared| declared.tuple_shardings.as_slice()).unwrap_or_default();
                result.tuple_shapes.iter().enumerate().map(|(i, shape)| array(shape, declared.get(i))).collect()
            }
            _ => vec![array(result, declared)],
        });
        Annotations { inputs: Some(inputs), outputs, ..Default::default() }
    }

    /// The shardings of the inputs and of the result by which a compiler has partitioned the program.
    pub fn shardings(&self) -> (&[OpSharding], Option<&OpSharding>) {
        (&self.spmd_parameters_shardings, self.spmd_output_sharding.as_ref())
    }

    /// The part of the module with its inputs, outputs, aliases and shardings.
    pub fn interface(&self) -> HloModuleProto {
        HloModuleProto {
            name: self.name.clone(),
            host_program_shape: self.host_program_shape.clone(),
            input_output_alias: self.input_output_alias.clone(),
            buffer_donor: self.buffer_donor.clone(),
            spmd_output_sharding: self.spmd_output_sharding.clone(),
            spmd_parameters_shardings: self.spmd_parameters_shardings.clone(),
            ..Default::default()
        }
    }

    /// The parts of the module that this crate reads, in the text form of protocol buffers.
    pub fn debug_text(&self) -> String {
        // Writing to a string cannot fail.
        let mut out = String::new();
        let _ = writeln!(out, "name: {:?}", self.name);
        let _ = writeln!(out, "entry_computation_name: {:?}", self.entry_computation_name);
        for computation in &self.computations {
            let _ = writeln!(out, "computations {{\n  name: {:?}", computation.name);
            for instruction in &computation.instructions {
                instruction.debug_text(&mut out);
            }
            let _ = writeln!(out, "  id: {}\n  root_id: {}\n}}", computation.id, computation.root_id);
        }
        let _ = writeln!(out, "id: {}\nentry_computation_id: {}", self.id, self.entry_computation_id);
        out
    }
}

/// A computation with its instructions by number.
struct Computation<'a> {
    proto: &'a HloComputationProto,
    instructions: HashMap<i64, &'a HloInstructionProto>,
}

impl<'a> Computation<'a> {
    fn operand(&self, instruction: &HloInstructionProto, number: usize) -> Option<&'a ShapeProto> {
        self.instructions.get(instruction.operand_ids.get(number)?)?.shape.as_ref()
    }
}

impl HloComputationProto {
    /// The instruction of this number.
    fn find(&self, id: i64) -> Option<&HloInstructionProto> {
        self.instructions.iter().find(|instruction| instruction.id == id)
    }

    /// The parameters in their order.
    fn parameters(&self) -> Vec<&HloInstructionProto> {
        let mut parameters: Vec<_> = self.instructions.iter().filter(|i| i.opcode == "parameter").collect();
        parameters.sort_by_key(|p| p.parameter_number);
        parameters
    }

    /// An instruction's operands and results, if all are arrays.
    fn arrays(&self, instruction: &HloInstructionProto) -> Option<Vec<Spec>> {
        let operands = instruction.operand_ids.iter().map(|&id| self.find(id)?.shape.as_ref()?.specs());
        let arrays = operands.chain([instruction.shape.as_ref()?.specs()]).collect::<Option<Vec<_>>>()?;
        Some(arrays.into_iter().flatten().collect())
    }
}

impl StackFrameIndex {
    /// File and line of a stack frame.
    fn place(&self, frame: i32) -> Option<(&str, i32)> {
        fn nth<T>(list: &[T], number: i32) -> Option<&T> {
            list.get(usize::try_from(number).ok()?.checked_sub(1)?)
        }
        let location = nth(&self.file_locations, nth(&self.stack_frames, frame)?.file_location_id)?;
        Some((nth(&self.file_names, location.file_name_id)?, location.line))
    }
}

impl HloInstructionProto {
    /// The number of iterations of this loop, if the compiler has recorded it.
    fn trip_count(&self) -> Option<f64> {
        let text = String::from_utf8_lossy(&self.backend_config);
        let (_, count) = text.split_once("\"known_trip_count\"")?;
        let digits = count.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// Its name in the program's source, if a compiler recorded it.
    fn name_in_source(&self) -> Option<&str> {
        let name = self.metadata.as_ref()?.op_name.as_str();
        (!name.is_empty() && !name.contains('\0')).then_some(name)
    }

    fn debug_text(&self, out: &mut String) {
        let _ = writeln!(out, "  instructions {{\n    name: {:?}\n    opcode: {:?}", self.name, self.opcode);
        if let Some(shape) = &self.shape {
            let _ = writeln!(out, "    shape {{");
            shape.debug_text(out, 6);
            let _ = writeln!(out, "    }}");
        }
        if self.opcode == "parameter" {
            let _ = writeln!(out, "    parameter_number: {}", self.parameter_number);
        }
        let _ = writeln!(out, "    id: {}", self.id);
        out.extend(self.operand_ids.iter().map(|operand| format!("    operand_ids: {operand}\n")));
        let _ = writeln!(out, "  }}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_without_a_known_number_of_turns_and_choices_take_an_unknown_time() {
        let takes_known_time = |opcode: &str, config: &str| {
            let instruction = HloInstructionProto {
                opcode: opcode.into(),
                backend_config: config.as_bytes().into(),
                ..Default::default()
            };
            let computation = HloComputationProto { instructions: vec![instruction], ..Default::default() };
            HloModuleProto { computations: vec![computation], ..Default::default() }.takes_a_known_time()
        };
        assert!(takes_known_time("sort", ""));
        assert!(takes_known_time("while", r#"{"known_trip_count":{"n":"50"},"known_init_step":{"init":"0"}}"#));
        for (opcode, config) in [("while", ""), ("while", "{}"), ("conditional", ""), ("custom-call", "")] {
            assert!(!takes_known_time(opcode, config), "{opcode} {config}");
        }
    }

    #[test]
    fn functions_registered_by_a_user_are_distinguished_from_functions_of_xla() {
        let is_foreign = |target: &str| {
            let opcode = if target.is_empty() { "add" } else { "custom-call" };
            let call =
                HloInstructionProto { opcode: opcode.into(), custom_call_target: target.into(), ..Default::default() };
            let computation = HloComputationProto { instructions: vec![call], ..Default::default() };
            let module = HloModuleProto { computations: vec![computation], ..Default::default() };
            let found: Vec<_> = module.foreign_functions().collect();
            assert!(found.is_empty() || found == [target]);
            !found.is_empty()
        };
        for target in ["", "TopK", "__onednn$matmul", "__cublas$gemm", "xla.sdy.FuncResultSharding"] {
            assert!(!is_foreign(target), "{target}");
        }
        for target in ["print_tensor", "my_kernel", "TopK2"] {
            assert!(is_foreign(target), "{target}");
        }
    }

    #[test]
    fn impossible_sizes_are_refused_in_modules() {
        let with = |dimensions: Vec<i64>| {
            let array = ShapeProto { dimensions, ..Default::default() };
            let tuple = ShapeProto { tuple_shapes: vec![array], ..Default::default() };
            let instruction = HloInstructionProto { shape: Some(tuple), ..Default::default() };
            let computation = HloComputationProto { instructions: vec![instruction], ..Default::default() };
            HloModuleProto { computations: vec![computation], ..Default::default() }.check_sizes()
        };
        assert!(with(vec![1 << 32, 1 << 32]).is_err());
        assert!(with(vec![0, 1 << 32, 1 << 32]).is_err());
        assert!(with(vec![1 << 32, 1 << 20]).is_ok());
        assert!(with(vec![-1, 2]).is_ok());
    }
}
