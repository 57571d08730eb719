//! Decodes bytecode into a module.

mod chlo;
mod entries;
mod mesh;
mod properties;
mod quantized;
mod shardy;
mod stablehlo;
mod vhlo;

use super::attributes::Entries;
use super::operations::{ATTRIBUTES, OPERANDS, OWN_PROPERTIES, REGIONS, RESULTS, SUCCESSORS, USE_LISTS};
use super::reader::Reader;
use super::{damaged, read, too_deep, Section, Tables, ISOLATED_SECTIONS, OPTIONAL_LOCATIONS, USE_LIST_ORDERS};
use crate::module::{unknown, Attribute, Block, Module, Name, Operation, Region, Type, Value};
use crate::program::BYTECODE;
use entries::Decoder;
use pjrt_base::error::Result;
use std::collections::HashMap;

/// Regions nest less deep in a program that is decoded: this module uses recursion.
const MAX_NESTING: usize = 200;

/// A cast that mixed programs have between dialects.
const CAST: &str = "builtin.unrealized_conversion_cast";

/// Decodes bytecode with its magic number.
///
/// # Errors
/// `InvalidInput` for damaged bytecode, and `UnsupportedProgram` for what is not known here.
pub(crate) fn decode(code: &[u8]) -> Result<Module> {
    let Some(code) = code.strip_prefix(BYTECODE) else {
        bail!(InvalidInput, "The program is not bytecode.");
    };
    let mut module = None;
    read(code, |tables, operations| {
        tables.entries.check(&tables.strings)?;
        let mut builder = Builder::new(tables)?;
        let root = builder.root(operations)?;
        module = Some(Module { root, types: builder.types });
        Ok(())
    })?;
    module.ok_or_else(|| unknown("a newer encoding"))
}

/// The values of an isolated region and the regions in it.
#[derive(Default)]
struct Scope {
    /// The values by number, as far as they are defined or used.
    values: Vec<Option<Value>>,
}

struct Builder<'t, 'a> {
    tables: &'t Tables<'a>,
    entries: Decoder<'t, 'a>,
    names: Vec<Name>,
    types: Vec<Type>,
    /// Values that are used before they are defined have no type yet.
    defined: Vec<bool>,
}

impl<'t, 'a> Builder<'t, 'a> {
    fn new(tables: &'t Tables<'a>) -> Result<Self> {
        // The names of many operations may be one long string.
        let mut left = entries::limit(tables);
        let name = |&(dialect, name): &(usize, &[u8])| {
            let size = tables.dialects[dialect].len() + name.len();
            left = left.checked_sub(size).ok_or_else(entries::too_large)?;
            let name = [tables.dialects[dialect], name].join(&b'.');
            String::from_utf8(name).map(Name::from).map_err(|_| damaged("a name is not text"))
        };
        let names = tables.operations.iter().map(name).collect::<Result<_>>()?;
        Ok(Builder { tables, entries: Decoder::new(tables), names, types: Vec::new(), defined: Vec::new() })
    }

    fn entries(&self) -> &'t Entries<'a> {
        &self.tables.entries
    }

    /// The module is the only operation of the outermost block.
    fn root(&mut self, mut reader: Reader<'a>) -> Result<Operation> {
        let (count, has_arguments) = reader.flagged()?;
        if count != 1 || has_arguments {
            return Err(unknown("a program that is not one module"));
        }
        let mut root = self.operation(&mut reader, &mut Scope::default(), &mut 0, 0, false)?;
        if &*root.name != "builtin.module" {
            return Err(unknown("a program that is not one module"));
        }
        if self.defined.contains(&false) {
            return Err(damaged("a value is used but not defined"));
        }
        self.without_casts(&mut root)?;
        Ok(root)
    }

    /// Drops the casts between the types of the portable form and those of other dialects, which are the same here.
    fn without_casts(&self, root: &mut Operation) -> Result<()> {
        let mut sources = HashMap::new();
        self.drop_casts(root, &mut sources)?;
        if !sources.is_empty() {
            replace_operands(root, &sources)?;
        }
        Ok(())
    }

