//! Quantized numbers, as their text: `!quant.uniform<i8:f32, 0.5:-3>`.

use super::super::intact;
use super::super::reader::Reader;
use super::entries::Decoder;
use crate::module::{unknown, Element, Type};
use pjrt_base::error::Result;

/// With one scale and zero point for the whole array, or with several along an axis.
pub(super) fn kind<'a>(decoder: &mut Decoder<'_, 'a>, reader: &mut Reader<'a>, is_by_axis: bool) -> Result<Type> {
    let flags = reader.number()?;
    let (storage, expressed) = (decoder.next_element(reader)?, decoder.next_element(reader)?);
    let (axis, first) = match is_by_axis {
        true => (format!(":{}", reader.number()?), None),
        false => (String::new(), Some(scaled(&float(reader)?, reader.signed()?))),
    };
    let storage = stored(flags, &storage, [reader.signed()?, reader.signed()?])?;
    let scales = match first {
        Some(scale) => scale,
        None => {
            let scales = (0..reader.count()?).map(|_| float(reader)).collect::<Result<Vec<_>>>()?;
            let zeros = reader.signed_numbers()?;
            let is_complete = scales.len() == zeros.len();
            intact(is_complete, "the scales of quantized numbers do not match their zero points")?;
            let parts: Vec<_> = scales.iter().zip(zeros).map(|(scale, zero)| scaled(scale, zero)).collect();
            format!("{{{}}}", parts.join(", "))
        }
    };
    Ok(Type::Number(Element::Other(format!("!quant.uniform<{storage}:{expressed}{axis}, {scales}>").into())))
}

fn scaled(scale: &str, zero: i64) -> String {
    if zero == 0 {
        scale.to_owned()
    } else {
        format!("{scale}:{zero}")
    }
}

fn float(reader: &mut Reader<'_>) -> Result<String> {
    let scale = f64::from_bits(reader.signed()? as u64);
    intact(scale.is_finite(), "a scale is not finite")?;
    Ok(format!("{scale:.20e}"))
}

/// The integers that are stored, with their limits if these differ from the type's limits.
fn stored(flags: u64, storage: &Element, limits: [i64; 2]) -> Result<String> {
    let name = storage.to_string();
    let bits = name.trim_start_matches(['u', 's']).strip_prefix('i').and_then(|bits| bits.parse::<u32>().ok());
    let bits =
        bits.filter(|bits| (1..=32).contains(bits)).ok_or_else(|| unknown("quantized numbers of another type"))?;
    let is_signed = flags & 1 == 1;
    let usual = if is_signed { [-(1 << (bits - 1)), (1 << (bits - 1)) - 1] } else { [0, (1i64 << bits) - 1] };
    let sign = if is_signed { 'i' } else { 'u' };
    Ok(match limits == usual {
        true => format!("{sign}{bits}"),
        false => format!("{sign}{bits}<{}:{}>", limits[0], limits[1]),
    })
}
