//! FlatBuffers: tables whose fields are found by offsets. Every offset is checked before it is followed: what is outside of
//! the file is damage, of the kind `InvalidFile`.

use super::damaged;
use pjrt_base::error::Result;
use std::cell::Cell;
use std::ops::Range;

/// A FlatBuffer, and how much more may be read from it. Offsets may lead to the same place many times, so that a small
/// file can stand for an endless tree.
pub struct Buffer<'a> {
    bytes: &'a [u8],
    budget: Cell<usize>,
}

/// The parts of a file that are read once or a few times are charged for their bytes. No file needs more than this.
const READS: usize = 16;

impl<'a> Buffer<'a> {
    pub fn new(bytes: &'a [u8]) -> Buffer<'a> {
        Buffer { bytes, budget: Cell::new(bytes.len().saturating_mul(READS)) }
    }

    /// The table that all others belong to.
    pub fn root<'b>(&'b self) -> Result<Table<'a, 'b>> {
        Table::at(self, self.target(0)?)
    }

    fn spend(&self, bytes: usize) -> Result<()> {
        let rest = self.budget.get().checked_sub(bytes).ok_or_else(|| damaged("its parts overlap"))?;
        self.budget.set(rest);
        Ok(())
    }

    fn bytes(&self, at: usize, len: usize) -> Result<&'a [u8]> {
        let end = at.checked_add(len).ok_or_else(outside)?;
        self.bytes.get(at..end).ok_or_else(outside)
    }

    /// A number of at most four bytes, the lowest first.
    fn number(&self, at: usize, width: usize) -> Result<usize> {
        Ok(self.bytes(at, width)?.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }

    /// The place that the offset at `at` refers to.
    fn target(&self, at: usize) -> Result<usize> {
        match self.number(at, 4)? {
            0 => Err(damaged("an offset is 0")),
            offset => at.checked_add(offset).filter(|&target| target < self.bytes.len()).ok_or_else(outside),
        }
    }

    /// The place of the vector at `at`, whose elements have `width` bytes.
    fn vector(&self, at: usize, width: usize) -> Result<Range<usize>> {
        let size = self.number(at, 4)?.checked_mul(width).ok_or_else(outside)?;
        self.bytes(at + 4, size)?;
        Ok(at + 4..at + 4 + size)
    }

    fn string(&self, at: usize) -> Result<&'a str> {
        let place = self.vector(at, 1)?;
        self.spend(place.len() + 4)?;
        let text = std::str::from_utf8(&self.bytes[place]).map_err(|_| damaged("a text is not UTF-8"))?;
        ensure!(!text.contains('\0'), damaged("a text has a NUL character"));
        Ok(text)
    }
}

/// A table: its fields have numbers, and any may be missing.
#[derive(Clone, Copy)]
pub struct Table<'a, 'b> {
    buffer: &'b Buffer<'a>,
    at: usize,
    size: usize,
    /// The offset of each field from `at`, two bytes each; 0 if it is missing.
    fields: &'a [u8],
}

impl<'a, 'b> Table<'a, 'b> {
    fn at(buffer: &'b Buffer<'a>, at: usize) -> Result<Self> {
        let back = i64::from(buffer.number(at, 4)? as i32);
        let start = usize::try_from(at as i64 - back).map_err(|_| outside())?;
        let (len, size) = (buffer.number(start, 2)?, buffer.number(start + 2, 2)?);
        ensure!(len >= 4 && len % 2 == 0 && size >= 4, damaged("a table has an impossible size"));
        let fields = &buffer.bytes(start, len)?[4..];
        buffer.bytes(at, size)?;
        buffer.spend(4)?;
        Ok(Table { buffer, at, size, fields })
    }

    /// The place of a field of `width` bytes.
    fn field(&self, number: usize, width: usize) -> Result<Option<usize>> {
        let Some(&[low, high]) = self.fields.get(2 * number..2 * number + 2) else { return Ok(None) };
        match usize::from(u16::from_le_bytes([low, high])) {
            0 => Ok(None),
            offset if offset >= 4 && offset + width <= self.size => Ok(Some(self.at + offset)),
            _ => Err(damaged("a field is outside of its table")),
        }
    }

    /// The place that the offset in a field refers to.
    fn target(&self, number: usize) -> Result<Option<usize>> {
        self.field(number, 4)?.map(|at| self.buffer.target(at)).transpose()
    }

    /// A number of so many bytes; 0 if it is missing.
    pub fn number(&self, number: usize, width: usize) -> Result<usize> {
        self.field(number, width)?.map_or(Ok(0), |at| self.buffer.number(at, width))
    }

    pub fn string(&self, number: usize) -> Result<Option<&'a str>> {
        self.target(number)?.map(|at| self.buffer.string(at)).transpose()
    }

    pub fn table(&self, number: usize) -> Result<Option<Table<'a, 'b>>> {
        self.target(number)?.map(|at| Table::at(self.buffer, at)).transpose()
    }

    /// Where the bytes of a vector are in the file; no bytes if it is missing.
    pub fn bytes(&self, number: usize) -> Result<Range<usize>> {
        self.target(number)?.map_or(Ok(0..0), |at| self.buffer.vector(at, 1))
    }

    /// A vector; empty if it is missing.
    pub fn numbers(&self, number: usize, width: usize) -> Result<Vec<usize>> {
        self.each(number, width, |buffer, at| buffer.number(at, width))
    }

    pub fn strings(&self, number: usize) -> Result<Vec<String>> {
        self.each(number, 4, |buffer, at| Ok(buffer.string(buffer.target(at)?)?.to_owned()))
    }

    pub fn tables(&self, number: usize) -> Result<Vec<Table<'a, 'b>>> {
        self.each(number, 4, |buffer, at| Table::at(buffer, buffer.target(at)?))
    }

    /// What `read` returns for each element of a vector.
    fn each<T>(
        &self,
        number: usize,
        width: usize,
        read: impl Fn(&'b Buffer<'a>, usize) -> Result<T>,
    ) -> Result<Vec<T>> {
        let Some(at) = self.target(number)? else { return Ok(Vec::new()) };
        let place = self.buffer.vector(at, width)?;
        self.buffer.spend(place.len())?;
        place.step_by(width).map(|at| read(self.buffer, at)).collect()
    }
}

#[cold]
fn outside() -> pjrt_base::error::Error {
    damaged("it ends too early, or an offset is wrong")
}
