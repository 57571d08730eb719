//! Attributes of CHLO, the client's dialect, in bytecode.

use super::super::reader::Reader;
use crate::module::choices::CHOICES;
use crate::module::{unknown, Attribute};
use pjrt_base::error::Result;

pub(super) fn attribute(kind: u64, reader: &mut Reader<'_>) -> Result<Attribute> {
    const ENUMERATIONS: [&str; 3] = ["comparison_direction", "comparison_type", "precision"];
    match kind {
        0..=2 => {
            let (name, number) = (ENUMERATIONS[kind as usize], reader.number()?);
            let values = CHOICES.iter().find(|(known, ..)| *known == name).map_or(&[][..], |choices| choices.3);
            let value = usize::try_from(number).ok().and_then(|number| values.get(number));
            let value = value.ok_or_else(|| unknown(format_args!("{name} {number} of CHLO")))?;
            Ok(Attribute::Other(format!("#chlo<{name} {value}>").into()))
        }
        3 => {
            const NAMES: [&str; 6] = [
                "lhs_batching_dimensions",
                "rhs_batching_dimensions",
                "lhs_contracting_dimensions",
                "rhs_contracting_dimensions",
                "lhs_ragged_dimensions",
                "rhs_group_dimensions",
            ];
            let part = |name: &&str| Ok(format!("{name} = {:?}", reader.signed_numbers()?));
            let parts = NAMES.iter().map(part).collect::<Result<Vec<_>>>()?;
            Ok(Attribute::Other(format!("#chlo.ragged_dot<{}>", parts.join(", ")).into()))
        }
        _ => Err(unknown(format_args!("attribute {kind} of CHLO"))),
    }
}
