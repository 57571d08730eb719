//! Installs a plugin: finds its files on a Python package index or elsewhere, downloads them, checks their hashes and
//! unpacks them into a cache folder. Loads nothing and must not know PJRT.
//!
//! `manifest` lists the available plugins, `plan` selects the files for a request. `index` (with `pip` and `page`)
//! finds the index and a wheel on it, `download` (over `http`) fetches a file, `verify` compares hashes, `unpack`
//! extracts the files, and `place` moves them to where [`installed`] searches.

mod address;
mod download;
mod http;
mod index;
mod manifest;
mod page;
mod pip;
mod place;
mod plan;
#[cfg(test)]
mod tests;
mod unpack;
mod verify;
mod watch;

use crate::find::machine::{list, name};
use crate::library;
pub use address::redact as redacted;
use http::{Http, Limits};
use index::{Machine, ThisMachine};
use manifest::PlatformRelease;
pub use manifest::{Manifest, ManifestEntry};
pub use page::{links, Link};
use pjrt_base::error::{Error, Kind, Result};
use place::{InstallFolder, Record};
use plan::{Piece, Plan};
use std::path::{Path, PathBuf};
pub use unpack::Limits as ArchiveLimits;
use watch::Watch;

/// Receives the number of bytes done and, if known, the total; returning `false` cancels the work. Called on the
/// caller's thread at least every 100 ms, even while the server is silent.
pub type Progress<'a> = dyn FnMut(u64, Option<u64>) -> bool + 'a;

/// The source of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginSource {
    /// The file that `PJRT_PLUGIN_URL_<PLATFORM>` names, or otherwise one whose hash the manifest knows.
    Auto,
    /// A Python package index.
    Index,
    /// An archive that the manifest names by its URL, whether or not its hash is known.
    Release,
    /// A file on this machine: `Request::path`.
    File,
}

/// A folder with plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store<'a> {
    /// A user's cache. The owner of the folder is trusted.
    Cache(&'a Path),
    /// A folder for all users of a site. Only the system, this user and the owner of `package` are trusted.
    Site { folder: &'a Path, package: &'a Path },
}

impl<'a> Store<'a> {
    pub fn folder(&self) -> &'a Path {
        match self {
            Store::Cache(folder) | Store::Site { folder, .. } => folder,
        }
    }
}

/// What to install, and where.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The plugin's platform, e.g. `"cpu"`, or one of its CUDA versions, e.g. `"cuda12"`.
    pub name: &'a str,
    /// The folder for the plugins of all platforms. Created when the first file is stored.
    pub cache_dir: &'a Path,
    /// A version other than the manifest's.
    pub version: Option<&'a str>,
    pub source: PluginSource,
    /// A wheel, an archive, a library, or a folder of wheels: for `PluginSource::File`.
    pub path: Option<&'a Path>,
    /// The Python package index: a URL, a local folder, or the wheel itself. `None` finds the machine's own.
    pub index_url: Option<&'a str>,
    /// Reinstalls, replacing existing files.
    pub force: bool,
}

/// A plugin in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The name of its folder.
    folder: String,
    pub library: PathBuf,
    pub record: Record,
}

/// The plugin in `store` to use for a platform, if it is complete: the one that `PJRT_PLUGIN_URL_<PLATFORM>` names,
/// else the one that the user chose to install, else the manifest's.
pub fn installed(name: &str, store: Store<'_>, manifest: &Manifest) -> Option<Installed> {
    installed_on(name, store, manifest, &ThisMachine, PlatformRelease::HERE)
}

fn installed_on(
    name: &str,
    store: Store<'_>,
    manifest: &Manifest,
    machine: &dyn Machine,
    target: PlatformRelease,
) -> Option<Installed> {
    let platform = manifest.platform(name);
    let place = InstallFolder::new(store, platform);
    if let Some(given) = plan::given(name, manifest, machine) {
        let (folder, sha256) = given.ok()?;
        return place.installed(&folder).filter(|found| sha256.is_none_or(|sha256| sha256 == found.record.sha256));
    }
    let selected = || place.selected().filter(|_| name == platform).and_then(|folder| place.installed(&folder));
    let complete = |entry: &manifest::ManifestEntry| {
        let found = place.installed(&entry.folder())?;
        let is_known = entry.sha256.as_ref().is_none_or(|sha256| *sha256 == found.record.sha256);
        is_known.then_some((entry.cuda, found))
    };
    selected().or_else(|| {
        let mut found: Vec<_> = manifest.plugins(name, target).filter_map(complete).collect();
        // If there are several, prefer one that the driver can run.
        if let (true, Some(driver)) = (found.len() > 1, machine.cuda_driver()) {
            found.sort_by_key(|(cuda, _)| cuda.is_some_and(|major| major > driver.0));
        }
        found.into_iter().next().map(|(_, found)| found)
    })
}

