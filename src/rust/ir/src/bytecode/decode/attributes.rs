//! The attributes of MLIR itself, of StableHLO's own bytecode and its portable form, and of CHLO, the client's dialect.

use super::super::attributes::Entry;
use super::super::reader::Reader;
use super::super::{damaged, intact};
use super::entries::{check_constant, name, Decoder};
use super::types::text;
use super::{mesh, shardy};
use crate::module::choices::CHOICES;
use crate::module::{known, unknown, Algorithm, Attribute, Conv, Dense, Dot, Element, Gather, Scatter, Tensor, Type};
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use std::sync::Arc;

/// The enumerations of CHLO, in the order of their numbers.
const CHLO: [&str; 3] = ["comparison_direction", "comparison_type", "precision"];

impl<'a> Decoder<'_, 'a> {
    pub fn decode_attribute(&mut self, entry: &Entry<'a>) -> Result<Attribute> {
        let Some((kind, mut reader)) = entry.kind()? else { return text_attribute(entry) };
        let reader = &mut reader;
        let is_chlo = entry.dialect == b"chlo";
        let choices = CHOICES.iter().find(|(name, portable, own, _)| match entry.dialect {
            b"vhlo" => *portable == kind,
            b"stablehlo" => *own == kind,
            _ => is_chlo && kind < 3 && CHLO[kind as usize] == *name,
        });
        if let Some((name, _, _, values)) = choices {
            let number = reader.number()?;
            let value = usize::try_from(number).ok().and_then(|number| values.get(number));
            let of = if is_chlo { " of CHLO" } else { "" };
            let value = value.ok_or_else(|| unknown(format_args!("{name} {number}{of}")))?;
            return Ok(match is_chlo {
                true => Attribute::Other(format!("#chlo<{name} {value}>").into()),
                false => Attribute::Choice(name, value),
            });
        }
        // Attributes of several numbers have them one after the other.
        let part = |reader: &mut Reader<'a>, is_list| match is_list {
            true => reader.signed_numbers(),
            false => Ok(vec![reader.signed()?]),
        };
        Ok(match (entry.dialect, kind) {
            (b"builtin", 0) | (b"vhlo", 1) => Attribute::Array(self.next_attributes(reader)?.into()),
            (b"builtin", 1) | (b"vhlo", 6) => {
                let pairs = (0..reader.count()?).map(|_| Ok((self.next_string(reader)?, self.next_attribute(reader)?)));
                Attribute::Dictionary(pairs.collect::<Result<_>>()?)
            }
            (b"builtin", 2) | (b"vhlo", 14) => Attribute::String(self.next_bytes(reader)?.into()),
            (b"builtin", 6) | (b"vhlo", 17) => Attribute::Type(self.next_type(reader)?),
            (b"builtin" | b"vhlo", 8 | 9) => self.next_number(reader)?,
            (b"builtin", 18) | (b"vhlo", 15) => dense(self.next_type(reader)?, reader.sized()?)?,
            (b"builtin", 3) => {
                let bytes = self.next_bytes(reader)?;
                match self.next_type(reader)? {
                    Type::None => Attribute::String(bytes.into()),
                    _ => return Err(unknown("a string with a type")),
                }
            }
            (b"builtin", 4) => Attribute::symbol(self.next_string(reader)?),
            (b"builtin", 5) => {
                let mut names = vec![self.next_string(reader)?];
                for part in self.next_attributes(reader)? {
                    names.push(part.as_symbol().cloned().ok_or_else(|| damaged("a symbol is something else"))?);
                }
                Attribute::Symbol(names.into())
            }
            (b"builtin", 7) => Attribute::Unit,
            // A name, and what it stands for.
            (b"builtin", 14) => Attribute::Location(self.next_string(reader).ok()),
            (b"builtin", 10..=13 | 15 | 22) => Attribute::Location(None),
            (b"builtin", 16) => self.resource(reader)?,
            (b"builtin", 17) => self.integers(reader)?,
            (b"vhlo", 2) => Attribute::Bool(reader.number()? != 0),
            (b"vhlo", 5) => Attribute::Integer(reader.index(5)? as i64, Element::Number(DType::I32)),
            (b"stablehlo", 1) => channel(reader.signed()?, reader.signed()?),
            (b"stablehlo", 4) => Attribute::Conv(Conv::read(|_, is_list| part(reader, is_list))?),
            (b"stablehlo", 5) => Attribute::Dot(Dot::read(|_, is_list| part(reader, is_list))?),
            (b"stablehlo", 7) => Attribute::Gather(Gather::read(|_, is_list| part(reader, is_list))?),
            (b"stablehlo", 11) => Attribute::Scatter(Scatter::read(|_, is_list| part(reader, is_list))?),
            (b"stablehlo", 13) | (b"vhlo", 18) => Attribute::Bounds(reader.signed_numbers()?.into()),
            (b"stablehlo", 14) | (b"vhlo", 10) => alias(reader)?,
            (b"stablehlo", 15) => Attribute::Algorithm(Arc::new(Algorithm {
                types: [self.next_type(reader)?, self.next_type(reader)?, self.next_type(reader)?],
                counts: [reader.signed()?, reader.signed()?, reader.signed()?],
                allow_imprecise: reader.byte()? != 0,
            })),
            (b"stablehlo", 17) | (b"vhlo", 20) => self.accuracy(reader)?,
            (b"stablehlo", 18) => {
                let mesh = self.next_attribute(reader)?;
                mesh::groups(&mesh, &Attribute::Array(self.next_attributes(reader)?.into()))?
            }
            (b"vhlo", 23) => mesh::groups(&self.next_attribute(reader)?, &self.next_attribute(reader)?)?,
            (b"stablehlo", 19) | (b"vhlo", 21) => Attribute::Numbers([reader.signed()?, reader.signed()?].into()),
            (b"stablehlo", 20 | 21) | (b"vhlo", 22 | 24) => {
                let is_own = entry.dialect == b"stablehlo";
                let name = if is_own { name(self.next_bytes(reader)?)? } else { self.next_string(reader)? };
                match kind {
                    20 | 22 => mesh::axis(&name, self.next_given(reader)?.as_ref())?,
                    _ => mesh::mesh_axis(&name, reader.signed()?),
                }
            }
            (b"stablehlo", 22) | (b"vhlo", 25) => {
                mesh::mesh(&self.next_attribute(reader)?, self.next_optional(reader)?.as_ref())?
            }
            (b"chlo", 3) => ragged_dot(reader)?,
            (b"sdy", _) => shardy::attribute(self, kind, reader)?,
            (b"builtin", _) => return Err(unknown(format_args!("attribute {kind} of MLIR"))),
            (b"chlo", _) => return Err(unknown(format_args!("attribute {kind} of CHLO"))),
            (b"stablehlo", _) => return Err(unknown(format_args!("attribute {kind} of StableHLO"))),
            (b"vhlo", _) => return Err(unknown(format_args!("attribute {kind} of StableHLO's portable form"))),
            (other, _) => {
                return Err(unknown(format_args!("an attribute of dialect {}", String::from_utf8_lossy(other))))
            }
        })
    }

    /// A constant in a separate section.
    fn resource(&mut self, reader: &mut Reader<'a>) -> Result<Attribute> {
        let kind = self.next_type(reader)?;
        let number = reader.index(self.tables.resources.len())?;
        let bytes = self.tables.resources[number].ok_or_else(|| unknown("a resource without content"))?;
        self.copies(bytes.len())?;
        let whole = |tensor: &Tensor| {
            let dtype = tensor.element.dtype().filter(|dtype| !dtype.is_packed() && *dtype != DType::Pred)?;
            tensor.elements()?.checked_mul(dtype.host_bytes())
        };
        known(kind.as_tensor().and_then(whole) == Some(bytes.len()), "a resource of this type")?;
        dense(kind, bytes)
    }

    /// `array<i64: ..>`.
    fn integers(&mut self, reader: &mut Reader<'a>) -> Result<Attribute> {
        let element = self.next_element(reader)?;
        let count = reader.number()?;
        let bytes = reader.sized()?;
        let width = element.bytes().filter(|width| (1..=8).contains(width));
        let width = width.ok_or_else(|| unknown(format_args!("a list of {element}")))?;
        let is_whole = count.checked_mul(width as u64) == Some(bytes.len() as u64);
        intact(is_whole, "the size of a list does not match its type")?;
        let value = |part: &[u8]| {
            let mut value = [0; 8];
            value[..width].copy_from_slice(part);
            let shift = 64 - 8 * width;
            i64::from_le_bytes(value) << shift >> shift
        };
        let values = bytes.chunks_exact(width).map(value);
        Ok(match element {
            Element::Number(DType::I64) => Attribute::Numbers(values.collect()),
            Element::Number(DType::Pred) => Attribute::Bools(values.map(|value| value != 0).collect()),
            Element::Number(DType::I8 | DType::I16 | DType::I32) => Attribute::Integers(values.collect(), element),
            _ => return Err(unknown(format_args!("a list of {element}"))),
        })
    }

    /// Tolerances: absolute, relative, in units in the last place; and the mode.
    fn accuracy(&mut self, reader: &mut Reader<'_>) -> Result<Attribute> {
        let mut tolerance = || Ok(f64::from_bits(reader.signed()? as u64));
        let (absolute, relative) = (tolerance()?, tolerance()?);
        let units = reader.signed()?;
        let Attribute::Choice(_, mode) = self.next_attribute(reader)? else {
            return Err(damaged("an accuracy is something else"));
        };
        known(absolute.is_finite() && relative.is_finite(), "an accuracy that is not finite")?;
        let text = format!(
            "#stablehlo.result_accuracy<atol = {absolute:.20e}, rtol = {relative:.20e}, ulps = {units}, \
             mode = #stablehlo.result_accuracy_mode<{mode}>>"
        );
        let is_default = mode == "DEFAULT";
        Ok(if is_default { Attribute::Unit } else { Attribute::Other(text.into()) })
    }
}

