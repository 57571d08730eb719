//! The NVIDIA driver: whether it is installed, and its version. Does not initialize CUDA or use a GPU.

use once_cell::sync::OnceCell;
use std::ffi::c_int;
use std::fmt;
use std::path::{Path, PathBuf};

/// A version of CUDA: major and minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The driver of this machine. It has two parts: the library that programs use, and the kernel's module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// The newest CUDA that the library supports; `None` if no library was found.
    pub cuda: Option<Version>,
    /// The module's version, such as `"580.65.06"`, if the system reports it. Containers see the host's module, even
    /// without the library.
    pub module: Option<String>,
}

/// The library's name.
#[cfg(windows)]
pub const LIBRARY: &str = "nvcuda.dll";
#[cfg(not(windows))]
pub const LIBRARY: &str = "libcuda.so.1";

/// The places to search for the driver.
pub struct DriverSearch {
    /// Whether to ask the loader for the library first.
    pub by_name: bool,
    /// Folders that may contain it and are unknown to the loader.
    pub folders: Vec<PathBuf>,
    /// The file with the version of the kernel's module.
    pub module: PathBuf,
}

impl DriverSearch {
    /// All places on this machine.
    pub fn machine() -> DriverSearch {
        // Windows Subsystem for Linux, cloud machines and containers mount it there.
        let folders = ["/usr/lib/wsl/lib", "/usr/lib64-nvidia", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"];
        DriverSearch {
            by_name: true,
            folders: folders.map(PathBuf::from).into(),
            module: "/proc/driver/nvidia/version".into(),
        }
    }

    /// Searches for the driver. The library stays loaded so that a plugin finds it by name.
    pub fn run(&self) -> Driver {
        let module = std::fs::read_to_string(&self.module).ok().and_then(|text| module_version(&text));
        let by_name = self.by_name.then(|| PathBuf::from(LIBRARY));
        let files = self.folders.iter().map(|folder| folder.join(LIBRARY)).filter(|file| file.is_file());
        let cuda = by_name.into_iter().chain(files).find_map(|library| cuda_version(&library));
        Driver { cuda, module }
    }
}

/// The driver of this machine, remembered once it is found.
pub fn driver() -> Driver {
    static FOUND: OnceCell<Driver> = OnceCell::new();
    let found = FOUND.get_or_try_init(|| {
        let driver = DriverSearch::machine().run();
        if driver.cuda.is_some() {
            Ok(driver)
        } else {
            Err(driver)
        }
    });
    found.cloned().unwrap_or_else(|absent| absent)
}

/// The version of CUDA that the driver's library supports.
fn cuda_version(library: &Path) -> Option<Version> {
    // The platform's own calling convention.
    type DriverGetVersion = unsafe extern "system" fn(*mut c_int) -> c_int;
    // SAFETY: loading the driver's library runs its initializers, as in every program that uses the GPU.
    let library = unsafe { libloading::Library::new(library) }.ok()?;
    let mut version = 0;
    // SAFETY: the function has this type in all drivers, and does not need CUDA to be initialized.
    let status = unsafe { library.get::<DriverGetVersion>(b"cuDriverGetVersion\0").ok()?(&mut version) };
    // Keep it loaded, so that a plugin finds it.
    std::mem::forget(library);
    let version = u32::try_from(version).ok().filter(|&version| status == 0 && version >= 1000)?;
    Some(Version(version / 1000, version % 1000 / 10))
}

/// The version in the description of the kernel's module: the first word of the first line that is a version.
fn module_version(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        word.contains('.') && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_version_is_read() {
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\nGCC 12.2.0";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root)\n";
        assert_eq!(module_version(closed).as_deref(), Some("550.54.14"));
        assert_eq!(module_version(open).as_deref(), Some("580.65.06"));
        for nothing in ["", "NVRM version: none\n1.2", "NVRM 12 1..2 .3 v1.2"] {
            assert_eq!(module_version(nothing), None, "{nothing}");
        }
    }
}
