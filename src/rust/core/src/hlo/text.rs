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
        if !aliases.is_empty() {
            let _ = write!(out, ", input_output_alias={{ {} }}", aliases.join(", "));
        }
        let donors: Vec<_> = self
            .buffer_donor
            .iter()
            .flat_map(|d| &d.entries)
            .map(|d| format!("({}, {})", d.parameter_number, braces(&d.parameter_shape_index)))
            .collect();
        if !donors.is_empty() {
            let _ = write!(out, ", buffer_donor={{ {} }}", donors.join(", "));
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

/// What instructions refer to by number.
pub(super) struct Context<'a> {
    /// Those of the computation.
    pub instructions: HashMap<i64, &'a HloInstructionProto>,
    computations: &'a HashMap<i64, &'a str>,
    source: Option<&'a StackFrameIndex>,
}

impl Context<'_> {
    pub fn instruction(&self, id: i64) -> String {
        format!("%{}", self.instructions.get(&id).map_or("?", |i| &i.name))
    }

    pub fn computation(&self, id: i64) -> String {
        format!("%{}", self.computations.get(&id).unwrap_or(&"?"))
    }

    /// File and line of a stack frame.
    pub fn place(&self, frame: i32) -> Option<(&str, i32)> {
        fn nth<T>(list: &[T], number: i32) -> Option<&T> {
            list.get(usize::try_from(number).ok()?.checked_sub(1)?)
        }
        let source = self.source?;
        let location = nth(&source.file_locations, nth(&source.stack_frames, frame)?.file_location_id)?;
        Some((nth(&source.file_names, location.file_name_id)?, location.line))
    }
}

impl HloComputationProto {
    fn write(&self, context: &Context, order: Option<&InstructionSequence>, out: &mut String) {
        let mut parameters: Vec<_> = self.instructions.iter().filter(|i| i.opcode == "parameter").collect();
        parameters.sort_by_key(|p| p.parameter_number);
        let parameters = parameters.iter().map(|p| format!("{}: {}", p.name, p.shape_text(false)));
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
            "constant" => self.constant_text(),
            _ => numbered(self.operand_ids.iter().map(|&id| context.instruction(id))),
        };
        let _ = write!(out, "%{} = {} {}({operands})", self.name, self.shape_text(true), self.opcode);
        for attribute in self.attributes(context) {
            let _ = write!(out, ", {attribute}");
        }
        out.push('\n');
    }

    fn constant_text(&self) -> String {
        match (&self.literal, &self.shape) {
            (Some(literal), Some(shape)) => constant::text(literal, shape),
            _ => "{...}".into(),
        }
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
        let mut special = String::new();
        if !self.tiles.is_empty() {
            special.push('T');
        }
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

/// A list in which every fifth item tells its number.
pub(super) fn numbered(items: impl Iterator<Item = String>) -> String {
    let with_number = |(i, item)| if i > 0 && i % 5 == 0 { format!("/*index={i}*/{item}") } else { item };
    items.enumerate().map(with_number).collect::<Vec<_>>().join(", ")
}