    fn drop_casts(&self, operation: &mut Operation, sources: &mut HashMap<Value, Value>) -> Result<()> {
        for block in operation.regions.iter_mut().flat_map(|region| &mut region.blocks) {
            for operation in &mut block.operations {
                if &*operation.name == CAST {
                    let kind = |value: &Value| &self.types[value.0 as usize];
                    if !operation.operands.iter().map(kind).eq(operation.results.iter().map(kind)) {
                        return Err(unknown("a cast between types"));
                    }
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
        if depth > MAX_NESTING {
            return Err(too_deep());
        }
        let (attributes, types) = self.entries().counts();
        let number = reader.index(self.names.len())?;
        let name = self.names[number].clone();
        let parts = reader.byte()?;
        reader.index(attributes)?;
        let mut found = Vec::new();
        if parts & ATTRIBUTES != 0 {
            match self.entries.attribute(reader.index(attributes)?)? {
                Attribute::Dictionary(items) => found.extend(items.iter().cloned()),
                _ => return Err(damaged("the attributes of an operation are not a dictionary")),
            }
        }
        let mut own = None;
        if parts & OWN_PROPERTIES != 0 {
            own = Some(self.tables.properties[reader.index(self.tables.properties.len())?]);
        }
        let mut results = Vec::new();
        if parts & RESULTS != 0 {
            for _ in 0..reader.count()? {
                let kind = self.entries.kind(reader.index(types)?)?;
                results.push(self.define(scope, next, kind)?);
            }
        }
        let mut operands = Vec::new();
        if parts & OPERANDS != 0 {
            for _ in 0..reader.count()? {
                let number = reader.number()?;
                operands.push(self.used(scope, number)?);
            }
        }
        if parts & SUCCESSORS != 0 {
            return Err(unknown(format_args!("operation {name} has successors")));
        }
        if self.tables.version >= USE_LIST_ORDERS && parts & USE_LISTS != 0 {
            super::operations::use_lists(reader, results.len())?;
        }
        let (name, attributes) = properties::named(&mut self.entries, &name, own, found, in_function)?;
        let is_function = &*name == "func.func";
        let mut regions = Vec::new();
        if parts & REGIONS != 0 {
            let (count, is_isolated) = reader.flagged()?;
            let count = reader.bounded(count)?;
            let mut apart = None;
            if count > 0 && is_isolated && self.tables.version >= ISOLATED_SECTIONS {
                let (section, content) = reader.section()?;
                if section != Section::OPERATIONS {
                    return Err(damaged("a region is misplaced"));
                }
                apart = Some(content);
            }
            for _ in 0..count {
                let source = apart.as_mut().unwrap_or(&mut *reader);
                regions.push(if is_isolated {
                    self.region(source, &mut Scope::default(), depth, is_function)?
                } else {
                    self.region(source, scope, depth, is_function)?
                });
            }
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
        if count > 1 {
            return Err(unknown("a region with several blocks"));
        }
        let values = reader.number()?;
        let first = scope.values.len();
        // Each value takes at least one byte where it is defined.
        let end = first.saturating_add(reader.bounded(values)?);
        scope.values.resize(end, None);
        let mut next = first;
        let block = self.block(reader, scope, &mut next, end, depth, in_function)?;
        if next != end {
            return Err(damaged("a region defines another number of values than it declares"));
        }
        scope.values.truncate(first);
        Ok(Region { blocks: vec![block] })
    }

    fn block(
        &mut self,
        reader: &mut Reader<'a>,
        scope: &mut Scope,
        next: &mut usize,
        end: usize,
        depth: usize,
        in_function: bool,
    ) -> Result<Block> {
        let (attributes, types) = self.entries().counts();
        let (count, has_arguments) = reader.flagged()?;
        let mut block = Block::default();
        if has_arguments {
            let arguments = reader.count()?;
            for _ in 0..arguments {
                let (kind, has_location) = if self.tables.version >= OPTIONAL_LOCATIONS {
                    reader.flagged()?
                } else {
                    (reader.number()?, true)
                };
                let kind = self.entries.kind(Reader::within(kind, types)?)?;
                block.arguments.push(self.define(scope, next, kind)?);
                let location = if has_location { Some(reader.index(attributes)?) } else { None };
                block.names.push(match location {
                    Some(location) if in_function => self.entries.location(location)?,
                    _ => None,
                });
            }
            if self.tables.version >= USE_LIST_ORDERS && reader.byte()? != 0 {
                super::operations::use_lists(reader, arguments)?;
            }
        }
        for _ in 0..reader.bounded(count)? {
            let operation = self.operation(reader, scope, next, depth + 1, in_function)?;
            if *next > end {
                return Err(damaged("a region defines more values than it declares"));
            }
            block.operations.push(operation);
        }
        Ok(block)
    }

    fn define(&mut self, scope: &mut Scope, next: &mut usize, kind: Type) -> Result<Value> {
        // The module itself is in no region, and has no results.
        let Some(place) = scope.values.get_mut(*next) else {
            return Err(damaged("a region defines more values than it declares"));
        };
        *next += 1;
        if let Some(value) = *place {
            let at = value.0 as usize;
            if std::mem::replace(&mut self.defined[at], true) {
                return Err(damaged("a value is defined twice"));
            }
            self.types[at] = kind;
            return Ok(value);
        }
        let value = Value(u32::try_from(self.types.len()).map_err(|_| unknown("more values than 2^32"))?);
        *place = Some(value);
        self.types.push(kind);
        self.defined.push(true);
        Ok(value)
    }

    fn used(&mut self, scope: &mut Scope, number: u64) -> Result<Value> {
        let at = Reader::within(number, scope.values.len())?;
        if let Some(value) = scope.values[at] {
            return Ok(value);
        }
        let value = Value(u32::try_from(self.types.len()).map_err(|_| unknown("more values than 2^32"))?);
        scope.values[at] = Some(value);
        self.types.push(Type::None);
        self.defined.push(false);
        Ok(value)
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
            if steps > sources.len() {
                return Err(damaged("a cast of itself"));
            }
        }
    }
    let inner = operation.regions.iter_mut().flat_map(|region| &mut region.blocks);
    inner.flat_map(|block| &mut block.operations).try_for_each(|operation| replace_operands(operation, sources))
}