/// The Python package index in use, without its secrets, and the setting that names it. Asks pip if no setting does.
///
/// # Errors
/// As for [`install`].
pub fn index_in_use(index_url: Option<&str>, progress: &mut Progress<'_>) -> Result<(String, &'static str)> {
    let (url, origin) = index::find(index_url, &ThisMachine, &mut Watch::new(progress))?;
    Ok((address::redact(url.as_str()), origin))
}

/// All complete plugins in `store`. For each platform, the user's choice comes first.
pub fn all_installed(store: Store<'_>) -> Vec<Installed> {
    platforms(store).iter().flat_map(|platform| InstallFolder::new(store, platform).all()).collect()
}

/// The plugins in `store` that are not used because they are damaged, or others could have changed them, with the reasons.
pub fn refused(store: Store<'_>) -> Vec<(Installed, String)> {
    platforms(store).iter().flat_map(|platform| InstallFolder::new(store, platform).refused()).collect()
}

/// The folders in `store`.
fn platforms(store: Store<'_>) -> Vec<String> {
    let folders = list(store.folder());
    folders.iter().map(|path| name(path)).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Removes all of a platform's plugins from `cache_dir`, or one version, and returns the removed folders with their sizes
/// in bytes. `name` may be one CUDA version, as in [`Request`]. Blocks while another process installs one.
///
/// # Errors
/// `Io` if they cannot be removed, `Interrupted` if `progress` cancels the work.
pub fn uninstall(
    name: &str,
    version: Option<&str>,
    cache_dir: &Path,
    manifest: &Manifest,
    progress: &mut Progress<'_>,
) -> Result<Vec<(PathBuf, u64)>> {
    let platform = manifest.platform(name);
    let variant = Some(name).filter(|name| *name != platform);
    InstallFolder::new(Store::Cache(cache_dir), platform).remove(version, variant, &mut Watch::new(progress))
}

/// Extracts an archive as [`install`] does, within limits: `members` or, if that is empty, all that a plugin needs at run
/// time. Returns the number of bytes written.
///
/// # Errors
/// `PluginInvalid` if the archive is broken, unsafe, too large, or lacks one of `members`; `Io` if `to` cannot be written;
/// `Interrupted` if `progress` cancels the work.
pub fn extract(
    limits: ArchiveLimits,
    archive: &Path,
    members: &[String],
    to: &Path,
    progress: &mut Progress<'_>,
) -> Result<u64> {
    unpack::unpack(limits, archive, "library", members, to, &mut Watch::new(progress))
}

/// Installs a platform's plugin. Installed plugins are not downloaded again unless `request.force` is set. Several
/// processes may call this at once: one downloads, the others wait for it.
///
/// Blocks; must not be called from asynchronous code.
///
/// # Errors
/// `PluginNotFound` if the manifest has no plugin for the request on this machine; `DriverMissing` or `DriverTooOld` if
/// the driver decides which plugin to use; `Download` if no index is known, or it cannot be reached or lacks the file;
/// `Checksum` if a file's hash is wrong; `PluginInvalid` if it contains no usable library; `Io` if the cache folder is
/// read-only or too full; `Interrupted` if `progress` cancels the work. After an error, [`installed`] finds nothing
/// incomplete.
pub fn install(request: &Request<'_>, manifest: &Manifest, progress: &mut Progress<'_>) -> Result<Installed> {
    let plan = Plan::make(request, manifest, &ThisMachine, PlatformRelease::HERE)?;
    carry_out(&plan, request, &ThisMachine, PlatformRelease::HERE, Limits::default(), progress)
}

fn carry_out(
    plan: &Plan,
    request: &Request<'_>,
    machine: &dyn Machine,
    target: PlatformRelease,
    limits: Limits,
    progress: &mut Progress<'_>,
) -> Result<Installed> {
    let place = InstallFolder::new(Store::Cache(request.cache_dir), &plan.platform);
    let watch = &mut Watch::new(progress);
    let work = Work { plan, request, machine, target, limits, place: &place };
    work.run(watch).map_err(|error| {
        let error = error.on_platform(&plan.platform);
        if error.kind() == Kind::Download {
            let offline = error.hint(plan::offline_hint(plan));
            plan.instead.iter().cloned().fold(offline, Error::hint).hint(plan::own_plugin_hint(&plan.platform))
        } else {
            error
        }
    })
}

/// A running installation.
struct Work<'a> {
    plan: &'a Plan,
    request: &'a Request<'a>,
    machine: &'a dyn Machine,
    target: PlatformRelease,
    limits: Limits,
    place: &'a InstallFolder,
}

