//! Finds the Python package index, as pip does, and the wheel on it. There is no built-in index: if none is set, this
//! asks the machine's own pip.

use super::address;
use super::http::{download_error, Http, INDEX_HINT};
use super::manifest::PlatformRelease;
use super::plan::Piece;
use super::watch::Watch;
use super::{page, pip};
use crate::cuda::{self, Version};
use crate::find::machine::numbers;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use reqwest::Url;
use std::path::{Path, PathBuf};

/// What messages call the URL of an index.
const INDEX: &str = "a Python package index";

/// The hint if a wheel is missing from a local folder that serves as an index.
const FOLDER_HINT: &str = "Put the wheel into the folder.";

/// Access to the machine. Tests use fake machines.
pub(super) trait Machine {
    /// An environment variable; `None` if it is unset or empty.
    fn variable(&self, name: &str) -> Option<String>;
    /// The text of a file; `None` if it is not readable.
    fn read(&self, path: &Path) -> Option<String>;
    /// The index that the machine's pip uses.
    fn pip_index(&self, watch: &mut Watch<'_>) -> Result<Option<String>>;
    /// The CUDA version that the machine's driver supports; `None` without a driver.
    fn cuda_driver(&self) -> Option<Version>;
}

/// The machine that runs this code.
pub(super) struct ThisMachine;

impl Machine for ThisMachine {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.trim().is_empty())
    }

    fn read(&self, path: &Path) -> Option<String> {
        // Opening a pipe would wait for its other end.
        let bytes = path.is_file().then(|| std::fs::read(path).ok())??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn pip_index(&self, watch: &mut Watch<'_>) -> Result<Option<String>> {
        pip::index_of(&pip::COMMANDS, pip::LIMIT, watch)
    }

    fn cuda_driver(&self) -> Option<Version> {
        cuda::driver().cuda
    }
}

/// The index to use, and its origin. The first one set is used: the argument, `PJRT_INDEX_URL`, `PIP_INDEX_URL`,
/// `UV_DEFAULT_INDEX`, pip's configuration files, and last pip's own answer.
///
/// # Errors
/// `Download` if there is none, or it is not a URL.
pub(super) fn find(
    argument: Option<&str>,
    machine: &dyn Machine,
    watch: &mut Watch<'_>,
) -> Result<(Url, &'static str)> {
    let read = |text: &str, origin| Ok((address::parse(text, origin, INDEX)?, origin));
    if let Some(text) = argument.filter(|text| !text.trim().is_empty()) {
        return read(text, "The index URL");
    }
    for name in ["PJRT_INDEX_URL", "PIP_INDEX_URL", "UV_DEFAULT_INDEX"] {
        if let Some(text) = machine.variable(name) {
            return read(if name == "UV_DEFAULT_INDEX" { without_name(&text) } else { &text }, name);
        }
    }
    if let Some(text) = pip_setting(machine, "index-url") {
        return read(&text, "`index-url` in pip's configuration");
    }
    if let Some(text) = machine.pip_index(watch)? {
        return read(&text, "pip's index");
    }
    Err(Error::new(
        Kind::Download,
        "No Python package index to download the plugin from: none is set, and pip, which may know one, is not \
         installed, does not answer, or has none.",
    )
    .hint(
        "Install pip (for example with `apt-get install python3-pip`), or set PJRT_INDEX_URL to the URL of an index.",
    ))
}

/// The URL of a wheel, and its SHA-256 if the manifest's does not apply.
pub(super) struct IndexFile {
    pub url: Url,
    pub sha256: Option<String>,
}

/// Finds `wheel` on the index at `index`. An index may also be the wheel itself, or a local folder with wheels or
/// pages.
///
/// # Errors
/// `Download` if the index cannot be reached, does not have the wheel, or does not have its hash.
pub(super) fn locate(
    http: &Http,
    index: &Url,
    wheel: &Piece,
    target: PlatformRelease,
    watch: &mut Watch<'_>,
) -> Result<IndexFile> {
    if index.path().ends_with(".whl") {
        return Ok(IndexFile { url: index.clone(), sha256: wheel.sha256.clone() });
    }
    let folder = address::below(index, &[&wheel.project, ""]);
    let local = index.scheme() == "file";
    let mut links = if local { page::files(index, &folder) } else { Vec::new() };
    if page::pick(&links, wheel, target).is_none() {
        let page =
            if local { local_page(&address::below(&folder, &["index.html"])) } else { http.page(&folder, watch) };
        // A page from the network must not choose a local file to read.
        let allowed = |link: &page::Link| matches!(link.url.scheme(), "http" | "https") || local;
        match page {
            Ok(page) => links.extend(page::links(&page.text, page.is_json, &page.url).into_iter().filter(allowed)),
            Err(error) if links.is_empty() => return Err(error),
            Err(_) => {}
        }
    }
    let Some(link) = page::pick(&links, wheel, target) else { return Err(not_listed(&folder, &links, wheel, target)) };
    let mut url = link.url.clone();
    address::lend_login(index, &mut url);
    let sha256 = wheel.sha256.clone().or_else(|| link.sha256.clone());
    if sha256.is_none() && url.scheme() != "file" {
        let reason = format!("neither the index nor this package has the SHA-256 of {}", link.file);
        return Err(download_error(&folder, &reason, INDEX_HINT));
    }
    Ok(IndexFile { url, sha256 })
}

