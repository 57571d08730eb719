//! The text of attributes and types.

use super::super::types::Size;
use super::super::{constant, known, unknown, Attribute, Name, Type};
use super::{put, Writer, MAX_NESTING};
use pjrt_base::error::Result;
use std::fmt::Write;

/// Operations may share a large attribute, which is written for each of them. R's strings are not longer.
const MAX_TEXT: usize = i32::MAX as usize;

pub(super) fn is_bare(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte))
}

pub(super) fn symbol(name: &str, out: &mut String) {
    out.push('@');
    if is_bare(name) {
        out.push_str(name);
    } else {
        string(name.as_bytes(), out);
    }
}

/// Text in quotes, as MLIR reads it.
pub(super) fn string(bytes: &[u8], out: &mut String) {
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'"' => out.push_str("\\22"),
            b' '..=b'~' => out.push(byte.into()),
            _ => put!(out, "\\{byte:02X}"),
        }
    }
    out.push('"');
}

impl Writer<'_> {
    /// What `write` adds, unless it nests too deep.
    fn deeper(&mut self, write: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        known(self.depth <= MAX_NESTING, "attributes that nest too deep")?;
        ensure!(self.out.len() <= MAX_TEXT, UnsupportedProgram, "The program is too large to be written as text.");
        self.depth += 1;
        write(self)?;
        self.depth -= 1;
        Ok(())
    }

    pub(super) fn kind(&mut self, kind: &Type) -> Result<()> {
        self.deeper(|this| this.kind_text(kind))
    }

    fn kind_text(&mut self, kind: &Type) -> Result<()> {
        match kind {
            Type::Tensor(tensor) => {
                self.out.push_str("tensor<");
                tensor.dims.iter().for_each(|&dim| put!(self.out, "{}x", Size(dim)));
                put!(self.out, "{}", tensor.element);
                if let Some(encoding) = &tensor.encoding {
                    self.out.push_str(", ");
                    self.attribute(encoding)?;
                }
                self.out.push('>');
            }
            Type::Unranked(element) => put!(self.out, "tensor<*x{element}>"),
            Type::Number(element) => put!(self.out, "{element}"),
            Type::Tuple(parts) => self.list(["tuple<", ">"], &**parts, Self::kind)?,
            Type::Future(parts) => self.list(["!stablehlo.future<", ">"], &**parts, Self::kind)?,
            Type::Function(shape) => {
                self.list(["(", ") -> "], &shape.0, Self::kind)?;
                self.list(["(", ")"], &shape.1, Self::kind)?;
            }
            Type::Token => self.out.push_str("!stablehlo.token"),
            Type::None => self.out.push_str("none"),
            Type::Other(text) => self.out.push_str(text),
        }
        Ok(())
    }

    pub(super) fn dictionary<'a>(&mut self, items: impl Iterator<Item = &'a (Name, Attribute)>) -> Result<()> {
        self.list(["{", "}"], items, |this, (name, value)| {
            if is_bare(name) && !name.contains('$') {
                this.out.push_str(name);
            } else {
                string(name.as_bytes(), &mut this.out);
            }
            if *value != Attribute::Unit {
                this.out.push_str(" = ");
                this.attribute(value)?;
            }
            Ok(())
        })
    }

    /// `#stablehlo.kind<name = [numbers], name = number>`, without the lists that are empty.
    fn fields(&mut self, kind: &str, parts: &[(&str, Attribute)]) -> Result<()> {
        put!(self.out, "#stablehlo.{kind}<");
        let is_empty = |value: &Attribute| matches!(value, Attribute::Numbers(values) if values.is_empty());
        self.list(["", ">"], parts.iter().filter(|(_, value)| !is_empty(value)), |this, (name, value)| {
            put!(this.out, "{name} = ");
            match value {
                Attribute::Numbers(values) => put!(this.out, "{values:?}"),
                Attribute::Integer(value, _) => put!(this.out, "{value}"),
                value => this.attribute(value)?,
            }
            Ok(())
        })
    }

    pub(super) fn attribute(&mut self, attribute: &Attribute) -> Result<()> {
        self.deeper(|this| this.attribute_text(attribute))
    }

    fn attribute_text(&mut self, attribute: &Attribute) -> Result<()> {
        let out = &mut self.out;
        match attribute {
            Attribute::Unit => out.push_str("unit"),
            Attribute::Bool(value) => put!(out, "{value}"),
            Attribute::Integer(value, element) => {
                // The sign is the type's, and only printed with it.
                match element.dtype().map(|dtype| dtype.info().mlir) {
                    Some(name) if name.starts_with("ui") => put!(out, "{}", *value as u64),
                    _ => put!(out, "{value}"),
                }
                put!(out, " : {element}");
            }
            Attribute::Float(bits, element) => {
                let width = element.bytes().ok_or_else(|| unknown(format_args!("a number of type {element}")))?;
                constant::element(element, &bits.to_le_bytes()[..width.min(8)], out)?;
                put!(out, " : {element}");
            }
            Attribute::String(bytes) => string(bytes, out),
            Attribute::Symbol(names) => {
                let names: Vec<_> = names.iter().map(|name| symbol_text(name)).collect();
                out.push_str(&names.join("::"));
            }
            Attribute::Array(items) => self.list(["[", "]"], &**items, Self::attribute)?,
            Attribute::Dictionary(items) => self.dictionary(items.iter())?,
            Attribute::Type(kind) => self.kind(kind)?,
            Attribute::Dense(dense) => {
                dense.write(out)?;
                out.push_str(" : ");
                self.kind(&dense.kind)?;
            }
            Attribute::Numbers(values) => list("i64", values.iter(), out),
            Attribute::Integers(values, element) => list(&element.to_string(), values.iter(), out),
            Attribute::Bools(values) => list("i1", values.iter(), out),
            Attribute::Dot(dot) => self.fields("dot", &dot.parts())?,
            Attribute::Gather(gather) => self.fields("gather", &gather.parts())?,
            Attribute::Scatter(scatter) => self.fields("scatter", &scatter.parts())?,
            Attribute::Algorithm(algorithm) => self.fields("dot_algorithm", &algorithm.parts())?,
            Attribute::Conv(conv) => {
                let meanings = conv.meanings();
                let is_whole = |all: &Vec<(i64, String)>| all.iter().map(|(dim, _)| *dim).eq(0..all.len() as i64);
                known(meanings.iter().all(is_whole), "a convolution with inconsistent dimensions")?;
                let words =
                    |all: Vec<(i64, String)>| all.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(", ");
                let [input, kernel, output] = meanings.map(words);
                put!(out, "#stablehlo.conv<[{input}]x[{kernel}]->[{output}]>");
            }
            Attribute::Bounds(bounds) => self.list(["#stablehlo.bounds<", ">"], &**bounds, |this, &bound| {
                put!(this.out, "{}", Size(bound));
                Ok(())
            })?,
            Attribute::Choice(name, value) => put!(out, "#stablehlo<{name} {value}>"),
            Attribute::Location(_) => return Err(unknown("a location as an attribute")),
            Attribute::Other(text) => out.push_str(text),
        }
        Ok(())
    }
}

/// `array<i64: 1, 2>`.
fn list(element: &str, values: impl Iterator<Item = impl std::fmt::Display>, out: &mut String) {
    put!(out, "array<{element}");
    for (i, value) in values.enumerate() {
        put!(out, "{} {value}", if i == 0 { ":" } else { "," });
    }
    out.push('>');
}

/// The text of a type, for messages.
pub fn shown(kind: &Type) -> String {
    let mut writer = Writer::default();
    writer.kind(kind).map_or_else(|_| "a type".into(), |()| writer.out)
}

/// The text of an attribute, for attributes that contain it.
pub fn shown_attribute(attribute: &Attribute) -> Result<String> {
    let mut writer = Writer::default();
    writer.attribute(attribute)?;
    Ok(writer.out)
}

/// The text of an element, for attributes of other dialects.
pub fn quoted(bytes: &[u8]) -> String {
    let mut text = String::new();
    string(bytes, &mut text);
    text
}

pub fn symbol_text(name: &str) -> String {
    let mut text = String::new();
    symbol(name, &mut text);
    text
}
