//! Checks of MLIR bytecode. MLIR trusts the numbers in it: it writes past the ends of its tables, follows attributes
//! that contain themselves, and crashes instead of raising errors. So this module reads the tables in the same way,
//! with checks.

mod attributes;
mod decode;
mod encode;
mod kinds;
mod operations;
mod reader;
mod symbols;

use crate::module::annotations::Annotations;
use crate::module::{Module, Operation, Type};
use attributes::Entries;
use decode::Decoder;
use pjrt_base::error::{Error, Kind, Result};
use reader::Reader;

pub use decode::{decode, operations};
pub use symbols::{symbols, Symbols};

/// The magic number of MLIR bytecode.
pub const MAGIC: &[u8] = b"ML\xefR";

/// The newest known encoding. Nothing in a newer one is considered wrong.
const NEWEST: u64 = 6;

/// The versions of the encoding that added features.
const DIALECT_VERSIONS: u64 = 1;
const ISOLATED_SECTIONS: u64 = 2;
const USE_LIST_ORDERS: u64 = 3;
const OPTIONAL_LOCATIONS: u64 = 4;
const PROPERTIES: u64 = 5;

/// The limit of nesting: MLIR and XLA use recursion.
const MAX_NESTING: usize = 1000;

/// The numbers of sections.
const STRINGS: u8 = 0;
const DIALECTS: u8 = 1;
const ENTRIES: u8 = 2;
const OFFSETS: u8 = 3;
const OPERATIONS: u8 = 4;
const RESOURCES: u8 = 5;
const RESOURCE_OFFSETS: u8 = 6;
const VERSION_OF_DIALECT: u8 = 7;
const PROPERTY_SECTION: u8 = 8;
const SECTIONS: usize = 9;

/// The contents of the sections before the operations.
struct Tables<'a> {
    /// The number of bytes of all sections.
    size: usize,
    version: u64,
    strings: Vec<&'a [u8]>,
    /// The name of each dialect.
    dialects: Vec<&'a [u8]>,
    /// Dialect and name of each kind of operation.
    operations: Vec<(usize, &'a [u8])>,
    entries: Entries<'a>,
    properties: Vec<Reader<'a>>,
    /// The contents of the resources of dialects that constants refer to, if they are blocks of bytes.
    resources: Vec<Option<&'a [u8]>>,
}

impl Module {
    /// Decodes bytecode, with its magic number: a portable artifact, or StableHLO.
    ///
    /// # Errors
    /// `InvalidInput` for damaged bytecode, and `UnsupportedProgram` for operations, attributes and types that are not known
    /// here.
    pub fn decode(code: &[u8]) -> Result<Module> {
        decode(code, false)
    }
}

impl<'a> Tables<'a> {
    /// The dialect and name of a kind of operation.
    fn name(&self, number: usize) -> (&'a [u8], &'a [u8]) {
        let (dialect, name) = self.operations[number];
        (self.dialects[dialect], name)
    }
}

/// Checks bytecode, given without its magic number, and reads the program's annotations about devices.
///
/// # Errors
/// `InvalidFile` for damaged bytecode; `InvalidInput` if it nests too deeply, or a function has no body.
pub fn check(code: &[u8]) -> Result<Annotations> {
    let mut found = Annotations::default();
    let is_noted = |tables: &Tables<'_>, name: usize| {
        matches!(tables.name(name), (b"builtin", b"module") | (b"func", b"func") | (b"vhlo", b"func_v1"))
    };
    let note = |operation: Operation| match &*operation.name {
        "builtin.module" => found.note_module(&operation.attributes),
        _ => found.note_function(&operation),
    };
    visit(code, is_noted, |decoder| decoder.check(), note)?;
    Ok(found)
}

