//! Detects the CUDA version that a plugin's file was built for, without loading it.

use super::driver::Version;
use super::libraries::{self, Wanted};
use super::Loaded;
use crate::library::{self, Library};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The number of bytes of a file to search for its CUDA version: XLA's constants come first.
const SCAN: u64 = 64 << 20;

/// The file of a CUDA plugin.
#[derive(Debug)]
pub(super) struct CudaTarget {
    /// The major version of CUDA; `None` if unknown.
    pub major: Option<u32>,
    /// The file's declarations.
    pub library: Library,
}

impl CudaTarget {
    /// The CUDA target of the plugin at `path`; `None` if it is not a CUDA plugin, or not a library.
    pub fn of(path: &Path) -> Option<CudaTarget> {
        let library = library::inspect(path).ok()?;
        let written = || {
            let by_folder = library.runpath.iter().find_map(|folder| folder_major(folder));
            by_folder.or_else(|| library.needed.iter().find_map(|name| libraries::major_of(name)))
        };
        let name = named(path);
        let major = match name {
            Name::Cuda(major) => Some(major),
            Name::SomeCuda | Name::Gpu => written().or_else(|| scan(path)),
            Name::Other => written(),
        };
        // The GPU may be from another vendor.
        (name == Name::SomeCuda || major.is_some()).then_some(CudaTarget { major, library })
    }

    /// The same for a loaded plugin: XLA's plugins report the version themselves.
    pub fn of_loaded(plugin: &Loaded) -> Option<CudaTarget> {
        let reported = plugin.cuda_version.and_then(|version| u32::try_from(version / 1000).ok());
        let target = CudaTarget::of(plugin.path);
        if reported.is_none() {
            return target;
        }
        Some(CudaTarget { major: reported, library: target.map(|target| target.library).unwrap_or_default() })
    }

    /// The libraries that it uses, if known.
    pub fn wanted(&self) -> &'static [Wanted] {
        self.major.map_or(&[], libraries::wanted)
    }

    /// The oldest driver that it supports: any with the same major version of CUDA, or a later one.
    pub fn needs(&self) -> Option<Version> {
        self.major.map(|major| Version(major, 0))
    }
}

/// The target according to the names of a plugin's file and folder.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    Cuda(u32),
    SomeCuda,
    Gpu,
    Other,
}

/// From the names of the file and its two innermost folders, such as `xla_cuda13/xla_cuda_plugin.so`.
fn named(path: &Path) -> Name {
    let names: Vec<String> = path.iter().rev().take(3).map(|name| name.to_string_lossy().to_lowercase()).collect();
    let has = |word| names.iter().any(|name| name.contains(word));
    match names.iter().find_map(|name| number(name)) {
        Some(major) => Name::Cuda(major),
        None if has("cuda") => Name::SomeCuda,
        None if has("gpu") || has("nvidia") => Name::Gpu,
        None => Name::Other,
    }
}

/// The version in a name such as `cuda13`: two digits.
fn number(name: &str) -> Option<u32> {
    name.match_indices("cuda").find_map(|(at, word)| {
        let rest = name[at + word.len()..].trim_start_matches(['-', '_']);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        (end == 2).then(|| rest[..end].parse().ok())?
    })
}

/// From a folder in which the plugin looks for libraries: since CUDA 13, wheels have one folder for all.
fn folder_major(folder: &str) -> Option<u32> {
    let inside = folder.split("nvidia/").nth(1)?;
    let first = inside.split('/').next()?;
    match first.strip_prefix("cu").map(str::parse) {
        Some(Ok(major)) => Some(major),
        _ => ["cublas", "cuda_runtime", "cuda_cupti"].contains(&first).then_some(12),
    }
}

/// From text in the file: XLA's platform version, such as `cuda 12090`, or the name of a library.
fn scan(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?.take(SCAN);
    let mut block = Vec::new();
    const BLOCK: u64 = 1 << 20;
    const OVERLAP: usize = 32;
    loop {
        let kept = block.len().saturating_sub(OVERLAP);
        block.drain(..kept);
        if (&mut file).take(BLOCK).read_to_end(&mut block).ok()? == 0 {
            return None;
        }
        if let Some(major) = major_in(&block) {
            return Some(major);
        }
    }
}

/// Text before the version, the number of digits after it, and the divisor for the major version.
const TEXTS: [(&[u8], usize, u32); 3] = [(b"cuda ", 5, 1000), (b"libcublas.so.", 2, 1), (b"libcudart.so.", 2, 1)];

fn major_in(block: &[u8]) -> Option<u32> {
    let starts = block.iter().enumerate().filter(|(_, byte)| matches!(byte, b'c' | b'l'));
    starts.map(|(at, _)| &block[at..]).find_map(|rest| {
        let (word, digits, unit) = TEXTS.iter().find(|(word, ..)| rest.starts_with(word))?;
        let number = std::str::from_utf8(rest.get(word.len()..word.len() + digits)?).ok()?;
        let major = number.parse::<u32>().ok()? / unit;
        (10..100).contains(&major).then_some(major)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_version() {
        for (path, name) in [
            ("/a/jax_plugins/xla_cuda13/xla_cuda_plugin.so", Name::Cuda(13)),
            ("/a/cuda/0.9.0-x86_64/jax_plugins/xla_cuda12/xla_cuda_plugin.so", Name::Cuda(12)),
            ("/a/pjrt-cuda-12/plugin.so", Name::Cuda(12)),
            ("/opt/libpjrt_cuda.so", Name::SomeCuda),
            ("/opt/cuda.so", Name::SomeCuda),
            ("/opt/cuda-1/plugin.so", Name::SomeCuda),
            ("/opt/cuda-2024/plugin.so", Name::SomeCuda),
            ("/opt/pjrt_c_api_gpu_plugin.so", Name::Gpu),
            ("/home/cuda13/a/b/c/plugin.so", Name::Other),
            ("/a/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", Name::Other),
        ] {
            assert_eq!(named(Path::new(path)), name, "{path}");
        }
    }

    #[test]
    fn folders_and_texts_tell_the_version() {
        assert_eq!(folder_major("$ORIGIN/../../nvidia/cu13/lib"), Some(13));
        assert_eq!(folder_major("$ORIGIN/../../nvidia/cuda_cupti/lib"), Some(12));
        assert_eq!(folder_major("$ORIGIN/../../nvidia/nccl/lib"), None);
        assert_eq!(folder_major("/usr/lib"), None);
        assert_eq!(major_in(b"..cuda 13000\0.."), Some(13));
        assert_eq!(major_in(b"..cuda 1x..cuda 12090"), Some(12));
        assert_eq!(major_in(b"..libcublas.so.12\0"), Some(12));
        assert_eq!(major_in(b"..cuda 130"), None);
        assert_eq!(major_in(b"..cuda 00013.."), None);
    }
}
