//! Files that are something else than their reader expects, recognized by their first bytes.

use crate::error::{Error, Kind};
use crate::mmap::MappedFile;

/// How much is read to recognize a file.
const START: usize = 512;

/// What the data are if no reader takes them, in words, and what to do about it.
fn recognize(data: &[u8]) -> Option<(&'static str, &'static str)> {
    const UNPACK: &str = "Unpack it, and pass the path of the file in it.";
    let start = &data[..data.len().min(START)];
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start().to_ascii_lowercase();
    match start {
        [0x1f, 0x8b, ..] => Some(("a file compressed with gzip", UNPACK)),
        [b'P', b'K', 3, 4, ..] => Some(("a zip archive", UNPACK)),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(("text in UTF-16", "Save it as UTF-8.")),
        _ if is_utf16(start) => Some(("text in UTF-16", "Save it as UTF-8.")),
        _ if text.starts_with(b"version https://git-lfs") => {
            Some(("a pointer of Git LFS, not the file itself", "Fetch the file: `git lfs pull`."))
        }
        _ if text.starts_with(b"<!doctype html")
            || text.starts_with(b"<html")
            || text.starts_with(b"<?xml") && text.windows(5).any(|word| word == b"<html") =>
        {
            Some(("an HTML page, not the file itself", "Download the file again: the address led to a page about it."))
        }
        _ => None,
    }
}

/// Whether data start as text in UTF-16 without a byte order mark: with characters of ASCII and zeros, in turns.
fn is_utf16(start: &[u8]) -> bool {
    const PAIRS: usize = 8;
    let is_text = |byte: u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let pairs = || start.chunks_exact(2).take(PAIRS);
    pairs().len() == PAIRS
        && (pairs().all(|pair| is_text(pair[0]) && pair[1] == 0)
            || pairs().all(|pair| pair[0] == 0 && is_text(pair[1])))
}

/// The error that says what data are, if they are known to be something else; otherwise `error`, of the reader that did not
/// take them.
pub fn named(error: Error, subject: &str, data: &[u8]) -> Error {
    check(error.kind(), subject, data).err().unwrap_or(error)
}

/// The same for a file.
pub fn named_file(error: Error, file: &MappedFile) -> Error {
    let mut start = [0; START];
    let len = usize::try_from(file.len()).map_or(START, |len| len.min(START));
    match file.read(0, &mut start[..len]) {
        Ok(()) => named(error, &format!("'{}'", file.path().display()), &start[..len]),
        Err(_) => error,
    }
}

/// Refuses data that are known to be something else.
///
/// # Errors
/// `kind`.
pub fn check(kind: Kind, subject: &str, data: &[u8]) -> crate::error::Result<()> {
    match recognize(data) {
        Some((what, hint)) => Err(Error::new(kind, format!("{subject} is {what}.")).hint(hint)),
        None => Ok(()),
    }
}

/// What data are, if they are known to be something else.
pub fn words(data: &[u8]) -> Option<&'static str> {
    recognize(data).map(|(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_downloaded_instead_of_a_file_is_recognized() {
        assert!(words(b"version https://git-lfs.github.com/spec/v1\n").is_some_and(|what| what.contains("Git LFS")));
        for page in ["<!DOCTYPE html>", "\n<html lang=en>", "<?xml version='1.0'?>\n<!DOCTYPE x>\n<HTML>"] {
            assert!(words(page.as_bytes()).is_some_and(|what| what.contains("HTML")), "{page}");
        }
        assert_eq!(words(b"PK\x03\x04"), Some("a zip archive"));
        assert_eq!(words(b"\xff\xfef\0"), Some("text in UTF-16"));
        let wide = |order: fn(u16) -> [u8; 2]| "module {}".encode_utf16().flat_map(order).collect::<Vec<u8>>();
        assert_eq!(words(&wide(u16::to_le_bytes)), Some("text in UTF-16"));
        assert_eq!(words(&wide(u16::to_be_bytes)), Some("text in UTF-16"));
        assert_eq!(words(b"m\0o\0d\0u\0\x01\0\0\0\0\0\0\0"), None);
        for other in [&b""[..], b"version", b"<?xml?>", b"module {}", b"\xef\xbb\xbfmodule {}"] {
            assert_eq!(words(other), None);
        }
    }
}
