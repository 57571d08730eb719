//! Getting a plugin: finds its wheel on the machine's Python package index, downloads it, checks its hash and unpacks
//! the one library in it into a cache folder. Loads nothing and knows nothing of PJRT.
//!
//! `index` (with `pip` and `page`) finds the index and the wheel on it, `download` (over `http`) brings the file,
//! `verify` compares hashes, `unpack` takes the library out, and `place` puts it where [`installed`] looks.

mod address;
mod download;
mod http;
mod index;
mod page;
mod pip;
mod place;
#[cfg(test)]
mod tests;
mod unpack;
mod verify;
mod watch;

use crate::error::{Error, Kind, Result};
use http::{Http, Limits};
use index::{Machine, ThisMachine};
use place::Place;
use std::path::{Path, PathBuf};
use watch::Watch;

/// Told how many bytes are there and, if known, how many there will be; `false` stops the work. It is called from the
/// caller's thread, at least every 100 ms, also while the server is silent.
pub type Progress<'a> = dyn FnMut(u64, Option<u64>) -> bool + 'a;

/// What to install, and where.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Platform of the plugin, e.g. `"cpu"`.
    pub platform: &'a str,
    /// Folder that keeps the plugins of all platforms. It is made when there is something to put in it.
    pub cache_dir: &'a Path,
    /// Python package index (a URL, a local folder, or the wheel itself); `None` finds the machine's own.
    pub index_url: Option<&'a str>,
    /// Download again, and replace what is there.
    pub force: bool,
}

/// One line of the manifest: the wheel that holds a platform's plugin for an operating system and a processor.
#[derive(Debug, Clone, Copy)]
struct Wheel {
    platform: &'static str,
    os: &'static str,
    arch: &'static str,
    /// Name of the project on the index, in its normalised form.
    project: &'static str,
    version: &'static str,
    file: &'static str,
    /// Path of the library inside the wheel.
    member: &'static str,
    /// SHA-256 of the wheel, in lower-case hexadecimal digits.
    sha256: &'static str,
}

const CPU: Wheel = Wheel {
    platform: "cpu",
    os: "linux",
    arch: "x86_64",
    project: "xla-cpu-pjrt",
    version: "0.0.1",
    file: "xla_cpu_pjrt-0.0.1-py3-none-manylinux_2_27_x86_64.whl",
    member: "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
    sha256: "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
};

static WHEELS: [Wheel; 2] = [
    CPU,
    Wheel {
        arch: "aarch64",
        file: "xla_cpu_pjrt-0.0.1-py3-none-manylinux_2_27_aarch64.whl",
        sha256: "8f613be6e891858f40d64f9799319502fff42689661944fc18a6ffd8210b30c9",
        ..CPU
    },
];

impl Wheel {
    /// The wheel for `platform` on a machine of this system and processor.
    fn find(platform: &str, os: &str, arch: &str) -> Result<&'static Wheel> {
        let found = WHEELS.iter().find(|w| w.platform == platform && w.os == os && w.arch == arch);
        found.ok_or_else(|| {
            let message = format!("No plugin for platform \"{platform}\" can be downloaded for {os} on {arch}.");
            Error::new(Kind::PluginNotFound, message).on_platform(platform).hint(own_plugin_hint(platform))
        })
    }

    /// The wheel for `platform` on the machine this runs on.
    fn here(platform: &str) -> Result<&'static Wheel> {
        Wheel::find(platform, std::env::consts::OS, std::env::consts::ARCH)
    }

    /// File name of the library.
    fn library(&self) -> &'static str {
        self.member.rsplit('/').next().unwrap_or(self.member)
    }
}

/// How to do without a download.
fn own_plugin_hint(platform: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = platform.chars().map(upper).collect();
    format!("To use a plugin of your own, set PJRT_PLUGIN_PATH_{name} to the path of its library.")
}

/// The library that [`install`] put into `cache_dir`, if it is there, complete, and of the manifest's version.
pub fn installed(platform: &str, cache_dir: &Path) -> Option<PathBuf> {
    let wheel = Wheel::here(platform).ok()?;
    Place::new(cache_dir, wheel).library()
}

/// Installs a platform's plugin and returns the path of its library; what is installed already is not downloaded
/// again unless `request.force`. Several processes may do this at once: one downloads, the others wait for it.
///
/// Blocks; must not be called from asynchronous code.
///
/// # Errors
/// `PluginNotFound` if the manifest has no wheel for the platform on this machine; `Download` if no index is known, or
/// it cannot be reached or lacks the wheel; `Checksum` if the file is not the manifest's; `PluginInvalid` if the wheel
/// has no library; `Io` if the cache folder cannot be written; `Interrupted` if `progress` said stop. Whatever
/// happens, nothing half-done is left where [`installed`] looks.
pub fn install(request: &Request<'_>, progress: &mut Progress<'_>) -> Result<PathBuf> {
    let wheel = Wheel::here(request.platform)?;
    install_wheel(wheel, request, &ThisMachine, Limits::default(), progress)
}

fn install_wheel(
    wheel: &Wheel,
    request: &Request<'_>,
    machine: &dyn Machine,
    limits: Limits,
    progress: &mut Progress<'_>,
) -> Result<PathBuf> {
    bring(wheel, request, machine, limits, &mut Watch::new(progress)).map_err(|error| {
        let error = error.on_platform(wheel.platform);
        if error.kind() == Kind::Download {
            error.hint(own_plugin_hint(wheel.platform))
        } else {
            error
        }
    })
}

fn bring(
    wheel: &Wheel,
    request: &Request<'_>,
    machine: &dyn Machine,
    limits: Limits,
    watch: &mut Watch<'_>,
) -> Result<PathBuf> {
    let place = Place::new(request.cache_dir, wheel);
    let present = || if request.force { None } else { place.library() };
    if let Some(library) = present() {
        return Ok(library);
    }
    let http = Http::new(machine, limits)?;
    let index = index::find(request.index_url, machine, watch)?;
    let url = index::locate(&http, &index, wheel, watch)?;

    let _lock = place.lock(watch)?;
    // Another process may have been at work while this one waited.
    if let Some(library) = present() {
        return Ok(library);
    }
    let work = place.workspace()?;
    let file = work.path().join("download.whl");
    let sha256 = download::fetch(&http, &url, &file, watch)?;
    verify::check(&sha256, wheel.sha256, &url, &file)?;
    let bytes = unpack::extract(&file, wheel.member, &work.path().join(wheel.library()), watch)?;
    place::remove_file(&file)?;
    work.publish(bytes, &address::redact(url.as_str()), request.force)
}
