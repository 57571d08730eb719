//! Constants: their numbers, and their text.

use super::write::put;
use super::{unknown, Dense, Element, Tensor, Type};
use pjrt_base::error::Result;
use pjrt_data::dtype::DType;
use pjrt_data::literal;
use pjrt_data::scalar::{Float, Reader, Scalar};
use std::fmt::Write;

/// From this number of elements on, numbers are written as hexadecimal digits.
const MANY: usize = 33;

impl Dense {
    /// Integers in an array of these sizes.
    pub fn of_integers(dims: Vec<i64>, element: Element, values: &[i64]) -> Dense {
        let width = element.bytes().unwrap_or(8);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect();
        Dense { kind: Type::tensor(dims, element), bytes: bytes.into() }
    }

    pub fn tensor(&self) -> Result<&Tensor> {
        self.kind.as_tensor().ok_or_else(|| unknown("a constant that is not an array"))
    }

    /// The values of an array of integers or truth values with at most so many elements.
    pub fn integers(&self, limit: usize) -> Option<Vec<i64>> {
        let tensor = self.kind.as_tensor()?;
        let len = tensor.elements().filter(|&len| len <= limit)?;
        let values: Vec<i64> =
            Reader::new(tensor.element.indexed()?).iter(&self.bytes).map(integer).collect::<Option<_>>()?;
        match values.as_slice() {
            _ if values.len() == len => Some(values),
            [value] => Some(vec![*value; len]),
            _ => None,
        }
    }

    /// The text: `dense<[1, 2]> : tensor<2xi32>` without the type.
    pub fn write(&self, out: &mut String) -> Result<()> {
        let tensor = self.tensor()?;
        let (Some(len), Some(width)) = (tensor.elements(), tensor.element.bytes()) else {
            return Err(unknown(format_args!("a constant of {} elements", tensor.element)));
        };
        // MLIR packs narrower ones, also where they are written as hexadecimal digits.
        let are_bytes = tensor.element.indexed().is_some_and(|dtype| dtype != DType::Pred && !dtype.is_packed());
        out.push_str("dense<");
        if len == 0 {
        } else if self.bytes.len() == width {
            element(&tensor.element, &self.bytes, out)?;
        } else if len.checked_mul(width) != Some(self.bytes.len()) {
            return Err(unknown("a constant whose size does not match its type"));
        } else if len >= MANY && are_bytes {
            out.reserve(2 * self.bytes.len() + 8);
            out.push_str("\"0x");
            for byte in &*self.bytes {
                out.push(DIGITS[usize::from(byte >> 4)].into());
                out.push(DIGITS[usize::from(byte & 15)].into());
            }
            out.push('"');
        } else if tensor.dims.len() > DEEP {
            return Err(unknown(format_args!("a constant of {} dimensions", tensor.dims.len())));
        } else {
            nested(&tensor.dims, &tensor.element, &self.bytes, out)?;
        }
        out.push('>');
        Ok(())
    }
}

fn integer(scalar: Scalar) -> Option<i64> {
    match scalar {
        Scalar::Pred(value) => Some(value.into()),
        Scalar::Signed(value) => Some(value),
        Scalar::Unsigned(value) => Some(value as i64),
        _ => None,
    }
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// The most dimensions of a constant that is written in brackets, by recursion.
const DEEP: usize = 400;

/// Elements in brackets, a pair for each dimension.
fn nested(dims: &[i64], kind: &Element, bytes: &[u8], out: &mut String) -> Result<()> {
    let Some((&first, rest)) = dims.split_first() else { return element(kind, bytes, out) };
    let size = bytes.len() / usize::try_from(first).unwrap_or(1).max(1);
    out.push('[');
    for (i, part) in bytes.chunks_exact(size.max(1)).enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        nested(rest, kind, part, out)?;
    }
    out.push(']');
    Ok(())
}

pub(super) fn element(kind: &Element, bytes: &[u8], out: &mut String) -> Result<()> {
    let dtype = match kind {
        Element::Number(dtype) => *dtype,
        Element::Index => DType::I64,
        Element::Signed(8) => DType::I8,
        Element::Signed(16) => DType::I16,
        Element::Signed(32) => DType::I32,
        Element::Signed(64) => DType::I64,
        // A number of another type, as its bits.
        Element::Other(_) if kind.bytes() == Some(1) => {
            put!(out, "0x{:02X}", bytes.first().copied().unwrap_or_default());
            return Ok(());
        }
        _ => return Err(unknown(format_args!("a constant of {kind} elements"))),
    };
    literal::write(Reader::new(dtype).read(bytes), dtype.host_bytes(), float, out);
    Ok(())
}

/// A float as a decimal number if it is read back with the same bits, else as its bits.
fn float(value: Float, width: usize, out: &mut String) {
    let start = out.len();
    if value.value.is_finite() && width > 1 {
        match width {
            4 => put!(out, "{:?}", value.value as f32),
            _ => put!(out, "{:?}", value.value),
        }
        let is_same = out[start..].parse::<f64>().is_ok_and(|read| match width {
            4 => u64::from((read as f32).to_bits()) == value.bits,
            _ => read.to_bits() == value.value.to_bits(),
        });
        if is_same {
            // MLIR needs a point before the exponent.
            if let Some(exponent) = out[start..].find('e').filter(|_| !out[start..].contains('.')) {
                out.insert_str(start + exponent, ".0");
            }
            return;
        }
        out.truncate(start);
    }
    put!(out, "0x{:0digits$X}", value.bits, digits = 2 * width);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_of_many_dimensions_is_refused_and_not_written_by_endless_recursion() {
        let write = |ones: usize| {
            let dims = [vec![2], vec![1; ones]].concat();
            let mut out = String::new();
            Dense::of_integers(dims, Element::Number(DType::I32), &[7, 8]).write(&mut out).map(|()| out)
        };
        assert_eq!(write(1).unwrap(), "dense<[[7], [8]]>");
        assert!(write(1_000_000).unwrap_err().message().contains("1000001 dimensions"));
    }

    #[test]
    fn floats_are_written_with_all_of_their_bits() {
        let write = |dtype: DType, bytes: &[u8]| {
            let mut text = String::new();
            element(&Element::Number(dtype), bytes, &mut text).unwrap();
            text
        };
        assert_eq!(write(DType::F32, &0.1f32.to_le_bytes()), "0.1");
        assert_eq!(write(DType::F32, &1e30f32.to_le_bytes()), "1.0e30");
        assert_eq!(write(DType::F32, &f32::MIN_POSITIVE.to_le_bytes()), "1.1754944e-38");
        assert_eq!(write(DType::F32, &0xffc0_0001u32.to_le_bytes()), "0xFFC00001");
        assert_eq!(write(DType::F64, &1e-300f64.to_le_bytes()), "1.0e-300");
        assert_eq!(write(DType::F64, &f64::INFINITY.to_le_bytes()), "0x7FF0000000000000");
        assert_eq!(write(DType::F8E5M2, &[0x3c]), "0x3C");
        assert_eq!(write(DType::C64, &[1.5f32.to_le_bytes(), (-0.0f32).to_le_bytes()].concat()), "(1.5, -0.0)");
    }
}
