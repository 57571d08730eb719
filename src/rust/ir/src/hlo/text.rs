//! Modules as HLO text, laid out as in XLA's own dumps.

use super::*;
use std::collections::HashMap;
use std::fmt::Display;

impl HloModuleProto {
    /// The module as HLO text.
    pub fn text(&self) -> String {
        let computations = self.computations.iter().map(|c| (c.id, c.name.as_str())).collect();
        let mut out = self.header();
        for computation in &self.computations {
            let context = Context {
                instructions: computation.instructions.iter().map(|i| (i.id, i)).collect(),
                computations: &computations,
                source: self.stack_frame_index.as_ref(),
            };
            let order = self.schedule.as_ref().and_then(|s| s.sequences.get(&computation.id));
            out.push('\n');
            if computation.id == self.entry_computation_id {
                out.push_str("ENTRY ");
            }
            computation.write(&context, order, &mut out);
        }
        out
    }

    fn header(&self) -> String {
        let mut out = format!("HloModule {}", self.name);
        if self.schedule.is_some() {
            out.push_str(", is_scheduled=true");
        }
        let aliases: Vec<_> = self.input_output_alias.iter().flat_map(|a| &a.entries).map(alias).collect();
        let donor = |d: &DonorEntryProto| format!("({}, {})", d.parameter_number, braces(&d.parameter_shape_index));
        let donors: Vec<_> = self.buffer_donor.iter().flat_map(|d| &d.entries).map(donor).collect();
        for (name, entries) in [("input_output_alias", aliases), ("buffer_donor", donors)] {
            if !entries.is_empty() {
                let _ = write!(out, ", {name}={{ {} }}", entries.join(", "));
            }
        }
        if let Some(program) = &self.host_program_shape {
            let result = program.result.as_ref().map(|r| r.text(true)).unwrap_or_default();
            let parameters = numbered(program.parameters.iter().map(|p| p.text(true)));
            let _ = write!(out, ", entry_computation_layout={{({parameters})->{result}}}");
        }
        out.push('\n');
        out
    }
}

fn alias(entry: &AliasEntryProto) -> String {
    const MUST_ALIAS: i32 = 2;
    let kind = if entry.kind == MUST_ALIAS { "must-alias" } else { "may-alias" };
    let (output, input) = (braces(&entry.output_shape_index), braces(&entry.parameter_shape_index));
    format!("{output}: ({}, {input}, {kind})", entry.parameter_number)
}

/// The names that instructions refer to by number.
pub(super) struct Context<'a> {
    /// The computation's instructions.
    pub instructions: HashMap<i64, &'a HloInstructionProto>,
    computations: &'a HashMap<i64, &'a str>,
    pub source: Option<&'a StackFrameIndex>,
}

impl Context<'_> {
    pub fn instruction(&self, id: i64) -> String {
        format!("%{}", self.instructions.get(&id).map_or("?", |i| &i.name))
    }

    pub fn computation(&self, id: i64) -> String {
        format!("%{}", self.computations.get(&id).unwrap_or(&"?"))
    }
}

impl HloComputationProto {
    fn write(&self, context: &Context, order: Option<&InstructionSequence>, out: &mut String) {
        let parameters = self.parameters().into_iter().map(|p| format!("{}: {}", p.name, p.shape_text(false)));
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        let result = context.instructions.get(&self.root_id).map(|root| root.shape_text(false)).unwrap_or_default();
        let _ = writeln!(out, "%{} ({parameters}) -> {result} {{", self.name);
        let scheduled = order.map(|o| o.instruction_ids.iter().filter_map(|id| context.instructions.get(id).copied()));
        let scheduled: Vec<_> = scheduled.map(Iterator::collect).unwrap_or_default();
        let instructions = if scheduled.is_empty() { self.instructions.iter().collect::<Vec<_>>() } else { scheduled };
        for instruction in instructions {
            out.push_str(if instruction.id == self.root_id { "  ROOT " } else { "  " });
            instruction.write(context, out);
        }
        out.push('}');
        if !matches!(self.execution_thread.as_str(), "" | "main") {
            let _ = write!(out, ", execution_thread={:?}", self.execution_thread);
        }
        out.push('\n');
    }
}

impl HloInstructionProto {
    fn write(&self, context: &Context, out: &mut String) {
        let operands = match self.opcode.as_str() {
            "parameter" => self.parameter_number.to_string(),
            "constant" => match (&self.literal, &self.shape) {
                (Some(literal), Some(shape)) => constant::text(literal, shape),
                _ => "{...}".into(),
            },
            _ => numbered(self.operand_ids.iter().map(|&id| context.instruction(id))),
        };
        let _ = write!(out, "%{} = {} {}({operands})", self.name, self.shape_text(true), self.opcode);
        for attribute in self.attributes(context) {
            let _ = write!(out, ", {attribute}");
        }
        out.push('\n');
    }

