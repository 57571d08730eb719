//! Reads single elements from host bytes, for the modules that show them as text ([`crate::print`] and
//! [`crate::literal`]). Knows the host format of each dtype; must not know how it is shown.

use crate::dtype::DType;
use crate::minifloat::{self, Format};
use half::{bf16, f16};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    Pred(bool),
    Signed(i64),
    Unsigned(u64),
    Float(Float),
    Complex { re: Float, im: Float },
}

/// A float, or one of the two of a complex number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Float {
    /// A double holds the values of all dtypes exactly.
    pub value: f64,
    /// As they lie in memory.
    pub bits: u64,
}

/// Reads elements of one dtype: native endian, types narrower than a byte in the low bits of one.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    width: usize,
    read: fn(&[u8]) -> Scalar,
}

impl Reader {
    pub fn new(dtype: DType) -> Self {
        let read: fn(&[u8]) -> Scalar = match dtype {
            DType::Pred => |b| Scalar::Pred(u8::from_ne_bytes(word(b)) != 0),
            DType::I2 => |b| Scalar::Signed(i64::from(i8::from_ne_bytes(word(b)) << 6 >> 6)),
            DType::I4 => |b| Scalar::Signed(i64::from(i8::from_ne_bytes(word(b)) << 4 >> 4)),
            DType::I8 => |b| Scalar::Signed(i8::from_ne_bytes(word(b)).into()),
            DType::I16 => |b| Scalar::Signed(i16::from_ne_bytes(word(b)).into()),
            DType::I32 => |b| Scalar::Signed(i32::from_ne_bytes(word(b)).into()),
            DType::I64 => |b| Scalar::Signed(i64::from_ne_bytes(word(b))),
            DType::U2 => |b| Scalar::Unsigned(u64::from(u8::from_ne_bytes(word(b)) & 0x03)),
            DType::U4 => |b| Scalar::Unsigned(u64::from(u8::from_ne_bytes(word(b)) & 0x0f)),
            DType::U8 => |b| Scalar::Unsigned(u8::from_ne_bytes(word(b)).into()),
            DType::U16 => |b| Scalar::Unsigned(u16::from_ne_bytes(word(b)).into()),
            DType::U32 => |b| Scalar::Unsigned(u32::from_ne_bytes(word(b)).into()),
            DType::U64 => |b| Scalar::Unsigned(u64::from_ne_bytes(word(b))),
            DType::F16 => |b| {
                let x = f16::from_ne_bytes(word(b));
                Scalar::Float(Float { value: x.to_f64(), bits: x.to_bits().into() })
            },
            DType::BF16 => |b| {
                let x = bf16::from_ne_bytes(word(b));
                Scalar::Float(Float { value: x.to_f64(), bits: x.to_bits().into() })
            },
            DType::F32 => |b| Scalar::Float(single(b)),
            DType::F64 => |b| Scalar::Float(double(b)),
            DType::C64 => |b| Scalar::Complex { re: single(b), im: single(b.get(4..).unwrap_or_default()) },
            DType::C128 => |b| Scalar::Complex { re: double(b), im: double(b.get(8..).unwrap_or_default()) },
            DType::F8E5M2 => |b| small(&minifloat::F8E5M2, b),
            DType::F8E4M3FN => |b| small(&minifloat::F8E4M3FN, b),
            DType::F8E4M3B11FNUZ => |b| small(&minifloat::F8E4M3B11FNUZ, b),
            DType::F8E5M2FNUZ => |b| small(&minifloat::F8E5M2FNUZ, b),
            DType::F8E4M3FNUZ => |b| small(&minifloat::F8E4M3FNUZ, b),
            DType::F8E4M3 => |b| small(&minifloat::F8E4M3, b),
            DType::F8E3M4 => |b| small(&minifloat::F8E3M4, b),
            DType::F8E8M0FNU => |b| small(&minifloat::F8E8M0FNU, b),
            DType::F4E2M1FN => |b| small(&minifloat::F4E2M1FN, b),
        };
        Reader { width: dtype.host_bytes(), read }
    }

    /// Bytes of one element.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The element that `bytes` starts with; bytes that are missing count as zero.
    pub fn read(&self, bytes: &[u8]) -> Scalar {
        (self.read)(bytes)
    }

    /// The elements of `bytes`, one after the other; an incomplete last one is left out.
    pub fn iter<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = Scalar> + 'a {
        bytes.chunks_exact(self.width).map(self.read)
    }
}

fn word<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn single(bytes: &[u8]) -> Float {
    let bits = u32::from_ne_bytes(word(bytes));
    Float { value: f32::from_bits(bits).into(), bits: bits.into() }
}

fn double(bytes: &[u8]) -> Float {
    let bits = u64::from_ne_bytes(word(bytes));
    Float { value: f64::from_bits(bits), bits }
}

fn small(format: &Format, bytes: &[u8]) -> Scalar {
    let bits = u8::from_ne_bytes(word(bytes));
    Scalar::Float(Float { value: format.table()[usize::from(bits)], bits: bits.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::ALL;

    #[test]
    fn narrow_integers_are_sign_extended_from_the_low_bits() {
        let read = |dtype, byte: u8| Reader::new(dtype).read(&[byte]);
        assert_eq!(read(DType::I4, 0x0f), Scalar::Signed(-1));
        assert_eq!(read(DType::I4, 0xf8), Scalar::Signed(-8));
        assert_eq!(read(DType::I4, 0x07), Scalar::Signed(7));
        assert_eq!(read(DType::I2, 0x02), Scalar::Signed(-2));
        assert_eq!(read(DType::I2, 0xff), Scalar::Signed(-1));
        assert_eq!(read(DType::U4, 0xff), Scalar::Unsigned(15));
        assert_eq!(read(DType::U2, 0xfe), Scalar::Unsigned(2));
    }

    #[test]
    fn each_dtype_has_the_width_of_the_table() {
        for &dtype in ALL {
            assert_eq!(Reader::new(dtype).iter(&vec![0; 3 * dtype.host_bytes()]).count(), 3, "{dtype}");
        }
    }

    #[test]
    fn floats_keep_value_and_bits() {
        let read = |dtype, bytes: &[u8]| Reader::new(dtype).read(bytes);
        assert_eq!(read(DType::F8E5M2, &[0xfc]), Scalar::Float(Float { value: f64::NEG_INFINITY, bits: 0xfc }));
        assert_eq!(read(DType::F4E2M1FN, &[0x0b]), Scalar::Float(Float { value: -1.5, bits: 0x0b }));
        let (re, im) = (1.5f32, -2f32);
        let part = |x: f32| Float { value: x.into(), bits: x.to_bits().into() };
        let complex = Scalar::Complex { re: part(re), im: part(im) };
        assert_eq!(read(DType::C64, &[re.to_ne_bytes(), im.to_ne_bytes()].concat()), complex);
    }

    #[test]
    fn missing_bytes_count_as_zero() {
        assert_eq!(Reader::new(DType::I64).read(&[1]), Scalar::Signed(0));
    }
}
