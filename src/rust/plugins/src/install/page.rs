//! A project's page on a package index: the list of its files, as JSON (PEP 691) or HTML (PEP 503).

use super::address;
use super::manifest::PlatformRelease;
use super::plan::Piece;
use super::verify;
use reqwest::Url;
use serde_json::Value;

/// A file that a page lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub file: String,
    pub url: Url,
    /// The hash according to the page. It identifies a file, but is never trusted.
    pub sha256: Option<String>,
}

/// The files that the page at `url` lists. Other links are skipped. Some servers do not say that a page is JSON.
pub fn links(text: &str, is_json: bool, url: &Url) -> Vec<Link> {
    if is_json || text.trim_start().starts_with('{') {
        json_links(text, url)
    } else {
        html_links(text, url)
    }
}

/// The link to `wheel`: by its file name, else by its hash, else by project, version and machine.
pub(super) fn pick<'a>(links: &'a [Link], wheel: &Piece, target: PlatformRelease) -> Option<&'a Link> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let start = format!("{}_{}_", plain(&wheel.project), plain(&wheel.version));
    let os = match target.os {
        "macos" => "macosx",
        "windows" => "win",
        other => other,
    };
    let ends = match target.arch {
        "x86_64" => ["x86_64", "amd64"],
        "aarch64" => ["aarch64", "arm64"],
        other => [other, other],
    };
    let alike = |l: &&Link| {
        let name = plain(&l.file);
        let Some(name) = name.strip_suffix(".whl") else { return false };
        name.starts_with(&start) && name.contains(os) && ends.iter().any(|end| name.ends_with(end))
    };
    let hashed = |l: &&Link| l.sha256.is_some() && l.sha256 == wheel.sha256;
    links
        .iter()
        .find(|l| wheel.file.as_ref() == Some(&l.file))
        .or_else(|| links.iter().find(hashed))
        // If there are several, take the one for the newest Python: they contain the same library.
        .or_else(|| links.iter().filter(alike).max_by(|a, b| a.file.cmp(&b.file)))
}

/// The wheels in a local folder, which may have a subfolder for each project.
pub(super) fn files(index: &Url, folder: &Url) -> Vec<Link> {
    let paths = [index, folder].into_iter().filter_map(|url| url.to_file_path().ok());
    let entries = paths.filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
    let link = |path: std::path::PathBuf| {
        let file = path.file_name()?.to_str()?.to_string();
        let url = Url::from_file_path(&path).ok().filter(|_| file.ends_with(".whl") && path.is_file())?;
        Some(Link { file, url, sha256: None })
    };
    entries.filter_map(|entry| link(entry.path())).collect()
}

fn json_links(text: &str, base: &Url) -> Vec<Link> {
    let Ok(page) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let files = page.get("files").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let link = |file: &Value| {
        let url = base.join(file.get("url")?.as_str()?).ok()?;
        let name = file.get("filename").and_then(Value::as_str);
        let sha256 = file.pointer("/hashes/sha256").and_then(Value::as_str).and_then(verify::sha256);
        Some(Link { file: name.map_or_else(|| address::file_name(&url), str::to_string), url, sha256 })
    };
    files.iter().filter_map(link).collect()
}

fn html_links(text: &str, base: &Url) -> Vec<Link> {
    let mut base = base.clone();
    let mut links = Vec::new();
    for (tag, attributes) in Tags(text) {
        let Some(href) = attribute(attributes, "href") else { continue };
        let Ok(mut url) = base.join(unescape(href).trim()) else { continue };
        match tag.to_ascii_lowercase().as_str() {
            "base" => base = url,
            "a" => {
                let sha256 = url.fragment().and_then(|f| f.strip_prefix("sha256=")).and_then(verify::sha256);
                url.set_fragment(None);
                links.push(Link { file: address::file_name(&url), url, sha256 });
            }
            _ => {}
        }
    }
    links
}

/// The opening tags of an HTML text: names, and attributes as text. Handles only quotes and comments.
struct Tags<'a>(&'a str);

impl<'a> Iterator for Tags<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let text = self.0.split_once('<')?.1;
            if let Some(comment) = text.strip_prefix("!--") {
                self.0 = comment.split_once("-->")?.1;
                continue;
            }
            let mut quote = None;
            let end = text.find(|c| {
                match quote {
                    Some(open) if c == open => quote = None,
                    None if matches!(c, '"' | '\'') => quote = Some(c),
                    _ => {}
                }
                quote.is_none() && c == '>'
            })?;
            self.0 = &text[end + 1..];
            let tag = &text[..end];
            let name_end = tag.find(|c: char| c.is_ascii_whitespace()).unwrap_or(tag.len());
            return Some(tag.split_at(name_end));
        }
    }
}

/// The value of a tag's attribute, still escaped.
fn attribute<'a>(mut text: &'a str, wanted: &str) -> Option<&'a str> {
    loop {
        text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if text.is_empty() {
            return None;
        }
        let name_end = text.find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/')).unwrap_or(text.len());
        let (name, rest) = text.split_at(name_end);
        let Some(rest) = rest.trim_start().strip_prefix('=') else {
            // An attribute without a value. There cannot be a stray `=` here, so each iteration makes progress.
            text = rest;
            continue;
        };
        let rest = rest.trim_start();
        let (value, rest) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].split_once(quote)?,
            _ => rest.split_at(rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len())),
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        text = rest;
    }
}

/// The longest character reference. Without a limit, the end of each one would be searched for in all that follows.
const MAX_REFERENCE: usize = 32;

/// Decodes the character references that occur in URLs.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let end = after.bytes().take(MAX_REFERENCE).position(|byte| byte == b';');
        let reference = end.and_then(|end| Some((decode(&after[..end])?, &after[end + 1..])));
        let (c, tail) = reference.unwrap_or(('&', after));
        plain.push(c);
        rest = tail;
    }
    plain + rest
}

fn decode(reference: &str) -> Option<char> {
    let number = |digits, radix| char::from_u32(u32::from_str_radix(digits, radix).ok()?);
    match reference {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "plus" => Some('+'),
        _ => match reference.strip_prefix('#')? {
            hex if hex.starts_with(['x', 'X']) => number(&hex[1..], 16),
            digits => number(digits, 10),
        },
    }
}
