//! Shared libraries as files: whether one is complete and for this machine, what it needs, and whether it is a plugin.
//!
//! Loads and runs nothing: only headers and tables are read. Mapping a truncated library would kill the process, so
//! [`inspect`] is called before every load.
//!
//! `object::File` would not do: it omits sonames and search paths, needs sections, and misses truncated segments.

mod elf;
mod macho;
mod pe;

use object::read::{ReadCache, ReadRef};
use object::Pod;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::foreign;
use std::fs::File;
use std::io::Cursor;
use std::path::Path;

/// The function that every plugin exports.
const ENTRY: &str = "GetPjrtApi";

/// What a shared library declares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Library {
    /// The libraries that it needs, by the names that the loader looks for.
    pub needed: Vec<String>,
    /// The name by which other libraries need it.
    pub soname: Option<String>,
    /// The folders in which the loader looks for these libraries, unexpanded: `$ORIGIN` stands for the library's own.
    pub runpath: Vec<String>,
    /// Whether it exports `GetPjrtApi`.
    pub is_plugin: bool,
}

/// Reads what the shared library at `path` declares, and checks that this machine can map it.
///
/// # Errors
/// `PluginNotFound` if the file does not exist; `PluginInvalid` if it is not a shared library, is for another system or
/// processor, is incomplete, or is damaged.
pub fn inspect(path: &Path) -> Result<Library> {
    let shown = path.display();
    let metadata = std::fs::metadata(path)
        .map_err(|error| Error::new(Kind::PluginNotFound, format!("There is no library at '{shown}': {error}.")))?;
    // Opening a pipe would wait for its other end.
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a folder" } else { "not a regular file" };
        return Err(Defect::NoLibrary(what.into()).error(path));
    }
    let file = File::open(path)
        .map_err(|error| Error::new(Kind::PluginInvalid, format!("'{shown}' cannot be read: {error}.")))?;
    let cache = ReadCache::new(file);
    read(&cache, &Architecture::here()).map_err(|defect| defect.error(path))
}

/// The same for a library in memory, and a machine with this operating system and processor, by the names in messages.
///
/// # Errors
/// `PluginInvalid`.
pub fn inspect_for(system: &str, processor: &str, library: &[u8]) -> Result<Library> {
    let cache = ReadCache::new(Cursor::new(library));
    read(&cache, &Architecture::new(system, processor)).map_err(|defect| defect.error(Path::new("library")))
}

/// An operating system and a processor, as messages name them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Architecture {
    system: String,
    processor: String,
}

impl Architecture {
    fn new(system: &str, processor: impl Into<String>) -> Architecture {
        Architecture { system: system.into(), processor: processor.into() }
    }

    fn here() -> Architecture {
        let system = match std::env::consts::OS {
            "linux" => "Linux",
            "macos" => "macOS",
            "windows" => "Windows",
            other => other,
        };
        Architecture::new(system, std::env::consts::ARCH)
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.system, self.processor)
    }
}

/// Why a file cannot be loaded as a library.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Defect {
    /// It is something else.
    NoLibrary(String),
    /// It is for these machines, not for this one.
    Foreign(Vec<Architecture>),
    /// It is shorter than its headers state.
    Incomplete { has: u64, needs: u64 },
    /// Its headers or tables are invalid.
    Damaged(String),
}

type Parsed<T> = std::result::Result<T, Defect>;

impl Defect {
    fn error(self, path: &Path) -> Error {
        let here = Architecture::here();
        let (what, hint) = match self {
            Defect::NoLibrary(what) => (
                format!("is not a shared library: it is {what}."),
                format!("Give the path of a library file for {here}."),
            ),
            Defect::Foreign(machines) => {
                let machines: Vec<String> = machines.iter().map(Architecture::to_string).collect();
                (format!("is for {}, this is {here}.", machines.join(" and ")), format!("Get the library for {here}."))
            }
            Defect::Incomplete { has, needs } => (
                format!("is incomplete: it has {has} bytes but should have at least {needs}."),
                "Download or copy it again: the last attempt ended early, or the disk was full.".into(),
            ),
            Defect::Damaged(what) => (format!("is damaged: {what}."), "Download or copy it again.".into()),
        };
        Error::new(Kind::PluginInvalid, format!("'{}' {what}", path.display())).hint(hint)
    }
}

/// Detects the format from the first bytes and reads the library.
fn read<'d, R: ReadRef<'d>>(data: R, here: &Architecture) -> Parsed<Library> {
    let len = data.len().map_err(|()| unreadable(0))?;
    let start = bytes(data, 0, len.min(512))?;
    let what = match start {
        [] => "empty",
        [0x7f, b'E', b'L', b'F', ..] => return elf::read(data, here),
        [0xfe, 0xed, 0xfa, 0xce | 0xcf, ..] | [0xce | 0xcf, 0xfa, 0xed, 0xfe, ..] => return macho::read(data, here),
        [0xca, 0xfe, 0xba, 0xbe | 0xbf, ..] => return macho::read_universal(data, here),
        [b'M', b'Z', ..] => return pe::read(data, here),
        [b'!', b'<', b'a', b'r', b'c', b'h', b'>', ..] => "a static library",
        [b'P', b'K', 3, 4, ..] => "a zip archive, such as a Python wheel, which may contain one",
        [0x1f, 0x8b, ..] => "a compressed file, which may contain one",
        start => foreign::words(start).unwrap_or(if is_text(start) { "a text file" } else { "a file of another kind" }),
    };
    Err(Defect::NoLibrary(what.into()))
}

/// Whether the bytes are text. The last character may be incomplete.
fn is_text(start: &[u8]) -> bool {
    let is_valid = std::str::from_utf8(start).map_or_else(|error| error.error_len().is_none(), |_| true);
    is_valid && !start.iter().any(|&byte| byte < b' ' && !byte.is_ascii_whitespace())
}

/// Checks that the file contains a range that its headers refer to.
fn check_range<'d, R: ReadRef<'d>>(data: R, offset: u64, size: u64) -> Parsed<()> {
    let has = data.len().map_err(|()| unreadable(0))?;
    match offset.checked_add(size) {
        Some(needs) if needs <= has => Ok(()),
        Some(needs) => Err(Defect::Incomplete { has, needs }),
        None => Err(Defect::Damaged(format!("a part of it starts at byte {offset} and claims {size} bytes"))),
    }
}

fn bytes<'d, R: ReadRef<'d>>(data: R, offset: u64, size: u64) -> Parsed<&'d [u8]> {
    check_range(data, offset, size)?;
    data.read_bytes_at(offset, size).map_err(|()| unreadable(offset))
}

fn one<'d, T: Pod, R: ReadRef<'d>>(data: R, offset: u64) -> Parsed<&'d T> {
    check_range(data, offset, size_of::<T>() as u64)?;
    data.read_at(offset).map_err(|()| unreadable(offset))
}

fn many<'d, T: Pod, R: ReadRef<'d>>(data: R, offset: u64, count: u64) -> Parsed<&'d [T]> {
    check_range(data, offset, count.saturating_mul(size_of::<T>() as u64))?;
    let count = usize::try_from(count).map_err(|_| unreadable(offset))?;
    data.read_slice_at(offset, count).map_err(|()| unreadable(offset))
}

fn unreadable(offset: u64) -> Defect {
    Defect::Damaged(format!("it cannot be read at byte {offset}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
