//! The text of attributes and types.

use super::super::{constant, unknown, Attribute, Name, Type};
use super::{put, MAX_NESTING};
use pjrt_base::error::{Error, Kind, Result};
use std::fmt::Write;

/// Operations may share a large attribute, which is written for each of them. R's strings are not longer.
const MAX_TEXT: usize = i32::MAX as usize;

fn too_deep(depth: usize, out: &str) -> Result<()> {
    if depth > MAX_NESTING {
        return Err(unknown("attributes that nest too deep"));
    }
    if out.len() > MAX_TEXT {
        return Err(Error::new(Kind::UnsupportedProgram, "The program is too large to be written as text."));
    }
    Ok(())
}

fn is_bare(name: &str) -> bool {
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

pub(super) fn kind_text(kind: &Type, out: &mut String, depth: usize) -> Result<()> {
    too_deep(depth, out)?;
    let list = |types: &[Type], out: &mut String| {
        for (i, part) in types.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            kind_text(part, out, depth + 1)?;
        }
        Ok(())
    };
    match kind {
        Type::Tensor(tensor) => {
            out.push_str("tensor<");
            for &dim in &tensor.dims {
                if dim < 0 {
                    out.push_str("?x");
                } else {
                    put!(out, "{dim}x");
                }
            }
            put!(out, "{}", tensor.element);
            if let Some(encoding) = &tensor.encoding {
                out.push_str(", ");
                attribute_text(encoding, out, depth + 1)?;
            }
            out.push('>');
        }
        Type::Unranked(element) => put!(out, "tensor<*x{element}>"),
        Type::Number(element) => put!(out, "{element}"),
        Type::Tuple(parts) => {
            out.push_str("tuple<");
            list(parts, out)?;
            out.push('>');
        }
        Type::Future(parts) => {
            out.push_str("!stablehlo.future<");
            list(parts, out)?;
            out.push('>');
        }
        Type::Function(shape) => {
            out.push('(');
            list(&shape.0, out)?;
            out.push_str(") -> (");
            list(&shape.1, out)?;
            out.push(')');
        }
        Type::Token => out.push_str("!stablehlo.token"),
        Type::None => out.push_str("none"),
        Type::Other(text) => out.push_str(text),
    }
    Ok(())
}

pub(super) fn dictionary<'a>(
    items: impl Iterator<Item = &'a (Name, Attribute)>,
    out: &mut String,
    depth: usize,
) -> Result<()> {
    out.push('{');
    for (i, (name, value)) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        if is_bare(name) && !name.contains('$') {
            out.push_str(name);
        } else {
            string(name.as_bytes(), out);
        }
        if *value != Attribute::Unit {
            out.push_str(" = ");
            attribute_text(value, out, depth + 1)?;
        }
    }
    out.push('}');
    Ok(())
}

fn numbers(values: &[i64], out: &mut String) {
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        put!(out, "{value}");
    }
}

/// `#stablehlo.kind<name = [numbers], name = number>`, without the lists that are empty.
fn fields(kind: &str, parts: &[(&str, Attribute)], out: &mut String) {
    put!(out, "#stablehlo.{kind}<");
    let mut separator = "";
    for (name, value) in parts {
        match value {
            Attribute::Numbers(values) if values.is_empty() => continue,
            Attribute::Numbers(values) => {
                put!(out, "{separator}{name} = [");
                numbers(values, out);
                out.push(']');
            }
            value => put!(out, "{separator}{name} = {}", value.as_integer().unwrap_or(0)),
        }
        separator = ", ";
    }
    out.push('>');
}

