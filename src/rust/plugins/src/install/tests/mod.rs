//! Tests of the installation, and their shared helpers: a fake machine, a small wheel, and a server on the loopback
//! interface. No test needs the internet, pip, or variables of the real environment.

mod choosing;
mod fetching;
mod finding;
mod guarding;
mod installing;
mod reaching;
mod server;
mod unpacking;

use super::http::{Http, Limits};
use super::index::Machine;
use super::manifest::{Manifest, PlatformRelease};
use super::plan::{Piece, Plan};
use super::verify::Sha256;
use super::watch::Watch;
use super::{carry_out, installed_on, Installed, PluginSource, Request, Store};
use crate::cuda::Version;
use pjrt_base::error::Result;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// A machine with only what a test provides.
#[derive(Default)]
struct Invented {
    variables: HashMap<&'static str, &'static str>,
    files: HashMap<&'static str, &'static str>,
    pip: Option<&'static str>,
    driver: Option<(u32, u32)>,
}

impl Machine for Invented {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(ToString::to_string)
    }
    fn read(&self, path: &Path) -> Option<String> {
        self.files.get(path.to_str()?).map(ToString::to_string)
    }
    fn pip_index(&self, _: &mut Watch<'_>) -> Result<Option<String>> {
        Ok(self.pip.map(str::to_string))
    }
    fn cuda_driver(&self) -> Option<Version> {
        self.driver.map(|(major, minor)| Version(major, minor))
    }
}

/// A new folder, deleted at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pjrt-install-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const LIBRARY: &str = "xla_plugins/tiny/tiny.so";

/// The library in the test's wheel: a plugin without functions, too long to arrive in one piece, and hard to compress.
fn library_bytes() -> Vec<u8> {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let noise = || (0..500_000u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 3).to_le_bytes());
    BYTES.get_or_init(|| plugin_bytes().into_iter().chain(noise()).collect()).clone()
}

/// A library with only the function that makes it a plugin.
fn plugin_bytes() -> Vec<u8> {
    let folder = Folder::new();
    let (code, library) = (folder.join("tiny.c"), folder.join("tiny.so"));
    std::fs::write(&code, "void *GetPjrtApi(void) { return 0; }").unwrap();
    let done = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).status();
    assert!(done.unwrap().success());
    std::fs::read(library).unwrap()
}

/// A wheel, as bytes.
fn wheel_bytes() -> Vec<u8> {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(build_wheel).clone()
}

fn build_wheel() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, bytes) in [("xla_plugins/tiny/__init__.py", b"#".to_vec()), (LIBRARY, library_bytes())] {
        zip.start_file(name, options).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::of(bytes)
}

/// The machine of the test's plugin.
const TARGET: PlatformRelease = PlatformRelease { os: "linux", arch: "x86_64" };
const FILE: &str = "tiny_plugin-1.2+3-py3-none-manylinux_2_27_x86_64.whl";
/// The path of its library below the cache.
const INSTALLED: &str = "tiny/1.2+3-x86_64/xla_plugins/tiny/tiny.so";

/// A manifest with one plugin, in a wheel with this hash.
fn manifest_of(sha256: &str) -> Manifest {
    manifest_with(sha256, "")
}

/// The same with additional fields or entries.
fn manifest_with(sha256: &str, more: &str) -> Manifest {
    Manifest::parse(&format!(
        "[[plugin]]\nplatform = 'tiny'\nos = 'linux'\narch = 'x86_64'\nversion = '1.2+3'\nproject = 'tiny-plugin'\n\
         file = '{FILE}'\nsha256 = '{sha256}'\nlibrary = '{LIBRARY}'\n{more}"
    ))
    .unwrap()
}

/// A manifest for a wheel with these bytes.
fn manifest(bytes: &[u8]) -> Manifest {
    manifest_of(&sha256(bytes))
}

/// The only piece of the manifest's plugin.
fn piece(sha256: &str) -> Piece {
    Piece {
        project: "tiny-plugin".to_string(),
        version: "1.2+3".to_string(),
        file: Some(FILE.to_string()),
        sha256: Some(sha256.to_string()),
        ..Piece::default()
    }
}

fn request<'a>(cache_dir: &'a Path, index: &'a str) -> Request<'a> {
    Request {
        name: "tiny",
        cache_dir,
        version: None,
        source: PluginSource::Auto,
        path: None,
        index_url: Some(index),
        force: false,
    }
}

fn carry_out_on(request: &Request<'_>, manifest: &Manifest, machine: &Invented) -> Result<Installed> {
    let plan = Plan::make(request, manifest, machine, TARGET)?;
    carry_out(&plan, request, machine, TARGET, limits(), &mut |_, _| true)
}

fn found(cache: &Path, manifest: &Manifest, machine: &Invented) -> Option<PathBuf> {
    installed_on("tiny", Store::Cache(cache), manifest, machine, TARGET).map(|found| found.library.to_path_buf())
}

/// Limits for tests: short, and without proxies, since the server is on this machine.
fn limits() -> Limits {
    Limits {
        connect: Duration::from_secs(5),
        silence: Duration::from_secs(5),
        pauses: vec![Duration::from_millis(10); 3],
        proxies: false,
    }
}

fn http() -> Http {
    Http::new(&Invented::default(), limits()).unwrap()
}
