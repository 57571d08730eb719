//! Attributes of StableHLO's own bytecode.

use super::super::reader::Reader;
use super::entries::{numbers, signed, Decoder};
use super::mesh;
use super::vhlo::{self, choice};
use crate::module::{unknown, Algorithm, Attribute, Conv, Dot, Gather, Scatter};
use pjrt_base::error::Result;
use std::sync::Arc;

pub(super) fn attribute<'a>(decoder: &mut Decoder<'_, 'a>, kind: u64, reader: &mut Reader<'a>) -> Result<Attribute> {
    Ok(match kind {
        1 => channel(signed(reader)?, signed(reader)?),
        2 => choice("comparison_direction", &vhlo::DIRECTIONS, reader)?,
        3 => choice("comparison_type", &vhlo::COMPARISONS, reader)?,
        4 => Attribute::Conv(Arc::new(Conv {
            input_batch: signed(reader)?,
            input_feature: signed(reader)?,
            input_spatial: numbers(reader)?,
            kernel_input_feature: signed(reader)?,
            kernel_output_feature: signed(reader)?,
            kernel_spatial: numbers(reader)?,
            output_batch: signed(reader)?,
            output_feature: signed(reader)?,
            output_spatial: numbers(reader)?,
        })),
        5 => Attribute::Dot(Arc::new(Dot {
            lhs_batching: numbers(reader)?,
            rhs_batching: numbers(reader)?,
            lhs_contracting: numbers(reader)?,
            rhs_contracting: numbers(reader)?,
        })),
        6 => choice("fft_type", &vhlo::TRANSFORMS, reader)?,
        7 => Attribute::Gather(Arc::new(Gather {
            offset_dims: numbers(reader)?,
            collapsed_slice_dims: numbers(reader)?,
            operand_batching_dims: numbers(reader)?,
            start_indices_batching_dims: numbers(reader)?,
            start_index_map: numbers(reader)?,
            index_vector_dim: signed(reader)?,
        })),
        8 => choice("precision", &vhlo::PRECISIONS, reader)?,
        9 => choice("rng_algorithm", &vhlo::ALGORITHMS, reader)?,
        10 => choice("rng_distribution", &vhlo::DISTRIBUTIONS, reader)?,
        11 => Attribute::Scatter(Arc::new(Scatter {
            update_window_dims: numbers(reader)?,
            inserted_window_dims: numbers(reader)?,
            input_batching_dims: numbers(reader)?,
            scatter_indices_batching_dims: numbers(reader)?,
            scatter_dims_to_operand_dims: numbers(reader)?,
            index_vector_dim: signed(reader)?,
        })),
        12 => choice("transpose", &vhlo::TRANSPOSES, reader)?,
        13 => Attribute::Bounds(numbers(reader)?.into()),
        14 => vhlo::alias(reader)?,
        15 => Attribute::Algorithm(Arc::new(Algorithm {
            lhs_precision: decoder.next_type(reader)?,
            rhs_precision: decoder.next_type(reader)?,
            accumulation: decoder.next_type(reader)?,
            counts: [signed(reader)?, signed(reader)?, signed(reader)?],
            allow_imprecise: reader.byte()? != 0,
        })),
        16 => choice("result_accuracy_mode", &vhlo::ACCURACIES, reader)?,
        17 => vhlo::accuracy(decoder, reader)?,
        18 => {
            let mesh = decoder.next_attribute(reader)?;
            mesh::groups(&mesh, &Attribute::Array(decoder.next_attributes(reader)?.into()))?
        }
        19 => Attribute::Numbers([signed(reader)?, signed(reader)?].into()),
        20 => {
            let name = decoder.next_name(reader)?;
            mesh::axis(&name, decoder.next_given(reader)?.as_ref())?
        }
        21 => mesh::mesh_axis(&decoder.next_name(reader)?, signed(reader)?),
        22 => mesh::mesh(&decoder.next_attribute(reader)?, decoder.next_optional(reader)?.as_ref())?,
        _ => return Err(unknown(format_args!("attribute {kind} of StableHLO"))),
    })
}

/// The channel of a collective operation.
pub(super) fn channel(handle: i64, kind: i64) -> Attribute {
    Attribute::Other(format!("#stablehlo.channel_handle<handle = {handle}, type = {kind}>").into())
}
