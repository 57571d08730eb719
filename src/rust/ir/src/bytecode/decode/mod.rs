//! Decodes bytecode into a module.

mod attributes;
mod entries;
mod mesh;
pub(super) mod properties;
mod quantized;
mod shardy;
pub(super) mod types;

use super::operations::{self, Head, Parts};
use super::reader::Reader;
use super::{damaged, intact, read, shallow, Tables};
use crate::module::{known, unknown, Attribute, Attributes, Block, Module, Name, Operation, Region, Type, Value};
pub(super) use entries::Decoder;
use pjrt_base::error::Result;
pub use properties::operations;
use std::collections::HashMap;

/// Regions nest less deep in a program that is decoded: this module uses recursion.
const MAX_NESTING: usize = 200;

/// A cast that mixed programs have between dialects.
pub(super) const CAST: &str = "builtin.unrealized_conversion_cast";

/// Decodes bytecode with its magic number. `is_lenient`: leaves out what is not known here.
///
/// # Errors
/// `InvalidInput` for damaged bytecode, and `UnsupportedProgram` for what is not known here.
pub fn decode(code: &[u8], is_lenient: bool) -> Result<Module> {
    let Some(code) = code.strip_prefix(super::MAGIC) else {
        bail!(InvalidInput, "The program is not bytecode.");
    };
    let Some((tables, operations)) = read(code)? else { return Err(unknown("a newer encoding")) };
    tables.entries.check(&tables.strings)?;
    let entries = Decoder::new(&tables, is_lenient);
    let mut builder = Builder { entries, names: names(&tables)?, types: Vec::new(), defined: Vec::new() };
    let root = builder.root(operations)?;
    Ok(Module { root, types: builder.types })
}

/// The values of an isolated region and the regions in it by number, if they are defined or used.
type Scope = Vec<Option<Value>>;

struct Builder<'t, 'a> {
    entries: Decoder<'t, 'a>,
    names: Vec<Name>,
    types: Vec<Type>,
    /// Values that are used before they are defined have no type yet.
    defined: Vec<bool>,
}

impl<'a> Builder<'_, 'a> {
    /// The module is the only operation of the outermost block.
    fn root(&mut self, mut reader: Reader<'a>) -> Result<Operation> {
        known(reader.flagged()? == (1, false), "a program that is not one module")?;
        let mut root = self.operation(&mut reader, &mut Scope::default(), &mut 0, 0, false)?;
        known(&*root.name == "builtin.module", "a program that is not one module")?;
        intact(!self.defined.contains(&false), "a value is used but not defined")?;
        let mut sources = HashMap::new();
        self.drop_casts(&mut root, &mut sources)?;
        if !sources.is_empty() {
            replace_operands(&mut root, &sources)?;
        }
        Ok(root)
    }

    /// Drops the casts between the types of the portable form and the types of other dialects, which are the same here.
    fn drop_casts(&self, operation: &mut Operation, sources: &mut HashMap<Value, Value>) -> Result<()> {
        for block in operation.blocks_mut() {
            for operation in &mut block.operations {
                if &*operation.name == CAST {
                    let kind = |value: &Value| &self.types[value.0 as usize];
                    let is_same = operation.operands.iter().map(kind).eq(operation.results.iter().map(kind));
                    known(is_same, "a cast between types")?;
                    sources.extend(operation.results.iter().copied().zip(operation.operands.iter().copied()));
                }
                self.drop_casts(operation, sources)?;
            }
            block.operations.retain(|operation| &*operation.name != CAST);
        }
        Ok(())
    }

    /// `next` is the number of the next value that the region defines.
    fn operation(
        &mut self,
        reader: &mut Reader<'a>,
        scope: &mut Scope,
        next: &mut usize,
        depth: usize,
        in_function: bool,
    ) -> Result<Operation> {
        shallow(depth <= MAX_NESTING)?;
        let parts = Parts::read(reader, self.entries.tables)?;
        let name = self.names[parts.name].clone();
        let found = dictionary(&mut self.entries, parts.attributes)?;
        let mut results = Vec::new();
        for kind in &parts.results {
            let kind = self.entries.kind(*kind)?;
            results.push(self.define(scope, next, kind)?);
        }
        let operands = parts.operands.iter().map(|&number| self.used(scope, number)).collect::<Result<_>>()?;
        known(!parts.has_successors || self.entries.is_lenient, format_args!("operation {name} has successors"))?;
        let named = properties::named(&mut self.entries, &name, parts.properties, found, in_function);
        let (name, attributes) = self.entries.or(named, || (name, Vec::new()))?;
        let is_function = &*name == "func.func";
        let mut regions = Vec::new();
        let mut apart = parts.apart;
        for _ in 0..parts.regions {
            let source = apart.as_mut().unwrap_or(&mut *reader);
            let mut own = Scope::default();
            let scope = if parts.is_isolated { &mut own } else { &mut *scope };
            regions.push(self.region(source, scope, depth, is_function)?);
        }
        Ok(Operation { name, operands, results, attributes, regions })
    }

    fn region(
        &mut self,
        reader: &mut Reader<'a>,
        scope: &mut Scope,
        depth: usize,
        in_function: bool,
    ) -> Result<Region> {
        let count = reader.count()?;
        if count == 0 {
            return Ok(Region::default());
        }
        known(count == 1 || self.entries.is_lenient, "a region with several blocks")?;
        let values = reader.number()?;
        let first = scope.len();
        // Each value takes at least one byte where it is defined.
        let end = first.saturating_add(reader.bounded(values)?);
        scope.resize(end, None);
        let mut next = first;
        let mut blocks = Vec::new();
        for _ in 0..count {
            let head = operations::head(reader, self.entries.tables)?;
            let mut block = Block::default();
            for (kind, location) in head.arguments {
                let kind = self.entries.kind(kind)?;
                block.arguments.push(self.define(scope, &mut next, kind)?);
                block.names.push(match location {
                    Some(location) if in_function => self.entries.location(location)?,
                    _ => None,
                });
            }
            for _ in 0..head.operations {
                block.operations.push(self.operation(reader, scope, &mut next, depth + 1, in_function)?);
            }
            blocks.push(block);
        }
        intact(next == end, "a region defines another number of values than it declares")?;
        scope.truncate(first);
        Ok(Region { blocks })
    }

    fn define(&mut self, scope: &mut Scope, next: &mut usize, kind: Type) -> Result<Value> {
        // The scope ends with the region that is being read. The module itself is in no region, and has no results.
        let Some(place) = scope.get_mut(*next) else {
            return Err(damaged("a region defines more values than it declares"));
        };
        *next += 1;
        if let Some(value) = *place {
            let at = value.0 as usize;
            intact(!std::mem::replace(&mut self.defined[at], true), "a value is defined twice")?;
            self.types[at] = kind;
            return Ok(value);
        }
        let value = self.value(kind, true)?;
        *place = Some(value);
        Ok(value)
    }

    fn value(&mut self, kind: Type, is_defined: bool) -> Result<Value> {
        let value = Value(u32::try_from(self.types.len()).map_err(|_| unknown("more values than 2^32"))?);
        self.types.push(kind);
        self.defined.push(is_defined);
        Ok(value)
    }

    fn used(&mut self, scope: &mut Scope, number: u64) -> Result<Value> {
        let at = Reader::within(number, scope.len())?;
        if let Some(value) = scope[at] {
            return Ok(value);
        }
        let value = self.value(Type::None, false)?;
        scope[at] = Some(value);
        Ok(value)
    }
}

