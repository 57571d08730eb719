//! The attributes and types of MLIR itself, and the way to the attributes and types of dialects.

use super::super::attributes::Entry;
use super::super::reader::Reader;
use super::super::{damaged, intact, shallow, Tables};
use crate::module::sizes;
use crate::module::{unknown, Attribute, Element, Name, Type};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_data::dtype::DType;

const MAX_NESTING: usize = 100;

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

    pub fn attribute(&mut self, number: usize) -> Result<Attribute> {
        let entry = self.tables.entries.entry(number);
        let unknown = || Attribute::Other(UNKNOWN.into());
        self.once(entry, |this| &mut this.attributes[number], Self::decode_attribute, unknown)
    }

    pub fn kind(&mut self, number: usize) -> Result<Type> {
        let entry = self.tables.entries.entry(self.attributes.len() + number);
        let unknown = || Type::Number(Element::Other(UNKNOWN.into()));
        self.once(entry, |this| &mut this.types[number], Self::decode_type, unknown)
    }

    /// What `decode` makes of an entry, which is known afterwards, with its size.
    fn once<T: Clone>(
        &mut self,
        entry: &Entry<'a>,
        known: impl Fn(&mut Self) -> &mut Option<(T, usize)>,
        decode: impl FnOnce(&mut Self, &Entry<'a>) -> Result<T>,
        unknown: impl FnOnce() -> T,
    ) -> Result<T> {
        if let Some((found, size)) = known(self).clone() {
            self.contains(size)?;
            return Ok(found);
        }
        shallow(self.depth < MAX_NESTING)?;
        self.depth += 1;
        let outer = std::mem::replace(&mut self.size, entry.content.len() + 1);
        let found = decode(self, entry);
        let size = std::mem::replace(&mut self.size, outer);
        self.depth -= 1;
        self.contains(size)?;
        let found = self.or(found, unknown)?;
        *known(self) = Some((found.clone(), size));
        Ok(found)
    }

    /// Notes that the entry that is being decoded contains another one. Operations may share large entries.
    fn contains(&mut self, size: usize) -> Result<()> {
        self.size = if self.depth == 0 { 0 } else { self.size.saturating_add(size) };
        ensure!(self.size <= limit(self.tables), too_large());
        Ok(())
    }

    /// Notes that bytes are copied.
    pub fn copies(&mut self, bytes: usize) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(too_large)?;
        self.contains(bytes)
    }

    pub fn next_attribute(&mut self, reader: &mut Reader<'_>) -> Result<Attribute> {
        let number = reader.index(self.attributes.len())?;
        self.attribute(number)
    }

    pub fn next_optional(&mut self, reader: &mut Reader<'_>) -> Result<Option<Attribute>> {
        reader.optional(self.attributes.len())?.map(|number| self.attribute(number)).transpose()
    }

    /// The last attribute of an entry.
    pub fn next_given(&mut self, reader: &mut Reader<'_>) -> Result<Option<Attribute>> {
        reader.given(self.attributes.len())?.map(|number| self.attribute(number)).transpose()
    }

    pub fn next_attributes(&mut self, reader: &mut Reader<'_>) -> Result<Vec<Attribute>> {
        reader.list(|reader| self.next_attribute(reader))
    }

    pub fn next_type(&mut self, reader: &mut Reader<'_>) -> Result<Type> {
        let number = reader.index(self.types.len())?;
        self.kind(number)
    }

    pub fn next_types(&mut self, reader: &mut Reader<'_>) -> Result<Vec<Type>> {
        reader.list(|reader| self.next_type(reader))
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

    /// The next attribute, which is a string, as a name.
    pub fn next_string(&mut self, reader: &mut Reader<'_>) -> Result<Name> {
        match self.next_attribute(reader)? {
            Attribute::String(bytes) => name(&bytes),
            _ => Err(damaged("a name is not text")),
        }
    }

    /// An integer or a float of a type.
    pub fn next_number(&mut self, reader: &mut Reader<'_>) -> Result<Attribute> {
        let kind = self.next_type(reader)?;
        let Type::Number(element) = kind else { return Err(damaged("a number does not match its type")) };
        let bits = match element {
            Element::Signed(width) => width,
            _ => element.indexed().map_or(u64::MAX, |dtype| dtype.info().bits.into()),
        };
        let value = match bits {
            0..=8 => i64::from(reader.byte()?),
            9..=64 => reader.signed()?,
            _ => return Err(unknown(format_args!("a number of type {element}"))),
        };
        Ok(Attribute::of_bits(value as u64, element))
    }

    /// The name in the location of an argument.
    pub fn location(&mut self, number: usize) -> Result<Option<Name>> {
        match self.attribute(number)? {
            Attribute::Location(name) => Ok(name),
            _ => Err(damaged("a location is something else")),
        }
    }

    /// Checks that no entry contains itself, no array has an impossible size, and numbers and constants match their types.
    pub fn check(&mut self) -> Result<()> {
        self.tables.entries.check(&self.tables.strings)?;
        for number in 0..self.types.len() {
            // Unknown sizes are negative.
            if let Type::Tensor(tensor) = self.kind(number)? {
                sizes::check(tensor.dims.iter().map(|&dim| u64::try_from(dim).unwrap_or(0)))?;
            }
        }
        for number in 0..self.attributes.len() {
            let entry = self.tables.entries.entry(number);
            let Some((kind, mut reader)) = entry.kind()? else { continue };
            match (entry.dialect, kind) {
                (b"vhlo", 8 | 9) => {
                    let fits = match self.next_type(&mut reader)? {
                        Type::Number(Element::Number(dtype)) => dtype.is_float() == (kind == 8) && !dtype.is_complex(),
                        Type::Number(Element::Other(name)) => !name.starts_with("!quant"),
                        Type::Number(_) => kind == 9,
                        _ => false,
                    };
                    intact(fits, "a number does not match its type")?;
                }
                (b"builtin", 18) | (b"vhlo", 15) => {
                    check_constant(&self.next_type(&mut reader)?, reader.sized()?)?;
                }
                _ => {}
            }
        }
        Ok(())
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

/// Checks that a constant has the bytes of all of its elements, or of one for all; truth values may be bits.
pub(super) fn check_constant(kind: &Type, bytes: &[u8]) -> Result<()> {
    let tensor = match kind {
        Type::Tensor(tensor) => tensor,
        Type::Number(Element::Other(name)) if &**name == UNKNOWN => return Ok(()),
        _ => return Err(damaged("a constant is not an array")),
    };
    let is_quantized = matches!(&tensor.element, Element::Other(name) if name.starts_with("!quant"));
    intact(!is_quantized, "the elements of a constant are not numbers")?;
    let Some(width) = tensor.element.bytes() else { return Ok(()) };
    let is_truth = tensor.element.dtype() == Some(DType::Pred);
    let fits = tensor.elements().is_some_and(|len| {
        let is_whole = len.checked_mul(width) == Some(bytes.len());
        match is_truth {
            true => is_whole || bytes.len() == len.div_ceil(8) || matches!(bytes, [0] | [0xff]),
            false => is_whole || bytes.len() == width,
        }
    });
    intact(fits, "the size of a constant does not match its type")
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
