//! The values of constants as HLO text.

use super::{LiteralProto, ShapeProto};
use pjrt_data::dtype::DType;
use pjrt_data::scalar::{Reader, Scalar};

/// The number of elements from which a constant is shown as `{...}`.
const MANY: i64 = 11;

/// The number of dimensions from which it is, too.
const DEEP: usize = 64;

/// The value of a constant of this shape; `{...}` if it is long, deep, or of a type without text here.
pub(super) fn text(literal: &LiteralProto, shape: &ShapeProto) -> String {
    let dims = &shape.dimensions;
    let count = dims.iter().fold(1i64, |n, &d| n.saturating_mul(d));
    let dtype = DType::from_xla_code(shape.element_type).filter(|_| count < MANY && dims.len() < DEEP);
    let elements = dtype.map(|dtype| elements(literal, dtype, dims.is_empty()));
    match elements.filter(|e| e.len() as i64 == count) {
        None => "{...}".into(),
        Some(elements) if dims.len() == 1 => format!("{{{}}}", elements.join(", ")),
        Some(elements) => nested(&elements, dims),
    }
}

fn elements(literal: &LiteralProto, dtype: DType, is_scalar: bool) -> Vec<String> {
    fn all<T: ToString>(values: &[T]) -> Vec<String> {
        values.iter().map(T::to_string).collect()
    }
    fn pairs<T: Copy>(values: &[T], part: fn(T) -> String) -> Vec<String> {
        values.chunks_exact(2).map(|pair| format!("({}, {})", part(pair[0]), part(pair[1]))).collect()
    }
    match dtype {
        DType::Pred if is_scalar => all(&literal.preds),
        DType::Pred => literal.preds.iter().map(|&yes| u8::from(yes).to_string()).collect(),
        DType::I32 => all(&literal.s32s),
        DType::I64 => all(&literal.s64s),
        DType::U32 => all(&literal.u32s),
        DType::U64 => all(&literal.u64s),
        DType::F32 => literal.f32s.iter().copied().map(single).collect(),
        DType::F64 => literal.f64s.iter().copied().map(double).collect(),
        DType::C64 => pairs(&literal.c64s, single),
        DType::C128 => pairs(&literal.c128s, double),
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
        Scalar::Signed(value) => value.to_string(),
        Scalar::Unsigned(value) => value.to_string(),
        Scalar::Float(x) => float(x.value, digits),
        Scalar::Pred(_) | Scalar::Complex { .. } => String::new(),
    };
    bytes.chunks_exact(reader.width()).map(one).collect()
}

/// Six digits if they are exact, otherwise as many as any number needs.
fn single(x: f32) -> String {
    float(x.into(), if format!("{x:.5e}").parse() == Ok(x) { 6 } else { 9 })
}

fn double(x: f64) -> String {
    float(x, if format!("{x:.5e}").parse() == Ok(x) { 6 } else { 17 })
}

/// C's `%g` with this number of significant digits: without trailing zeros, with an exponent if that is shorter.
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
        [_] => format!("{{ {} }}", elements.join(", ")),
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
        assert_eq!(single(0.1), "0.1");
        assert_eq!(single(1.0 / 3.0), "0.333333343");
    }

    #[test]
    fn arrays_nest_and_long_ones_are_left_out() {
        let shape = |dims: &[i64]| ShapeProto { element_type: 4, dimensions: dims.into(), ..Default::default() };
        let literal = |n: i32| LiteralProto { s32s: (1..=n).collect(), ..Default::default() };
        assert_eq!(text(&literal(1), &shape(&[])), "1");
        assert_eq!(text(&literal(4), &shape(&[2, 2])), "{ { 1, 2 }, { 3, 4 } }");
        assert_eq!(text(&literal(0), &shape(&[0])), "{}");
        assert_eq!(text(&literal(12), &shape(&[12])), "{...}");
        assert_eq!(text(&literal(1), &shape(&[2])), "{...}", "a literal that lacks elements");
        assert_eq!(text(&literal(1), &shape(&[1, 1])), "{ { 1 } }");
        assert_eq!(text(&literal(1), &shape(&vec![1; 1_000_000])), "{...}", "a stack ends");
    }
}
