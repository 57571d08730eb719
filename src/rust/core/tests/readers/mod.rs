//! The readers of files and messages that others may have made, as functions of bytes. The fuzz targets in `fuzz/` call them
//! with bytes that they make up, `tests/seeds.rs` with those that they kept. A reader may refuse bytes, but must not panic,
//! take long, use much memory, or blame itself.

mod archives;
mod programs;

use archives::{mend_tar, mend_zip};
use pjrt_base::container;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_core::executable::serialized::Serialized;
use pjrt_core::numpy::ArrayFile;
use pjrt_core::safetensors::Model;
use pjrt_core::stored::contained;
use pjrt_core::stored::{Form, Stored};
use pjrt_data::dtype::DType;
use pjrt_plugins::install::{self, ArchiveLimits, Manifest};
use pjrt_plugins::library;
use pjrt_program::profile;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads bytes, and panics only if the code that it calls has a bug.
pub type Reader = fn(&[u8]);

/// Every reader, by the name of its fuzz target and its folder of seeds.
pub const READERS: [(&str, Reader); 13] = [
    ("mlir", programs::mlir),
    ("bytecode", programs::bytecode),
    ("hlo", programs::hlo),
    ("jax", programs::jax),
    ("dimensions", programs::dimensions),
    ("pytorch", programs::pytorch),
    ("profile", profile),
    ("safetensors", safetensors),
    ("numpy", numpy),
    ("executable", executable),
    ("archive", archive),
    ("page", page),
    ("library", library),
];

/// Calls a reader by name.
///
/// # Panics
/// If there is no such reader, and if it has a bug.
pub fn read(name: &str, bytes: &[u8]) {
    let (_, reader) = READERS.iter().find(|(known, _)| *known == name).expect("a reader");
    reader(bytes);
}

/// What a reader found; `None` if it refused the bytes. Bytes must not cause an internal error.
fn sound<T>(result: Result<T>) -> Option<T> {
    let blame = |error: &Error| assert!(error.kind() != Kind::Internal, "{error}");
    result.inspect_err(blame).ok()
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pjrt-readers-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reads the elements of an array in a file.
fn elements(stored: &Stored<'_>) {
    let mut bytes = vec![0; if matches!(stored.form, Form::Packed) { stored.bytes } else { stored.spec.bytes() }];
    match stored.form {
        Form::Encoded(code) => drop(sound(code.decode(&mut bytes))),
        _ => drop(sound(stored.file.read(stored.start, &mut bytes))),
    }
}

/// Results of a device's profiler, an `XSpace`.
fn profile(bytes: &[u8]) {
    if let Some(found) = profile::read(bytes, 1_700_000_000_000_000_000) {
        for event in found.lanes.iter().flat_map(|lane| &lane.events) {
            assert!(event.start <= event.end && !event.name.contains('\0'));
        }
    }
}

/// A safetensors file, or an index: the JSON file of a model in several files.
fn safetensors(bytes: &[u8]) {
    let folder = Folder::new();
    let is_index = bytes.starts_with(b"{");
    let path = folder.file(if is_index { "model.safetensors.index.json" } else { "model.safetensors" }, bytes);
    let Some(model) = sound(Model::open(&path)) else { return };
    for tensor in 0..model.len() {
        let name = model.file_name(tensor);
        assert!(!is_index || !Path::new(name).is_absolute() && !name.split('/').any(|part| part == ".."));
        if let Some(tensor) = sound(model.tensor(tensor)) {
            sound(tensor.spec());
        }
        for stored in sound(model.stored(&[tensor])).iter().flatten() {
            elements(stored);
        }
    }
}

/// A file of NumPy: one array, or an archive, whose checksums are mended.
fn numpy(bytes: &[u8]) {
    let folder = Folder::new();
    let mut bytes = bytes.to_vec();
    mend_zip(&mut bytes);
    let Some(file) = sound(ArrayFile::open(&folder.file("arrays", &bytes))) else { return };
    for array in 0..file.names().count() {
        for dtype in [None, Some(DType::BF16)] {
            if let Some(array) = sound(file.array(array, dtype)) {
                elements(&array.stored(true));
            }
        }
    }
}

/// A saved executable, buffer or program, whose checksum is mended.
fn executable(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 48 {
        container::seal(&mut bytes);
    }
    if let Some(found) = sound(Serialized::read(&bytes)) {
        let target = &found.header.target;
        assert!(target.differences(target).is_empty());
    }
    sound(contained::read(&bytes));
}

/// A wheel, another zip archive, or a compressed tar archive, with mended checksums. A tar archive comes uncompressed, so that
/// changes reach its content.
fn archive(bytes: &[u8]) {
    const LIMITS: ArchiveLimits = ArchiveLimits { file: 1 << 20, all: 2 << 20, files: 20 };
    let folder = Folder::new();
    let bytes = match bytes {
        [b'P', b'K', ..] => {
            let mut bytes = bytes.to_vec();
            mend_zip(&mut bytes);
            bytes
        }
        [0x1f, 0x8b, ..] => bytes.to_vec(),
        tar => mend_tar(tar),
    };
    let (from, to) = (folder.file("archive", &bytes), folder.0.join("to"));
    for members in [&[][..], &["lib/plugin.so".to_owned()]] {
        fs::create_dir(&to).unwrap();
        let written = sound(install::extract(LIMITS, &from, members, &to, &mut |_, _| true));
        assert!(written.is_none_or(|bytes| bytes <= LIMITS.all));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "something was written elsewhere");
        fs::remove_dir_all(&to).unwrap();
    }
}

/// A page of a package index, as HTML or JSON, or a list of plugins.
fn page(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let url = "https://index.test/simple/plugin/".parse().expect("a URL");
    for is_json in [true, false] {
        for link in install::links(&text, is_json, &url) {
            assert!(link.sha256.is_none_or(|sha256| !sha256.contains(' ')));
            install::redacted(link.url.as_str());
        }
    }
    if let Some(manifest) = sound(Manifest::parse(&text)) {
        for (name, _) in manifest.fetchable() {
            manifest.platform(&name);
        }
    }
}

/// A shared library of any system. Only its tables are read.
fn library(bytes: &[u8]) {
    for (system, processor) in [("Linux", "x86_64"), ("macOS", "aarch64"), ("Windows", "x86_64")] {
        sound(library::inspect_for(system, processor, bytes));
    }
}
