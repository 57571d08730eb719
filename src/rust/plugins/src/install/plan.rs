//! Turns a request into a plan: which files to fetch, from where, and their expected hashes.

use super::address::{self, redact};
use super::index::Machine;
use super::manifest::{Manifest, ManifestEntry, PlatformRelease};
use super::verify::{self, Sha256};
use super::{PluginSource, Request};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::{Hint, Reason};
use reqwest::Url;
use std::path::Path;

/// Everything that an installation needs to know.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The user's name for it: the platform, or one CUDA version.
    pub name: String,
    pub platform: String,
    /// The name of its folder, below the platform's.
    pub folder: String,
    pub version: String,
    pub api: Option<String>,
    pub source: &'static str,
    /// The plugin's library among the unpacked files; `None` to search for it.
    pub library: Option<String>,
    /// The plugin's own file first, then the libraries that it needs.
    pub pieces: Vec<Piece>,
    /// The index to use instead of the machine's.
    pub index: Option<String>,
    /// Whether to use it from now on, instead of the manifest's plugin.
    pub select: bool,
    /// Install it even if it is installed already.
    pub force: bool,
    /// An alternative for the user if the download fails.
    pub instead: Option<Hint>,
}

/// A file to fetch.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// Its URL; `None` to look it up on an index.
    pub url: Option<Url>,
    pub project: String,
    pub version: String,
    /// Its name on the index; `None` selects one for this machine.
    pub file: Option<String>,
    /// The expected hash; `None` trusts the index, or the user who named the file.
    pub sha256: Option<String>,
    pub bytes: Option<u64>,
    pub unpacked: Option<u64>,
    /// The files to extract; all if empty.
    pub members: Vec<String>,
}

impl Plan {
    /// # Errors
    /// `PluginNotFound` if nothing fits the request, `InvalidInput` if it contradicts itself, `DriverMissing` if the
    /// choice needs a missing driver.
    pub fn make(
        request: &Request<'_>,
        manifest: &Manifest,
        machine: &dyn Machine,
        target: PlatformRelease,
    ) -> Result<Plan> {
        let choice = Choice { manifest, machine, target };
        let given = match (request.source, request.path) {
            (PluginSource::File, Some(path)) => return choice.of_path(path, request),
            (PluginSource::File, None) => {
                return Err(Error::new(Kind::InvalidInput, "`path` must be the path of the plugin's file.")
                    .hint("It can be a wheel, an archive, a library, or a folder with wheels."))
            }
            (_, Some(_)) => {
                bail!(InvalidInput, "`path` can only be used with `source = \"file\"`.")
            }
            (PluginSource::Auto, None) if request.version.is_none() => given_url(request.name, manifest, machine)?,
            _ => None,
        };
        match given {
            Some(url) => from_url(url, request.name, manifest, "url"),
            None => choice.of_manifest(request),
        }
    }
}

/// What the choice of a plugin depends on, besides the request.
struct Choice<'a> {
    manifest: &'a Manifest,
    machine: &'a dyn Machine,
    target: PlatformRelease,
}

/// The URL in `PJRT_PLUGIN_URL_<PLATFORM>`.
fn given_url(name: &str, manifest: &Manifest, machine: &dyn Machine) -> Result<Option<Url>> {
    let variable = variable("PJRT_PLUGIN_URL_", manifest.platform(name));
    machine.variable(&variable).map(|text| address::parse(&text, &variable, "a plugin")).transpose()
}

/// The folder of the plugin that `PJRT_PLUGIN_URL_<PLATFORM>` names, if it is set, and its expected SHA-256.
pub(super) fn given(
    name: &str,
    manifest: &Manifest,
    machine: &dyn Machine,
) -> Option<Result<(String, Option<String>)>> {
    let url = given_url(name, manifest, machine).transpose()?;
    Some(url.and_then(|url| Ok((folder_of("url", &url), told_sha256(&url)?))))
}

/// The SHA-256 in a URL's fragment, `#sha256=...`. Whoever writes a fragment wants the file verified.
fn told_sha256(url: &Url) -> Result<Option<String>> {
    let Some(fragment) = url.fragment() else { return Ok(None) };
    let hash = fragment.strip_prefix("sha256=").and_then(verify::sha256);
    let invalid = || {
        let message = format!("\"#{fragment}\", after the URL of the plugin, is not a SHA-256.");
        Error::new(Kind::InvalidInput, message).hint("Write #sha256= and 64 hexadecimal digits, or nothing.")
    };
    hash.ok_or_else(invalid).map(Some)
}

