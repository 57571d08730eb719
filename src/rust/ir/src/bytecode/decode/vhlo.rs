//! Attributes and types of the portable form.

use super::super::damaged;
use super::super::reader::Reader;
use super::entries::{complex, number_type, Decoder};
use super::{mesh, quantized};
use crate::module::choices::{Choices, CHOICES};
use crate::module::{unknown, Attribute, Element, Type};
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use std::sync::Arc;

pub(super) fn attribute<'a>(decoder: &mut Decoder<'_, 'a>, kind: u64, reader: &mut Reader<'a>) -> Result<Attribute> {
    if let Some(choices) = CHOICES.iter().find(|(_, portable, ..)| *portable == kind) {
        return choice(choices, reader);
    }
    Ok(match kind {
        1 => Attribute::Array(decoder.next_attributes(reader)?.into()),
        2 => Attribute::Bool(reader.number()? != 0),
        5 => Attribute::Integer(reader.index(5)? as i64, Element::Number(DType::I32)),
        6 => decoder.next_pairs(reader)?,
        8 | 9 => decoder.next_number(reader)?,
        10 => alias(reader)?,
        14 => Attribute::String(decoder.next_bytes(reader)?.into()),
        15 => decoder.next_dense(reader)?,
        17 => Attribute::Type(decoder.next_type(reader)?),
        18 => Attribute::Bounds(reader.signed_numbers()?.into()),
        20 => accuracy(decoder, reader)?,
        21 => Attribute::Numbers([reader.signed()?, reader.signed()?].into()),
        22 => {
            let name = decoder.next_string(reader)?;
            mesh::axis(&name, decoder.next_given(reader)?.as_ref())?
        }
        23 => mesh::groups(&decoder.next_attribute(reader)?, &decoder.next_attribute(reader)?)?,
        24 => mesh::mesh_axis(&decoder.next_string(reader)?, reader.signed()?),
        25 => mesh::mesh(&decoder.next_attribute(reader)?, decoder.next_optional(reader)?.as_ref())?,
        _ => return Err(unknown(format_args!("attribute {kind} of StableHLO's portable form"))),
    })
}

pub(super) fn choice(&(name, _, _, values): &Choices, reader: &mut Reader<'_>) -> Result<Attribute> {
    let number = reader.number()?;
    let value = usize::try_from(number).ok().and_then(|number| values.get(number));
    value.map(|value| Attribute::Choice(name, value)).ok_or_else(|| unknown(format_args!("{name} {number}")))
}

/// An output in the memory of an operand: its place, the operand, and the place in it.
pub(super) fn alias(reader: &mut Reader<'_>) -> Result<Attribute> {
    let (output, operand, place) = (reader.signed_numbers()?, reader.signed()?, reader.signed_numbers()?);
    let text = format!(
        "#stablehlo.output_operand_alias<output_tuple_indices = {output:?}, operand_index = {operand}, \
         operand_tuple_indices = {place:?}>"
    );
    Ok(Attribute::Other(text.into()))
}

/// Tolerances: absolute, relative, in units in the last place; and the mode.
pub(super) fn accuracy(decoder: &mut Decoder<'_, '_>, reader: &mut Reader<'_>) -> Result<Attribute> {
    let mut tolerance = || Ok(f64::from_bits(reader.signed()? as u64));
    let (absolute, relative) = (tolerance()?, tolerance()?);
    let units = reader.signed()?;
    let Attribute::Choice(_, mode) = decoder.next_attribute(reader)? else {
        return Err(damaged("an accuracy is something else"));
    };
    if !absolute.is_finite() || !relative.is_finite() {
        return Err(unknown("an accuracy that is not finite"));
    }
    let text = format!(
        "#stablehlo.result_accuracy<atol = {absolute:.20e}, rtol = {relative:.20e}, ulps = {units}, \
         mode = #stablehlo.result_accuracy_mode<{mode}>>"
    );
    let is_default = mode == "DEFAULT";
    Ok(if is_default { Attribute::Unit } else { Attribute::Other(text.into()) })
}

/// The numbers by the number of their type.
#[rustfmt::skip]
const NUMBERS: [(u64, &str); 29] = [
    (0, "i1"), (2, "bf16"), (3, "f16"), (4, "f32"), (5, "f64"), (6, "f8E4M3FN"), (7, "f8E5M2"), (10, "i4"),
    (11, "i8"), (12, "i16"), (13, "i32"), (14, "i64"), (15, "ui4"), (16, "ui8"), (17, "ui16"), (18, "ui32"),
    (19, "ui64"), (27, "f8E4M3FNUZ"), (28, "f8E5M2FNUZ"), (29, "f8E4M3B11FNUZ"), (31, "i2"), (32, "ui2"),
    (34, "tf32"), (35, "f8E4M3"), (36, "f8E3M4"), (37, "f4E2M1FN"), (38, "f6E2M3FN"), (39, "f6E3M2FN"),
    (40, "f8E8M0FNU"),
];

/// The number of the type of a number that is not complex.
pub(in super::super) fn number_of_type(name: &str) -> Option<usize> {
    let found = NUMBERS.iter().find(|(_, known)| *known == name).map(|(number, _)| *number as usize);
    found.or((name == "index").then_some(9))
}

pub(super) fn kind<'a>(decoder: &mut Decoder<'_, 'a>, kind: u64, reader: &mut Reader<'a>) -> Result<Type> {
    if let Some((_, name)) = NUMBERS.iter().find(|(number, _)| *number == kind) {
        return Ok(number_type(name));
    }
    match kind {
        1 => complex(&decoder.next_element(reader)?),
        8 => Ok(Type::Function(Arc::new((decoder.next_types(reader)?, decoder.next_types(reader)?)))),
        9 => Ok(Type::Number(Element::Index)),
        20 | 21 => decoder.next_array(reader, kind == 21),
        22 => Ok(Type::Token),
        23 => Ok(Type::Tuple(decoder.next_types(reader)?.into())),
        25 => Ok(Type::Unranked(decoder.next_element(reader)?)),
        33 => Ok(Type::None),
        42 => Ok(Type::Future(decoder.next_types(reader)?.into())),
        24 | 30 => quantized::kind(decoder, reader, kind == 30),
        41 => {
            let (dims, element) = (reader.signed_numbers()?, decoder.next_element(reader)?);
            let dims: String = dims.iter().map(|dim| format!("{dim}x")).collect();
            Ok(Type::Other(format!("memref<{dims}{element}>").into()))
        }
        _ => Err(unknown(format_args!("type {kind} of StableHLO's portable form"))),
    }
}
