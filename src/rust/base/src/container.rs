//! Containers of bytes that are saved and sent: they say what they are, and find damage.
//!
//! Layout: magic number (8 bytes), version of the format and length of the header (4 bytes each, little-endian), SHA-256 of
//! all other bytes (32), header, content (up to the end).

use crate::digest::{self, Digest};

const DIGEST_AT: usize = 16;
const HEADER_AT: usize = DIGEST_AT + size_of::<Digest>();

#[derive(Debug)]
pub struct Container {
    pub magic: &'static [u8; 8],
    pub format: u32,
}

/// Why bytes are not a container of a kind.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    /// They are something else, or end before the header.
    Other,
    /// They are of another version of the format.
    Format(u32),
    Damaged,
}

impl Container {
    /// Puts a header and content into a container.
    pub fn write(&self, header: &[u8], content: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_AT + header.len() + content.len());
        out.extend_from_slice(self.magic);
        out.extend_from_slice(&self.format.to_le_bytes());
        out.extend_from_slice(&(header.len() as u32).to_le_bytes());
        out.extend_from_slice(&Digest::default());
        out.extend_from_slice(header);
        out.extend_from_slice(content);
        seal(&mut out);
        out
    }

    /// The header in the first bytes of a container, unchecked. It is `Damaged` if the bytes end before it does.
    pub fn peek<'a>(&self, start: &'a [u8]) -> Result<&'a [u8], Problem> {
        ensure!(start.len() >= HEADER_AT && start.starts_with(self.magic), Problem::Other);
        let number = |at: usize| start[at..at + 4].iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
        ensure!(number(8) == self.format, Problem::Format(number(8)));
        start[HEADER_AT..].get(..number(12) as usize).ok_or(Problem::Damaged)
    }

    /// The header and the content of a container that is not damaged.
    pub fn read<'a>(&self, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Problem> {
        let header = self.peek(bytes)?;
        ensure!(bytes[DIGEST_AT..HEADER_AT] == digest_of(bytes), Problem::Damaged);
        Ok((header, &bytes[HEADER_AT + header.len()..]))
    }
}

/// Writes the digest of a container's other bytes into it. There are at least those before the header.
pub fn seal(container: &mut [u8]) {
    let digest = digest_of(container);
    container[DIGEST_AT..HEADER_AT].copy_from_slice(&digest);
}

fn digest_of(container: &[u8]) -> Digest {
    digest::of(&[&container[..DIGEST_AT], &container[HEADER_AT..]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_any_damage_is_found() {
        let kind = Container { magic: b"A MAGIC!", format: 3 };
        let whole = kind.write(b"header", b"content");
        assert_eq!(kind.read(&whole), Ok((&b"header"[..], &b"content"[..])));
        assert_eq!(kind.peek(&whole[..HEADER_AT + 6]), Ok(&b"header"[..]));
        assert_eq!(kind.peek(&whole[..HEADER_AT + 5]), Err(Problem::Damaged));
        assert_eq!(kind.read(&whole[..HEADER_AT - 1]), Err(Problem::Other));
        assert_eq!(Container { magic: b"another!", format: 3 }.read(&whole), Err(Problem::Other));
        assert_eq!(Container { magic: b"A MAGIC!", format: 4 }.read(&whole), Err(Problem::Format(3)));
        for i in 0..whole.len() {
            let mut changed = whole.clone();
            changed[i] ^= 1;
            assert!(kind.read(&changed).is_err(), "byte {i}");
        }
    }
}
