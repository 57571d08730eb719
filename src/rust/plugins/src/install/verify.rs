//! SHA-256: computed during a download, compared before the file is used.

use super::address::redact;
use pjrt_base::digest::hex;
use pjrt_base::error::{Error, Kind, Result};
use reqwest::Url;
use ring::digest::{Context, SHA256};

/// A hash in progress. `ring` uses the processor's SHA instructions if available.
#[derive(Clone)]
pub(super) struct Sha256(Context);

impl Sha256 {
    pub fn new() -> Self {
        Sha256(Context::new(&SHA256))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash in lower-case hexadecimal digits.
    pub fn finish(self) -> String {
        hex(self.0.finish().as_ref())
    }

    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> String {
        hex(&pjrt_base::digest::of(&[bytes]))
    }
}

/// A SHA-256 given as text, in the form of [`Sha256::finish`]; `None` if it is not valid. It becomes the name of a
/// downloaded file, so it must consist of digits only.
pub(super) fn sha256(text: &str) -> Option<String> {
    let is_one = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_one.then(|| text.to_ascii_lowercase())
}

/// Compares the hash of a file that came from `url` with the expected one.
///
/// # Errors
/// `Checksum` if they differ.
pub(super) fn check(found: &str, expected: &str, url: &Url) -> Result<()> {
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let message = format!(
        "The file from <{}> is not the expected one: its SHA-256 is {found}, expected {expected}.",
        redact(url.as_str())
    );
    Err(Error::new(Kind::Checksum, message).hint("The downloaded file was removed, and nothing was installed.").hint(
        "Try again. If the error persists, set PJRT_INDEX_URL to another Python package index, or check the \
               SHA-256 that you gave.",
    ))
}
