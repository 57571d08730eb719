//! Custom calls by XLA's older interface in StableHLO's portable form, rewritten to its typed one.

use super::attributes::Entry;
use super::operations;
use super::reader::Reader;
use super::{read, Section, Tables};
use memchr::memmem;
use pjrt_base::error::Result;

/// Kinds of attributes of the portable form.
const ARRAY: u64 = 1;
const VERSION: u64 = 5;
const STRING: u64 = 14;

/// The typed interface among the versions of calls.
const TYPED: u64 = 4;

/// What to change.
struct Changes {
    /// The properties whose first attribute becomes the typed version.
    properties: Vec<usize>,
    /// The number of that attribute.
    typed: usize,
    /// The dialect of the attribute, if it must be added.
    added_to: Option<usize>,
}

/// The bytecode, given and returned without its magic number, with the calls of `target` typed; `None` if it has no such
/// calls, or these have layouts.
pub(crate) fn with_typed_calls(code: &[u8], target: &str) -> Option<Vec<u8>> {
    // Its name is among the strings.
    let target = target.as_bytes();
    memmem::find(code, target)?;
    let mut changes = None;
    // Damage is an error when the program is created.
    read(code, |tables, operations| {
        changes = find(tables, operations, target)?;
        Ok(())
    })
    .ok()?;
    rewrite(code, &changes?).ok()?
}

fn find(tables: &Tables<'_>, operations: Reader<'_>, target: &[u8]) -> Result<Option<Changes>> {
    let mut called = Vec::new();
    operations::check(operations, tables, &mut |operation| {
        if (operation.dialect, operation.name) == (b"vhlo", b"custom_call_v1") {
            called.extend(operation.properties.map(|properties| properties.rest().as_ptr()));
        }
        Ok(())
    })?;
    let mut properties = Vec::new();
    for (number, reader) in tables.properties.iter().enumerate() {
        if called.contains(&reader.rest().as_ptr()) && is_untyped(tables, *reader, target).unwrap_or(false) {
            properties.push(number);
        }
    }
    if properties.is_empty() {
        return Ok(None);
    }
    let (attributes, _) = tables.entries.counts();
    for number in 0..attributes {
        if value(tables.entries.attribute_number(number), VERSION)? == Some(TYPED) {
            return Ok(Some(Changes { properties, typed: number, added_to: None }));
        }
    }
    let dialect = tables.dialects.iter().position(|dialect| *dialect == b"vhlo");
    Ok(Some(Changes { properties, typed: attributes, added_to: dialect }))
}

/// Whether these are the properties of an untyped call of the target, without layouts.
fn is_untyped(tables: &Tables<'_>, mut properties: Reader<'_>, target: &[u8]) -> Result<bool> {
    let mut next = || tables.entries.attribute(&mut properties);
    let (version, _, name, _, _) = (next()?, next()?, next()?, next()?, next()?);
    let (operand_layouts, _, result_layouts) = (next()?, next()?, next()?);
    let name = value(name, STRING)?.and_then(|index| tables.strings.get(usize::try_from(index).ok()?));
    Ok(name.is_some_and(|name| *name == target)
        && value(version, VERSION)?.is_some_and(|version| version != TYPED)
        && value(operand_layouts, ARRAY)? == Some(0)
        && value(result_layouts, ARRAY)? == Some(0))
}

/// The first number of an attribute of this kind: a choice, a string's number, an array's length.
fn value(attribute: &Entry<'_>, kind: u64) -> Result<Option<u64>> {
    if !attribute.is_one_of(b"vhlo", &[kind])? {
        return Ok(None);
    }
    attribute.kind()?.map(|(_, mut content)| content.number()).transpose()
}