/// The error for a page without the wheel, with the newest versions on the page.
fn not_listed(folder: &Url, links: &[page::Link], wheel: &Piece, target: PlatformRelease) -> Error {
    let mut versions: Vec<_> = links.iter().filter_map(|link| address::wheel_version(&link.file)).collect();
    versions.sort_by_cached_key(|version| numbers(version));
    versions.dedup();
    let newest = versions[versions.len().saturating_sub(8)..].join(", ");
    let error = match &wheel.file {
        Some(file) => {
            let reason = format!("it lists {}, but not {file}", counted(links.len(), "file"));
            let is_local = folder.scheme() == "file";
            download_error(folder, &reason, if is_local { FOLDER_HINT } else { INDEX_HINT })
        }
        // The user chose the version, so other sources cannot help.
        None => Error::new(
            Kind::PluginNotFound,
            format!(
                "<{}> has no version {} of {} for {} on {}.",
                address::redact(folder.as_str()),
                wheel.version,
                wheel.project,
                target.os,
                target.arch
            ),
        ),
    };
    if newest.is_empty() {
        error
    } else {
        error.hint(format!("Available versions: {newest}."))
    }
}

fn local_page(url: &Url) -> Result<super::http::Answer> {
    let text = url.to_file_path().ok().and_then(|path| std::fs::read_to_string(path).ok());
    let text = text.ok_or_else(|| download_error(url, "there is no such file", FOLDER_HINT))?;
    Ok(super::http::Answer { url: url.clone(), is_json: false, text })
}

/// A setting in pip's configuration files: a section for the command precedes the general one, and within a section,
/// nearer files precede farther ones.
pub(super) fn pip_setting(machine: &dyn Machine, key: &str) -> Option<String> {
    let texts: Vec<_> = pip_files(machine).iter().filter_map(|path| machine.read(path)).collect();
    let sections = ["download", "install", "global"];
    sections.iter().find_map(|section| texts.iter().find_map(|text| ini_value(text, section, key)))
}

/// pip's configuration files, the nearest first.
fn pip_files(machine: &dyn Machine) -> Vec<PathBuf> {
    let path = |name: &str| machine.variable(name).map(PathBuf::from);
    let named = path("PIP_CONFIG_FILE");
    if named.as_deref() == Some(Path::new("/dev/null")) {
        // This is how pip disables the index.
        return Vec::new();
    }
    let home = path("HOME");
    let user = path("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|h| h.join(".config")));
    [
        named,
        path("VIRTUAL_ENV").map(|p| p.join("pip.conf")),
        user.map(|p| p.join("pip/pip.conf")),
        home.map(|p| p.join(".pip/pip.conf")),
        Some(PathBuf::from("/etc/pip.conf")),
        Some(PathBuf::from("/etc/xdg/pip/pip.conf")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The value of `key` in a section of a file in Python's INI format: `key = value` or `key: value`. The value may be on
/// the next, indented line. Like pip, treats `_` and `-` in keys as equal.
fn ini_value(text: &str, section: &str, key: &str) -> Option<String> {
    let mut inside = false;
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])).peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == section;
            continue;
        }
        let Some((name, value)) = line.split_once(['=', ':']).filter(|_| inside) else { continue };
        if name.trim().to_ascii_lowercase().replace('_', "-") != key {
            continue;
        }
        let next = lines.peek().filter(|next| next.starts_with([' ', '\t'])).map_or("", |next| next.trim());
        let value = if value.trim().is_empty() { next } else { value.trim() };
        if !value.is_empty() {
            return Some(value.to_string());
        }
    }
    None
}

/// The URL in uv's `name=url`. A plain URL may contain `=`, too, but only after a character that names cannot contain.
fn without_name(text: &str) -> &str {
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    text.split_once('=').filter(|(name, _)| is_name(name.trim())).map_or(text, |(_, url)| url)
}