/// An operation without operands, results and regions, but with the names of a function's arguments.
///
/// # Errors
/// For what is damaged, or not known.
pub(super) fn alone<'a>(decoder: &mut Decoder<'_, 'a>, parts: &Parts<'a>, body: Option<Head>) -> Result<Operation> {
    let full_name = full_name(decoder.tables, parts.name)?;
    let others = dictionary(decoder, parts.attributes)?;
    let (name, attributes) = properties::named(decoder, &full_name, parts.properties, others, false)?;
    let mut block = Block::default();
    for (_, location) in body.map(|body| body.arguments).unwrap_or_default() {
        block.names.push(location.and_then(|location| decoder.location(location).ok()).flatten());
    }
    let regions = vec![Region { blocks: vec![block] }];
    Ok(Operation { attributes, regions, ..Operation::new(&name, Vec::new(), Vec::new()) })
}

/// The names of all kinds of operations. Many of them may be one long string.
fn names(tables: &Tables<'_>) -> Result<Vec<Name>> {
    let mut left = entries::limit(tables);
    let name = |number: usize| {
        let (dialect, name) = tables.name(number);
        left = left.checked_sub(dialect.len() + name.len()).ok_or_else(entries::too_large)?;
        full_name(tables, number)
    };
    (0..tables.operations.len()).map(name).collect()
}

fn full_name(tables: &Tables<'_>, number: usize) -> Result<Name> {
    let (dialect, name) = tables.name(number);
    entries::name(&[dialect, name].join(&b'.'))
}

/// The attributes of an operation that are not its own.
fn dictionary(decoder: &mut Decoder<'_, '_>, number: Option<usize>) -> Result<Attributes> {
    match number.map(|number| decoder.attribute(number)).transpose()? {
        None => Ok(Vec::new()),
        Some(Attribute::Dictionary(items)) => Ok(items.to_vec()),
        Some(_) => Err(damaged("the attributes of an operation are not a dictionary")),
    }
}

/// Replaces values by those that they are casts of.
fn replace_operands(operation: &mut Operation, sources: &HashMap<Value, Value>) -> Result<()> {
    for operand in &mut operation.operands {
        // A cast may be of another one, but not of itself.
        let mut steps = 0;
        while let Some(source) = sources.get(operand) {
            *operand = *source;
            steps += 1;
            intact(steps <= sources.len(), "a cast of itself")?;
        }
    }
    operation.inner_mut().try_for_each(|operation| replace_operands(operation, sources))
}
