//! NVIDIA's libraries that plugins use, and where to find them. XLA opens each by name when it first needs it.

use crate::find::machine::{list, name};
use pjrt_base::private_fs;
use pjrt_base::sync::Unpoisoned;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A library that plugins for a version of CUDA use.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The name by which plugins open it.
    pub name: &'static str,
    /// The Python package that contains it.
    pub package: &'static str,
    /// The features that need it; `None` if the plugin always needs it.
    pub only_for: Option<&'static str>,
}

const fn needed(name: &'static str, package: &'static str) -> Wanted {
    Wanted { name, package, only_for: None }
}

const fn optional(name: &'static str, package: &'static str, only_for: &'static str) -> Wanted {
    Wanted { name, package, only_for: Some(only_for) }
}

const SEVERAL: &str = "programs on several GPUs";
const MACHINES: &str = "programs on several machines";
const FUSED: &str = "kernels that cuDNN compiles";
const PROFILER: &str = "the profiler";

const CUDA_12: &[Wanted] = &[
    needed("libcudart.so.12", "nvidia-cuda-runtime-cu12"),
    needed("libcublas.so.12", "nvidia-cublas-cu12"),
    needed("libcublasLt.so.12", "nvidia-cublas-cu12"),
    needed("libcudnn.so.9", "nvidia-cudnn-cu12"),
    needed("libcufft.so.11", "nvidia-cufft-cu12"),
    needed("libcusolver.so.11", "nvidia-cusolver-cu12"),
    needed("libcusparse.so.12", "nvidia-cusparse-cu12"),
    needed("libnvJitLink.so.12", "nvidia-nvjitlink-cu12"),
    optional("libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12", FUSED),
    optional("libnccl.so.2", "nvidia-nccl-cu12", SEVERAL),
    optional("libnvshmem_host.so.3", "nvidia-nvshmem-cu12", MACHINES),
    optional("libcupti.so.12", "nvidia-cuda-cupti-cu12", PROFILER),
];

const CUDA_13: &[Wanted] = &[
    needed("libcudart.so.13", "nvidia-cuda-runtime"),
    needed("libcublas.so.13", "nvidia-cublas"),
    needed("libcublasLt.so.13", "nvidia-cublas"),
    needed("libcudnn.so.9", "nvidia-cudnn-cu13"),
    needed("libcufft.so.12", "nvidia-cufft"),
    needed("libcusolver.so.12", "nvidia-cusolver"),
    needed("libcusparse.so.12", "nvidia-cusparse"),
    needed("libnvJitLink.so.13", "nvidia-nvjitlink"),
    optional("libnvrtc.so.13", "nvidia-cuda-nvrtc", FUSED),
    optional("libnccl.so.2", "nvidia-nccl-cu13", SEVERAL),
    optional("libnvshmem_host.so.3", "nvidia-nvshmem-cu13", MACHINES),
    optional("libcupti.so.13", "nvidia-cuda-cupti", PROFILER),
];

/// The libraries for a version of CUDA; empty if the version is unknown.
pub fn wanted(major: u32) -> &'static [Wanted] {
    match major {
        12 => CUDA_12,
        13 => CUDA_13,
        _ => &[],
    }
}

/// The version of CUDA in a library's name.
pub fn major_of(name: &str) -> Option<u32> {
    ["libcudart.so.", "libcublas.so.", "libcublasLt.so."].iter().find_map(|stem| name.strip_prefix(stem)?.parse().ok())
}

/// The oldest driver for a version of CUDA, on Linux.
pub fn oldest_driver(major: u32) -> Option<&'static str> {
    match major {
        12 => Some("525.60"),
        13 => Some("580.65"),
        _ => None,
    }
}

/// Folders of Python packages to search for libraries, besides the plugin's own.
static PACKAGES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Adds folders of Python packages (`site-packages`) whose `nvidia` folder may contain the libraries.
pub fn look_in(packages: Vec<PathBuf>) {
    *PACKAGES.lock().unpoisoned() = packages;
}

/// The folders that [`look_in`] added, except those in which any user can put files.
pub(super) fn packages() -> Vec<PathBuf> {
    let mut named = PACKAGES.lock().unpoisoned().clone();
    named.retain(|folder| !anyone_writes(folder));
    named
}

/// The toolkits that variables name, and the toolkits of this version in the usual place.
pub(super) fn toolkits(major: Option<u32>) -> Vec<PathBuf> {
    let mut toolkits = named_toolkits();
    toolkits.extend(major.into_iter().flat_map(|major| installed_toolkits(Path::new("/usr/local"), major)));
    toolkits
}

fn named_toolkits() -> Vec<PathBuf> {
    ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).map(PathBuf::from).collect()
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

pub struct LibrarySearch {
    /// The folders, in order.
    pub folders: Vec<PathBuf>,
}

impl LibrarySearch {
    /// For a plugin that searches these folders itself: beside the plugin, as in wheels; in other packages; and in the
    /// system's folders.
    pub fn of(plugin: &Path, runpath: &[String], major: Option<u32>) -> LibrarySearch {
        let mut folders = beside(plugin, runpath);
        folders.extend(packages().iter().flat_map(|packages| of_packages(packages)));
        folders.extend(of_system(major));
        let mut seen = HashSet::new();
        let existing = folders.iter().filter_map(|folder| folder.canonicalize().ok());
        LibrarySearch { folders: existing.filter(|folder| seen.insert(folder.clone())).collect() }
    }

