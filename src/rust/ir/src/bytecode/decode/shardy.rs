//! Attributes of Shardy, as their text.

use super::super::damaged;
use super::super::reader::Reader;
use super::entries::Decoder;
use crate::module::{quoted, symbol_text, unknown, Attribute};
use pjrt_base::error::Result;

pub(super) fn attribute<'a>(decoder: &mut Decoder<'_, 'a>, kind: u64, reader: &mut Reader<'a>) -> Result<Attribute> {
    let text = match kind {
        // Names of axes, and references to them.
        0 => format!("#sdy<manual_axes{{{}}}>", joined(decoder, reader)?),
        1 => {
            let name = quoted(decoder.next_bytes(reader)?);
            format!("{name}={}", reader.signed()?)
        }
        2 => {
            let axes = joined(decoder, reader)?;
            let devices = reader.signed_numbers()?;
            let devices = if devices.is_empty() { String::new() } else { format!(", device_ids={devices:?}") };
            format!("#sdy.mesh<[{axes}]{devices}>")
        }
        3 => format!(":({}){}", reader.signed()?, reader.signed()?),
        4 => {
            let name = quoted(decoder.next_bytes(reader)?);
            let part = decoder.next_optional(reader)?.as_ref().map(body).transpose()?;
            name + &part.unwrap_or_default()
        }
        5 => {
            let axes = joined(decoder, reader)?;
            let is_closed = reader.byte()? != 0;
            let (priority, has_priority) = reader.flagged()?;
            let open = match (is_closed, axes.is_empty()) {
                (true, _) => "",
                (false, true) => "?",
                (false, false) => ", ?",
            };
            let priority = if has_priority { format!("p{priority}") } else { String::new() };
            format!("{{{axes}{open}}}{priority}")
        }
        6 | 15 => {
            let mesh = body(&decoder.next_attribute(reader)?)?;
            let mut text = format!("#sdy.sharding<{mesh}, [{}]", joined(decoder, reader)?);
            for key in ["replicated", "unreduced"].into_iter().take(if kind == 15 { 2 } else { 1 }) {
                let axes = joined(decoder, reader)?;
                if !axes.is_empty() {
                    text += &format!(", {key}={{{axes}}}");
                }
            }
            text + ">"
        }
        8 => return Ok(Attribute::Numbers(reader.signed_numbers()?.into())),
        9 => return Ok(Attribute::Array(decoder.next_attributes(reader)?.into())),
        10 => rule(decoder, reader)?,
        7 => format!("#sdy.sharding_per_value<[{}]>", joined(decoder, reader)?),
        _ => return Err(unknown(format_args!("attribute {kind} of Shardy"))),
    };
    Ok(Attribute::Other(text.into()))
}

/// A list of attributes as they are in another one.
fn joined(decoder: &mut Decoder<'_, '_>, reader: &mut Reader<'_>) -> Result<String> {
    let parts = decoder.next_attributes(reader)?;
    Ok(parts.iter().map(body).collect::<Result<Vec<_>>>()?.join(", "))
}

/// An attribute in another one has no name.
fn body(attribute: &Attribute) -> Result<String> {
    match attribute {
        Attribute::Other(text) => Ok(match text.strip_prefix("#sdy.sharding<") {
            Some(rest) => format!("<{rest}"),
            None => text.strip_prefix("#sdy.").unwrap_or(text).to_owned(),
        }),
        Attribute::String(bytes) => Ok(quoted(bytes)),
        Attribute::Symbol(names) if names.len() == 1 => Ok(symbol_text(&names[0])),
        _ => Err(damaged("an axis is something else")),
    }
}

/// How the dimensions of an operation's operands and results correspond.
fn rule(decoder: &mut Decoder<'_, '_>, reader: &mut Reader<'_>) -> Result<String> {
    let sizes = reader.signed_numbers()?;
    let operands = mappings(decoder, reader)?;
    let results = mappings(decoder, reader)?;
    let named = sizes.iter().enumerate().map(|(i, size)| format!("{}={size}", factor(i as i64)));
    let mut text =
        format!("#sdy.op_sharding_rule<({operands})->({results}) {{{}}}", named.collect::<Vec<_>>().join(", "));
    for kind in ["reduction", "need_replication", "permutation", "blocked_propagation"] {
        let factors = reader.signed_numbers()?;
        if !factors.is_empty() {
            text += &format!(" {kind}={{{}}}", factors.into_iter().map(factor).collect::<Vec<_>>().join(", "));
        }
    }
    if reader.byte()? != 0 {
        text += ", custom";
    }
    Ok(text + ">")
}

/// For each array and each of its dimensions, the factors.
fn mappings(decoder: &mut Decoder<'_, '_>, reader: &mut Reader<'_>) -> Result<String> {
    let strange = || damaged("a dimension is something else");
    let mut arrays = Vec::new();
    for array in decoder.next_attributes(reader)? {
        let dims = array.as_array().ok_or_else(strange)?;
        let dim = |dim: &Attribute| Some(dim.as_numbers()?.into_iter().map(factor).collect::<String>());
        let dims = dims.iter().map(dim).collect::<Option<Vec<_>>>().ok_or_else(strange)?;
        arrays.push(format!("[{}]", dims.join(", ")));
    }
    Ok(arrays.join(", "))
}

/// The letter of a factor: from i to z, and then z_1, z_2 and so on.
fn factor(number: i64) -> String {
    const LETTERS: &[u8] = b"ijklmnopqrstuvwxyz";
    match usize::try_from(number).ok().and_then(|number| LETTERS.get(number)) {
        Some(&letter) => char::from(letter).to_string(),
        None => format!("z_{}", number.saturating_sub(LETTERS.len() as i64 - 1)),
    }
}
