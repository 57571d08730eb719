//! URLs from users: parses them, and shows them without secrets.

use pjrt_base::error::{Error, Kind, Result};
use reqwest::Url;
use std::path::Path;

/// The URL for messages: without user name, password, query and fragment, which may be secret. Accepts any text, since
/// invalid URLs may contain passwords, too.
pub fn redact(text: &str) -> String {
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let text = &text[..end];
    let (scheme, rest) = match text.find("://") {
        Some(at) => text.split_at(at + 3),
        None => ("", text),
    };
    // Passwords may contain an unescaped `/` or `@`, so remove everything up to the last `@`.
    match rest.rfind('@') {
        Some(at) => format!("{scheme}***@{}", &rest[at + 1..]),
        None => text.to_string(),
    }
}

/// Parses a URL (`http`, `https` or `file`) or an absolute path for `what`. `origin` is its source in messages.
pub(super) fn parse(text: &str, origin: &str, what: &str) -> Result<Url> {
    let text = text.trim();
    let path = Path::new(text);
    let parsed = match path.is_absolute() {
        true if path.is_dir() => Url::from_directory_path(path).ok(),
        true => Url::from_file_path(path).ok(),
        false => Url::parse(text).ok(),
    };
    parsed.filter(|url| matches!(url.scheme(), "http" | "https" | "file")).ok_or_else(|| {
        let message = format!("{origin} is \"{}\", which is not the URL of {what}.", redact(text));
        Error::new(Kind::Download, message)
            .hint("Expected a URL that starts with https://, http:// or file://, or an absolute path.")
    })
}

/// The file name: the last part of the path, decoded.
pub(super) fn file_name(url: &Url) -> String {
    let last = url.path().rsplit('/').next().unwrap_or_default();
    percent_encoding::percent_decode_str(last).decode_utf8_lossy().into_owned()
}

/// The version in a wheel's file name: `<project>-<version>-<tags>.whl`.
pub(super) fn wheel_version(file: &str) -> Option<String> {
    let version = file.strip_suffix(".whl")?.split('-').nth(1)?;
    Some(version.to_string())
}

/// The URL of `parts` below `base`; a part `""` ends it with a slash.
pub(super) fn below(base: &Url, parts: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(parts);
    }
    url
}

/// Copies the user name and password of `from` to `url` if both are on one server and `url` has none.
pub(super) fn lend_login(from: &Url, url: &mut Url) {
    if from.origin() != url.origin() || !url.username().is_empty() || url.password().is_some() {
        return;
    }
    // Both setters refuse only URLs that cannot have a login, such as `file:`.
    let _ = url.set_username(from.username());
    let _ = url.set_password(from.password());
}
