//! Attributes of StableHLO's own bytecode.

use super::super::reader::Reader;
use super::entries::Decoder;
use super::mesh;
use super::vhlo::{self, choice};
use crate::module::{unknown, Algorithm, Attribute, Conv, Dot, Gather, Parts, Scatter};
use pjrt_base::error::{Error, Result};
use std::sync::Arc;

pub(super) fn attribute<'a>(decoder: &mut Decoder<'_, 'a>, kind: u64, reader: &mut Reader<'a>) -> Result<Attribute> {
    Ok(match kind {
        1 => channel(reader.signed()?, reader.signed()?),
        2 => choice("comparison_direction", &vhlo::DIRECTIONS, reader)?,
        3 => choice("comparison_type", &vhlo::COMPARISONS, reader)?,
        4 => Attribute::Conv(Conv::read(reader)?),
        5 => Attribute::Dot(Dot::read(reader)?),
        6 => choice("fft_type", &vhlo::TRANSFORMS, reader)?,
        7 => Attribute::Gather(Gather::read(reader)?),
        8 => choice("precision", &vhlo::PRECISIONS, reader)?,
        9 => choice("rng_algorithm", &vhlo::ALGORITHMS, reader)?,
        10 => choice("rng_distribution", &vhlo::DISTRIBUTIONS, reader)?,
        11 => Attribute::Scatter(Scatter::read(reader)?),
        12 => choice("transpose", &vhlo::TRANSPOSES, reader)?,
        13 => Attribute::Bounds(reader.signed_numbers()?.into()),
        14 => vhlo::alias(reader)?,
        15 => Attribute::Algorithm(Arc::new(Algorithm {
            lhs_precision: decoder.next_type(reader)?,
            rhs_precision: decoder.next_type(reader)?,
            accumulation: decoder.next_type(reader)?,
            counts: [reader.signed()?, reader.signed()?, reader.signed()?],
            allow_imprecise: reader.byte()? != 0,
        })),
        16 => choice("result_accuracy_mode", &vhlo::ACCURACIES, reader)?,
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

/// The parts come one after the other.
impl Parts for Reader<'_> {
    type Error = Error;

    fn list(&mut self, _: &'static str) -> Result<Vec<i64>> {
        self.signed_numbers()
    }

    fn number(&mut self, _: &'static str) -> Result<i64> {
        self.signed()
    }
}

/// The channel of a collective operation.
pub(super) fn channel(handle: i64, kind: i64) -> Attribute {
    Attribute::Other(format!("#stablehlo.channel_handle<handle = {handle}, type = {kind}>").into())
}
