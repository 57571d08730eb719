//! The text of a module.

mod attributes;

pub use attributes::{quoted, shown, shown_attribute, symbol_text};

use super::operation::is_elementwise;
use super::{known, unknown, Attribute, Block, Module, Name, Operation, Region, Type, Value};
use attributes::{is_bare, string, symbol};
use pjrt_base::error::Result;
use pjrt_base::room;
use std::collections::HashSet;
use std::fmt::Write;

/// Regions and attributes nest less deep.
const MAX_NESTING: usize = 400;

/// From this size on, text is only written if there is memory for it.
const LARGE: usize = 1 << 26;

/// Adds formatted text; writing to a string cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = write!($out, $($part)*);
    }};
}
pub(super) use put;

impl Module {
    /// The program as text.
    ///
    /// # Errors
    /// `UnsupportedProgram` for attributes that have no text, and if the text would be much larger than the program.
    pub fn text(&self) -> Result<String> {
        let names = vec![ValueName::None; self.types.len()];
        let mut writer = Writer { types: &self.types, checked: LARGE, names, ..Writer::default() };
        writer.module(&self.root)?;
        Ok(writer.out)
    }
}

/// What a value is called, after the sign for values.
#[derive(Clone)]
enum ValueName {
    /// It has no name in this function yet.
    None,
    Number(usize),
    /// One of several results.
    Result(usize, usize),
    Text(String),
}

#[derive(Default)]
struct Writer<'a> {
    /// The type of each value.
    types: &'a [Type],
    out: String,
    /// The name of each value.
    names: Vec<ValueName>,
    /// The values that have a name in this function.
    named: Vec<Value>,
    /// The number of the next value in the function.
    next: usize,
    /// How deep regions, attributes and types nest.
    depth: usize,
    /// The length up to which there is memory.
    checked: usize,
}

