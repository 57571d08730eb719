//! The attributes and types of a program in bytecode: a table of entries that refer to each other.

use super::kinds::{self, Field};
use super::reader::Reader;
use super::{damaged, intact, shallow, MAX_NESTING};
use crate::module::depth;
use crate::text;
use pjrt_base::error::Result;

/// The entries: attributes first, then types.
pub(super) struct Entries<'a> {
    entries: Vec<Entry<'a>>,
    attributes: usize,
}

pub(super) struct Entry<'a> {
    pub dialect: &'a [u8],
    /// Written in the dialect's own way, and else as text.
    is_custom: bool,
    pub content: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Finds the position of each entry.
    pub fn read(mut offsets: Reader<'_>, mut contents: Reader<'a>, dialects: &[&'a [u8]]) -> Result<Self> {
        let attributes = offsets.count()?;
        let types = offsets.count()?;
        let mut entries = Vec::new();
        const MORE: &str = "it has more attributes or types than it declares";
        for end in [attributes, attributes + types] {
            while entries.len() < end {
                let dialect = dialects[offsets.index(dialects.len())?];
                let count = offsets.count()?;
                // MLIR does not check their number.
                intact(count <= end - entries.len(), MORE)?;
                for _ in 0..count {
                    let (size, is_custom) = offsets.flagged()?;
                    let size = contents.bounded(size)?;
                    entries.push(Entry { dialect, is_custom, content: contents.bytes(size)? });
                }
            }
        }
        intact(offsets.is_empty(), MORE)?;
        Ok(Entries { entries, attributes })
    }

    /// The number of attributes and types.
    pub fn counts(&self) -> (usize, usize) {
        (self.attributes, self.entries.len() - self.attributes)
    }

    /// Checks that no entry contains itself or nests too deep, since MLIR reads referenced entries first.
    pub fn check(&self, strings: &[&[u8]]) -> Result<()> {
        let cycle = || damaged("an attribute or a type contains itself");
        let depth = depth::deepest(self.entries.len(), |entry| self.references(entry, strings), cycle)?;
        shallow(depth <= MAX_NESTING)
    }

    /// The entries that an entry refers to, if its encoding is known here.
    fn references(&self, entry: usize, strings: &[&[u8]]) -> Result<Vec<usize>> {
        let (attributes, types) = self.counts();
        let Entry { dialect, content, .. } = self.entries[entry];
        let mut found = Vec::new();
        let Some((kind, mut reader)) = self.entries[entry].kind()? else {
            text::check(content)?;
            return Ok(found);
        };
        for field in kinds::fields(dialect, entry < attributes, kind) {
            match field {
                Field::Attribute => found.push(reader.index(attributes)?),
                Field::OptionalAttribute => found.extend(reader.optional(attributes)?),
                Field::GivenAttribute => found.extend(reader.given(attributes)?),
                Field::Type => found.push(attributes + reader.index(types)?),
                Field::Attributes(each) => {
                    for _ in 0..each * reader.count()? {
                        found.push(reader.index(attributes)?);
                    }
                }
                Field::Types => found.extend(reader.list(|reader| Ok(attributes + reader.index(types)?))?),
                Field::String => _ = reader.index(strings.len())?,
                Field::Name => {
                    let name = strings[reader.index(strings.len())?];
                    let is_plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
                    intact(name.iter().all(is_plain), "the name of an axis has invalid characters")?;
                }
                Field::Size => intact(matches!(reader.flagged()?, (1.., false)), "an axis has no size")?,
                Field::Number => _ = reader.number()?,
                Field::Numbers => {
                    let numbers = reader.count()?;
                    intact(numbers <= MAX_NESTING, "an array has too many dimensions")?;
                    for _ in 0..numbers {
                        reader.number()?;
                    }
                }
            }
        }
        Ok(found)
    }

    pub fn attribute(&self, reader: &mut Reader<'_>) -> Result<&Entry<'a>> {
        Ok(&self.entries[reader.index(self.attributes)?])
    }

    /// The attribute of a number; types have those after the attributes.
    pub fn entry(&self, number: usize) -> &Entry<'a> {
        &self.entries[number]
    }
}

impl<'a> Entry<'a> {
    /// Whether it is of this dialect and one of these kinds.
    pub fn is_one_of(&self, dialect: &[u8], kinds: &[u64]) -> Result<bool> {
        Ok(self.dialect == dialect && self.kind()?.is_some_and(|(kind, _)| kinds.contains(&kind)))
    }

    /// The number of its kind, and the bytes after that; `None` for an entry in text.
    pub fn kind(&self) -> Result<Option<(u64, Reader<'a>)>> {
        let mut reader = Reader::new(self.content);
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