/// Calls `visit` for each operation that `is_wanted` by the number of its name: without operands, results and regions, but with
/// the names of a function's arguments. What is not known of it is left out.
fn visit(
    code: &[u8],
    is_wanted: impl Fn(&Tables<'_>, usize) -> bool,
    check: impl FnOnce(&mut Decoder<'_, '_>) -> Result<()>,
    mut visit: impl FnMut(Operation),
) -> Result<()> {
    let Some((tables, operations)) = read(code)? else { return Ok(()) };
    let mut decoder = Decoder::new(&tables, true);
    check(&mut decoder)?;
    let wanted: Vec<bool> = (0..tables.operations.len()).map(|name| is_wanted(&tables, name)).collect();
    operations::check(operations, &mut decoder, &mut |decoder, parts, body| {
        if wanted[parts.name] {
            if let Ok(operation) = decode::alone(decoder, parts, body) {
                visit(operation);
            }
        }
    })
}

/// Whether there are arrays of types narrower than a byte in checked bytecode.
///
/// # Errors
/// The errors of [`check`].
pub fn has_narrow_arrays(code: &[u8]) -> Result<bool> {
    let Some((tables, _)) = read(code)? else { return Ok(false) };
    let mut decoder = Decoder::new(&tables, true);
    let (_, types) = tables.entries.counts();
    let is_narrow = |kind: Type| kind.as_tensor()?.element.dtype().map(|dtype| dtype.is_packed());
    Ok((0..types).any(|number| decoder.kind(number).ok().and_then(is_narrow) == Some(true)))
}

/// Reads the sections before the operations, and finds these. `None` if the encoding is too new.
fn read(code: &[u8]) -> Result<Option<(Tables<'_>, Reader<'_>)>> {
    let mut reader = Reader { rest: code, before: MAGIC.len() };
    let version = reader.number()?;
    if version > NEWEST {
        return Ok(None);
    }
    let producer = memchr::memchr(0, reader.rest).ok_or_else(|| damaged("a string has no end"))?;
    reader.bytes(producer + 1)?;
    let mut sections = [None; SECTIONS];
    while !reader.is_empty() {
        let (section, content) = reader.section()?;
        match sections.get_mut(usize::from(section)) {
            Some(place @ None) => *place = Some(content),
            _ => return Err(damaged("a section is duplicated or of unknown kind")),
        }
    }
    let optional = |section: u8| sections[usize::from(section)];
    let section = |section: u8| optional(section).ok_or_else(|| damaged("a section is missing"));

    let strings = strings(section(STRINGS)?)?;
    let (dialects, operations) = dialects(section(DIALECTS)?, version, &strings)?;
    let properties = optional(PROPERTY_SECTION).map_or(Ok(Vec::new()), properties)?;
    let mut blocks = Vec::new();
    if let (Some(offsets), Some(resources)) = (optional(RESOURCE_OFFSETS), optional(RESOURCES)) {
        blocks = read_resources(offsets, resources, strings.len(), dialects.len())?;
    }
    let entries = Entries::read(section(OFFSETS)?, section(ENTRIES)?, &dialects)?;
    let tables =
        Tables { size: code.len(), version, strings, dialects, operations, entries, properties, resources: blocks };
    Ok(Some((tables, section(OPERATIONS)?)))
}

/// The strings: their sizes from the last to the first, with the zero at the end of each, and then all of them.
fn strings(mut reader: Reader<'_>) -> Result<Vec<&[u8]>> {
    let sizes = reader.list(|reader| {
        let size = reader.number()?;
        intact(size > 0, "a string has no end")?;
        reader.bounded(size)
    })?;
    let strings = sizes.iter().rev().map(|&size| Ok(&reader.bytes(size)?[..size - 1])).collect::<Result<_>>()?;
    intact(reader.is_empty(), "the sizes of its strings are inconsistent")?;
    Ok(strings)
}

type Operations<'a> = Vec<(usize, &'a [u8])>;

/// The dialects, and the kinds of operations by dialect.
fn dialects<'a>(mut reader: Reader<'_>, version: u64, strings: &[&'a [u8]]) -> Result<(Vec<&'a [u8]>, Operations<'a>)> {
    let dialects = reader.list(|reader| {
        let (name, has_version) =
            if version < DIALECT_VERSIONS { (reader.number()?, false) } else { reader.flagged()? };
        let name = strings[Reader::within(name, strings.len())?];
        let is_misplaced = has_version && reader.section()?.0 != VERSION_OF_DIALECT;
        intact(!is_misplaced, "a dialect's version is misplaced")?;
        Ok(name)
    })?;
    if version >= OPTIONAL_LOCATIONS {
        // MLIR makes room for this number of names.
        reader.count()?;
    }
    let mut operations = Vec::new();
    while !reader.is_empty() {
        let dialect = reader.index(dialects.len())?;
        for _ in 0..reader.count()? {
            let name = if version < PROPERTIES { reader.number()? } else { reader.flagged()?.0 };
            operations.push((dialect, strings[Reader::within(name, strings.len())?]));
        }
    }
    Ok((dialects, operations))
}

