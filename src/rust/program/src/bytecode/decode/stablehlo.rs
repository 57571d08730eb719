//! Attributes of StableHLO's own bytecode.

use super::super::reader::Reader;
use super::entries::Decoder;
use super::mesh;
use super::vhlo::{self, choice};
use crate::module::{unknown, Algorithm, Attribute, Conv, Dot, Gather, Scatter};
use pjrt_base::error::Result;
use std::sync::Arc;

pub(super) fn attribute<'a>(decoder: &mut Decoder<'_, 'a>, kind: u64, reader: &mut Reader<'a>) -> Result<Attribute> {
    Ok(match kind {
        1 => channel(reader.signed()?, reader.signed()?),
        2 => choice("comparison_direction", &vhlo::DIRECTIONS, reader)?,
        3 => choice("comparison_type", &vhlo::COMPARISONS, reader)?,
        4 => Attribute::Conv(Arc::new(Conv {
            input_batch: reader.signed()?,
            input_feature: reader.signed()?,
            input_spatial: reader.signed_numbers()?,
            kernel_input_feature: reader.signed()?,
            kernel_output_feature: reader.signed()?,
            kernel_spatial: reader.signed_numbers()?,
            output_batch: reader.signed()?,
            output_feature: reader.signed()?,
            output_spatial: reader.signed_numbers()?,
        })),
        5 => Attribute::Dot(Arc::new(Dot {
            lhs_batching: reader.signed_numbers()?,
            rhs_batching: reader.signed_numbers()?,
            lhs_contracting: reader.signed_numbers()?,
            rhs_contracting: reader.signed_numbers()?,
        })),
        6 => choice("fft_type", &vhlo::TRANSFORMS, reader)?,
        7 => Attribute::Gather(Arc::new(Gather {
            offset_dims: reader.signed_numbers()?,
            collapsed_slice_dims: reader.signed_numbers()?,
            operand_batching_dims: reader.signed_numbers()?,
            start_indices_batching_dims: reader.signed_numbers()?,
            start_index_map: reader.signed_numbers()?,
            index_vector_dim: reader.signed()?,
        })),
        8 => choice("precision", &vhlo::PRECISIONS, reader)?,
        9 => choice("rng_algorithm", &vhlo::ALGORITHMS, reader)?,
        10 => choice("rng_distribution", &vhlo::DISTRIBUTIONS, reader)?,
        11 => Attribute::Scatter(Arc::new(Scatter {
            update_window_dims: reader.signed_numbers()?,
            inserted_window_dims: reader.signed_numbers()?,
            input_batching_dims: reader.signed_numbers()?,
            scatter_indices_batching_dims: reader.signed_numbers()?,
            scatter_dims_to_operand_dims: reader.signed_numbers()?,
            index_vector_dim: reader.signed()?,
        })),
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

/// The channel of a collective operation.
pub(super) fn channel(handle: i64, kind: i64) -> Attribute {
    Attribute::Other(format!("#stablehlo.channel_handle<handle = {handle}, type = {kind}>").into())
}
