//! The values of constants as HLO text.

use super::{LiteralProto, ShapeProto};
use crate::dtype::DType;
use crate::element::{Element, Reader};

/// Elements from which on a constant is shown as `{...}`.
const MANY: i64 = 11;

/// The value of a constant of this shape; `{...}` when it is long or of a type that has no text here.
pub(super) fn text(literal: &LiteralProto, shape: &ShapeProto) -> String {
    let few = shape.dimensions.iter().product::<i64>() < MANY;
    let elements =
        few.then(|| DType::from_xla_code(shape.element_type)).flatten().map(|dtype| elements(literal, dtype));
    let count = shape.dimensions.iter().product::<i64>() as usize;
    match elements {
        Some(elements) if elements.len() == count => nested(&elements, &shape.dimensions),
        _ => "{...}".into(),
    }
}

fn elements(literal: &LiteralProto, dtype: DType) -> Vec<String> {
    fn all<T: ToString>(values: &[T]) -> Vec<String> {
        values.iter().map(T::to_string).collect()
    }
    fn pairs<T: Copy + Into<f64>>(values: &[T], digits: usize) -> Vec<String> {
        let part = |x: T| float(x.into(), digits);
        values.chunks_exact(2).map(|pair| format!("({}, {})", part(pair[0]), part(pair[1]))).collect()
    }
    match dtype {
        DType::Pred => all(&literal.preds),
        DType::I32 => all(&literal.s32s),
        DType::I64 => all(&literal.s64s),
        DType::U32 => all(&literal.u32s),
        DType::U64 => all(&literal.u64s),
        DType::F32 => literal.f32s.iter().map(|&x| float(x.into(), digits_of_single(x))).collect(),
        DType::F64 => literal.f64s.iter().map(|&x| float(x, if has_few_digits(x) { 6 } else { 17 })).collect(),
        DType::C64 => pairs(&literal.c64s, 9),
        DType::C128 => pairs(&literal.c128s, 17),
        DType::I8 => from_bytes(&literal.s8s, dtype, 0),
        DType::U8 => from_bytes(&literal.u8s, dtype, 0),
        DType::I16 => from_bytes(&literal.s16s, dtype, 0),
        DType::U16 => from_bytes(&literal.u16s, dtype, 0),
        DType::F16 => from_bytes(&literal.f16s, dtype, 5),
        DType::BF16 => from_bytes(&literal.bf16s, dtype, 4),
        _ => Vec::new(),
    }
}

fn from_bytes(bytes: &[u8], dtype: DType, digits: usize) -> Vec<String> {
    let reader = Reader::new(dtype);
    let one = |bytes: &[u8]| match reader.read(bytes) {
        Element::Signed(value) => value.to_string(),
        Element::Unsigned(value) => value.to_string(),
        Element::Float(x) => float(x.value, digits),
        Element::Pred(_) | Element::Complex { .. } => String::new(),
    };
    bytes.chunks_exact(reader.width()).map(one).collect()
}

fn digits_of_single(x: f32) -> usize {
    if format!("{x:.5e}").parse() == Ok(x) {
        6
    } else {
        9
    }
}

fn has_few_digits(x: f64) -> bool {
    format!("{x:.5e}").parse() == Ok(x)
}

/// C's `%g`: so many significant digits, without zeros at the end, with an exponent where that is shorter.
fn float(x: f64, digits: usize) -> String {
    if !x.is_finite() {
        return if x.is_nan() { "nan".into() } else { format!("{}inf", if x < 0.0 { "-" } else { "" }) };
    }
    let scientific = format!("{x:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits as i32).contains(&exponent) {
        let fixed = format!("{x:.*}", (digits as i32 - 1 - exponent) as usize);
        return without_zeros(&fixed).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

/// Elements in braces, one pair for each dimension.
fn nested(elements: &[String], dims: &[i64]) -> String {
    match dims {
        [] => elements.concat(),
        [_] => format!("{{{}}}", elements.join(", ")),
        [first, rest @ ..] => {
            let each = elements.len() / (*first).max(1) as usize;
            let parts: Vec<_> = elements.chunks(each.max(1)).map(|part| nested(part, rest)).collect();
            format!("{{ {} }}", parts.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_short_and_exact() {
        for (x, digits, text) in [
            (0.0, 6, "0"),
            (-0.5, 6, "-0.5"),
            (1e6, 6, "1e+06"),
            (123456.0, 6, "123456"),
            (1e-5, 6, "1e-05"),
            (3.14159274, 9, "3.14159274"),
            (f64::NEG_INFINITY, 6, "-inf"),
        ] {
            assert_eq!(float(x, digits), text);
        }
        assert_eq!(digits_of_single(0.1), 6);
        assert_eq!(digits_of_single(1.0 / 3.0), 9);
    }

    #[test]
    fn arrays_nest_and_long_ones_are_left_out() {
        let shape = |dims: &[i64]| ShapeProto { element_type: 4, dimensions: dims.into(), ..Default::default() };
        let literal = |n: i32| LiteralProto { s32s: (1..=n).collect(), ..Default::default() };
        assert_eq!(text(&literal(1), &shape(&[])), "1");
        assert_eq!(text(&literal(4), &shape(&[2, 2])), "{ {1, 2}, {3, 4} }");
        assert_eq!(text(&literal(0), &shape(&[0])), "{}");
        assert_eq!(text(&literal(12), &shape(&[12])), "{...}");
        assert_eq!(text(&literal(1), &shape(&[2])), "{...}", "a literal that lacks elements");
    }
}