fn properties(mut reader: Reader<'_>) -> Result<Vec<Reader<'_>>> {
    reader.list(|reader| reader.sized().map(Reader::new))
}

/// Resources are groups of named pieces of their section: first external ones, then dialects' resources, whose contents
/// are returned.
fn read_resources<'a>(
    mut offsets: Reader<'_>,
    mut resources: Reader<'a>,
    strings: usize,
    dialects: usize,
) -> Result<Vec<Option<&'a [u8]>>> {
    let mut group = |offsets: &mut Reader<'_>| {
        offsets.list(|offsets| {
            offsets.index(strings)?;
            let size = offsets.number()?;
            let kind = offsets.byte()?;
            let content = resources.bytes(resources.bounded(size)?)?;
            Ok(if kind == 0 { block(content) } else { None })
        })
    };
    let external = offsets.number()?;
    for _ in 0..offsets.bounded(external)? {
        offsets.index(strings)?;
        group(&mut offsets)?;
    }
    let mut found = Vec::new();
    while !offsets.is_empty() {
        offsets.index(dialects)?;
        found.extend(group(&mut offsets)?);
    }
    Ok(found)
}

/// The bytes of a resource, which come last, after their alignment, their number and padding.
fn block(content: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(content);
    reader.number().ok()?;
    let size = reader.count().ok()?;
    content.get(content.len() - size..)
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::new(Kind::InvalidFile, format!("The program's bytecode is damaged: {what}."))
        .hint("Export or copy it again.")
}

/// Refuses bytecode in which this does not hold.
fn intact(holds: bool, otherwise: &str) -> Result<()> {
    holds.then_some(()).ok_or_else(|| damaged(otherwise))
}

/// Refuses bytecode that nests deeper than this module reads.
fn shallow(holds: bool) -> Result<()> {
    let message = || format!("The program's bytecode nests more than {MAX_NESTING} levels deep.");
    holds.then_some(()).ok_or_else(|| Error::new(Kind::InvalidInput, message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program in bytecode.
    fn fixture(name: &str) -> Vec<u8> {
        let path = format!("{}/../program/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).unwrap()[4..].to_vec()
    }

    const ALL: [&str; 9] = [
        "square.mlirbc",
        "sharded.mlirbc",
        "donor.mlirbc",
        "donating.mlirbc",
        "resource.mlirbc",
        "square.artifact",
        "newer.artifact",
        "sharded/step-gspmd.mlirbc",
        "sharded/step-shardy.artifact",
    ];

    #[test]
    fn good_programs_pass() {
        for name in ALL {
            assert!(check(&fixture(name)).is_ok(), "{name}: {}", check(&fixture(name)).unwrap_err());
        }
    }

    #[test]
    fn truncation_is_noticed_and_newer_versions_are_not_checked() {
        for name in ALL {
            let code = fixture(name);
            for len in 0..code.len() {
                assert!(check(&code[..len]).is_err(), "{name} of {len} bytes");
            }
        }
        // Version 7, in which the rest has another meaning.
        assert!(check(&[0b1111, 0]).is_ok());
    }

    #[test]
    fn references_of_an_entry_must_have_the_right_kind() {
        for (name, at, byte, reason) in [
            // A sharding of an array that contains itself, and a quantized number of itself.
            ("sharded.mlirbc", 132, 0x0b, "contains itself"),
            ("square.artifact", 96, 0x31, "contains itself"),
            // An axis of size zero, and one with a name of invalid characters.
            ("sharded.mlirbc", 127, 0x01, "an axis has no size"),
            ("sharded.mlirbc", 299, 0xe4, "the name of an axis"),
            // A type becomes a float of another type, and an integer.
            ("newer.artifact", 115, 0x11, "a number does not match its type"),
            ("square.artifact", 83, 0x13, "a number does not match its type"),
            // Of a function's arguments, there is a truth value; its type is a word.
            ("square.artifact", 83, 0x05, "an operation lacks a required"),
            ("square.artifact", 85, 0x1d, "an operation lacks a required"),
        ] {
            let mut code = fixture(name);
            code[at - 4] = byte;
            let error = check(&code).unwrap_err();
            assert!(error.message().contains(reason), "{name}, {at}: {error}");
        }
    }

    #[test]
    fn no_change_of_a_byte_makes_the_check_fail_itself() {
        for name in ALL {
            let code = fixture(name);
            for at in crate::module::damage::damaged_places(code.len(), 250) {
                for byte in [0, 1, 2, 0x40, 0x7f, 0x80, 0xff, code[at] ^ 1, code[at].wrapping_add(2)] {
                    let mut changed = code.clone();
                    changed[at] = byte;
                    let _ = check(&changed);
                }
            }
        }
    }
}
