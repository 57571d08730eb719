//! HLO modules as the operations that readers of programs know: computations are functions, in the dialect `hlo`.

use super::{constant, HloComputationProto, HloInstructionProto, HloModuleProto, ShapeProto, TOKEN, TUPLE};
use crate::module::{Attribute, Block, Element, Module, Operation, Region, Type, Value};
use pjrt_data::dtype::DType;
use std::collections::HashMap;
use std::sync::Arc;

impl HloModuleProto {
    pub fn to_module(&self) -> Module {
        let mut types = Vec::new();
        let operations = self.computations.iter().map(|computation| self.function(computation, &mut types)).collect();
        let mut root = Operation::new("builtin.module", Vec::new(), Vec::new());
        root.set("sym_name", Attribute::string(&self.name));
        root.regions = vec![Region { blocks: vec![Block { operations, ..Block::default() }] }];
        Module { root, types }
    }

    /// The symbol of a computation: of the entry, `main`, of others the number, as names may be there twice.
    fn symbol(&self, id: i64) -> String {
        if id == self.entry_computation_id {
            "main".into()
        } else {
            id.to_string()
        }
    }

    fn function(&self, computation: &HloComputationProto, types: &mut Vec<Type>) -> Operation {
        let instructions = &computation.instructions;
        let places: HashMap<i64, usize> = instructions.iter().enumerate().map(|(i, n)| (n.id, i)).collect();
        let first = types.len();
        types.extend(instructions.iter().map(|i| i.shape.as_ref().map_or(Type::None, kind)));
        let value = |place: usize| Value((first + place) as u32);
        let mut block = Block::default();
        for (at, instruction) in instructions.iter().enumerate() {
            if instruction.opcode == "parameter" {
                block.arguments.push(value(at));
                block.names.push(Some(instruction.name_in_source().unwrap_or(&instruction.name).into()));
                continue;
            }
            // Operands come first, also in a damaged module.
            let before = |id: &i64| places.get(id).filter(|&&place| place < at).map(|&place| value(place));
            let operands = instruction.operand_ids.iter().filter_map(before).collect();
            let mut operation = Operation::new(&format!("hlo.{}", instruction.opcode), operands, vec![value(at)]);
            self.add_attributes(instruction, &mut operation);
            block.operations.push(operation);
        }
        if let Some(&root) = places.get(&computation.root_id) {
            let made = block.operations.iter().find(|operation| operation.results == [value(root)]);
            let returned = match made {
                Some(tuple) if tuple.base() == "tuple" => tuple.operands.clone(),
                _ => vec![value(root)],
            };
            block.operations.push(Operation::new("hlo.return", returned, Vec::new()));
        }
        let mut function = Operation::new("func.func", Vec::new(), Vec::new());
        function.set("sym_name", Attribute::string(&self.symbol(computation.id)));
        function.set("label", Attribute::string(&computation.name));
        function.regions = vec![Region { blocks: vec![block] }];
        if let Some(program) = self.host_program_shape.as_ref().filter(|_| computation.id == self.entry_computation_id)
        {
            let results = || program.result.iter().flat_map(ShapeProto::parts);
            let shape = (program.parameters.iter().map(kind).collect(), results().map(kind).collect());
            function.set("function_type", Attribute::Type(Type::Function(Arc::new(shape))));
            function.set("arg_attrs", Attribute::Array(program.parameters.iter().map(layout).collect()));
            function.set("res_attrs", Attribute::Array(results().map(layout).collect()));
        }
        function
    }

    fn add_attributes(&self, of: &HloInstructionProto, operation: &mut Operation) {
        let numbers = |numbers: &[i64]| Attribute::Numbers(numbers.into());
        match of.opcode.as_str() {
            "transpose" => operation.set("permutation", numbers(&of.dimensions)),
            "broadcast" => {
                operation.name = "hlo.broadcast_in_dim".into();
                operation.set("broadcast_dimensions", numbers(&of.dimensions));
            }
            "gather" => {
                let gather = of.gather_dimension_numbers.clone().unwrap_or_default();
                operation.set("dimension_numbers", Attribute::Gather(Arc::new(gather)));
            }
            "compare" if !of.comparison_type.is_empty() => {
                operation.set("compare_type", Attribute::string(&of.comparison_type));
            }
            "custom-call" => operation.set("call_target_name", Attribute::string(&of.custom_call_target)),
            "fusion" => {
                // Compilers name fusions after what is in them.
                let name = of.name.split('.').next().unwrap_or_default();
                let name = name.trim_end_matches("fusion").trim_end_matches('_').trim_start_matches("wrapped_");
                operation.set("label", Attribute::string(name));
            }
            "constant" => {
                let scalar = of.shape.as_ref().filter(|shape| shape.dimensions.is_empty());
                if let Some((shape, literal)) = scalar.zip(of.literal.as_ref()) {
                    let value = constant::text(literal, shape);
                    operation.set("value", Attribute::Other(format!("dense<{value}>").into()));
                }
            }
            _ => {}
        }
        let called = of.called_computation_ids.iter().map(|&id| Attribute::symbol(self.symbol(id).into()));
        operation.set("called_computations", Attribute::Array(called.collect()));
        if let Some((file, line)) = self.place(of) {
            operation.set("place", Attribute::string(&format!("{file}:{line}")));
        }
        let devices = of.devices();
        if !devices.is_empty() {
            operation.set("replica_groups", Attribute::Numbers(devices.into()));
        }
    }
}

fn kind(shape: &ShapeProto) -> Type {
    match shape.element_type {
        TUPLE => Type::Tuple(shape.tuple_shapes.iter().map(kind).collect()),
        TOKEN => Type::Token,
        code => {
            let element = DType::from_xla_code(code).map_or_else(|| Element::Other("?".into()), Element::Number);
            Type::tensor(shape.dimensions.clone(), element)
        }
    }
}

/// What is said about an array that is not row-major.
fn layout(shape: &ShapeProto) -> Attribute {
    let has_own = shape.spec().is_some_and(|spec| spec.minor_to_major.is_some());
    let item = ("mhlo.layout_mode".into(), Attribute::Unit);
    Attribute::Dictionary(if has_own { [item].into() } else { [].into() })
}
