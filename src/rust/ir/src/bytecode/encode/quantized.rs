//! Quantized numbers: `!quant.uniform<i8<-127:127>:f32:1, {0.5:-3, 0.25}>`.

use super::{number, numbers, signed, signed_list, Writer};
use crate::module::Element;
use pjrt_base::error::Result;

struct Quantized<'a> {
    is_signed: bool,
    bits: u32,
    limits: [i64; 2],
    expressed: &'a str,
    axis: Option<usize>,
    /// Scales and zero points.
    scales: Vec<(f64, i64)>,
}

impl Quantized<'_> {
    fn parse(name: &str) -> Option<Quantized<'_>> {
        let (types, scales) = name.strip_prefix("!quant.uniform<")?.strip_suffix('>')?.split_once(',')?;
        let is_signed = types.starts_with('i');
        let rest = types.strip_prefix(['i', 'u'])?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (bits, mut rest) = (rest[..digits].parse().ok()?, &rest[digits..]);
        let mut limits = match (bits, is_signed) {
            (1..=32, true) => [-1 << (bits - 1), (1 << (bits - 1)) - 1],
            (1..=32, false) => [0, (1 << bits) - 1],
            _ => return None,
        };
        if let Some(text) = rest.strip_prefix('<') {
            let (text, after) = text.split_once('>')?;
            let (low, high) = text.split_once(':')?;
            (limits, rest) = ([low.trim().parse().ok()?, high.trim().parse().ok()?], after);
        }
        let mut parts = rest.strip_prefix(':')?.split(':').map(str::trim);
        let expressed = parts.next()?;
        let axis = parts.next().map(str::parse).transpose().ok()?;
        let scales = match (scales.trim(), axis) {
            (scales, Some(_)) => scales.strip_prefix('{')?.strip_suffix('}')?,
            (scales, None) => scales,
        };
        let scale = |text: &str| {
            let (scale, zero) = text.split_once(':').unwrap_or((text, "0"));
            Some((scale.trim().parse().ok()?, zero.trim().parse().ok()?))
        };
        let scales = scales.split(',').map(scale).collect::<Option<Vec<_>>>()?;
        let is_complete = axis.is_some() || scales.len() == 1;
        is_complete.then_some(Quantized { is_signed, bits, limits, expressed, axis, scales })
    }
}

impl Writer<'_> {
    /// The number of a type of quantized numbers.
    pub(super) fn quantized(&mut self, name: &str) -> Result<usize> {
        let unknown = || self.no_form(&format!("the type {name}, which has no portable form"));
        let kind = Quantized::parse(name).ok_or_else(unknown)?;
        let storage = self.element(&Element::Other(format!("i{}", kind.bits).into()))?;
        let expressed = self.element(&Element::Other(kind.expressed.into()))?;
        let (scales, zeros): (Vec<f64>, Vec<i64>) = kind.scales.into_iter().unzip();
        let scales = scales.iter().map(|scale| scale.to_bits() as i64);
        let head = [if kind.axis.is_some() { 30 } else { 24 }, usize::from(kind.is_signed), storage, expressed];
        let mut out = numbers(&head);
        match kind.axis {
            None => scales.chain(zeros).chain(kind.limits).for_each(|part| signed(part, &mut out)),
            Some(axis) => {
                number(axis, &mut out);
                kind.limits.iter().for_each(|&limit| signed(limit, &mut out));
                signed_list(scales, &mut out);
                signed_list(zeros.into_iter(), &mut out);
            }
        }
        Ok(self.types.number(("vhlo", true, out)))
    }
}
