//! Finds plugins that are already on the machine: in folders that the user names, in Python packages, and in the
//! system's folders. Loads and runs nothing, and refuses files that others can write to.
//!
//! `places` lists the places to search, in order, `python` finds a Python's package folders, `packages` finds plugins
//! in them, `names` determines a plugin's platform, and `trust` decides whose libraries are allowed.

pub(crate) mod machine;
mod names;
mod packages;
mod places;
mod python;
#[cfg(all(test, unix))]
mod tests;
mod trust;

use crate::library;
use machine::{list, name, Machine};
use places::Kind;
pub use places::SearchPlace;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The most libraries to open in one folder.
const MOST_LIBRARIES: usize = 1000;

/// A plugin on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPlugin {
    pub platform: String,
    /// The library. No part of its path is a link.
    pub path: PathBuf,
    /// Its origin, for messages: "Python package jax-cuda13-pjrt".
    pub source: String,
    /// The folder that was searched; for a Python package, the folder of all packages.
    pub folder: PathBuf,
    /// The version of its package.
    pub version: Option<String>,
}

/// A file that was skipped, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub platform: Option<String>,
    pub reason: String,
}

/// The results of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The plugins. The first one for a platform is used.
    pub found: Vec<FoundPlugin>,
    pub skipped: Vec<Skipped>,
    /// The places that were searched.
    pub places: Vec<SearchPlace>,
}

/// Searches for plugins on this machine.
pub fn find() -> Findings {
    look(&Machine::this())
}

fn look(machine: &Machine) -> Findings {
    let (places, refused) = places::all(machine);
    let mut search = PluginSearch::default();
    for (path, reason) in refused {
        search.skip(&path, reason, None);
    }
    for place in places {
        search.look_at(place);
    }
    search.findings
}

/// What is known of a library before it is opened.
struct Claim {
    /// `None` if the library's name determines it.
    platform: Option<String>,
    source: String,
    folder: PathBuf,
    version: Option<String>,
    /// Whether the user named the place for plugins.
    named: bool,
}

#[derive(Default)]
struct PluginSearch {
    findings: Findings,
    /// Libraries and places that were searched already.
    seen: HashSet<PathBuf>,
    places: HashSet<(PathBuf, Kind)>,
}

impl PluginSearch {
    fn look_at(&mut self, place: SearchPlace) {
        let named = matches!(place.kind, Kind::Plugins | Kind::Tpu);
        let (path, kind) = (place.path.clone(), place.kind);
        let claim = Claim {
            platform: (kind == Kind::Tpu).then(|| "tpu".to_string()),
            source: place.source.clone(),
            folder: path.clone(),
            version: None,
            named,
        };
        let Ok(real) = path.canonicalize() else {
            if named {
                self.skip(&path, "the file does not exist", Some(&claim));
            }
            return;
        };
        if real.is_dir() {
            if !self.places.insert((real, kind)) {
                return;
            }
            self.findings.places.push(place);
        }
        match kind {
            Kind::Site => packages::search(&claim, self),
            Kind::Libraries => self.offer_all(list(&path).iter().filter(|file| names::is_plugins(name(file))), &claim),
            Kind::Plugins if path.is_dir() => {
                // pip can install into any folder.
                packages::search(&claim, self);
                self.offer_all(packages::libraries(&path).iter(), &claim);
            }
            Kind::Plugins | Kind::Tpu => {
                self.offer(&path, &claim);
            }
        }
    }

    fn offer_all<'a>(&mut self, files: impl Iterator<Item = &'a PathBuf>, claim: &Claim) {
        let libraries = files.filter(|file| names::is_library(file));
        libraries.take(MOST_LIBRARIES).for_each(|file| {
            self.offer(file, claim);
        });
    }

    /// Adds the library if it is a plugin and can be trusted. Returns whether it is a plugin of a known platform.
    fn offer(&mut self, path: &Path, claim: &Claim) -> bool {
        let Ok(file) = path.canonicalize() else { return false };
        if !file.is_file() {
            return false;
        }
        if !self.seen.insert(file.clone()) {
            return self.findings.found.iter().any(|found| found.path == file);
        }
        let inspected = library::inspect(&file);
        if inspected.as_ref().is_ok_and(|library| !library.is_plugin) {
            return false;
        }
        let needed = inspected.as_ref().map_or(&[][..], |library| &library.needed);
        let platform = claim.platform.clone().unwrap_or_else(|| names::of_library(&file, needed));
        let reason = match inspected {
            Err(error) => Some(error.message().to_string()),
            Ok(_) if file.to_str().is_none() => Some("its path is not valid UTF-8".to_string()),
            Ok(_) => trust::objection(&file, claim.named),
        };
        if let Some(reason) = reason {
            self.findings.skipped.push(Skipped { path: file, platform: Some(platform), reason });
            return false;
        }
        self.findings.found.push(FoundPlugin {
            platform,
            path: file,
            source: claim.source.clone(),
            folder: claim.folder.clone(),
            version: claim.version.clone(),
        });
        true
    }

    fn skip(&mut self, path: &Path, reason: &str, claim: Option<&Claim>) {
        let platform = claim.and_then(|claim| claim.platform.clone());
        self.findings.skipped.push(Skipped { path: path.to_path_buf(), platform, reason: reason.to_string() });
    }
}