/// A constant of one type, with truth values as bytes.
fn dense(kind: Type, bytes: &[u8]) -> Result<Attribute> {
    check_constant(&kind, bytes)?;
    let tensor = kind.as_tensor().ok_or_else(|| damaged("a constant is not an array"))?;
    let len = tensor.elements().unwrap_or(0);
    let bytes: Arc<[u8]> = match (tensor.element.dtype(), bytes) {
        (Some(DType::Pred), [0]) => [0].into(),
        (Some(DType::Pred), [0xff]) => [1].into(),
        (Some(DType::Pred), _) if bytes.len() == len => bytes.iter().map(|&byte| u8::from(byte != 0)).collect(),
        (Some(DType::Pred), _) => (0..len).map(|i| bytes[i / 8] >> (i % 8) & 1).collect(),
        _ if tensor.element.bytes().is_none() => {
            return Err(unknown(format_args!("a constant of {} elements", tensor.element)));
        }
        _ => bytes.into(),
    };
    Ok(Attribute::Dense(Arc::new(Dense { kind, bytes })))
}

/// An output in the memory of an operand: its place, the operand, and the place in it.
fn alias(reader: &mut Reader<'_>) -> Result<Attribute> {
    let (output, operand, place) = (reader.signed_numbers()?, reader.signed()?, reader.signed_numbers()?);
    let text = format!(
        "#stablehlo.output_operand_alias<output_tuple_indices = {output:?}, operand_index = {operand}, \
         operand_tuple_indices = {place:?}>"
    );
    Ok(Attribute::Other(text.into()))
}

fn ragged_dot(reader: &mut Reader<'_>) -> Result<Attribute> {
    const NAMES: &str = "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions \
        rhs_contracting_dimensions lhs_ragged_dimensions rhs_group_dimensions";
    let part = |name: &str| Ok(format!("{name} = {:?}", reader.signed_numbers()?));
    let parts = NAMES.split(' ').map(part).collect::<Result<Vec<_>>>()?;
    Ok(Attribute::Other(format!("#chlo.ragged_dot<{}>", parts.join(", ")).into()))
}

/// The channel of a collective operation.
pub fn channel(handle: i64, kind: i64) -> Attribute {
    Attribute::Other(format!("#stablehlo.channel_handle<handle = {handle}, type = {kind}>").into())
}

/// Text of another dialect is copied as it is.
fn text_attribute(entry: &Entry<'_>) -> Result<Attribute> {
    let text = text(entry)?;
    if text.starts_with('#') || text.starts_with("dense<") {
        return Ok(Attribute::Other(text.into()));
    }
    let found = crate::text::attribute(text).filter(|found| !matches!(found, Attribute::Other(_)));
    found.ok_or_else(|| unknown(format_args!("attribute {}", text.chars().take(100).collect::<String>())))
}