impl Work<'_> {
    fn run(&self, watch: &mut Watch<'_>) -> Result<Installed> {
        let plan = self.plan;
        let chosen = plan.select.then_some(plan.folder.as_str());
        let (place, expected) = (self.place, plan.pieces.first().and_then(|piece| piece.sha256.as_deref()));
        let present = || {
            let found = place.installed(&plan.folder).filter(|_| !plan.force)?;
            expected.is_none_or(|sha256| sha256 == found.record.sha256).then_some(found)
        };
        if let Some(found) = present() {
            if place.selected().as_deref() != chosen {
                let _lock = place.lock(watch)?;
                place.select(chosen)?;
            }
            return Ok(found);
        }
        let http = Http::new(self.machine, self.limits.clone())?;
        let found = self.locate(&http, watch)?;

        let _lock = place.lock(watch)?;
        // Another process may have installed it while this one waited.
        let done = present().map_or_else(|| self.bring(&http, &found, watch), Ok);
        let done = done.inspect_err(|_| place.leave_if_empty())?;
        place.select(chosen)?;
        place.drop_downloads();
        Ok(done)
    }

    /// Finds the location of each piece.
    fn locate(&self, http: &Http, watch: &mut Watch<'_>) -> Result<Vec<index::IndexFile>> {
        let mut index = None;
        let mut locate = |piece: &Piece| {
            if let Some(url) = &piece.url {
                return Ok(index::IndexFile { url: url.clone(), sha256: piece.sha256.clone() });
            }
            let index = match &index {
                Some(index) => index,
                None => {
                    let argument = self.plan.index.as_deref().or(self.request.index_url);
                    index.insert(index::find(argument, self.machine, watch)?.0)
                }
            };
            index::locate(http, index, piece, self.target, watch)
        };
        self.plan.pieces.iter().map(&mut locate).collect()
    }

    /// Downloads and unpacks all pieces, and moves them into place.
    fn bring(&self, http: &Http, found: &[index::IndexFile], watch: &mut Watch<'_>) -> Result<Installed> {
        let plan = self.plan;
        let pieces = &plan.pieces;
        let whole = pieces.iter().map(|piece| piece.bytes).sum::<Option<u64>>();
        self.place.check_owner()?;
        self.place.check_room(pieces.iter().filter_map(|p| Some(p.bytes.unwrap_or(0) + p.unpacked?)).sum())?;
        let (downloads, work) = (self.place.downloads()?, self.place.workspace()?);
        let (mut before, mut bytes, mut first) = (0, 0, None);
        for (piece, found) in pieces.iter().zip(found) {
            watch.begin(before, whole);
            let file = downloads.join(found.sha256.as_deref().unwrap_or("plugin"));
            let sha256 = download::fetch(http, &found.url, &file, found.sha256.as_deref(), watch)?;
            if let Some(expected) = &found.sha256 {
                verify::check(&sha256, expected, &found.url).inspect_err(|_| {
                    let _ = std::fs::remove_file(&file);
                })?;
            }
            before += piece.bytes.unwrap_or(0);
            let name = address::file_name(&found.url);
            bytes += unpack::unpack(unpack::LIMITS, &file, &name, &piece.members, &work.path, watch)?;
            first.get_or_insert((sha256, address::redact(found.url.as_str())));
        }
        let library = match &plan.library {
            Some(library) => library.clone(),
            None => find_library(
                &work.path,
                &found.first().map(|found| address::file_name(&found.url)).unwrap_or_default(),
            )?,
        };
        let path = work.path.join(&library);
        let is_plugin = library::inspect(&path)?.is_plugin;
        ensure!(is_plugin, PluginInvalid, "\"{library}\" is not a PJRT plugin: it has no GetPjrtApi().");
        let library_bytes = path.metadata().map_err(|e| place::io_error("read", &path, &e))?.len();
        let (sha256, url) = first.unwrap_or_default();
        let record = Record {
            platform: plan.platform.clone(),
            version: plan.version.clone(),
            api: plan.api.clone(),
            source: plan.source.to_string(),
            url,
            sha256,
            library,
            library_bytes,
            bytes,
        };
        work.publish(&plan.folder, &record, plan.force)
    }
}

/// Finds the only plugin among the files unpacked from `what`. Returns its path below `root`.
fn find_library(root: &Path, what: &str) -> Result<String> {
    let mut folders = vec![root.to_path_buf()];
    let mut plugins = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|e| place::io_error("read", &folder, &e))?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if library::inspect(&path).is_ok_and(|library| library.is_plugin) {
                plugins.extend(path.strip_prefix(root).ok().map(|p| p.to_string_lossy().replace('\\', "/")));
            }
        }
    }
    plugins.sort_unstable();
    match &plugins[..] {
        [one] => Ok(one.clone()),
        [] => Err(Error::new(Kind::PluginInvalid, format!("There is no PJRT plugin for this machine in \"{what}\"."))
            .hint("A plugin is a shared library with a function GetPjrtApi().")),
        many => Err(Error::new(
            Kind::PluginInvalid,
            format!("There is more than one plugin in \"{what}\": {}.", many.join(", ")),
        )
        .hint("Unpack it, and set PJRT_PLUGIN_PATH_<PLATFORM> to the plugin that you want.")),
    }
}
