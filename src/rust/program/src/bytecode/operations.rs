//! The operations of a program in bytecode, and the regions in them.

use super::attributes::Entry;
use super::portable;
use super::reader::Reader;
use super::{damaged, too_deep, Section, Tables, ISOLATED_SECTIONS, MAX_NESTING, OPTIONAL_LOCATIONS, USE_LIST_ORDERS};
use pjrt_base::error::{Error, Kind, Result};
use smallvec::SmallVec;

/// The parts that an operation has.
pub(super) const ATTRIBUTES: u8 = 0x01;
pub(super) const RESULTS: u8 = 0x02;
pub(super) const OPERANDS: u8 = 0x04;
pub(super) const SUCCESSORS: u8 = 0x08;
pub(super) const REGIONS: u8 = 0x10;
pub(super) const USE_LISTS: u8 = 0x20;
pub(super) const OWN_PROPERTIES: u8 = 0x40;

/// The state of reading an operation's regions.
struct Open<'a> {
    /// Where the regions are: in a separate section, or with the operation itself.
    apart: Option<Reader<'a>>,
    regions: usize,
    blocks: usize,
    /// Operations of the block that is being read.
    operations: usize,
}

/// What an operation has besides operands and regions.
pub(super) struct Operation<'a> {
    pub dialect: &'a [u8],
    pub name: &'a [u8],
    pub attributes: Option<&'a Entry<'a>>,
    pub properties: Option<Reader<'a>>,
    /// The types of its results, by number.
    pub results: SmallVec<[usize; 4]>,
    /// The locations of a function's arguments, by number.
    pub arguments: Vec<Option<usize>>,
}

/// Called for each operation.
pub(super) type Visit<'a> = &'a mut dyn FnMut(&Operation<'_>) -> Result<()>;

/// Checks the section of the operations.
///
/// # Errors
/// `InvalidInput`, and the errors of `visit`.
pub(super) fn check(mut reader: Reader<'_>, tables: &Tables<'_>, visit: Visit<'_>) -> Result<()> {
    let (operations, has_arguments) = reader.flagged()?;
    if has_arguments {
        return Err(damaged("the program itself takes arguments"));
    }
    let operations = reader.bounded(operations)?;
    // Where to continue after a separate section.
    let mut outer = Vec::new();
    let mut open = vec![Open { apart: None, regions: 0, blocks: 0, operations }];
    while let Some(level) = open.last_mut() {
        if level.operations > 0 {
            level.operations -= 1;
            if let Some(nested) = operation(&mut reader, tables, visit)? {
                if open.len() == MAX_NESTING {
                    return Err(too_deep());
                }
                if let Some(apart) = nested.apart {
                    outer.push(reader);
                    reader = apart;
                }
                open.push(nested);
            }
        } else if level.blocks > 0 {
            level.blocks -= 1;
            level.operations = block(&mut reader, tables, &mut Vec::new())?;
        } else if level.regions > 0 {
            level.regions -= 1;
            level.blocks = region(&mut reader)?;
        } else {
            if level.apart.is_some() {
                reader = outer.pop().unwrap_or(reader);
            }
            open.pop();
        }
    }
    Ok(())
}

/// Reads an operation up to its regions, if it has any.
fn operation<'a>(reader: &mut Reader<'a>, tables: &Tables<'_>, visit: Visit<'_>) -> Result<Option<Open<'a>>> {
    let (attributes, types) = tables.entries.counts();
    let (dialect, name) = tables.operations[reader.index(tables.operations.len())?];
    let parts = reader.byte()?;
    reader.index(attributes)?;
    let mut found = Operation {
        dialect: tables.dialects[dialect],
        name,
        attributes: None,
        properties: None,
        results: SmallVec::new(),
        arguments: Vec::new(),
    };
    if parts & ATTRIBUTES != 0 {
        found.attributes = Some(tables.entries.attribute(reader)?);
    }
    if parts & OWN_PROPERTIES != 0 {
        let properties = tables.properties[reader.index(tables.properties.len())?];
        if found.dialect == b"vhlo" {
            portable::check(name, properties, &tables.entries)?;
        }
        found.properties = Some(properties);
    }
    if parts & RESULTS != 0 {
        for _ in 0..reader.count()? {
            found.results.push(reader.index(types)?);
        }
    }
    if parts & OPERANDS != 0 {
        skip_numbers(reader)?;
    }
    if parts & SUCCESSORS != 0 {
        skip_numbers(reader)?;
    }
    if tables.version >= USE_LIST_ORDERS && parts & USE_LISTS != 0 {
        use_lists(reader, found.results.len())?;
    }
    if parts & REGIONS == 0 {
        visit(&found)?;
        return Ok(None);
    }
    let (regions, is_isolated) = reader.flagged()?;
    let regions = reader.bounded(regions)?;
    let mut apart = None;
    if regions > 0 && is_isolated && tables.version >= ISOLATED_SECTIONS {
        let (section, content) = reader.section()?;
        if section != Section::OPERATIONS {
            return Err(damaged("a region is misplaced"));
        }
        apart = Some(content);
    }
    let is_function = matches!((tables.dialects[dialect], name), (b"func", b"func") | (b"vhlo", b"func_v1"));
    if is_function {
        // It has one region, in which a declaration has no block.
        let mut first = apart.unwrap_or(*reader);
        if regions == 0 || region(&mut first)? == 0 {
            return Err(no_body());
        }
        block(&mut first, tables, &mut found.arguments)?;
    }
    visit(&found)?;
    Ok(Some(Open { apart, regions, blocks: 0, operations: 0 }))
}

#[cold]
fn no_body() -> Error {
    Error::new(Kind::InvalidInput, "A function of the program has no body; XLA cannot compile declarations.")
}

/// Reads how many blocks a region has.
fn region(reader: &mut Reader<'_>) -> Result<usize> {
    let blocks = reader.count()?;
    if blocks > 0 {
        // The values that the region defines.
        reader.count()?;
    }
    Ok(blocks)
}

/// Reads the locations of a block's arguments, and its number of operations.
fn block(reader: &mut Reader<'_>, tables: &Tables<'_>, arguments: &mut Vec<Option<usize>>) -> Result<usize> {
    let (attributes, types) = tables.entries.counts();
    let (operations, has_arguments) = reader.flagged()?;
    if has_arguments {
        let count = reader.count()?;
        for _ in 0..count {
            let (kind, has_location) =
                if tables.version >= OPTIONAL_LOCATIONS { reader.flagged()? } else { (reader.number()?, true) };
            Reader::within(kind, types)?;
            arguments.push(if has_location { Some(reader.index(attributes)?) } else { None });
        }
        if tables.version >= USE_LIST_ORDERS && reader.byte()? != 0 {
            use_lists(reader, count)?;
        }
    }
    reader.bounded(operations)
}

/// Skips the order of the uses of this number of values.
pub(super) fn use_lists(reader: &mut Reader<'_>, values: usize) -> Result<()> {
    let lists = if values > 1 { reader.count()? } else { 1 };
    for _ in 0..lists {
        if values > 1 {
            reader.index(values)?;
        }
        let (uses, _) = reader.flagged()?;
        for _ in 0..reader.bounded(uses)? {
            reader.number()?;
        }
    }
    Ok(())
}

fn skip_numbers(reader: &mut Reader<'_>) -> Result<()> {
    for _ in 0..reader.count()? {
        reader.number()?;
    }
    Ok(())
}
