//! Attributes and types: those of MLIR itself, and the way to those of dialects.

use super::super::attributes::Entry;
use super::super::reader::Reader;
use super::super::{damaged, too_deep, Tables};
use super::{chlo, quantized, shardy, stablehlo, vhlo};
use crate::module::sizes;
use crate::module::{unknown, Attribute, Dense, Element, Name, Tensor, Type};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;
use std::sync::Arc;

const MAX_NESTING: usize = 100;

/// Small floats, in the order of their numbers.
#[rustfmt::skip]
const SMALL: [&str; 11] = [
    "f8E5M2", "f8E4M3", "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ", "f8E4M3B11FNUZ", "f8E3M4", "f4E2M1FN", "f6E2M3FN",
    "f6E3M2FN", "f8E8M0FNU",
];

/// What is decoded has at most so many bytes for each byte of the file, and [`SPARE`] more. Entries may share others: if each
/// contains the one before twice, a small file stands for an endless program.
const GROWTH: usize = 16;
const SPARE: usize = 1 << 20;

/// What stands for an attribute or type that is not known.
const UNKNOWN: &str = "?";

/// Decodes each entry once.
pub struct Decoder<'t, 'a> {
    pub tables: &'t Tables<'a>,
    /// Whether something stands for what is not known, which is an error otherwise.
    pub is_lenient: bool,
    attributes: Vec<Option<(Attribute, usize)>>,
    types: Vec<Option<(Type, usize)>>,
    depth: usize,
    /// The size of the entry that is being decoded, with all that it contains.
    size: usize,
    /// How many bytes may still be copied.
    left: usize,
}

impl<'t, 'a> Decoder<'t, 'a> {
    pub fn new(tables: &'t Tables<'a>, is_lenient: bool) -> Self {
        let (attributes, types) = tables.entries.counts();
        let (attributes, types) = (vec![None; attributes], vec![None; types]);
        Decoder { tables, is_lenient, attributes, types, depth: 0, size: 0, left: limit(tables) }
    }

    /// Something instead of what is not known, if that is asked for.
    pub fn or<T>(&self, found: Result<T>, instead: impl FnOnce() -> T) -> Result<T> {
        match found {
            Err(error) if self.is_lenient && error.kind() == Kind::UnsupportedProgram => Ok(instead()),
            found => found,
        }
    }

    /// The attribute of this number.
    pub fn attribute(&mut self, number: usize) -> Result<Attribute> {
        if let Some((known, size)) = self.attributes[number].clone() {
            self.contains(size)?;
            return Ok(known);
        }
        let entry = self.tables.entries.attribute_number(number);
        let (decoded, size) = self.deeper(entry, |this| {
            let found = this.decode_attribute(entry);
            this.or(found, || Attribute::Other(UNKNOWN.into()))
        })?;
        self.attributes[number] = Some((decoded.clone(), size));
        Ok(decoded)
    }

    /// The type of this number.
    pub fn kind(&mut self, number: usize) -> Result<Type> {
        if let Some((known, size)) = self.types[number].clone() {
            self.contains(size)?;
            return Ok(known);
        }
        let entry = self.tables.entries.type_number(number);
        let (decoded, size) = self.deeper(entry, |this| {
            let found = this.decode_type(entry);
            this.or(found, || Type::Number(Element::Other(UNKNOWN.into())))
        })?;
        self.types[number] = Some((decoded.clone(), size));
        Ok(decoded)
    }

    /// What `decode` makes of an entry, and its size.
    fn deeper<T>(&mut self, entry: &Entry<'a>, decode: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, usize)> {
        if self.depth == MAX_NESTING {
            return Err(too_deep());
        }
        self.depth += 1;
        let outer = std::mem::replace(&mut self.size, entry.content().len() + 1);
        let decoded = decode(self);
        let size = std::mem::replace(&mut self.size, outer);
        self.depth -= 1;
        self.contains(size)?;
        Ok((decoded?, size))
    }