/// The variable for a platform, whose name starts like this.
fn variable(start: &str, platform: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    start.chars().chain(platform.chars().map(upper)).collect()
}

/// A folder name that is unique for each plugin's URL. It does not depend on the login, which could be guessed from it.
fn folder_of(source: &str, url: &Url) -> String {
    format!("{source}-{}", &Sha256::of(redact(url.as_str()).as_bytes())[..12])
}

/// The plan for a URL that the user names.
fn from_url(mut url: Url, name: &str, manifest: &Manifest, source: &'static str) -> Result<Plan> {
    let folder = folder_of(source, &url);
    let sha256 = told_sha256(&url)?;
    url.set_fragment(None);
    Ok(Plan {
        name: name.to_string(),
        platform: manifest.platform(name).to_string(),
        folder,
        version: address::wheel_version(&address::file_name(&url)).unwrap_or_default(),
        source,
        pieces: vec![Piece { url: Some(url), sha256, ..Piece::default() }],
        select: source == "file",
        force: source == "file",
        ..Plan::default()
    })
}

impl Choice<'_> {
    fn of_path(&self, path: &Path, request: &Request<'_>) -> Result<Plan> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let hint = "`path` must be the path of a wheel, an archive, a library, or a folder with wheels.";
        let found = path.metadata().map_err(|e| super::place::io_error("read", &path, &e).hint(hint))?;
        let folder = if found.is_dir() { Some(path.as_path()) } else { path.parent() };
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let known = |e: &ManifestEntry| e.file.as_deref() == Some(&*file);
        if found.is_dir() || request.version.is_some() || self.manifest.plugins(request.name, self.target).any(known) {
            // A folder serves as an index. The hashes of the manifest apply to its wheels.
            let request = Request { source: PluginSource::Index, path: None, ..*request };
            let only = (!found.is_dir()).then_some(&*file);
            let mut plan = self.of_entries(&request, |e| only.is_none_or(|f| e.file.as_deref() == Some(f)))?;
            plan.index = folder.map(|f| f.display().to_string());
            return Ok(plan);
        }
        match Url::from_file_path(&path) {
            Ok(url) => from_url(url, request.name, self.manifest, "file"),
            Err(()) => bail!(InvalidInput, "`path` is \"{}\", which is not a valid file name.", path.display()),
        }
    }

    fn of_manifest(&self, request: &Request<'_>) -> Result<Plan> {
        // An archive without a known hash is only used if the user asks for it.
        let trusted = |e: &ManifestEntry| match request.source {
            PluginSource::Release => e.is_release(),
            PluginSource::Index => !e.is_release(),
            _ => !e.is_release() || e.sha256.is_some(),
        };
        self.of_entries(request, trusted)
    }

    fn of_entries(&self, request: &Request<'_>, wanted: impl Fn(&ManifestEntry) -> bool) -> Result<Plan> {
        let Choice { manifest, machine, target } = *self;
        let mut entries: Vec<_> = manifest.plugins(request.name, target).filter(|e| wanted(e)).collect();
        let first = entries.first().copied();
        if entries.iter().any(|e| request.version == Some(&e.version)) {
            entries.retain(|e| request.version == Some(&e.version));
        }
        let entry = choose(&entries, request.name, machine)?.ok_or_else(|| nothing_fits(request, manifest, target))?;
        let version = request.version.filter(|v| *v != entry.version);
        let named = entry.name() == request.name && entry.platform != request.name;
        let is_other = request.version.is_some() && first.is_some_and(|first| !std::ptr::eq(first, entry));
        let own = Piece {
            url: entry.url.as_deref().map(|url| release_url(url, entry, version)).transpose()?,
            project: entry.project.clone().unwrap_or_default(),
            version: version.unwrap_or(&entry.version).to_string(),
            file: entry.file.clone().filter(|_| version.is_none()),
            sha256: entry.sha256.clone().filter(|_| version.is_none()),
            bytes: entry.bytes,
            unpacked: entry.unpacked,
            members: entry.library.iter().chain(&entry.also).cloned().collect(),
        };
        let libraries = manifest.libraries(entry).map(|library| Piece {
            url: None,
            project: library.project.clone(),
            version: library.version.clone(),
            file: Some(library.file.clone()),
            sha256: Some(library.sha256.clone()),
            bytes: Some(library.bytes),
            unpacked: Some(library.unpacked),
            members: library.files.clone(),
        });
        Ok(Plan {
            name: request.name.to_string(),
            platform: entry.platform.clone(),
            folder: version.map_or_else(|| entry.folder(), |v| entry.folder().replacen(&entry.version, &plain(v), 1)),
            version: own.version.clone(),
            api: entry.api.clone().filter(|_| version.is_none()),
            source: entry.source(),
            library: entry.library.clone(),
            pieces: std::iter::once(own).chain(libraries).collect(),
            index: None,
            select: version.is_some() || is_other || named || request.source == PluginSource::Release,
            force: request.force,
            instead: archive_hint(request, manifest, target).filter(|_| !entry.is_release()),
        })
    }
}