    fn shape_text(&self, with_layout: bool) -> String {
        self.shape.as_ref().map(|s| s.text(with_layout)).unwrap_or_default()
    }
}

impl ShapeProto {
    /// The shape as in `f32[2,3]{1,0}`.
    pub(super) fn text(&self, with_layout: bool) -> String {
        match self.element_type {
            TUPLE => format!("({})", numbered(self.tuple_shapes.iter().map(|s| s.text(with_layout)))),
            TOKEN => "token[]".into(),
            OPAQUE => "opaque[]".into(),
            code => {
                let is_dynamic = |i| self.is_dynamic_dimension.get(i) == Some(&true);
                let dims = self.dimensions.iter().enumerate();
                let dims = dims.map(|(i, d)| format!("{}{d}", if is_dynamic(i) { "<=" } else { "" }));
                let layout = self.layout.as_ref().filter(|_| with_layout).map(LayoutProto::text).unwrap_or_default();
                format!("{}[{}]{layout}", type_name(code), dims.collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl LayoutProto {
    fn text(&self) -> String {
        let mut special = String::from(if self.tiles.is_empty() { "" } else { "T" });
        for tile in &self.tiles {
            let _ = write!(special, "({})", join(&tile.dimensions));
        }
        for (letter, value) in [('E', self.element_size_in_bits), ('S', self.memory_space)] {
            if value != 0 {
                let _ = write!(special, "{letter}({value})");
            }
        }
        match (self.minor_to_major.is_empty(), special.is_empty()) {
            (true, true) => String::new(),
            (_, true) => braces(&self.minor_to_major),
            _ => format!("{{{}:{special}}}", join(&self.minor_to_major)),
        }
    }
}

/// XLA's name of an element type: `s32` where this package says `i32`.
fn type_name(code: i32) -> String {
    let Some(dtype) = DType::from_xla_code(code) else { return format!("type{code}") };
    let name = dtype.name();
    match (name.strip_prefix("ui"), name.strip_prefix('i')) {
        (Some(bits), _) => format!("u{bits}"),
        (_, Some(bits)) => format!("s{bits}"),
        _ => name.into(),
    }
}

pub(super) fn join<T: Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

pub(super) fn braces<T: Display>(items: &[T]) -> String {
    format!("{{{}}}", join(items))
}

/// A list with the index of every fifth item.
pub(super) fn numbered(items: impl Iterator<Item = String>) -> String {
    let with_number = |(i, item)| if i > 0 && i % 5 == 0 { format!("/*index={i}*/{item}") } else { item };
    items.enumerate().map(with_number).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::examples::{array, instruction};
    use super::*;

    fn module() -> HloModuleProto {
        let ids = InstructionSequence { instruction_ids: vec![1, 2] };
        HloModuleProto {
            name: "m".into(),
            computations: vec![HloComputationProto {
                name: "main".into(),
                instructions: vec![instruction(2, "negate", &[2, 3], &[1]), instruction(1, "parameter", &[2, 3], &[])],
                id: 7,
                root_id: 2,
                ..Default::default()
            }],
            host_program_shape: Some(ProgramShapeProto {
                parameters: vec![array(&[2, 3])],
                result: Some(array(&[2, 3])),
                ..Default::default()
            }),
            entry_computation_id: 7,
            schedule: Some(HloScheduleProto { sequences: [(7, ids)].into() }),
            input_output_alias: Some(InputOutputAliasProto { entries: vec![AliasEntryProto::default()] }),
            buffer_donor: Some(BufferDonorProto { entries: vec![DonorEntryProto::default()] }),
            ..Default::default()
        }
    }

    #[test]
    fn a_module_is_written_in_the_order_of_its_schedule() {
        assert_eq!(
            module().text(),
            "HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }, buffer_donor={ (0, {}) }, \
             entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]{1,0}}\n\n\
             ENTRY %main (parameter.1: f32[2,3]) -> f32[2,3] {\n  \
               %parameter.1 = f32[2,3]{1,0} parameter(0)\n  \
               ROOT %negate.2 = f32[2,3]{1,0} negate(%parameter.1)\n}\n"
        );
    }

    #[test]
    fn a_module_without_references_is_written() {
        let mut module = module();
        let main = &mut module.computations[0];
        main.instructions[0].operand_ids = vec![99];
        main.instructions[0].called_computation_ids = vec![98];
        main.instructions[0].metadata = Some(OpMetadata { stack_frame_id: -3, ..Default::default() });
        main.root_id = 97;
        module.stack_frame_index = Some(StackFrameIndex::default());
        module.schedule = None;
        assert!(module.text().contains("%negate.2 = f32[2,3]{1,0} negate(%?), to_apply=%?\n"), "{}", module.text());
        assert_eq!(HloModuleProto::default().text(), "HloModule \n");
    }

    #[test]
    fn tiles_memory_spaces_and_dynamic_dimensions_of_shapes_are_read() {
        let mut shape = array(&[2, 3]);
        shape.is_dynamic_dimension = vec![true, false];
        let layout = shape.layout.as_mut().unwrap();
        layout.tiles = vec![TileProto { dimensions: vec![8, 128] }, TileProto { dimensions: vec![2] }];
        layout.memory_space = 5;
        assert_eq!(shape.text(true), "f32[<=2,3]{1,0:T(8,128)(2)S(5)}");
        let tuple = ShapeProto { element_type: TUPLE, tuple_shapes: vec![array(&[]); 6], ..Default::default() };
        assert_eq!(tuple.text(true), "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[])");
    }

    /// The attributes of an instruction in a computation that calls `%c1` and `%c2` by these numbers.
    fn attributes(instruction: &HloInstructionProto) -> String {
        let computations = [(1, "c1"), (2, "c2")].into();
        let frames = StackFrameIndex {
            file_names: vec!["f.py".into()],
            file_locations: vec![FileLocation { file_name_id: 1, line: 7 }],
            stack_frames: vec![StackFrame { file_location_id: 1 }],
        };
        let context = Context {
            instructions: [(instruction.id, instruction)].into(),
            computations: &computations,
            source: Some(&frames),
        };
        instruction.attributes(&context).join(", ")
    }

    #[test]
    fn groups_of_collectives_are_read() {
        let groups = [vec![0, 2], vec![1, 3]].map(|replica_ids| ReplicaGroup { replica_ids });
        let mut collective = instruction(5, "all-reduce", &[4], &[]);
        collective.channel_id = 1;
        collective.replica_groups = groups.into();
        collective.use_global_device_ids = true;
        collective.called_computation_ids = vec![1];
        assert_eq!(
            attributes(&collective),
            "channel_id=1, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=%c1"
        );
        collective.iota_collective_device_list = Some(IotaReplicaGroupList {
            num_replica_groups: 2,
            num_devices_per_group: 2,
            iota_reshape_dims: vec![2, 2],
            iota_transpose_perm: vec![1, 0],
        });
        assert!(attributes(&collective).contains("replica_groups=[2,2]<=[2,2]T(1,0), "));
        let mut permute = instruction(5, "collective-permute", &[4], &[]);
        permute.source_target_pairs =
            vec![SourceTarget { source: 0, target: 1 }, SourceTarget { source: 1, target: 0 }];
        assert_eq!(attributes(&permute), "source_target_pairs={{0,1},{1,0}}");
    }

    #[test]
    fn tiles_and_devices_of_shardings_are_read() {
        let mut parameter = instruction(5, "parameter", &[4], &[]);
        let mut sharding = OpSharding { kind: 3, tile_dims: vec![2, 1], ..Default::default() };
        sharding.tile_devices = vec![0, 1];
        let mut text = |sharding: &OpSharding| {
            parameter.sharding = Some(sharding.clone());
            attributes(&parameter)
        };
        assert_eq!(text(&sharding), "sharding={devices=[2,1]0,1}");
        sharding.iota_reshape_dims = vec![2];
        sharding.replicate_on_last_tile_dim = true;
        assert_eq!(text(&sharding), "sharding={devices=[2,1]<=[2] last_tile_dim_replicate}");
        let tuple = OpSharding { kind: 2, tuple_shardings: vec![OpSharding::default(); 2], ..Default::default() };
        assert_eq!(text(&tuple), "sharding={{replicated}, {replicated}}");
    }

    #[test]
    fn calls_tell_target_and_computations() {
        let mut call = instruction(5, "custom-call", &[4], &[]);
        call.custom_call_target = "a\"b".into();
        call.custom_call_api_version = 4;
        call.output_operand_aliasing = vec![OutputOperandAliasing { operand_index: 1, ..Default::default() }];
        call.called_computation_ids = vec![1, 2];
        call.backend_config = b"{uplo = 76 : ui8}".to_vec();
        call.metadata = Some(OpMetadata { op_name: "f".into(), stack_frame_id: 1, ..Default::default() });
        assert_eq!(
            attributes(&call),
            "custom_call_target=\"a\\\"b\", output_to_operand_aliasing={{}: (1, {})}, \
             api_version=API_VERSION_TYPED_FFI, called_computations={%c1, %c2}, \
             metadata={op_name=\"f\" source_file=\"f.py\" source_line=7}, backend_config={uplo = 76 : ui8}"
        );
        let mut choice = instruction(5, "conditional", &[4], &[6]);
        choice.called_computation_ids = vec![1, 2];
        assert_eq!(attributes(&choice), "branch_computations={%c1, %c2}");
        let mut repeat = instruction(5, "while", &[4], &[6]);
        repeat.called_computation_ids = vec![1, 2];
        assert_eq!(attributes(&repeat), "condition=%c2, body=%c1");
    }
}
