//! The operations of a program in bytecode, and the regions in them.

use super::decode::{properties, Decoder};
use super::reader::Reader;
use super::{intact, shallow, Tables, ISOLATED_SECTIONS, MAX_NESTING, OPERATIONS, OPTIONAL_LOCATIONS, USE_LIST_ORDERS};
use pjrt_base::error::Result;
use smallvec::SmallVec;

/// The parts that an operation has.
pub(super) const ATTRIBUTES: u8 = 0x01;
pub(super) const RESULTS: u8 = 0x02;
pub(super) const OPERANDS: u8 = 0x04;
const SUCCESSORS: u8 = 0x08;
pub(super) const REGIONS: u8 = 0x10;
const USE_LISTS: u8 = 0x20;
const OWN_PROPERTIES: u8 = 0x40;

/// An operation up to its regions. Attributes, types and locations are numbers.
#[derive(Default)]
pub(super) struct Parts<'a> {
    /// The number of its name.
    pub name: usize,
    pub attributes: Option<usize>,
    pub properties: Option<Reader<'a>>,
    /// The types of its results.
    pub results: SmallVec<[usize; 4]>,
    pub operands: SmallVec<[u64; 4]>,
    pub has_successors: bool,
    pub regions: usize,
    /// Whether its regions do not use values from outside.
    pub is_isolated: bool,
    /// Where the regions are, if they are in a separate section.
    pub apart: Option<Reader<'a>>,
}

/// The head of a block: how many operations it has, and the types and locations of its arguments.
pub(super) struct Head {
    pub operations: usize,
    pub arguments: Vec<(usize, Option<usize>)>,
}

impl<'a> Parts<'a> {
    pub fn read(reader: &mut Reader<'a>, tables: &Tables<'a>) -> Result<Self> {
        let (attributes, types) = tables.entries.counts();
        let name = reader.index(tables.operations.len())?;
        let parts = reader.byte()?;
        // Its location.
        reader.index(attributes)?;
        let mut found = Parts { name, ..Parts::default() };
        if parts & ATTRIBUTES != 0 {
            found.attributes = Some(reader.index(attributes)?);
        }
        if parts & OWN_PROPERTIES != 0 {
            found.properties = Some(tables.properties[reader.index(tables.properties.len())?]);
        }
        if parts & RESULTS != 0 {
            found.results = (0..reader.count()?).map(|_| reader.index(types)).collect::<Result<_>>()?;
        }
        if parts & OPERANDS != 0 {
            found.operands = (0..reader.count()?).map(|_| reader.number()).collect::<Result<_>>()?;
        }
        if parts & SUCCESSORS != 0 {
            found.has_successors = true;
            for _ in 0..reader.count()? {
                reader.number()?;
            }
        }
        if tables.version >= USE_LIST_ORDERS && parts & USE_LISTS != 0 {
            use_lists(reader, found.results.len())?;
        }
        if parts & REGIONS != 0 {
            let (regions, is_isolated) = reader.flagged()?;
            (found.regions, found.is_isolated) = (reader.bounded(regions)?, is_isolated);
            if found.regions > 0 && is_isolated && tables.version >= ISOLATED_SECTIONS {
                let (section, content) = reader.section()?;
                intact(section == OPERATIONS, "a region is misplaced")?;
                found.apart = Some(content);
            }
        }
        Ok(found)
    }
}

/// The state of reading an operation's regions.
struct Open<'a> {
    /// Where the regions are: in a separate section, or with the operation itself.
    apart: Option<Reader<'a>>,
    regions: usize,
    blocks: usize,
    /// Operations of the block that is being read.
    operations: usize,
}

/// Called for each operation with its parts, and the head of a function's body.
pub(super) type Visit<'a, 'b> = &'a mut dyn FnMut(&mut Decoder<'_, 'b>, &Parts<'b>, Option<Head>);

/// Checks the section of the operations.
///
/// # Errors
/// `InvalidFile` and `InvalidInput`.
pub(super) fn check<'a>(mut reader: Reader<'a>, decoder: &mut Decoder<'_, 'a>, visit: Visit<'_, 'a>) -> Result<()> {
    let tables = decoder.tables;
    let (operations, has_arguments) = reader.flagged()?;
    intact(!has_arguments, "the program itself takes arguments")?;
    let operations = reader.bounded(operations)?;
    // Where to continue after a separate section.
    let mut outer = Vec::new();
    let mut open = vec![Open { apart: None, regions: 0, blocks: 0, operations }];
    while let Some(level) = open.last_mut() {
        if level.operations > 0 {
            level.operations -= 1;
            if let Some(nested) = operation(&mut reader, decoder, visit)? {
                shallow(open.len() < MAX_NESTING)?;
                if let Some(apart) = nested.apart {
                    outer.push(reader);
                    reader = apart;
                }
                open.push(nested);
            }
        } else if level.blocks > 0 {
            level.blocks -= 1;
            level.operations = head(&mut reader, tables)?.operations;
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
fn operation<'a>(
    reader: &mut Reader<'a>,
    decoder: &mut Decoder<'_, 'a>,
    visit: Visit<'_, 'a>,
) -> Result<Option<Open<'a>>> {
    let tables = decoder.tables;
    let found = Parts::read(reader, tables)?;
    let (dialect, name) = tables.name(found.name);
    if let (b"vhlo", Some(properties)) = (dialect, found.properties) {
        properties::check(decoder, name, properties)?;
    }
    let mut body = None;
    if matches!((dialect, name), (b"func", b"func") | (b"vhlo", b"func_v1")) {
        // It has one region, in which a declaration has no block.
        let mut first = found.apart.unwrap_or(*reader);
        if found.regions == 0 || region(&mut first)? == 0 {
            bail!(InvalidInput, "A function of the program has no body; XLA cannot compile declarations.");
        }
        body = Some(head(&mut first, tables)?);
    }
    visit(decoder, &found, body);
    let open = Open { apart: found.apart, regions: found.regions, blocks: 0, operations: 0 };
    Ok((found.regions > 0).then_some(open))
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

pub(super) fn head(reader: &mut Reader<'_>, tables: &Tables<'_>) -> Result<Head> {
    let (attributes, types) = tables.entries.counts();
    let (operations, has_arguments) = reader.flagged()?;
    let mut arguments = Vec::new();
    if has_arguments {
        for _ in 0..reader.count()? {
            let (kind, has_location) =
                if tables.version >= OPTIONAL_LOCATIONS { reader.flagged()? } else { (reader.number()?, true) };
            let kind = Reader::within(kind, types)?;
            arguments.push((kind, if has_location { Some(reader.index(attributes)?) } else { None }));
        }
        if tables.version >= USE_LIST_ORDERS && reader.byte()? != 0 {
            use_lists(reader, arguments.len())?;
        }
    }
    Ok(Head { operations: reader.bounded(operations)?, arguments })
}

/// Skips the order of the uses of this number of values.
fn use_lists(reader: &mut Reader<'_>, values: usize) -> Result<()> {
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
