//! Writes a module as a portable artifact of StableHLO: bytecode of the first encoding, which every plugin reads, with the oldest
//! version of each operation that can express it.

mod casts;
mod entries;
mod properties;
mod quantized;

use super::operations::{ATTRIBUTES, OPERANDS, REGIONS, RESULTS};
use super::{DIALECTS, ENTRIES, MAGIC, OFFSETS, OPERATIONS, STRINGS};
use crate::module::{Attribute, Block, Module, Name, Operation, Region, Value};
use pjrt_base::error::{Error, Kind, Result};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The first version with the guarantee that later ones read it.
const PRODUCER: &[u8] = b"StableHLO_v0.9.0\0";

/// Regions and attributes nest less deep: this module uses recursion, and so do readers.
const MAX_NESTING: usize = 90;

/// An attribute or a type: its dialect, whether it is in the dialect's own encoding, and else in text, and its bytes.
type Entry = (&'static str, bool, Vec<u8>);

impl Module {
    /// The program as a portable artifact.
    ///
    /// # Errors
    /// `UnsupportedProgram`, which names the operation, for what has no portable form.
    pub fn artifact(&self) -> Result<Vec<u8>> {
        let (module, plain) = casts::with_casts(self);
        let mut writer = Writer {
            module: &module,
            plain,
            strings: Numbered(HashMap::new()),
            names: Numbered(HashMap::new()),
            attributes: Numbered(HashMap::new()),
            types: Numbered(HashMap::new()),
            values: HashMap::new(),
            place: module.root.name.clone(),
            depth: 0,
        };
        let mut operations = Vec::new();
        // The outermost block has one operation and no arguments.
        number(2, &mut operations);
        writer.operation(&module.root, 0, &mut operations)?;
        Ok(writer.file(&operations))
    }
}

/// Numbers for things that are written once.
struct Numbered<T>(HashMap<T, usize>);

impl<T: Hash + Eq> Numbered<T> {
    fn number(&mut self, item: T) -> usize {
        let next = self.0.len();
        *self.0.entry(item).or_insert(next)
    }

    fn in_order(self) -> Vec<T> {
        let mut items: Vec<_> = self.0.into_iter().collect();
        items.sort_unstable_by_key(|(_, number)| *number);
        items.into_iter().map(|(item, _)| item).collect()
    }
}

struct Writer<'a> {
    module: &'a Module,
    strings: Numbered<Vec<u8>>,
    /// Dialect, and name as the number of a string.
    names: Numbered<(&'static str, usize)>,
    attributes: Numbered<Entry>,
    types: Numbered<Entry>,
    /// The values that have types of MLIR itself.
    plain: HashSet<Value>,
    /// The numbers of values in their region.
    values: HashMap<Value, usize>,
    /// The operation that is being written, for errors.
    place: Name,
    depth: usize,
}

impl Writer<'_> {
    fn string(&mut self, text: &[u8]) -> usize {
        self.strings.number(text.to_vec())
    }

    /// Writes an operation, in whose regions values have numbers from `first` on.
    fn operation(&mut self, operation: &Operation, first: usize, out: &mut Vec<u8>) -> Result<()> {
        let outer = std::mem::replace(&mut self.place, operation.name.clone());
        let prefix = operation.name.split_once('.').map(|(dialect, _)| dialect);
        let dialect = ["builtin", "sdy", "chlo"].into_iter().find(|own| prefix == Some(*own)).unwrap_or("vhlo");
        let (name, attributes) = match dialect {
            "vhlo" => properties::portable(operation).ok_or_else(|| self.no_form("no portable form"))?,
            _ => (operation.base().to_owned(), operation.attributes.clone()),
        };
        let item = |(key, value): (Name, Attribute)| {
            let number = match value {
                _ if dialect != "vhlo" => self.plain(&value)?,
                Attribute::Integer(version @ 0..=127, _) if &*key == "api_version" => {
                    self.entry(dialect, 5, &[version as usize])
                }
                _ => self.attribute(&value)?,
            };
            Ok((key, number))
        };
        let attributes = attributes.into_iter().map(item).collect::<Result<Vec<_>>>()?;
        let name = (dialect, self.string(name.as_bytes()));
        number(self.names.number(name), out);
        let parts = out.len();
        out.push(0);
        number(self.location(None), out);
        if !attributes.is_empty() {
            out[parts] |= ATTRIBUTES;
            number(self.dictionary(&attributes), out);
        }
        if !operation.results.is_empty() {
            out[parts] |= RESULTS;
            let types = operation.results.iter().map(|&value| self.type_of(value));
            list(&types.collect::<Result<Vec<_>>>()?, out);
        }
        if !operation.operands.is_empty() {
            out[parts] |= OPERANDS;
            let operands = operation.operands.iter().map(|value| self.values.get(value).copied());
            let operands = operands.collect::<Option<Vec<_>>>();
            list(&operands.ok_or_else(|| self.no_form("operands that are not defined"))?, out);
        }
        if !operation.regions.is_empty() {
            out[parts] |= REGIONS;
            // Functions and the module do not use values from outside.
            let is_isolated = matches!(&*operation.name, "builtin.module" | "func.func");
            number(operation.regions.len() << 1 | usize::from(is_isolated), out);
            let first = if is_isolated { 0 } else { first };
            let is_function = &*operation.name == "func.func";
            self.deeper("regions", |this| {
                operation.regions.iter().try_for_each(|region| this.region(region, first, is_function, out))
            })?;
        }
        self.place = outer;
        Ok(())
    }

    fn region(&mut self, region: &Region, first: usize, is_function: bool, out: &mut Vec<u8>) -> Result<()> {
        number(region.blocks.len(), out);
        if region.blocks.is_empty() {
            return Ok(());
        }
        let defined = |block: &Block| {
            let results = block.operations.iter().flat_map(|operation| operation.results.clone());
            block.arguments.iter().copied().chain(results).collect::<Vec<_>>()
        };
        let values: Vec<Value> = region.blocks.iter().flat_map(defined).collect();
        number(values.len(), out);
        self.values.extend(values.iter().enumerate().map(|(i, &value)| (value, first + i)));
        for block in &region.blocks {
            let has_arguments = !block.arguments.is_empty();
            number(block.operations.len() << 1 | usize::from(has_arguments), out);
            if has_arguments {
                number(block.arguments.len(), out);
            }
            for (i, &argument) in block.arguments.iter().enumerate() {
                number(self.type_of(argument)?, out);
                let name = block.names.get(i).and_then(Option::as_ref).filter(|_| is_function);
                number(self.location(name), out);
            }
            for operation in &block.operations {
                self.operation(operation, first + values.len(), out)?;
            }
        }
        Ok(())
    }

    /// The whole file.
    fn file(mut self, operations: &[u8]) -> Vec<u8> {
        let is_used = |dialect: &&str| self.names.0.keys().any(|(own, _)| own == dialect);
        let mut dialects = vec!["builtin", "vhlo"];
        dialects.extend(["sdy", "chlo"].into_iter().filter(is_used));
        let place = |dialect| dialects.iter().position(|own| *own == dialect).unwrap_or(0);
        let numbers: Vec<usize> = dialects.iter().map(|name| self.string(name.as_bytes())).collect();
        let mut named = Vec::new();
        list(&numbers, &mut named);
        for run in self.names.in_order().chunk_by(|a, b| a.0 == b.0) {
            number(place(run[0].0), &mut named);
            list(&run.iter().map(|(_, name)| *name).collect::<Vec<_>>(), &mut named);
        }
        let (attributes, types) = (self.attributes.in_order(), self.types.in_order());
        let mut offsets = Vec::new();
        number(attributes.len(), &mut offsets);
        number(types.len(), &mut offsets);
        let mut entries = Vec::new();
        for run in [&attributes, &types].into_iter().flat_map(|items| items.chunk_by(|a, b| a.0 == b.0)) {
            number(place(run[0].0), &mut offsets);
            number(run.len(), &mut offsets);
            for (_, is_encoded, content) in run {
                number(content.len() << 1 | usize::from(*is_encoded), &mut offsets);
                entries.extend_from_slice(content);
            }
        }
        let strings = self.strings.in_order();
        let mut text = Vec::new();
        number(strings.len(), &mut text);
        strings.iter().rev().for_each(|string| number(string.len() + 1, &mut text));
        strings.iter().for_each(|string| text.extend(string.iter().chain(&[0])));
        let mut file = MAGIC.to_vec();
        number(0, &mut file);
        file.extend_from_slice(PRODUCER);
        for (section, content) in [
            (DIALECTS, &named[..]),
            (ENTRIES, &entries),
            (OFFSETS, &offsets),
            (OPERATIONS, operations),
            (STRINGS, &text),
        ] {
            file.push(section);
            number(content.len(), &mut file);
            file.extend_from_slice(content);
        }
        file
    }

    #[cold]
    fn no_form(&self, what: &str) -> Error {
        let message = format!("The program cannot be written as a portable artifact: `{}` has {what}.", self.place);
        Error::new(Kind::UnsupportedProgram, message)
            .hint("Export it with StableHLO's `serialize_portable_artifact()`, and compile the result.")
    }
}

/// A number: the count of trailing zero bits in its first byte is the count of further bytes.
fn number(value: usize, out: &mut Vec<u8>) {
    wide(value as u64, out);
}

fn wide(value: u64, out: &mut Vec<u8>) {
    let more = (63 - (value | 1).leading_zeros()) / 7;
    if more >= 8 {
        out.push(0);
        return out.extend(value.to_le_bytes());
    }
    let bytes = ((value << 1 | 1) << more).to_le_bytes();
    out.extend_from_slice(&bytes[..=more as usize]);
}

/// A number with its sign in the last bit.
fn signed(value: i64, out: &mut Vec<u8>) {
    wide((value << 1 ^ value >> 63) as u64, out);
}

/// Numbers one after the other.
fn numbers(items: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    items.iter().for_each(|&item| number(item, &mut out));
    out
}

/// A count, and as many numbers.
fn list(items: &[usize], out: &mut Vec<u8>) {
    number(items.len(), out);
    items.iter().for_each(|&item| number(item, out));
}

/// The same with their signs.
fn signed_list(items: impl ExactSizeIterator<Item = i64>, out: &mut Vec<u8>) {
    number(items.len(), out);
    items.for_each(|item| signed(item, out));
}