/// `None` if a section is aligned, which would have to move.
fn rewrite(code: &[u8], changes: &Changes) -> Result<Option<Vec<u8>>> {
    let mut reader = Reader::after_magic(code);
    reader.number()?;
    reader.text()?;
    let mut rewritten = code[..code.len() - reader.left()].to_vec();
    let mut attributes_size = None;
    while !reader.is_empty() {
        if reader.rest()[0] & 0x80 != 0 {
            return Ok(None);
        }
        let (section, content) = reader.section()?;
        let mut content = content.rest().to_vec();
        match section {
            Section::OFFSETS => {
                if let Some(dialect) = changes.added_to {
                    let (offsets, size) = with_offset(&content, dialect)?;
                    (content, attributes_size) = (offsets, Some(size));
                }
            }
            // Their offsets come first.
            Section::ENTRIES if changes.added_to.is_some() => {
                let Some(size) = attributes_size.filter(|&size| size <= content.len()) else { return Ok(None) };
                content.splice(size..size, NEW_ATTRIBUTE);
            }
            Section::PROPERTIES => content = with_properties(&content, changes)?,
            _ => {}
        }
        rewritten.push(section.0);
        put(&mut rewritten, content.len() as u64);
        rewritten.extend(content);
    }
    Ok(Some(rewritten))
}

/// The typed version as an attribute: its kind and its value.
const NEW_ATTRIBUTE: [u8; 2] = [(VERSION as u8) << 1 | 1, (TYPED as u8) << 1 | 1];

/// The offsets with one for the new attribute after those of the other attributes, and the size of these.
fn with_offset(offsets: &[u8], dialect: usize) -> Result<(Vec<u8>, usize)> {
    let mut reader = Reader::new(offsets);
    let (attributes, types) = (reader.count()?, reader.count()?);
    let start = offsets.len() - reader.left();
    let (mut count, mut size) = (0, 0usize);
    while count < attributes {
        reader.number()?;
        let group = reader.count()?;
        for _ in 0..group {
            size = size.saturating_add(usize::try_from(reader.flagged()?.0).unwrap_or(usize::MAX));
        }
        count += group;
    }
    let end = offsets.len() - reader.left();
    let mut new = Vec::new();
    put(&mut new, attributes as u64 + 1);
    put(&mut new, types as u64);
    new.extend(&offsets[start..end]);
    put(&mut new, dialect as u64);
    put(&mut new, 1);
    put(&mut new, (NEW_ATTRIBUTE.len() as u64) << 1 | 1);
    new.extend(&offsets[end..]);
    Ok((new, size))
}

fn with_properties(properties: &[u8], changes: &Changes) -> Result<Vec<u8>> {
    let mut reader = Reader::new(properties);
    let count = reader.count()?;
    let mut new = Vec::new();
    put(&mut new, count as u64);
    for number in 0..count {
        let size = reader.count()?;
        let mut entry = Reader::new(reader.bytes(size)?);
        let mut changed = Vec::new();
        if changes.properties.contains(&number) {
            entry.number()?;
            put(&mut changed, changes.typed as u64);
        }
        changed.extend(entry.rest());
        put(&mut new, changed.len() as u64);
        new.extend(changed);
    }
    new.extend(reader.rest());
    Ok(new)
}

/// Adds a number as [`Reader::number`] reads it.
fn put(bytes: &mut Vec<u8>, number: u64) {
    let more = (1..8).find(|more| number >> (7 * more) == 0);
    match more {
        Some(size) => bytes.extend(&(number << size | 1 << (size - 1)).to_le_bytes()[..size]),
        None if number >> 56 == 0 => bytes.extend((number << 8 | 0x80).to_le_bytes()),
        None => {
            bytes.push(0);
            bytes.extend(number.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::check;

    /// A program that JAX has exported for TPUs.
    fn fixture() -> Vec<u8> {
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/lu.artifact")).unwrap()[4..].to_vec()
    }

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for number in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number().unwrap(), number);
            assert!(reader.is_empty(), "{number}");
        }
    }

    #[test]
    fn calls_of_the_target_become_typed() {
        let code = fixture();
        assert!(with_typed_calls(&code, "Other").is_none());
        let typed = with_typed_calls(&code, "LuDecomposition").unwrap();
        check(&typed).unwrap();
        assert!(with_typed_calls(&typed, "LuDecomposition").is_none(), "they are typed");
        for at in 0..code.len() {
            for byte in [0, 1, 0x80, 0xff, code[at] ^ 1, code[at].wrapping_add(2)] {
                let mut changed = code.clone();
                changed[at] = byte;
                let _ = with_typed_calls(&changed, "LuDecomposition");
            }
        }
    }
}
