//! SHA-256 of memory and files.

use ring::digest::{Context, SHA256};
use std::io::{self, Read};

/// The bytes of a SHA-256.
pub type Digest = [u8; 32];

/// The SHA-256 of these pieces, one after the other.
pub fn of(pieces: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA256);
    pieces.iter().for_each(|piece| context.update(piece));
    finish(context)
}

/// The SHA-256 of everything that a reader returns.
///
/// # Errors
/// The reader's errors.
pub fn of_reader(mut reader: impl Read) -> io::Result<Digest> {
    let mut context = Context::new(&SHA256);
    let mut piece = vec![0; 1 << 18];
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(finish(context)),
            n => context.update(&piece[..n]),
        }
    }
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn finish(context: Context) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(context.finish().as_ref());
    digest
}