pub(super) fn attribute_text(attribute: &Attribute, out: &mut String, depth: usize) -> Result<()> {
    too_deep(depth, out)?;
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
            constant::float_attribute(*bits, element, out)?;
            put!(out, " : {element}");
        }
        Attribute::String(bytes) => string(bytes, out),
        Attribute::Symbol(names) => {
            for (i, name) in names.iter().enumerate() {
                if i > 0 {
                    out.push_str("::");
                }
                symbol(name, out);
            }
        }
        Attribute::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                attribute_text(item, out, depth + 1)?;
            }
            out.push(']');
        }
        Attribute::Dictionary(items) => dictionary(items.iter(), out, depth)?,
        Attribute::Type(kind) => kind_text(kind, out, depth + 1)?,
        Attribute::Dense(dense) => {
            dense.write(out)?;
            out.push_str(" : ");
            kind_text(&dense.kind, out, depth + 1)?;
        }
        Attribute::Numbers(values) => list("i64", values.iter(), out),
        Attribute::Integers(values, element) => list(&element.to_string(), values.iter(), out),
        Attribute::Bools(values) => list("i1", values.iter(), out),
        Attribute::Dot(dot) => fields("dot", &dot.parts(), out),
        Attribute::Gather(gather) => fields("gather", &gather.parts(), out),
        Attribute::Scatter(scatter) => fields("scatter", &scatter.parts(), out),
        Attribute::Algorithm(algorithm) => {
            out.push_str("#stablehlo.dot_algorithm<lhs_precision_type = ");
            kind_text(&algorithm.lhs_precision, out, depth + 1)?;
            out.push_str(", rhs_precision_type = ");
            kind_text(&algorithm.rhs_precision, out, depth + 1)?;
            out.push_str(", accumulation_type = ");
            kind_text(&algorithm.accumulation, out, depth + 1)?;
            let [lhs, rhs, operations] = algorithm.counts;
            put!(out, ", lhs_component_count = {lhs}, rhs_component_count = {rhs}");
            put!(out, ", num_primitive_operations = {operations}");
            put!(out, ", allow_imprecise_accumulation = {}>", algorithm.allow_imprecise);
        }
        Attribute::Conv(conv) => {
            out.push_str("#stablehlo.conv<");
            dimensions(&[(conv.input_batch, 'b'), (conv.input_feature, 'f')], &conv.input_spatial, out)?;
            out.push('x');
            let kernel = [(conv.kernel_input_feature, 'i'), (conv.kernel_output_feature, 'o')];
            dimensions(&kernel, &conv.kernel_spatial, out)?;
            out.push_str("->");
            dimensions(&[(conv.output_batch, 'b'), (conv.output_feature, 'f')], &conv.output_spatial, out)?;
            out.push('>');
        }
        Attribute::Bounds(bounds) => {
            out.push_str("#stablehlo.bounds<");
            for (i, &bound) in bounds.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                if bound < 0 {
                    out.push('?');
                } else {
                    put!(out, "{bound}");
                }
            }
            out.push('>');
        }
        Attribute::Choice(name, value) => put!(out, "#stablehlo<{name} {value}>"),
        Attribute::Location(_) => return Err(unknown("a location as an attribute")),
        Attribute::Other(text) => out.push_str(text),
    }
    Ok(())
}

/// `array<i64: 1, 2>`.
fn list(element: &str, values: impl Iterator<Item = impl std::fmt::Display>, out: &mut String) {
    put!(out, "array<{element}");
    for (i, value) in values.enumerate() {
        put!(out, "{} {value}", if i == 0 { ":" } else { "," });
    }
    out.push('>');
}

/// The meaning of each dimension of a convolution's array: `[b, 0, 1, f]`.
fn dimensions(named: &[(i64, char)], spatial: &[i64], out: &mut String) -> Result<()> {
    let mut meanings = vec![None; named.len() + spatial.len()];
    let spatial = spatial.iter().enumerate().map(|(i, &dim)| (dim, i.to_string()));
    for (dim, meaning) in named.iter().map(|&(dim, letter)| (dim, letter.to_string())).chain(spatial) {
        match usize::try_from(dim).ok().and_then(|dim| meanings.get_mut(dim)) {
            Some(place @ None) => *place = Some(meaning),
            _ => return Err(unknown("a convolution with inconsistent dimensions")),
        }
    }
    put!(out, "[{}]", meanings.into_iter().flatten().collect::<Vec<_>>().join(", "));
    Ok(())
}

/// The text of a type, for messages.
pub fn shown(kind: &Type) -> String {
    let mut text = String::new();
    match kind_text(kind, &mut text, 0) {
        Ok(()) => text,
        Err(_) => "a type".into(),
    }
}

/// The text of an attribute, for attributes that contain it.
pub fn shown_attribute(attribute: &Attribute) -> Result<String> {
    let mut text = String::new();
    attribute_text(attribute, &mut text, 0)?;
    Ok(text)
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
