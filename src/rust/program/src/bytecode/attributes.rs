//! The attributes and types of a program in bytecode: a table of entries that refer to each other.

use super::kinds::{self, ElementType, Field};
use super::reader::Reader;
use super::{damaged, too_deep, MAX_NESTING};
use crate::depth;
use crate::mlir;
use pjrt_base::error::Result;

/// The entries: attributes first, then types.
pub(super) struct Entries<'a> {
    entries: Vec<Entry<'a>>,
    attributes: usize,
}

pub(super) struct Entry<'a> {
    dialect: &'a [u8],
    /// Written in the dialect's own way, and else as text.
    is_custom: bool,
    content: Reader<'a>,
}

impl<'a> Entries<'a> {
    /// Finds the position of each entry.
    pub fn read(mut offsets: Reader<'_>, mut contents: Reader<'a>, dialects: &[&'a [u8]]) -> Result<Self> {
        let attributes = offsets.count()?;
        let types = offsets.count()?;
        let mut entries = Vec::new();
        for end in [attributes, attributes + types] {
            while entries.len() < end {
                let dialect = dialects[offsets.index(dialects.len())?];
                let count = offsets.count()?;
                // MLIR does not check their number.
                if count > end - entries.len() {
                    return Err(damaged("it has more attributes or types than it declares"));
                }
                for _ in 0..count {
                    let (size, is_custom) = offsets.flagged()?;
                    let size = contents.bounded(size)?;
                    entries.push(Entry { dialect, is_custom, content: Reader::new(contents.bytes(size)?) });
                }
            }
        }
        if !offsets.is_empty() {
            return Err(damaged("it has more attributes or types than it declares"));
        }
        Ok(Entries { entries, attributes })
    }

    /// The number of attributes and types.
    pub fn counts(&self) -> (usize, usize) {
        (self.attributes, self.entries.len() - self.attributes)
    }

    /// Checks that no entry contains itself or nests too deep, since MLIR reads referenced entries first, and that
    /// numbers and constants match their types.
    pub fn check(&self, strings: &[&[u8]]) -> Result<()> {
        let cycle = || damaged("an attribute or a type contains itself");
        let depth = depth::deepest(self.entries.len(), |entry| self.references(entry, strings), cycle)?;
        if depth > MAX_NESTING {
            return Err(too_deep());
        }
        self.entries[..self.attributes].iter().try_for_each(|entry| {
            self.check_number(entry)?;
            self.check_constant(entry)
        })
    }

    /// The entries that an entry refers to, as far as its encoding is known here.
    fn references(&self, entry: usize, strings: &[&[u8]]) -> Result<Vec<usize>> {
        let is_attribute = entry < self.attributes;
        let mut found = Vec::new();
        let Some((kind, mut reader)) = self.entries[entry].kind()? else {
            mlir::check(self.entries[entry].content.rest())?;
            return Ok(found);
        };
        for field in kinds::fields(self.entries[entry].dialect, is_attribute, kind) {
            self.follow(*field, &mut reader, strings, &mut found)?;
        }
        Ok(found)
    }

    fn follow(&self, field: Field, reader: &mut Reader<'_>, strings: &[&[u8]], found: &mut Vec<usize>) -> Result<()> {
        let types = self.entries.len() - self.attributes;
        match field {
            Field::Attribute => found.push(reader.index(self.attributes)?),
            Field::OptionalAttribute => {
                let (index, is_there) = reader.flagged()?;
                if is_there {
                    found.push(Reader::within(index, self.attributes)?);
                }
            }
            Field::GivenAttribute => {
                reader.byte()?;
                if !reader.is_empty() {
                    found.push(reader.index(self.attributes)?);
                }
            }
            Field::Type => found.push(self.attributes + reader.index(types)?),
            Field::Attributes(each) => {
                for _ in 0..reader.count()? {
                    for _ in 0..each {
                        found.push(reader.index(self.attributes)?);
                    }
                }
            }
            Field::Types => {
                for _ in 0..reader.count()? {
                    found.push(self.attributes + reader.index(types)?);
                }
            }
            Field::String => {
                reader.index(strings.len())?;
            }
            Field::Name => {
                let name = strings[reader.index(strings.len())?];
                if !name.iter().all(|&byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
                    return Err(damaged("the name of an axis has invalid characters"));
                }
            }
            Field::Size => {
                if !matches!(reader.flagged()?, (1.., false)) {
                    return Err(damaged("an axis has no size"));
                }
            }
            Field::Number => {
                reader.number()?;
            }
            Field::Numbers => {
                let numbers = reader.count()?;
                if numbers > MAX_NESTING {
                    return Err(damaged("an array has too many dimensions"));
                }
                for _ in 0..numbers {
                    reader.number()?;
                }
            }
        }
        Ok(())
    }
}

impl<'a> Entries<'a> {
    /// The attribute that comes next.
    pub fn attribute(&self, reader: &mut Reader<'_>) -> Result<&Entry<'a>> {
        Ok(&self.entries[reader.index(self.attributes)?])
    }

    /// The attribute with this number.
    pub fn attribute_number(&self, number: usize) -> &Entry<'a> {
        &self.entries[number]
    }

    /// The type with this number.
    pub fn type_number(&self, number: usize) -> &Entry<'a> {
        &self.entries[self.attributes + number]
    }

