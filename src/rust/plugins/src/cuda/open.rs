//! Opens the libraries that handlers of custom calls use: the driver's, and cuSOLVER. A plugin has usually loaded both.

use super::driver::{self, driver};
use super::libraries::{self, LibrarySearch, Wanted};
use super::preload::{self, LibraryOrigin};
use libloading::Library;
use pjrt_base::error::{Error, Kind, Result};
use std::path::Path;

/// The versions of CUDA to search for, the preferred one first.
const MAJORS: [u32; 2] = [13, 12];

const SOLVER: &str = "libcusolver.so.";

/// The libraries that cuSOLVER is linked to.
const BESIDE_SOLVER: [&str; 4] = ["libcublas.so.", "libcublasLt.so.", "libcusparse.so.", "libnvJitLink.so."];

/// The driver's library.
///
/// # Errors
/// `LibraryMissing`.
pub fn driver_library() -> Result<Library> {
    // This also searches folders that the loader does not know, and keeps the library loaded.
    driver();
    open(driver::LIBRARY).map_err(|why| {
        let message = format!("The library '{}' of the NVIDIA driver cannot be loaded.", driver::LIBRARY);
        Error::new(Kind::LibraryMissing, message).hint(why).hint("Install the NVIDIA driver.")
    })
}

/// cuSOLVER: the one in this process, or else the first on this machine.
///
/// # Errors
/// `LibraryMissing`.
pub fn solver_library() -> Result<Library> {
    solver_of(|major| LibrarySearch::of(Path::new(""), &[], Some(major)))
}

fn solver_of(search: impl Fn(u32) -> LibrarySearch) -> Result<Library> {
    let solvers = MAJORS.iter().filter_map(|&major| {
        let solver = libraries::wanted(major).iter().find(|wanted| wanted.name.starts_with(SOLVER))?;
        Some((major, solver))
    });
    let solvers: Vec<(u32, &Wanted)> = solvers.collect();
    let loaded = solvers.iter().find(|(_, solver)| preload::is_loaded(solver.name));
    let mut tried = Vec::new();
    for (major, solver) in loaded.into_iter().chain(&solvers) {
        match load(*major, solver, &search) {
            Ok(library) => return Ok(library),
            Err(why) => tried.push(why),
        }
    }
    Err(missing(&solvers, tried))
}

/// Loads cuSOLVER after the libraries that it is linked to.
fn load(
    major: u32,
    solver: &'static Wanted,
    search: impl Fn(u32) -> LibrarySearch,
) -> std::result::Result<Library, String> {
    if !preload::is_loaded(solver.name) {
        let needed =
            libraries::wanted(major).iter().filter(|wanted| BESIDE_SOLVER.iter().any(|it| wanted.name.starts_with(it)));
        let found = preload::find(std::iter::once(solver).chain(needed), &search(major));
        ensure!(found[0].place != LibraryOrigin::Missing, format!("'{}' was not found.", solver.name));
        if let Some((_, why)) = preload::load(&found).into_iter().next() {
            return Err(why);
        }
    }
    open(solver.name)
}

fn open(name: &str) -> std::result::Result<Library, String> {
    // SAFETY: loading runs the library's initializers, as when a plugin opens it.
    unsafe { Library::new(name) }.map_err(|error| error.to_string())
}

fn missing(solvers: &[(u32, &Wanted)], tried: Vec<String>) -> Error {
    let names: Vec<String> = solvers.iter().map(|(major, it)| format!("'{}' of CUDA {major}", it.name)).collect();
    let packages: Vec<&str> = solvers.iter().map(|(_, it)| it.package).collect();
    let message = format!("NVIDIA's library cuSOLVER cannot be loaded: {}.", names.join(" or "));
    tried.into_iter().fold(Error::new(Kind::LibraryMissing, message), Error::hint).hint(format!(
        "Install it with the CUDA toolkit or pip (python3 -m pip install {}), with the version of CUDA that the plugin uses.",
        packages.join(", or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_cusolver_an_error_names_the_library_and_what_to_do() {
        if preload::is_loaded("libcusolver.so.12") || preload::is_loaded("libcusolver.so.11") {
            return;
        }
        let error = solver_of(|_| LibrarySearch { folders: Vec::new() }).unwrap_err();
        assert_eq!(error.kind(), Kind::LibraryMissing);
        for part in ["'libcusolver.so.12' of CUDA 13", "'libcusolver.so.11' of CUDA 12"] {
            assert!(error.message().contains(part), "{error}");
        }
        assert!(error.hints().iter().any(|hint| hint.contains("pip install nvidia-cusolver")), "{error}");
    }

    #[test]
    fn a_damaged_cusolver_is_an_error() {
        let folder = std::env::temp_dir().join(format!("pjrt-solver-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("libcusolver.so.12"), "not a library").unwrap();
        let outcome = solver_of(|_| LibrarySearch { folders: vec![folder.clone()] });
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(outcome.unwrap_err().kind(), Kind::LibraryMissing);
    }
}
