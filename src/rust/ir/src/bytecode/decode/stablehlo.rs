//! Attributes of StableHLO's own bytecode.

use super::super::reader::Reader;
use super::entries::Decoder;
use super::mesh;
use super::vhlo;
use crate::module::choices::CHOICES;
use crate::module::{unknown, Algorithm, Attribute, Conv, Dot, Gather, Scatter};
use pjrt_base::error::Result;
use std::sync::Arc;

pub(super) fn attribute<'a>(decoder: &mut Decoder<'_, 'a>, kind: u64, reader: &mut Reader<'a>) -> Result<Attribute> {
    if let Some(choices) = CHOICES.iter().find(|(_, _, own, _)| *own == kind) {
        return vhlo::choice(choices, reader);
    }
    // The parts come one after the other.
    let part = |reader: &mut Reader<'a>, is_list| match is_list {
        true => reader.signed_numbers(),
        false => Ok(vec![reader.signed()?]),
    };
    Ok(match kind {
        1 => channel(reader.signed()?, reader.signed()?),
        4 => Attribute::Conv(Conv::read(|_, is_list| part(reader, is_list))?),
        5 => Attribute::Dot(Dot::read(|_, is_list| part(reader, is_list))?),
        7 => Attribute::Gather(Gather::read(|_, is_list| part(reader, is_list))?),
        11 => Attribute::Scatter(Scatter::read(|_, is_list| part(reader, is_list))?),
        13 => Attribute::Bounds(reader.signed_numbers()?.into()),
        14 => vhlo::alias(reader)?,
        15 => Attribute::Algorithm(Arc::new(Algorithm {
            lhs_precision: decoder.next_type(reader)?,
            rhs_precision: decoder.next_type(reader)?,
            accumulation: decoder.next_type(reader)?,
            counts: [reader.signed()?, reader.signed()?, reader.signed()?],
            allow_imprecise: reader.byte()? != 0,
        })),
        17 => vhlo::accuracy(decoder, reader)?,
        18 => {
            let mesh = decoder.next_attribute(reader)?;
            mesh::groups(&mesh, &Attribute::Array(decoder.next_attributes(reader)?.into()))?
        }
        19 => Attribute::Numbers([reader.signed()?, reader.signed()?].into()),
        20 => {
            let name = decoder.next_name(reader)?;
            mesh::axis(&name, decoder.next_given(reader)?.as_ref())?
        }
        21 => mesh::mesh_axis(&decoder.next_name(reader)?, reader.signed()?),
        22 => mesh::mesh(&decoder.next_attribute(reader)?, decoder.next_optional(reader)?.as_ref())?,
        _ => return Err(unknown(format_args!("attribute {kind} of StableHLO"))),
    })
}

/// The channel of a collective operation.
pub(super) fn channel(handle: i64, kind: i64) -> Attribute {
    Attribute::Other(format!("#stablehlo.channel_handle<handle = {handle}, type = {kind}>").into())
}