    /// The same for an optional type.
    pub fn optional_attribute(&self, reader: &mut Reader<'_>) -> Result<Option<&Entry<'a>>> {
        let (index, is_there) = reader.flagged()?;
        Ok(if is_there { Some(&self.entries[Reader::within(index, self.attributes)?]) } else { None })
    }

    /// Whether the elements of a constant, as it follows the number of its kind, are of this kind of the portable form.
    pub fn has_elements(&self, mut constant: Reader<'_>, element: u64) -> Result<bool> {
        let shape = self.type_at(&mut constant)?;
        let Some((kind, mut fields)) = shape.kind()? else { return Ok(false) };
        match kinds::array(shape.dialect, kind) {
            Some(has_encoding) => self.element_of(&mut fields, has_encoding)?.0.is_one_of(b"vhlo", &[element]),
            None => Ok(false),
        }
    }

    /// Checks that a number is of a type that has such numbers.
    fn check_number(&self, attribute: &Entry<'_>) -> Result<()> {
        let Some((kind, mut reader)) = attribute.kind()? else { return Ok(()) };
        let Some(others) = kinds::not_of_number(attribute.dialect, kind) else { return Ok(()) };
        if self.type_at(&mut reader)?.kind()?.is_some_and(|(kind, _)| others(kind)) {
            return Err(damaged("a number does not match its type"));
        }
        Ok(())
    }

    /// The type and the number of an array's elements; `None` without a fixed size.
    fn element_of(&self, fields: &mut Reader<'_>, has_encoding: bool) -> Result<(&Entry<'_>, Option<u64>)> {
        if has_encoding {
            fields.index(self.attributes)?;
        }
        let mut elements = Some(1u64);
        for _ in 0..fields.count()? {
            // Signed numbers have their sign in the last bit.
            let (dim, is_negative) = fields.flagged()?;
            elements = elements.filter(|_| !is_negative).and_then(|elements| elements.checked_mul(dim));
        }
        Ok((self.type_at(fields)?, elements))
    }

    /// Checks that a constant has the bytes of all of its elements, or of one for all.
    fn check_constant(&self, attribute: &Entry<'_>) -> Result<()> {
        let Some((kind, mut reader)) = attribute.kind()? else { return Ok(()) };
        if !kinds::is_constant(attribute.dialect, kind) {
            return Ok(());
        }
        let shape = self.type_at(&mut reader)?;
        let bytes = reader.count()?;
        let content = reader.bytes(bytes)?;
        let Some((kind, mut fields)) = shape.kind()? else { return Ok(()) };
        let Some(has_encoding) = kinds::array(shape.dialect, kind) else {
            return Err(damaged("a constant is not an array"));
        };
        let (element, elements) = self.element_of(&mut fields, has_encoding)?;
        if element.kind()?.is_some_and(|(kind, _)| kinds::is_no_number(element.dialect, kind)) {
            return Err(damaged("the elements of a constant are not numbers"));
        }
        let Some(width) = self.width(element)? else { return Ok(()) };
        let fits = elements.is_some_and(|elements| match width {
            ElementType::Bit => {
                bytes as u64 == elements.div_ceil(8) || bytes as u64 == elements || matches!(content, [0] | [0xff])
            }
            ElementType::Bytes(width) => bytes as u64 == width || Some(bytes as u64) == elements.checked_mul(width),
        });
        if fits {
            Ok(())
        } else {
            Err(damaged("the size of a constant does not match its type"))
        }
    }

    /// The size of an element of this type in a constant, if it is known here.
    fn width(&self, element: &Entry<'_>) -> Result<Option<ElementType>> {
        let Some((kind, mut fields)) = element.kind()? else { return Ok(None) };
        if kinds::is_complex(element.dialect, kind) {
            let part = self.type_at(&mut fields)?;
            let Some((kind, fields)) = part.kind()? else { return Ok(None) };
            return Ok(match kinds::element(part.dialect, kind, fields)? {
                Some(ElementType::Bytes(width)) => Some(ElementType::Bytes(2 * width)),
                _ => None,
            });
        }
        kinds::element(element.dialect, kind, fields)
    }

    /// The type that comes next.
    pub fn type_at(&self, reader: &mut Reader<'_>) -> Result<&Entry<'a>> {
        Ok(&self.entries[self.attributes + reader.index(self.entries.len() - self.attributes)?])
    }
}

impl<'a> Entry<'a> {
    pub fn dialect(&self) -> &'a [u8] {
        self.dialect
    }

    /// All of its bytes.
    pub fn content(&self) -> &'a [u8] {
        self.content.rest()
    }

    /// Whether it is of this dialect and one of these kinds.
    pub fn is_one_of(&self, dialect: &[u8], kinds: &[u64]) -> Result<bool> {
        Ok(self.dialect == dialect && self.kind()?.is_some_and(|(kind, _)| kinds.contains(&kind)))
    }

    /// The number of its kind, and the bytes after that; `None` for an entry in text.
    pub fn kind(&self) -> Result<Option<(u64, Reader<'a>)>> {
        let mut reader = self.content;
        Ok(if self.is_custom { Some((reader.number()?, reader)) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_in_text_do_not_nest_deep() {
        let check = |text: &str| {
            // One attribute and no type; of the first dialect, one of this length.
            let len = (text.len() as u16) << 3 | 0b10;
            let offsets = [&[0b11, 0b1, 0b1, 0b11][..], &len.to_le_bytes()].concat();
            Entries::read(Reader::new(&offsets), Reader::new(text.as_bytes()), &[b"sdy"])?.check(&[])
        };
        assert!(check(&"[".repeat(1500)).is_ok());
        assert!(check(&"[".repeat(2500)).is_err_and(|error| error.message().contains("2500 levels deep")));
    }
}
