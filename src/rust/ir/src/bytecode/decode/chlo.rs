//! Attributes of CHLO, the client's dialect, in bytecode.

use super::super::reader::Reader;
use super::vhlo::{COMPARISONS, DIRECTIONS, PRECISIONS};
use crate::module::{unknown, Attribute};
use pjrt_base::error::Result;

pub(super) fn attribute(kind: u64, reader: &mut Reader<'_>) -> Result<Attribute> {
    let mut choice = |name: &str, values: &[&str]| {
        let number = reader.number()?;
        let value = usize::try_from(number).ok().and_then(|number| values.get(number));
        let value = value.ok_or_else(|| unknown(format_args!("{name} {number} of CHLO")))?;
        Ok(Attribute::Other(format!("#chlo<{name} {value}>").into()))
    };
    match kind {
        0 => choice("comparison_direction", &DIRECTIONS),
        1 => choice("comparison_type", &COMPARISONS),
        2 => choice("precision", &PRECISIONS),
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