    /// The first file with this name.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file())
    }
}

/// The folders in a plugin's run path, and the folders of packages in the same folder as the plugin.
fn beside(plugin: &Path, runpath: &[String]) -> Vec<PathBuf> {
    let Some(origin) = plugin.parent() else {
        return Vec::new();
    };
    let named = runpath.iter().map(|folder| PathBuf::from(with_origin(folder, origin)));
    let around = origin.ancestors().take(3).flat_map(of_packages);
    named.chain(around).collect()
}

/// Whether any user can put files into a folder, such as `/tmp`.
fn anyone_writes(folder: &Path) -> bool {
    folder.metadata().is_ok_and(|metadata| private_fs::anyone_writes(&metadata))
}

fn with_origin(folder: &str, origin: &Path) -> String {
    let origin = origin.to_string_lossy();
    folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin)
}

/// `nvidia/*/lib` in a folder of packages, unless any user can put files there.
fn of_packages(packages: &Path) -> Vec<PathBuf> {
    let folders = list(&packages.join("nvidia")).into_iter().map(|package| package.join("lib"));
    folders.filter(|folder| !folder.ancestors().take(4).any(anyone_writes)).collect()
}

/// The system's folders with libraries: the toolkit that variables name, the loader's variable, toolkits in the usual
/// place, and the loader's own folders.
fn of_system(major: Option<u32>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = named_toolkits().iter().flat_map(|toolkit| of_toolkit(toolkit)).collect();
    if let Some(path) = variable("LD_LIBRARY_PATH") {
        folders.extend(std::env::split_paths(&path).filter(|folder| folder.is_absolute()));
    }
    folders.extend(of_toolkit(Path::new("/usr/local/cuda")));
    let installed = major.into_iter().flat_map(|major| installed_toolkits(Path::new("/usr/local"), major));
    folders.extend(installed.flat_map(|toolkit| of_toolkit(&toolkit)));
    folders.extend(of_loader(Path::new("/etc/ld.so.conf"), 0));
    let usual = ["lib", "usr/lib", "lib64", "usr/lib64"];
    let arch = std::env::consts::ARCH;
    folders.extend(["lib", "usr/lib"].map(|lib| PathBuf::from(format!("/{lib}/{arch}-linux-gnu"))));
    folders.extend(usual.map(|lib| Path::new("/").join(lib)));
    folders
}

fn of_toolkit(toolkit: &Path) -> [PathBuf; 3] {
    ["lib64", "lib", "extras/CUPTI/lib64"].map(|lib| toolkit.join(lib))
}

/// `cuda-13`, `cuda-13.0` and so on, newest first.
fn installed_toolkits(folder: &Path, major: u32) -> Vec<PathBuf> {
    let of_version = |path: PathBuf| {
        let mut parts = name(&path).strip_prefix("cuda-")?.split('.').map(str::parse::<u32>);
        let is_it = parts.next()?.ok()? == major;
        let minor = parts.next().and_then(|minor| minor.ok()).unwrap_or(0);
        is_it.then_some((minor, path))
    };
    let mut found: Vec<(u32, PathBuf)> = list(folder).into_iter().filter_map(of_version).collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

/// The folders that a configuration file of the loader and its included files list.
fn of_loader(configuration: &Path, depth: usize) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(configuration).unwrap_or_default();
    let mut folders = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
        match line.strip_prefix("include ") {
            // `include` takes a pattern; in practice, `*.conf` in one folder.
            Some(pattern) if depth == 0 => {
                let folder = configuration.parent().unwrap_or(Path::new("/")).join(pattern.trim());
                let files = list(folder.parent().unwrap_or(Path::new("/")));
                for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "conf")) {
                    folders.extend(of_loader(file, depth + 1));
                }
            }
            None if line.starts_with('/') => folders.push(line.into()),
            _ => {}
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_toolkit_of_the_version_comes_first() {
        let folder = std::env::temp_dir().join(format!("pjrt-toolkits-{}", std::process::id()));
        for name in ["cuda-13.0", "cuda-13.10", "cuda-12.9", "cuda-13", "cuda", "cuda-13.x"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        let found = installed_toolkits(&folder, 13);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found[..2], [folder.join("cuda-13.10"), folder.join("cuda-13.x")]);
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn the_loaders_folders_are_read() {
        let folder = std::env::temp_dir().join(format!("pjrt-loader-{}", std::process::id()));
        let included = folder.join("ld.so.conf.d");
        std::fs::create_dir_all(&included).unwrap();
        std::fs::write(folder.join("ld.so.conf"), "include ld.so.conf.d/*.conf\n/last # a comment\n").unwrap();
        std::fs::write(included.join("b.conf"), "# none\n/b\n/c\n").unwrap();
        std::fs::write(included.join("a.conf"), "/a\ninclude more/*.conf\nno folder\n").unwrap();
        std::fs::write(included.join("c.txt"), "/d\n").unwrap();
        let found = of_loader(&folder.join("ld.so.conf"), 0);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ["/a", "/b", "/c", "/last"].map(PathBuf::from));
    }

    #[test]
    fn every_version_has_its_libraries_once() {
        for major in [12, 13] {
            let mut names: Vec<&str> = wanted(major).iter().map(|wanted| wanted.name).collect();
            assert!(names.contains(&format!("libcudart.so.{major}").as_str()) && oldest_driver(major).is_some());
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), wanted(major).len());
        }
        assert!(wanted(11).is_empty());
    }
}
