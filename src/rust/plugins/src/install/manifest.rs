//! The manifest: the plugins that can be downloaded, their sources, and the hashes of their files. `inst/plugins.toml`
//! documents its schema.

use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::mmap;
use serde::Deserialize;
use std::fmt;
use std::path::Path;

/// The largest file, in bytes: so that sums of sizes are numbers, too.
const MAX_SIZE: u64 = 1 << 53;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    #[serde(default, rename = "plugin")]
    pub(super) plugins: Vec<ManifestEntry>,
    #[serde(default, rename = "library")]
    pub(super) libraries: Vec<Library>,
}

/// A plugin for one operating system and processor.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestEntry {
    pub platform: String,
    os: String,
    pub arch: String,
    pub version: String,
    /// The version of the PJRT C API.
    pub api: Option<String>,
    /// The StableHLO versions that it reads, such as `0.9.0 to 1.13.3`.
    pub stablehlo: Option<String>,
    pub cuda: Option<u32>,
    pub project: Option<String>,
    pub file: Option<String>,
    pub url: Option<String>,
    pub sha256: Option<String>,
    pub bytes: Option<u64>,
    pub library: Option<String>,
    #[serde(default)]
    pub also: Vec<String>,
    pub unpacked: Option<u64>,
}

/// A wheel of libraries that a CUDA plugin needs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Library {
    cuda: u32,
    arch: String,
    pub project: String,
    pub version: String,
    pub file: String,
    pub sha256: String,
    pub bytes: u64,
    pub unpacked: u64,
    #[serde(default)]
    pub files: Vec<String>,
}

/// The operating system and processor of a plugin, as named in `std::env::consts`.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlatformRelease {
    pub os: &'static str,
    pub arch: &'static str,
}

impl PlatformRelease {
    pub const HERE: PlatformRelease = PlatformRelease { os: std::env::consts::OS, arch: std::env::consts::ARCH };
}

impl Manifest {
    /// Reads the manifest at `path`.
    ///
    /// # Errors
    /// `Io` if it cannot be read, `InvalidFile` if it is invalid.
    pub fn read(path: &Path) -> Result<Manifest> {
        Manifest::parse(&String::from_utf8_lossy(&mmap::read(path)?)).map_err(|e| e.within(&path.display().to_string()))
    }

    /// Reads a manifest's text.
    ///
    /// # Errors
    /// `InvalidFile` if it is invalid.
    pub fn parse(text: &str) -> Result<Manifest> {
        let wrong = |what: &dyn fmt::Display| {
            Error::new(Kind::InvalidFile, format!("The data are not a plugin manifest: {what}."))
        };
        let manifest: Manifest = basic_toml::from_str(text).map_err(|error| wrong(&error))?;
        let of_plugins = manifest.plugins.iter().flat_map(|plugin| [plugin.bytes, plugin.unpacked]).flatten();
        let of_libraries = manifest.libraries.iter().flat_map(|library| [library.bytes, library.unpacked]);
        match of_plugins.chain(of_libraries).find(|&size| size > MAX_SIZE) {
            Some(size) => Err(wrong(&format_args!("a file of {size} bytes is too large"))),
            None => Ok(manifest),
        }
    }

    /// The plugins for `name`, a platform (`"cuda"`) or one CUDA version (`"cuda12"`), on this kind of machine,
    /// preferred ones first.
    pub(super) fn plugins<'a>(
        &'a self,
        name: &'a str,
        target: PlatformRelease,
    ) -> impl Iterator<Item = &'a ManifestEntry> {
        self.plugins_for(target).filter(move |e| e.platform == name || e.name() == name)
    }

    /// All plugins for this kind of machine.
    fn plugins_for(&self, target: PlatformRelease) -> impl Iterator<Item = &ManifestEntry> {
        self.plugins.iter().filter(move |e| e.os == target.os && e.arch == target.arch)
    }

    /// The additional wheels that a plugin needs.
    pub(super) fn libraries<'a>(&'a self, plugin: &'a ManifestEntry) -> impl Iterator<Item = &'a Library> {
        self.libraries.iter().filter(|l| Some(l.cuda) == plugin.cuda && l.arch == plugin.arch)
    }

    /// The platform of `name`: "cuda" for "cuda12".
    pub fn platform<'a>(&'a self, name: &'a str) -> &'a str {
        self.plugins.iter().find(|e| e.name() == name).map_or(name, |e| e.platform.as_str())
    }

    /// The plugins that can be downloaded for this machine: their names and download sizes in bytes.
    pub fn fetchable(&self) -> Vec<(String, Option<u64>)> {
        let mut found: Vec<(String, Option<u64>)> = Vec::new();
        for name in self.plugins.iter().flat_map(|e| [e.platform.clone(), e.name()]) {
            if found.iter().all(|(known, _)| *known != name) {
                if let Some(entry) = self.plugins(&name, PlatformRelease::HERE).next() {
                    found.push((name.clone(), self.bytes(entry)));
                }
            }
        }
        found
    }

    /// All plugins that can be downloaded for this machine, and their download sizes in bytes.
    pub fn available(&self) -> Vec<(&ManifestEntry, Option<u64>)> {
        self.plugins_for(PlatformRelease::HERE).map(|e| (e, self.bytes(e))).collect()
    }

    /// The total download size of a plugin.
    fn bytes(&self, plugin: &ManifestEntry) -> Option<u64> {
        plugin.bytes.map(|bytes| bytes + self.libraries(plugin).map(|l| l.bytes).sum::<u64>())
    }
}

impl ManifestEntry {
    /// The platform, or its own name if a platform has several plugins: `"cuda12"`.
    pub fn name(&self) -> String {
        self.cuda.map_or_else(|| self.platform.clone(), |major| format!("{}{major}", self.platform))
    }

    /// The name of its installation folder.
    pub fn folder(&self) -> String {
        match self.cuda {
            Some(_) => format!("{}-{}-{}", self.version, self.name(), self.arch),
            None => format!("{}-{}", self.version, self.arch),
        }
    }

    pub fn is_release(&self) -> bool {
        self.url.is_some()
    }

    /// The value of `source` with which it can be installed.
    pub fn source(&self) -> &'static str {
        if self.is_release() {
            "release"
        } else {
            "index"
        }
    }
}
