//! CUDA plugins: finds and loads the driver and the libraries before the plugin searches for them, and explains missing
//! ones. Leaves the environment unchanged.

pub mod driver;
pub mod libraries;
mod open;
mod preload;
mod target;
pub mod tools;

pub use driver::{driver, Driver, Version};
pub use open::{driver_library, solver_library};
pub use preload::LibraryOrigin;

use libraries::{LibrarySearch, Wanted};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use std::path::Path;
use target::CudaTarget;

pub struct Loaded<'a> {
    pub path: &'a Path,
    /// Its attribute with this name, e.g. 13000 for CUDA 13.
    pub cuda_version: Option<i64>,
}

/// Loads the libraries that a CUDA plugin needs while it is loaded: those that it is linked to, and CUDA's runtime.
///
/// Missing libraries are left to the loader: XLA's plugins load without them, and report their attributes.
pub fn before_load(plugin: &Path) {
    let Some(target) = CudaTarget::of(plugin) else {
        return;
    };
    let search = LibrarySearch::of(plugin, &target.library.runpath, target.major);
    let is_wanted = |wanted: &Wanted| {
        wanted.name.starts_with("libcudart.so.") || target.library.needed.iter().any(|name| name == wanted.name)
    };
    preload::load(&preload::find(target.wanted().iter().filter(|wanted| is_wanted(wanted)), &search));
}

/// Whether a plugin is for CUDA.
pub fn is_for_cuda(plugin: &Loaded) -> bool {
    CudaTarget::of_loaded(plugin).is_some()
}

/// Creates a client of the plugin. For a CUDA plugin, first checks the driver and loads the libraries. Explains the
/// plugin's errors.
///
/// # Errors
/// `DriverMissing`, `DriverTooOld`, `LibraryMissing`, and the errors of `create`.
pub fn with_libraries<T>(plugin: &Loaded, create: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(target) = CudaTarget::of_loaded(plugin) else {
        return create();
    };
    check_driver(&driver(), &target)?;
    let search = LibrarySearch::of(plugin.path, &target.library.runpath, target.major);
    let unavailable = load(target.wanted(), &search, target.major)?;
    create().map_err(|error| explained(error, &unavailable))
}

/// Refuses a driver that is too old for the plugin.
fn check_driver(driver: &Driver, target: &CudaTarget) -> Result<()> {
    let Driver { cuda, module } = driver;
    let Some(cuda) = *cuda else { return Err(driver_missing(module.as_deref(), target)) };
    let Some(needs) = target.needs().filter(|needs| cuda < *needs) else {
        return Ok(());
    };
    let version = module.as_ref().map_or(String::new(), |module| format!(" {module}"));
    let mut error = Error::new(
        Kind::DriverTooOld,
        format!("The NVIDIA driver{version} supports CUDA {cuda}, but this plugin needs CUDA {needs}."),
    );
    if let Some(oldest) = libraries::oldest_driver(needs.0) {
        error = error.hint(format!("Update the driver to version {oldest} or newer."));
    }
    if cuda >= Version(12, 0) {
        error = error.hint(Reason::DriverRunsOlder { name: "cuda12".into() });
    }
    Err(error)
}

fn driver_missing(module: Option<&str>, target: &CudaTarget) -> Error {
    if cfg!(target_os = "macos") {
        return Error::new(Kind::DriverMissing, "CUDA is not available on macOS.");
    }
    const CONTAINER: &str = "In a container: start it with access to the GPUs, for example with `--gpus all` and the \
                             NVIDIA container toolkit.";
    let library = driver::LIBRARY;
    if let Some(module) = module {
        let message = format!("The system has the NVIDIA driver {module}, but its library '{library}' was not found.");
        return Error::new(Kind::DriverMissing, message).hint(CONTAINER).hint(Reason::DriverHidden);
    }
    let oldest = target.major.and_then(libraries::oldest_driver);
    let wanted = oldest.map_or(String::new(), |oldest| format!(", version {oldest} or newer"));
    Error::new(
        Kind::DriverMissing,
        format!("There is no NVIDIA driver on this machine: the loader did not find '{library}'."),
    )
    .hint(format!("With an NVIDIA GPU: install its driver{wanted}. The CUDA toolkit is not needed."))
    .hint(CONTAINER)
    .hint("Without a GPU: use another platform, such as \"cpu\".")
}

