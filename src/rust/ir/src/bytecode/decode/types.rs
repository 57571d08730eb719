//! The types of MLIR itself, of StableHLO and its portable form, and of quantized numbers.

use super::super::attributes::Entry;
use super::super::damaged;
use super::super::reader::Reader;
use super::entries::Decoder;
use super::quantized;
use crate::module::{unknown, Element, Tensor, Type};
use pjrt_base::error::Result;
use std::sync::Arc;

/// The types of numbers: the number in the portable form, that of MLIR itself, which encodes integers in another way, and the name.
#[rustfmt::skip]
const NUMBERS: [(u64, Option<u64>, &str); 29] = [
    (0, None, "i1"), (2, Some(3), "bf16"), (3, Some(4), "f16"), (4, Some(5), "f32"), (5, Some(6), "f64"),
    (6, Some(24), "f8E4M3FN"), (7, Some(22), "f8E5M2"), (10, None, "i4"), (11, None, "i8"), (12, None, "i16"),
    (13, None, "i32"), (14, None, "i64"), (15, None, "ui4"), (16, None, "ui8"), (17, None, "ui16"), (18, None, "ui32"),
    (19, None, "ui64"), (27, Some(26), "f8E4M3FNUZ"), (28, Some(25), "f8E5M2FNUZ"), (29, Some(27), "f8E4M3B11FNUZ"),
    (31, None, "i2"), (32, None, "ui2"), (34, Some(21), "tf32"), (35, Some(23), "f8E4M3"), (36, Some(28), "f8E3M4"),
    (37, Some(29), "f4E2M1FN"), (38, Some(30), "f6E2M3FN"), (39, Some(31), "f6E3M2FN"), (40, Some(32), "f8E8M0FNU"),
];

/// The number in the portable form of the type of a number that is not complex.
pub fn number_of_type(name: &str) -> Option<usize> {
    let found = NUMBERS.iter().find(|(.., known)| *known == name).map(|(number, ..)| *number as usize);
    found.or((name == "index").then_some(9))
}

impl<'a> Decoder<'_, 'a> {
    pub fn decode_type(&mut self, entry: &Entry<'a>) -> Result<Type> {
        let Some((kind, mut reader)) = entry.kind()? else { return text_type(entry) };
        let reader = &mut reader;
        let number = NUMBERS.iter().find(|(portable, own, _)| match entry.dialect {
            b"vhlo" => *portable == kind,
            b"builtin" => *own == Some(kind),
            _ => false,
        });
        if let Some((.., name)) = number {
            return Ok(Type::Number(Element::of(name)));
        }
        match (entry.dialect, kind) {
            (b"builtin", 0) => Ok(Type::Number(integer(reader.number()?)?)),
            (b"builtin", 1) | (b"vhlo", 9) => Ok(Type::Number(Element::Index)),
            (b"builtin", 2) | (b"vhlo", 8) => {
                Ok(Type::Function(Arc::new((self.next_types(reader)?, self.next_types(reader)?))))
            }
            (b"builtin", 9) | (b"vhlo", 1) => match Element::of(&format!("complex<{}>", self.next_element(reader)?)) {
                Element::Other(name) => Err(unknown(format_args!("type {name}"))),
                element => Ok(Type::Number(element)),
            },
            (b"builtin", 12) | (b"vhlo", 33) => Ok(Type::None),
            (b"builtin", 13) | (b"vhlo", 20) => self.array(reader, false),
            (b"builtin", 14) | (b"vhlo", 21) => self.array(reader, true),
            // A vector, which only the check of constants reads.
            (b"builtin", 19) if self.is_lenient => self.array(reader, false),
            (b"builtin", 15) | (b"vhlo", 23) => Ok(Type::Tuple(self.next_types(reader)?.into())),
            (b"builtin", 16) | (b"vhlo", 25) => Ok(Type::Unranked(self.next_element(reader)?)),
            (b"stablehlo", 0) | (b"vhlo", 22) => Ok(Type::Token),
            (b"stablehlo", 1) | (b"vhlo", 42) => Ok(Type::Future(self.next_types(reader)?.into())),
            (b"quant", 4) | (b"vhlo", 24) => quantized::kind(self, reader, false),
            (b"quant", 5) | (b"vhlo", 30) => quantized::kind(self, reader, true),
            (b"vhlo", 41) => {
                let (dims, element) = (reader.signed_numbers()?, self.next_element(reader)?);
                let dims: String = dims.iter().map(|dim| format!("{dim}x")).collect();
                Ok(Type::Other(format!("memref<{dims}{element}>").into()))
            }
            (b"builtin", _) => Err(unknown(format_args!("type {kind} of MLIR"))),
            (b"vhlo", _) => Err(unknown(format_args!("type {kind} of StableHLO's portable form"))),
            (other, _) => Err(unknown(format_args!("type {kind} of dialect {}", String::from_utf8_lossy(other)))),
        }
    }

    /// The type of an array, perhaps with more than sizes and elements.
    fn array(&mut self, reader: &mut Reader<'a>, is_encoded: bool) -> Result<Type> {
        let encoding = if is_encoded { Some(self.next_attribute(reader)?) } else { None };
        // Without a fixed size it is the smallest number, and -1 in the types of text.
        let dims = reader.signed_numbers()?.into_iter().map(|dim| dim.max(-1)).collect();
        let element = self.next_element(reader)?;
        Ok(Type::Tensor(Arc::new(Tensor { dims, element, encoding })))
    }
}

/// An integer's width, and in the last bits its sign.
fn integer(code: u64) -> Result<Element> {
    let width = code >> 2;
    match code & 3 {
        0 => Ok(Element::of(&format!("i{width}"))),
        1 => Ok(Element::Signed(width)),
        2 => Ok(Element::of(&format!("ui{width}"))),
        _ => Err(damaged("an integer has no sign")),
    }
}

/// The text of an entry that is not encoded.
pub fn text<'a>(entry: &Entry<'a>) -> Result<&'a str> {
    let bytes = entry.content;
    std::str::from_utf8(bytes.strip_suffix(&[0]).unwrap_or(bytes)).map_err(|_| damaged("an attribute is not text"))
}

fn text_type(entry: &Entry<'_>) -> Result<Type> {
    let text = text(entry)?;
    if text.starts_with("!quant.") {
        return Ok(Type::Number(Element::Other(text.into())));
    }
    crate::text::kind(text).ok_or_else(|| unknown(format_args!("type {text}")))
}