    /// Notes that the entry that is being decoded contains another one. Operations may share large entries.
    fn contains(&mut self, size: usize) -> Result<()> {
        self.size = if self.depth == 0 { 0 } else { self.size.saturating_add(size) };
        if self.size > limit(self.tables) {
            return Err(too_large());
        }
        Ok(())
    }

    /// Notes that bytes are copied.
    fn copies(&mut self, bytes: usize) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(too_large)?;
        self.contains(bytes)
    }

    pub fn next_attribute(&mut self, reader: &mut Reader<'_>) -> Result<Attribute> {
        let number = reader.index(self.attributes.len())?;
        self.attribute(number)
    }

    pub fn next_optional(&mut self, reader: &mut Reader<'_>) -> Result<Option<Attribute>> {
        let (number, is_there) = reader.flagged()?;
        if !is_there {
            return Ok(None);
        }
        self.attribute(Reader::within(number, self.attributes.len())?).map(Some)
    }

    /// After a byte that says whether it has one, the last attribute of an entry.
    pub fn next_given(&mut self, reader: &mut Reader<'_>) -> Result<Option<Attribute>> {
        reader.byte()?;
        if reader.is_empty() {
            return Ok(None);
        }
        self.next_attribute(reader).map(Some)
    }

    pub fn next_attributes(&mut self, reader: &mut Reader<'_>) -> Result<Vec<Attribute>> {
        (0..reader.count()?).map(|_| self.next_attribute(reader)).collect()
    }

    pub fn next_type(&mut self, reader: &mut Reader<'_>) -> Result<Type> {
        let number = reader.index(self.types.len())?;
        self.kind(number)
    }

    pub fn next_types(&mut self, reader: &mut Reader<'_>) -> Result<Vec<Type>> {
        (0..reader.count()?).map(|_| self.next_type(reader)).collect()
    }

    /// The type of an element that comes next.
    pub fn next_element(&mut self, reader: &mut Reader<'_>) -> Result<Element> {
        match self.next_type(reader)? {
            Type::Number(element) => Ok(element),
            _ => Err(damaged("the elements of an array are not numbers")),
        }
    }

    pub fn next_bytes(&mut self, reader: &mut Reader<'a>) -> Result<&'a [u8]> {
        let index = reader.index(self.tables.strings.len())?;
        self.copies(self.tables.strings[index].len())?;
        Ok(self.tables.strings[index])
    }

    /// The string that comes next, as a name.
    pub fn next_name(&mut self, reader: &mut Reader<'a>) -> Result<Name> {
        name(self.next_bytes(reader)?)
    }

    /// The next attribute, which is a string, as a name.
    pub fn next_string(&mut self, reader: &mut Reader<'_>) -> Result<Name> {
        match self.next_attribute(reader)? {
            Attribute::String(bytes) => name(&bytes),
            _ => Err(damaged("a name is not text")),
        }
    }

    pub fn next_pairs(&mut self, reader: &mut Reader<'_>) -> Result<Attribute> {
        let pairs = (0..reader.count()?).map(|_| Ok((self.next_string(reader)?, self.next_attribute(reader)?)));
        Ok(Attribute::Dictionary(pairs.collect::<Result<_>>()?))
    }

    /// An integer or a float of a type.
    pub fn next_number(&mut self, reader: &mut Reader<'_>) -> Result<Attribute> {
        let kind = self.next_type(reader)?;
        let Type::Number(element) = kind else { return Err(damaged("a number does not match its type")) };
        let bits = match &element {
            Element::Number(DType::Pred) => 1,
            Element::Number(dtype) => dtype.info().bits,
            Element::Signed(width) => u32::try_from(*width).unwrap_or(u32::MAX),
            Element::Index => 64,
            Element::Other(_) => return Err(unknown(format_args!("a number of type {element}"))),
        };
        let value = match bits {
            0..=8 => i64::from(reader.byte()?),
            9..=64 => reader.signed()?,
            _ => return Err(unknown(format_args!("a number of type {element}"))),
        };
        Ok(Attribute::of_bits(value as u64, element))
    }

    /// A constant: its type, and its bytes.
    pub fn next_dense(&mut self, reader: &mut Reader<'_>) -> Result<Attribute> {
        let kind = self.next_type(reader)?;
        let count = reader.count()?;
        dense(kind, reader.bytes(count)?)
    }

    /// The name in the location of an argument.
    pub fn location(&mut self, number: usize) -> Result<Option<Name>> {
        match self.attribute(number)? {
            Attribute::Location(name) => Ok(name),
            _ => Err(damaged("a location is something else")),
        }
    }

    /// Checks that no array has an impossible size, and that numbers and constants match their types.
    pub fn check(&mut self) -> Result<()> {
        for number in 0..self.types.len() {
            // Unknown sizes are negative.
            if let Type::Tensor(tensor) = self.kind(number)? {
                sizes::check(tensor.dims.iter().map(|&dim| u64::try_from(dim).unwrap_or(0)))?;
            }
        }
        for number in 0..self.attributes.len() {
            let entry = self.tables.entries.attribute_number(number);
            let Some((kind, mut reader)) = entry.kind()? else { continue };
            match (entry.dialect, kind) {
                (b"vhlo", 8 | 9) => {
                    let fits = match self.next_type(&mut reader)? {
                        Type::Number(Element::Number(dtype)) => dtype.is_float() == (kind == 8) && !dtype.is_complex(),
                        Type::Number(Element::Other(name)) => !name.starts_with("!quant"),
                        Type::Number(_) => kind == 9,
                        _ => false,
                    };
                    if !fits {
                        return Err(damaged("a number does not match its type"));
                    }
                }
                (b"builtin", 18) | (b"vhlo", 15) => {
                    let kind = self.next_type(&mut reader)?;
                    let count = reader.count()?;
                    check_constant(&kind, reader.bytes(count)?)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a constant, as it follows the number of its kind, is an array of such elements.
    pub fn has_elements(&mut self, reader: &mut Reader<'_>, dtype: DType) -> Result<bool> {
        let kind = self.next_type(reader)?;
        Ok(kind.as_tensor().is_some_and(|tensor| tensor.element.dtype() == Some(dtype)))
    }

    fn decode_attribute(&mut self, entry: &Entry<'a>) -> Result<Attribute> {
        let Some((kind, mut reader)) = entry.kind()? else { return text_attribute(entry) };
        let reader = &mut reader;
        match entry.dialect {
            b"builtin" => self.builtin_attribute(kind, reader),
            b"vhlo" => vhlo::attribute(self, kind, reader),
            b"stablehlo" => stablehlo::attribute(self, kind, reader),
            b"chlo" => chlo::attribute(kind, reader),
            b"sdy" => shardy::attribute(self, kind, reader),
            other => Err(unknown(format_args!("an attribute of dialect {}", String::from_utf8_lossy(other)))),
        }
    }

    fn builtin_attribute(&mut self, kind: u64, reader: &mut Reader<'a>) -> Result<Attribute> {
        Ok(match kind {
            0 => Attribute::Array(self.next_attributes(reader)?.into()),
            1 => self.next_pairs(reader)?,
            2 => Attribute::String(self.next_bytes(reader)?.into()),
            3 => {
                let bytes = self.next_bytes(reader)?;
                match self.next_type(reader)? {
                    Type::None => Attribute::String(bytes.into()),
                    _ => return Err(unknown("a string with a type")),
                }
            }
            4 => Attribute::symbol(self.next_string(reader)?),
            5 => {
                let mut names = vec![self.next_string(reader)?];
                for part in self.next_attributes(reader)? {
                    names.push(part.as_symbol().cloned().ok_or_else(|| damaged("a symbol is something else"))?);
                }
                Attribute::Symbol(names.into())
            }
            6 => Attribute::Type(self.next_type(reader)?),
            7 => Attribute::Unit,
            8 | 9 => self.next_number(reader)?,
            // A name, and what it stands for.
            14 => Attribute::Location(self.next_string(reader).ok()),
            10..=13 | 15 | 22 => Attribute::Location(None),
            17 => self.integers(reader)?,
            18 => self.next_dense(reader)?,
            16 => {
                let kind = self.next_type(reader)?;
                let number = reader.index(self.tables.resources.len())?;
                let bytes = self.tables.resources[number].ok_or_else(|| unknown("a resource without content"))?;
                self.copies(bytes.len())?;
                let whole = |tensor: &Tensor| {
                    let dtype = tensor.element.dtype().filter(|dtype| !dtype.is_packed() && *dtype != DType::Pred)?;
                    tensor.elements()?.checked_mul(dtype.host_bytes())
                };
                if kind.as_tensor().and_then(whole) != Some(bytes.len()) {
                    return Err(unknown("a resource of this type"));
                }
                dense(kind, bytes)?
            }
            _ => return Err(unknown(format_args!("attribute {kind} of MLIR"))),
        })
    }

    /// `array<i64: ..>`.
    fn integers(&mut self, reader: &mut Reader<'a>) -> Result<Attribute> {
        let element = self.next_element(reader)?;
        let count = reader.number()?;
        let size = reader.count()?;
        let bytes = reader.bytes(size)?;
        let width = element.bytes().filter(|width| (1..=8).contains(width));
        let width = width.ok_or_else(|| unknown(format_args!("a list of {element}")))?;
        if count.checked_mul(width as u64) != Some(bytes.len() as u64) {
            return Err(damaged("the size of a list does not match its type"));
        }
        let value = |part: &[u8]| {
            let mut value = [0; 8];
            value[..width].copy_from_slice(part);
            let shift = 64 - 8 * width;
            i64::from_le_bytes(value) << shift >> shift
        };
        let values = bytes.chunks_exact(width).map(value);
        Ok(match element {
            Element::Number(DType::I64) => Attribute::Numbers(values.collect()),
            Element::Number(DType::Pred) => Attribute::Bools(values.map(|value| value != 0).collect()),
            Element::Number(DType::I8 | DType::I16 | DType::I32) => Attribute::Integers(values.collect(), element),
            _ => return Err(unknown(format_args!("a list of {element}"))),
        })
    }

    fn decode_type(&mut self, entry: &Entry<'a>) -> Result<Type> {
        let Some((kind, mut reader)) = entry.kind()? else { return text_type(entry) };
        let reader = &mut reader;
        match entry.dialect {
            b"builtin" => self.builtin_type(kind, reader),
            b"vhlo" => vhlo::kind(self, kind, reader),
            b"stablehlo" if kind == 0 => Ok(Type::Token),
            b"stablehlo" if kind == 1 => Ok(Type::Future(self.next_types(reader)?.into())),
            b"quant" if matches!(kind, 4 | 5) => quantized::kind(self, reader, kind == 5),
            other => Err(unknown(format_args!("type {kind} of dialect {}", String::from_utf8_lossy(other)))),
        }
    }

    fn builtin_type(&mut self, kind: u64, reader: &mut Reader<'a>) -> Result<Type> {
        match kind {
            0 => integer_type(reader.number()?),
            1 => Ok(Type::Number(Element::Index)),
            2 => Ok(Type::Function(Arc::new((self.next_types(reader)?, self.next_types(reader)?)))),
            3..=6 => Ok(number_type(["bf16", "f16", "f32", "f64"][kind as usize - 3])),
            9 => complex(&self.next_element(reader)?),
            12 => Ok(Type::None),
            13 | 14 => self.next_array(reader, kind == 14),
            // A vector, which only the check of constants reads.
            19 if self.is_lenient => self.next_array(reader, false),
            15 => Ok(Type::Tuple(self.next_types(reader)?.into())),
            16 => Ok(Type::Unranked(self.next_element(reader)?)),
            21 => Ok(number_type("tf32")),
            22..=32 => Ok(number_type(SMALL[kind as usize - 22])),
            _ => Err(unknown(format_args!("type {kind} of MLIR"))),
        }
    }

    /// The type of an array, perhaps with more than sizes and elements.
    pub fn next_array(&mut self, reader: &mut Reader<'a>, is_encoded: bool) -> Result<Type> {
        let encoding = if is_encoded { Some(self.next_attribute(reader)?) } else { None };
        // Without a fixed size it is the smallest number, and -1 in the types of text.
        let dims = reader.signed_numbers()?.into_iter().map(|dim| dim.max(-1)).collect();
        let element = self.next_element(reader)?;
        Ok(Type::Tensor(Arc::new(Tensor { dims, element, encoding })))
    }
}

/// The most bytes that are copied, and that an entry may contain.
pub(super) fn limit(tables: &Tables<'_>) -> usize {
    tables.size.saturating_mul(GROWTH).saturating_add(SPARE)
}

#[cold]
pub(super) fn too_large() -> Error {
    damaged("its parts overlap, and would be too large")
}

pub(super) fn name(bytes: &[u8]) -> Result<Name> {
    std::str::from_utf8(bytes).map(Name::from).map_err(|_| damaged("a name is not text"))
}

/// An integer's width, and in the last bits its sign.
fn integer_type(code: u64) -> Result<Type> {
    let width = code >> 2;
    let name = match code & 3 {
        0 => format!("i{width}"),
        2 => format!("ui{width}"),
        1 => return Ok(Type::Number(Element::Signed(width))),
        _ => return Err(damaged("an integer has no sign")),
    };
    Ok(number_type(&name))
}

/// The number type of this name.
pub(super) fn of_name(name: &str) -> Result<Type> {
    let found = DType::from_mlir(name).map(|dtype| Type::Number(Element::Number(dtype)));
    found.ok_or_else(|| unknown(format_args!("type {name}")))
}

/// The same, also for numbers that no array outside of programs has.
pub(super) fn number_type(name: &str) -> Type {
    of_name(name).unwrap_or_else(|_| Type::Number(Element::Other(name.into())))
}

pub(super) fn complex(part: &Element) -> Result<Type> {
    of_name(&format!("complex<{part}>"))
}

/// Checks that a constant has the bytes of all of its elements, or of one for all; truth values may be bits.
fn check_constant(kind: &Type, bytes: &[u8]) -> Result<()> {
    let tensor = match kind {
        Type::Tensor(tensor) => tensor,
        Type::Number(Element::Other(name)) if &**name == UNKNOWN => return Ok(()),
        _ => return Err(damaged("a constant is not an array")),
    };
    if matches!(&tensor.element, Element::Other(name) if name.starts_with("!quant")) {
        return Err(damaged("the elements of a constant are not numbers"));
    }
    let Some(width) = tensor.element.bytes() else { return Ok(()) };
    let is_truth = tensor.element.dtype() == Some(DType::Pred);
    let fits = tensor.elements().is_some_and(|len| {
        let is_whole = len.checked_mul(width) == Some(bytes.len());
        match is_truth {
            true => is_whole || bytes.len() == len.div_ceil(8) || matches!(bytes, [0] | [0xff]),
            false => is_whole || bytes.len() == width,
        }
    });
    match fits {
        true => Ok(()),
        false => Err(damaged("the size of a constant does not match its type")),
    }
}

/// A constant of one type, with truth values as bytes.
pub(super) fn dense(kind: Type, bytes: &[u8]) -> Result<Attribute> {
    check_constant(&kind, bytes)?;
    let tensor = kind.as_tensor().ok_or_else(|| damaged("a constant is not an array"))?;
    let len = tensor.elements().unwrap_or(0);
    let bytes: Arc<[u8]> = match (tensor.element.dtype(), bytes) {
        (Some(DType::Pred), [0]) => [0].into(),
        (Some(DType::Pred), [0xff]) => [1].into(),
        (Some(DType::Pred), _) if bytes.len() == len => bytes.iter().map(|&byte| u8::from(byte != 0)).collect(),
        (Some(DType::Pred), _) => (0..len).map(|i| bytes[i / 8] >> (i % 8) & 1).collect(),
        _ if tensor.element.bytes().is_none() => {
            return Err(unknown(format_args!("a constant of {} elements", tensor.element)));
        }
        _ => bytes.into(),
    };
    Ok(Attribute::Dense(Arc::new(Dense { kind, bytes })))
}

/// The text of an entry that is not encoded.
fn text<'a>(entry: &Entry<'a>) -> Result<&'a str> {
    let bytes = entry.content();
    std::str::from_utf8(bytes.strip_suffix(&[0]).unwrap_or(bytes)).map_err(|_| damaged("an attribute is not text"))
}

/// Text of another dialect is copied as it is.
fn text_attribute(entry: &Entry<'_>) -> Result<Attribute> {
    let text = text(entry)?;
    if text.starts_with('#') || text.starts_with("dense<") {
        return Ok(Attribute::Other(text.into()));
    }
    let found = crate::text::attribute(text).filter(|found| !matches!(found, Attribute::Other(_)));
    found.ok_or_else(|| unknown(format_args!("attribute {}", text.chars().take(100).collect::<String>())))
}

fn text_type(entry: &Entry<'_>) -> Result<Type> {
    let text = text(entry)?;
    if text.starts_with("!quant.") {
        return Ok(Type::Number(Element::Other(text.into())));
    }
    crate::text::kind(text).ok_or_else(|| unknown(format_args!("type {text}")))
}

#[cfg(test)]
mod tests {
    use super::super::super::attributes::Entries;
    use super::*;

    /// The tables of a file with these attributes of MLIR itself, each as its bytes.
    fn tables<'a>(attributes: &[Vec<u8>], content: &'a [u8], strings: Vec<&'a [u8]>) -> Tables<'a> {
        let count = attributes.len() as u8;
        let sizes = attributes.iter().map(|attribute| number((attribute.len() as u8) << 1 | 1));
        let offsets: Vec<u8> = [number(count), number(0), number(0), number(count)].into_iter().chain(sizes).collect();
        let entries = Entries::read(Reader::new(&offsets), Reader::new(content), &[b"builtin"]).unwrap();
        let (operations, properties, resources) = (Vec::new(), Vec::new(), Vec::new());
        let size = content.len();
        Tables { size, version: 6, strings, dialects: vec![b"builtin"], operations, entries, properties, resources }
    }

    /// A number below 128.
    fn number(value: u8) -> u8 {
        value << 1 | 1
    }

    #[test]
    fn attributes_that_contain_each_other_twice_do_not_grow_without_limit() {
        let pair = |i: u8| vec![number(0), number(2), number(i), number(i)];
        let mut attributes = vec![vec![number(0), number(0)]];
        attributes.extend((0..50).map(pair));
        let content = attributes.concat();
        let tables = tables(&attributes, &content, Vec::new());
        assert!(Decoder::new(&tables, false).attribute(10).is_ok());
        let error = Decoder::new(&tables, false).attribute(50).unwrap_err();
        assert!(error.message().contains("too large"), "{error}");
    }

    #[test]
    fn a_long_string_is_not_copied_without_limit() {
        let long = vec![b'x'; 100_000];
        let attributes: Vec<Vec<u8>> = (0..60).map(|_| vec![number(2), number(0)]).collect();
        let content = attributes.concat();
        let tables = tables(&attributes, &content, vec![&long]);
        let mut decoder = Decoder::new(&tables, false);
        assert!((0..10).all(|i| decoder.attribute(i).is_ok()));
        assert!((10..60).any(|i| decoder.attribute(i).is_err()));
    }
}
