//! Tests of the installation, and what they share: an invented machine, a small wheel, and a server on this machine's
//! loopback. None needs the internet, pip, or a variable of the real environment.

mod fetching;
mod finding;
mod installing;
mod server;

use super::http::{Http, Limits};
use super::index::Machine;
use super::verify::Sha256;
use super::watch::Watch;
use super::Wheel;
use crate::error::Result;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// A machine with nothing but what a test gives it.
#[derive(Default)]
struct Invented {
    variables: HashMap<&'static str, &'static str>,
    files: HashMap<&'static str, &'static str>,
    pip: Option<&'static str>,
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
}

/// A new folder, gone at the end of the test.
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

/// What the library in the test's wheel holds: too long to arrive in one piece, and hard to compress.
fn library_bytes() -> Vec<u8> {
    (0..500_000u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 3).to_le_bytes()).collect()
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
    let mut hash = Sha256::new();
    hash.update(bytes);
    hash.finish()
}

/// The manifest's line for a wheel of these bytes.
fn manifest(bytes: &[u8]) -> Wheel {
    Wheel {
        platform: "tiny",
        os: "linux",
        arch: "x86_64",
        project: "tiny-plugin",
        version: "1.2+3",
        file: "tiny_plugin-1.2+3-py3-none-manylinux_2_27_x86_64.whl",
        member: LIBRARY,
        sha256: sha256(bytes).leak(),
    }
}

/// Limits for tests: impatient, and without proxies, since the server is on this machine.
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
