//! Reads single elements out of host bytes, for the modules that show them as text ([`crate::print`] and
//! [`crate::literal`]). Knows how each dtype lies in host memory; must not know how it is shown.

use crate::dtype::DType;
use crate::error::{Error, Kind, Result};
use half::{bf16, f16};

/// The value of one element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Element {
    Pred(bool),
    Signed(i64),
    Unsigned(u64),
    /// The value, which a double holds exactly, and the bits as they lie in memory.
    Float {
        value: f64,
        bits: u64,
    },
}

/// Reads elements of one dtype: native endian, types narrower than a byte in the low bits of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader {
    width: usize,
    read: fn(&[u8]) -> Element,
}

impl Reader {
    /// A reader for elements of `dtype`.
    ///
    /// # Errors
    /// `UnsupportedDtype` for complex numbers and for floats of eight bits and less.
    pub(crate) fn new(dtype: DType) -> Result<Self> {
        let read: fn(&[u8]) -> Element = match dtype {
            DType::Pred => |b| Element::Pred(u8::from_ne_bytes(word(b)) != 0),
            DType::I2 => |b| Element::Signed(i64::from(i8::from_ne_bytes(word(b)) << 6 >> 6)),
            DType::I4 => |b| Element::Signed(i64::from(i8::from_ne_bytes(word(b)) << 4 >> 4)),
            DType::I8 => |b| Element::Signed(i8::from_ne_bytes(word(b)).into()),
            DType::I16 => |b| Element::Signed(i16::from_ne_bytes(word(b)).into()),
            DType::I32 => |b| Element::Signed(i32::from_ne_bytes(word(b)).into()),
            DType::I64 => |b| Element::Signed(i64::from_ne_bytes(word(b))),
            DType::U2 => |b| Element::Unsigned(u64::from(u8::from_ne_bytes(word(b)) & 0x03)),
            DType::U4 => |b| Element::Unsigned(u64::from(u8::from_ne_bytes(word(b)) & 0x0f)),
            DType::U8 => |b| Element::Unsigned(u8::from_ne_bytes(word(b)).into()),
            DType::U16 => |b| Element::Unsigned(u16::from_ne_bytes(word(b)).into()),
            DType::U32 => |b| Element::Unsigned(u32::from_ne_bytes(word(b)).into()),
            DType::U64 => |b| Element::Unsigned(u64::from_ne_bytes(word(b))),
            DType::F16 => |b| {
                let x = f16::from_ne_bytes(word(b));
                Element::Float { value: x.to_f64(), bits: x.to_bits().into() }
            },
            DType::BF16 => |b| {
                let x = bf16::from_ne_bytes(word(b));
                Element::Float { value: x.to_f64(), bits: x.to_bits().into() }
            },
            DType::F32 => |b| {
                let bits = u32::from_ne_bytes(word(b));
                Element::Float { value: f32::from_bits(bits).into(), bits: bits.into() }
            },
            DType::F64 => |b| {
                let bits = u64::from_ne_bytes(word(b));
                Element::Float { value: f64::from_bits(bits), bits }
            },
            DType::C64
            | DType::C128
            | DType::F8E5M2
            | DType::F8E4M3FN
            | DType::F8E4M3B11FNUZ
            | DType::F8E5M2FNUZ
            | DType::F8E4M3FNUZ
            | DType::F8E4M3
            | DType::F8E3M4
            | DType::F8E8M0FNU
            | DType::F4E2M1FN => return Err(unreadable(dtype)),
        };
        Ok(Reader { width: dtype.host_bytes(), read })
    }

    /// Bytes of one element.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The element that `bytes` starts with; bytes that are missing count as zero.
    pub(crate) fn read(&self, bytes: &[u8]) -> Element {
        (self.read)(bytes)
    }

    /// The elements of `bytes`, one after the other; an incomplete last one is left out.
    pub(crate) fn iter<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = Element> + 'a {
        bytes.chunks_exact(self.width).map(self.read)
    }
}

fn word<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

#[cold]
fn unreadable(dtype: DType) -> Error {
    Error::new(Kind::UnsupportedDtype, format!("Elements of type {dtype} cannot be shown as text yet."))
        .hint("Read its raw bytes instead.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::ALL;

    #[test]
    fn narrow_integers_are_sign_extended_from_the_low_bits() {
        let read = |dtype, byte: u8| Reader::new(dtype).unwrap().read(&[byte]);
        assert_eq!(read(DType::I4, 0x0f), Element::Signed(-1));
        assert_eq!(read(DType::I4, 0xf8), Element::Signed(-8));
        assert_eq!(read(DType::I4, 0x07), Element::Signed(7));
        assert_eq!(read(DType::I2, 0x02), Element::Signed(-2));
        assert_eq!(read(DType::I2, 0xff), Element::Signed(-1));
        assert_eq!(read(DType::U4, 0xff), Element::Unsigned(15));
        assert_eq!(read(DType::U2, 0xfe), Element::Unsigned(2));
    }

    #[test]
    fn each_readable_dtype_has_the_width_of_the_table_and_the_rest_is_refused_with_a_hint() {
        let mut readable = 0;
        for &dtype in ALL {
            match Reader::new(dtype) {
                Ok(reader) => {
                    readable += 1;
                    assert_eq!(reader.iter(&vec![0; 3 * dtype.host_bytes()]).count(), 3);
                }
                Err(error) => {
                    assert_eq!(error.kind(), Kind::UnsupportedDtype);
                    assert!(error.message().contains(dtype.name()));
                    assert!(error.hints()[0].contains("raw bytes"));
                }
            }
        }
        assert_eq!(readable, 17);
    }

    #[test]
    fn missing_bytes_count_as_zero() {
        assert_eq!(Reader::new(DType::I64).unwrap().read(&[1]), Element::Signed(0));
    }
}