/// Loads the libraries. Returns the optional ones that are missing.
fn load(wanted: &'static [Wanted], search: &LibrarySearch, major: Option<u32>) -> Result<Vec<&'static Wanted>> {
    // On other systems, the plugin finds its libraries itself.
    if !cfg!(target_os = "linux") {
        return Ok(Vec::new());
    }
    let found = preload::find(wanted, search);
    let missing = found.iter().filter(|library| library.place == LibraryOrigin::Missing);
    let mut unavailable: Vec<(&Wanted, Option<String>)> = missing.map(|library| (library.wanted, None)).collect();
    unavailable.extend(preload::load(&found).into_iter().map(|(wanted, why)| (wanted, Some(why))));
    let (needed, optional): (Vec<_>, Vec<_>) =
        unavailable.into_iter().partition(|(wanted, _)| wanted.only_for.is_none());
    ensure!(needed.is_empty(), libraries_missing(&needed, major));
    Ok(optional.into_iter().map(|(wanted, _)| wanted).collect())
}

fn libraries_missing(missing: &[(&Wanted, Option<String>)], major: Option<u32>) -> Error {
    let names: Vec<String> = missing.iter().map(|(wanted, _)| format!("'{}'", wanted.name)).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(wanted, _)| wanted.package).collect();
    packages.dedup();
    let platform = if major == Some(12) { "cuda12" } else { "cuda" };
    let message = match names.as_slice() {
        [name] => format!("The CUDA plugin needs a library that cannot be loaded: {name}."),
        _ => format!("The CUDA plugin needs libraries that cannot be loaded: {}.", names.join(", ")),
    };
    let reasons = missing.iter().filter_map(|(_, why)| why.clone());
    reasons
        .fold(Error::new(Kind::LibraryMissing, message), Error::hint)
        .hint(Reason::LibrariesInPlugin { names: vec![platform.into()] })
        .hint(format!("Or install the libraries with pip: python3 -m pip install {}", packages.join(" ")))
        .hint(Reason::LibrariesElsewhere)
}

/// Adds possible causes to the plugin's error.
fn explained(error: Error, unavailable: &[&Wanted]) -> Error {
    let mut error = match std::env::var("CUDA_VISIBLE_DEVICES") {
        Ok(shown) => error.hint(format!("CUDA_VISIBLE_DEVICES is '{shown}': the plugin sees no other GPUs.")),
        Err(_) => error.hint("`nvidia-smi` lists the GPUs that the driver sees; the user must be allowed to use them."),
    };
    for wanted in unavailable {
        let purpose = wanted.only_for.unwrap_or("all");
        error = error.hint(format!("'{}' was not found; it is needed for {purpose}.", wanted.name));
    }
    error
}

/// The machine's driver and libraries for a CUDA plugin.
#[derive(Debug)]
pub struct Report {
    pub driver: Driver,
    /// The oldest CUDA version of the driver that the plugin can use, if its file states it.
    pub needs: Option<Version>,
    /// All libraries that the plugin uses, with their places and defects.
    pub libraries: Vec<(&'static Wanted, LibraryOrigin, Option<String>)>,
}

/// The state for the plugin at `plugin`, or of the driver alone. Loads only the driver's library.
pub fn report(plugin: Option<&Path>) -> Report {
    let target = plugin.and_then(|plugin| Some((plugin, CudaTarget::of(plugin)?)));
    let Some((plugin, target)) = target else {
        return Report { driver: driver(), needs: None, libraries: Vec::new() };
    };
    let search = LibrarySearch::of(plugin, &target.library.runpath, target.major);
    let found = preload::find(target.wanted(), &search);
    let libraries = found.into_iter().map(|library| (library.wanted, library.place, library.needs.err())).collect();
    Report { driver: driver(), needs: target.needs(), libraries }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
