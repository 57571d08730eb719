//! The numbers of constants.

use super::read::utf8;
use crate::module::{Dense, Type};
use memchr::memmem;
use pjrt_data::dtype::DType;
use pjrt_data::minifloat::{bf16_from_f64, f16_from_f64, Format};

/// A constant from what is in its brackets; `None` if that does not match its type.
pub(super) fn dense(content: &[u8], kind: Type) -> Option<Dense> {
    let tensor = kind.as_tensor()?;
    let (len, width) = (tensor.elements()?, tensor.element.bytes()?);
    let dtype = tensor.element.indexed()?;
    let content = content.trim_ascii();
    let mut bytes = Vec::new();
    if let Some(digits) = content.strip_prefix(b"\"0x").and_then(|text| text.strip_suffix(b"\"")) {
        bytes = digits.chunks(2).map(byte).collect::<Option<_>>()?;
        if dtype == DType::Pred && bytes.len() != len {
            let bit = |i: usize| Some(bytes.get(i / 8)? >> (i % 8) & 1);
            bytes = (0..len).map(bit).collect::<Option<_>>()?;
        }
    } else if content.starts_with(b"[") {
        let line = |line: &[u8]| utf8(&line[..memmem::find(line, b"//").unwrap_or(line.len())]).into_owned();
        let text = match memmem::find(content, b"//") {
            Some(_) => content.split(|&byte| byte == b'\n').map(line).collect::<Vec<_>>().join("\n").into(),
            None => utf8(content),
        };
        let rest = nested(&text, &tensor.dims, dtype, &mut bytes)?;
        if !rest.trim().is_empty() || bytes.len() != len.checked_mul(width)? {
            return None;
        }
    } else if !content.is_empty() {
        bytes = element(&utf8(content), dtype)?;
    }
    let fits = bytes.len() == len.checked_mul(width)? || (bytes.len() == width && len > 0);
    fits.then(|| Dense { kind: kind.clone(), bytes: bytes.into() })
}

/// Reads elements in brackets, a pair for each dimension; returns what follows.
fn nested<'a>(text: &'a str, dims: &[i64], dtype: DType, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let Some((&size, dims)) = dims.split_first() else {
        let end = if text.starts_with('(') { text.find(')')? + 1 } else { text.find([',', ']'])? };
        bytes.extend(element(text[..end].trim(), dtype)?);
        return Some(&text[end..]);
    };
    let mut rest = text.strip_prefix('[')?.trim_start();
    for i in 0..size {
        if i > 0 {
            rest = rest.trim_start().strip_prefix(',')?.trim_start();
        }
        rest = nested(rest, dims, dtype, bytes)?;
    }
    rest.trim_start().strip_prefix(']')
}

/// The byte of two hexadecimal digits.
pub(super) fn byte(digits: &[u8]) -> Option<u8> {
    let &[high, low] = digits else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

fn element(text: &str, dtype: DType) -> Option<Vec<u8>> {
    let part = match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        _ => return Some(bits(text, dtype)?.to_le_bytes()[..dtype.host_bytes()].to_vec()),
    };
    let (re, im) = text.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    Some([element(re.trim(), part)?, element(im.trim(), part)?].concat())
}

/// The bits of a number that is not complex.
pub(super) fn bits(text: &str, dtype: DType) -> Option<u64> {
    let width = dtype.host_bytes();
    if dtype == DType::Pred {
        return match text {
            "true" | "1" => Some(1),
            "false" | "0" => Some(0),
            _ => None,
        };
    }
    if let Some(bits) = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        return (width == 8 || bits >> (8 * width) == 0).then_some(bits);
    }
    if !dtype.is_float() {
        let value: i128 = match text.strip_prefix("-0x") {
            Some(digits) => -i128::from(u64::from_str_radix(digits, 16).ok()?),
            None => text.parse().ok()?,
        };
        let bits = dtype.info().bits;
        let range = if dtype.is_signed() { -(1 << (bits - 1))..1 << (bits - 1) } else { 0..1i128 << bits };
        // The bits above the number's own are zero.
        let mask = u64::MAX >> (64 - bits);
        return range.contains(&value).then_some(value as u64 & mask);
    }
    let value: f64 =
        text.parse().ok().filter(|_| text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)))?;
    Some(match dtype {
        DType::F64 => value.to_bits(),
        DType::F32 => text.parse::<f32>().ok()?.to_bits().into(),
        DType::F16 => f16_from_f64(value).into(),
        DType::BF16 => bf16_from_f64(value).into(),
        _ => Format::of(dtype)?.encode(value).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Element;

    #[test]
    fn constants_are_read_with_all_of_their_bits() {
        let read = |content: &str, dims: &[i64], dtype: DType| {
            let kind = Type::tensor(dims.to_vec(), Element::Number(dtype));
            dense(content.as_bytes(), kind).map(|dense| dense.bytes.to_vec())
        };
        assert_eq!(read("[[1, -2], [3, 4]]", &[2, 2], DType::I8), Some(vec![1, 0xfe, 3, 4]));
        assert_eq!(read("[1, // ], 5\n2 // 3\n, 4]", &[3], DType::I8), Some(vec![1, 2, 4]));
        assert_eq!(read("-1", &[3], DType::I4), Some(vec![0x0f]));
        assert_eq!(read("", &[0], DType::F32), Some(vec![]));
        assert_eq!(read("0x7FC00001", &[], DType::F32), Some(0x7fc0_0001u32.to_le_bytes().to_vec()));
        assert_eq!(
            read("(1.5, -0.0)", &[], DType::C64),
            Some([1.5f32.to_le_bytes(), (-0.0f32).to_le_bytes()].concat())
        );
        assert_eq!(read("\"0x05\"", &[3], DType::Pred), Some(vec![1, 0, 1]));
        assert_eq!(read("\"0x0100FFFF\"", &[2], DType::I16), Some(vec![1, 0, 0xff, 0xff]));
        assert_eq!(read("[true, false]", &[2], DType::Pred), Some(vec![1, 0]));
        for (content, dims, dtype) in [
            ("[1, 2]", &[3][..], DType::I32),
            ("[1, 2, 3, 4]", &[2, 2], DType::I32),
            ("[[1, 2], [3, 4]] 5", &[2, 2], DType::I32),
            ("128", &[], DType::I8),
            ("-1", &[], DType::U8),
            ("1.5", &[], DType::I32),
            ("inf", &[], DType::F32),
            ("\"0x0102\"", &[3], DType::I8),
            ("1", &[], DType::C64),
        ] {
            assert_eq!(read(content, dims, dtype), None, "{content}");
        }
    }
}
