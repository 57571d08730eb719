//! The primitives of MLIR bytecode: bytes, numbers of variable length, and sections.

use super::{damaged, intact};
use pjrt_base::error::Result;

/// The remaining bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub rest: &'a [u8],
    /// The number of bytes before these, which counts for the alignment of sections.
    pub before: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, before: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else { return Err(damaged("it ends too early")) };
        self.rest = rest;
        self.before += len;
        Ok(bytes)
    }

    /// A count, and as many bytes.
    pub fn sized(&mut self) -> Result<&'a [u8]> {
        let len = self.count()?;
        self.bytes(len)
    }

    /// A number: the count of trailing zero bits in its first byte is the count of further bytes.
    pub fn number(&mut self) -> Result<u64> {
        let first = self.byte()?;
        let more = first.trailing_zeros() as usize;
        let mut value = [0; 8];
        if more >= 8 {
            value.copy_from_slice(self.bytes(8)?);
            return Ok(u64::from_le_bytes(value));
        }
        value[0] = first;
        value[1..=more].copy_from_slice(self.bytes(more)?);
        Ok(u64::from_le_bytes(value) >> (more + 1))
    }

    /// How many numbers are left.
    pub fn numbers(mut self) -> Result<usize> {
        let mut count = 0;
        while !self.is_empty() {
            self.number()?;
            count += 1;
        }
        Ok(count)
    }

    /// A number with a flag in its last bit.
    pub fn flagged(&mut self) -> Result<(u64, bool)> {
        let number = self.number()?;
        Ok((number >> 1, number & 1 == 1))
    }

    /// A position in a list of this length, if its flag says that there is one.
    pub fn optional(&mut self, len: usize) -> Result<Option<usize>> {
        let (index, is_there) = self.flagged()?;
        is_there.then(|| Self::within(index, len)).transpose()
    }

    /// The last position, after a byte that says whether there is one.
    pub fn given(&mut self, len: usize) -> Result<Option<usize>> {
        self.byte()?;
        (!self.is_empty()).then(|| self.index(len)).transpose()
    }

    /// A number with its sign in the last bit.
    pub fn signed(&mut self) -> Result<i64> {
        let (number, is_negative) = self.flagged()?;
        Ok(if is_negative { !(number as i64) } else { number as i64 })
    }

    /// A count, and as many items.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..self.count()?).map(|_| item(self)).collect()
    }

    pub fn signed_numbers(&mut self) -> Result<Vec<i64>> {
        self.list(Self::signed)
    }

    /// A count of items, each of at least one byte, so it is safe to allocate an array for them.
    pub fn count(&mut self) -> Result<usize> {
        let count = self.number()?;
        self.bounded(count)
    }

    /// The same for a number that was read otherwise.
    pub fn bounded(&self, count: u64) -> Result<usize> {
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(damaged("it declares more data than it has")),
        }
    }

    /// A position in a list of this length.
    pub fn index(&mut self, len: usize) -> Result<usize> {
        let index = self.number()?;
        Self::within(index, len)
    }

    pub fn within(index: u64, len: usize) -> Result<usize> {
        match usize::try_from(index) {
            Ok(index) if index < len => Ok(index),
            _ => Err(damaged("it refers to a missing item")),
        }
    }

    pub fn section(&mut self) -> Result<(u8, Reader<'a>)> {
        const ALIGNED: u8 = 0x80;
        let id = self.byte()?;
        let len = self.number()?;
        if id & ALIGNED != 0 {
            let alignment = usize::try_from(self.number()?).unwrap_or(0);
            intact(alignment.is_power_of_two(), "an alignment is not a power of two")?;
            let start = self.before.checked_next_multiple_of(alignment);
            self.bytes(start.map_or(usize::MAX, |start| start - self.before))?;
        }
        let len = self.bounded(len)?;
        Ok((id & !ALIGNED, Reader::new(self.bytes(len)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_bytes_as_they_need() {
        let number = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            reader.number().ok().map(|number| (number, reader.rest.len()))
        };
        assert_eq!(number(&[0b1, 9]), Some((0, 1)));
        assert_eq!(number(&[0xff]), Some((127, 0)));
        assert_eq!(number(&[0b10, 0b10]), Some((128, 0)));
        assert_eq!(number(&[0b1000_0000, 1, 0, 0, 0, 0, 0, 0]), Some((1, 0)));
        assert_eq!(number(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Some((u64::MAX, 0)));
        for short in [&[][..], &[0b10], &[0b1000_0000, 1], &[0; 8]] {
            assert_eq!(number(short), None, "{short:?}");
        }
    }
}