impl Writer<'_> {
    fn module(&mut self, root: &Operation) -> Result<()> {
        self.out.push_str("module");
        if let Some(name) = root.symbol() {
            self.out.push(' ');
            symbol(name, &mut self.out);
        }
        self.attributes_after(" attributes ", &root.attributes, &["sym_name", "sym_visibility"])?;
        self.out.push_str(" {\n");
        let block = root.block(0).ok_or_else(|| unknown("a module without content"))?;
        self.depth = 1;
        for operation in &block.operations {
            self.operation(operation)?;
        }
        self.out.push_str("}\n");
        Ok(())
    }

    fn indent(&mut self) {
        self.out.extend(std::iter::repeat_n("  ", self.depth.min(MAX_NESTING)));
    }

    fn function(&mut self, function: &Operation) -> Result<()> {
        for value in self.named.drain(..) {
            self.names[value.0 as usize] = ValueName::None;
        }
        self.next = 0;
        self.indent();
        self.out.push_str("func.func ");
        match function.attribute("sym_visibility").and_then(Attribute::as_text) {
            None | Some("") => {}
            Some(visibility @ ("public" | "private" | "nested")) => put!(self.out, "{visibility} "),
            Some(other) => return Err(unknown(format_args!("a function of visibility '{other}'"))),
        }
        symbol(function.symbol().ok_or_else(|| unknown("a function without a name"))?, &mut self.out);
        let Some(Attribute::Type(Type::Function(shape))) = function.attribute("function_type") else {
            return Err(unknown("a function without a type"));
        };
        let block = function.block(0).ok_or_else(|| unknown("a function with several blocks"))?;
        known(block.arguments.len() == shape.0.len(), "a function whose arguments do not match its type")?;
        self.name_arguments(block);
        let attributes = |name: &str| function.attribute(name).and_then(Attribute::as_array).unwrap_or_default();
        let inputs = attributes("arg_attrs");
        self.list(["(", ")"], block.arguments.iter().enumerate(), |this, (i, argument)| {
            this.value(argument)?;
            this.out.push_str(": ");
            this.kind_of(argument)?;
            this.annotations(inputs.get(i))?;
            if let Some(Some(name)) = block.names.get(i) {
                this.out.push_str(" loc(");
                string(name.as_bytes(), &mut this.out);
                this.out.push(')');
            }
            Ok(())
        })?;
        let results = attributes("res_attrs");
        if !shape.1.is_empty() {
            self.list([" -> (", ")"], shape.1.iter().enumerate(), |this, (i, kind)| {
                this.kind(kind)?;
                this.annotations(results.get(i))
            })?;
        }
        const SHOWN: [&str; 5] = ["sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs"];
        self.attributes_after(" attributes ", &function.attributes, &SHOWN)?;
        self.out.push_str(" {\n");
        self.operations(block)?;
        self.indent();
        self.out.push_str("}\n");
        Ok(())
    }

    /// The attributes of an argument or result.
    fn annotations(&mut self, attributes: Option<&Attribute>) -> Result<()> {
        let Some(Attribute::Dictionary(items)) = attributes else { return Ok(()) };
        self.attributes_after(" ", items, &[])
    }

    /// The attributes whose names are not in `but`, after `before`; nothing if there are none.
    fn attributes_after(&mut self, before: &str, all: &[(Name, Attribute)], but: &[&str]) -> Result<()> {
        let mut others = all.iter().filter(|(name, _)| !but.contains(&&**name)).peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        self.out.push_str(before);
        self.dictionary(others)
    }

    /// Names a function's arguments as in the source, if these names are unique and can be written.
    fn name_arguments(&mut self, block: &Block) {
        let is_name = |name: &str| is_bare(name) && !name.contains(['$', '.']);
        let mut used = HashSet::new();
        for (i, &argument) in block.arguments.iter().enumerate() {
            let name = block.names.get(i).cloned().flatten();
            let name = name.filter(|name| is_name(name) && !name.starts_with("arg") && used.insert(name.clone()));
            let name = name.map_or_else(|| format!("arg{i}"), |name| name.to_string());
            self.name(argument, ValueName::Text(name));
        }
    }

    fn name(&mut self, value: Value, name: ValueName) {
        self.names[value.0 as usize] = name;
        self.named.push(value);
    }

    fn operations(&mut self, block: &Block) -> Result<()> {
        self.depth += 1;
        known(self.depth <= MAX_NESTING, "regions that nest too deep")?;
        for operation in &block.operations {
            self.operation(operation)?;
            if self.out.len() > self.checked {
                // The text is copied when its memory grows.
                room::check_room(3 * self.out.len(), "to write the program as text")?;
                self.checked = 2 * self.out.len();
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn operation(&mut self, operation: &Operation) -> Result<()> {
        if &*operation.name == "func.func" {
            return self.function(operation);
        }
        self.indent();
        if let [first, ..] = operation.results[..] {
            let number = self.next;
            self.next += 1;
            put!(self.out, "%{number}");
            if operation.results.len() == 1 {
                self.name(first, ValueName::Number(number));
            } else {
                for (i, &result) in operation.results.iter().enumerate() {
                    self.name(result, ValueName::Result(number, i));
                }
                put!(self.out, ":{}", operation.results.len());
            }
            self.out.push_str(" = ");
        }
        if self.short_form(operation)? {
            self.out.push('\n');
            return Ok(());
        }
        string(operation.name.as_bytes(), &mut self.out);
        self.list(["(", ")"], &operation.operands, Self::value)?;
        if !operation.regions.is_empty() {
            self.list([" (", ")"], &operation.regions, Self::region)?;
        }
        self.attributes_after(" ", &operation.attributes, &[])?;
        self.out.push_str(" : ");
        self.signature(&operation.operands, &operation.results)?;
        self.out.push('\n');
        Ok(())
    }

    /// Writes an operation in its own syntax, if that is simple; else returns `false`.
    fn short_form(&mut self, operation: &Operation) -> Result<bool> {
        let types = self.types;
        let type_of = |value: &Value| &types[value.0 as usize];
        match (&*operation.name, &operation.attributes[..]) {
            ("func.return" | "stablehlo.return", []) => {
                self.out.push_str(operation.name.trim_start_matches("func."));
                if !operation.operands.is_empty() {
                    self.list([" ", " : "], &operation.operands, Self::value)?;
                    self.list(["", ""], &operation.operands, Self::kind_of)?;
                }
            }
            ("func.call", [(key, callee)]) if &**key == "callee" => {
                self.out.push_str("call ");
                self.attribute(callee)?;
                self.list(["(", ") : "], &operation.operands, Self::value)?;
                self.signature(&operation.operands, &operation.results)?;
            }
            ("stablehlo.constant", [(_, value @ Attribute::Dense(dense))])
                if operation.results.len() == 1 && *type_of(&operation.results[0]) == dense.kind =>
            {
                self.out.push_str("stablehlo.constant ");
                self.attribute(value)?;
            }
            (_, []) if operation.regions.is_empty() && is_elementwise(operation.kind()) => {
                let [result] = &operation.results[..] else { return Ok(false) };
                let kind = type_of(result);
                if operation.operands.is_empty() || operation.operands.iter().any(|operand| type_of(operand) != kind) {
                    return Ok(false);
                }
                put!(self.out, "{} ", operation.name);
                self.list(["", " : "], &operation.operands, Self::value)?;
                self.kind(kind)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn region(&mut self, region: &Region) -> Result<()> {
        self.out.push_str("{\n");
        for block in &region.blocks {
            if !block.arguments.is_empty() || region.blocks.len() > 1 {
                self.indent();
                self.list(["^bb0(", "):\n"], &block.arguments, |this, &argument| {
                    let number = this.next;
                    this.next += 1;
                    this.name(argument, ValueName::Number(number));
                    put!(this.out, "%{number}: ");
                    this.kind_of(&argument)
                })?;
            }
            self.operations(block)?;
        }
        self.indent();
        self.out.push('}');
        Ok(())
    }

    fn signature(&mut self, operands: &[Value], results: &[Value]) -> Result<()> {
        self.list(["(", ") -> "], operands, Self::kind_of)?;
        match results {
            [result] => self.kind_of(result),
            _ => self.list(["(", ")"], results, Self::kind_of),
        }
    }

    fn value(&mut self, value: &Value) -> Result<()> {
        match self.names.get(value.0 as usize) {
            Some(ValueName::Number(number)) => put!(self.out, "%{number}"),
            Some(ValueName::Result(number, i)) => put!(self.out, "%{number}#{i}"),
            Some(ValueName::Text(name)) => put!(self.out, "%{name}"),
            _ => return Err(unknown("a value that is used before it is defined")),
        }
        Ok(())
    }

    fn kind_of(&mut self, value: &Value) -> Result<()> {
        self.kind(&self.types[value.0 as usize])
    }

    /// Items between commas, in brackets.
    fn list<T>(
        &mut self,
        [start, end]: [&str; 2],
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<()>,
    ) -> Result<()> {
        self.out.push_str(start);
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            write(self, item)?;
        }
        self.out.push_str(end);
        Ok(())
    }
}