/// The entry to use: the first, or for CUDA the first that the driver can run.
fn choose<'a>(entries: &[&'a ManifestEntry], name: &str, machine: &dyn Machine) -> Result<Option<&'a ManifestEntry>> {
    let by_driver = entries.iter().any(|e| e.cuda.is_some() && e.name() != name);
    if !by_driver {
        return Ok(entries.first().copied());
    }
    let names = entries.iter().filter_map(|e| Some(format!("{name}{}", e.cuda?))).collect();
    let undecided = Reason::PluginUndecided { names };
    let Some(driver) = machine.cuda_driver() else {
        let message = "There is no NVIDIA driver on this machine, which decides which plugin to install.";
        return Err(Error::new(Kind::DriverMissing, message).hint(undecided));
    };
    let found = entries.iter().find(|e| e.cuda.is_none_or(|major| major <= driver.0));
    found.copied().map(Some).ok_or_else(|| {
        let message =
            format!("The NVIDIA driver on this machine runs CUDA {driver} at most, and no plugin supports that.");
        Error::new(Kind::DriverTooOld, message).hint("Update the driver.").hint(undecided)
    })
}

/// A version, in a form that is safe in a folder's name.
fn plain(version: &str) -> String {
    version.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '_') { c } else { '_' }).collect()
}

fn release_url(url: &str, entry: &ManifestEntry, version: Option<&str>) -> Result<Url> {
    let url = version.map_or_else(|| url.to_string(), |version| url.replace(&entry.version, version));
    address::parse(&url, "`url` in the manifest", "a plugin")
}

/// The error if no entry fits a request, with alternatives.
fn nothing_fits(request: &Request<'_>, manifest: &Manifest, target: PlatformRelease) -> Error {
    let (name, platform) = (request.name, manifest.platform(request.name));
    let where_from = match request.source {
        PluginSource::Index => " from a package index",
        PluginSource::Release => " as a release archive",
        _ => "",
    };
    let message = format!(
        "No plugin for platform \"{name}\" can be downloaded{where_from} for {} on {}.",
        target.os, target.arch
    );
    let error = Error::new(Kind::PluginNotFound, message).on_platform(platform);
    let instead = archive_hint(request, manifest, target).or_else(|| {
        let names: Vec<_> = manifest.fetchable().into_iter().map(|(name, _)| format!("\"{name}\"")).collect();
        (request.source == PluginSource::Auto && !names.is_empty())
            .then(|| format!("Plugins that can be downloaded for this machine: {}.", names.join(", ")).into())
    });
    instead.into_iter().fold(error, Error::hint).hint(own_plugin_hint(platform))
}

/// How to install the archive without a known hash, if there is one and the user did not ask for it.
fn archive_hint(request: &Request<'_>, manifest: &Manifest, target: PlatformRelease) -> Option<Hint> {
    let archive = manifest.plugins(request.name, target).find(|e| e.is_release() && e.sha256.is_none())?;
    let (name, url) = (request.name, archive.url.as_deref()?);
    (request.source != PluginSource::Release)
        .then(|| Reason::UnverifiedArchive { name: name.to_owned(), url: url.to_owned() }.into())
}

/// How to avoid a download.
pub(super) fn own_plugin_hint(platform: &str) -> String {
    format!("To use a plugin of your own, set {} to the path of its library.", variable("PJRT_PLUGIN_PATH_", platform))
}

/// What to do on a machine without a network.
pub(super) fn offline_hint(plan: &Plan) -> Reason {
    let name = plan.name.clone();
    let wheels: Vec<_> = plan.pieces.iter().filter(|p| p.url.is_none()).collect();
    if wheels.is_empty() {
        return Reason::OfflineFile { name };
    }
    let wheels = wheels.iter().map(|piece| format!("{}=={}", piece.project, piece.version)).collect();
    Reason::OfflineWheels { name, wheels }
}
