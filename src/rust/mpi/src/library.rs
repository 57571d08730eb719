//! The MPI in use: found, loaded once, and its ABI recognized.

use crate::abi::{self, Constants, Pointer};
use crate::calls::Calls;
use crate::communicator::{Communicator, Mpi};
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::{bail, ensure};
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// The ABI of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    OpenMpi,
    Mpich,
    /// The standard ABI of MPI 5.
    Standard,
}

const OPEN_MPI: [&str; 3] = ["libmpi.so.40", "libmpi.so.80", "libmpi.40.dylib"];
const MPICH: [&str; 5] = ["libmpich.so.12", "libmpi.so.12", "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.12.dylib"];
const PLAIN: [&str; 2] = ["libmpi.so", "libmpi.dylib"];

const UNSUPPORTED: &str = "MPI is not supported on this system.";

/// The number of processes that the launcher reports, and whose launcher it is.
fn launcher() -> Option<(Family, usize)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    number("OMPI_COMM_WORLD_SIZE")
        .map(|size| (Family::OpenMpi, size))
        .or_else(|| number("PMI_SIZE").map(|size| (Family::Mpich, size)))
}

/// Loads the library that is named; or the one that is in the process already, the launcher's, or a usual one.
///
/// # Errors
/// `LibraryMissing`, with what was tried; on systems other than Unix, always.
pub(crate) fn open(named: Option<&Path>) -> Result<(Box<dyn Communicator>, PathBuf)> {
    ensure!(cfg!(unix), LibraryMissing, "{UNSUPPORTED}");
    let candidates: Vec<PathBuf> = match loaded().or_else(|| named.map(Path::to_owned)) {
        Some(file) => vec![file],
        None => {
            let (first, second): (&[&str], &[&str]) = match launcher() {
                Some((Family::Mpich | Family::Standard, _)) => (&MPICH, &OPEN_MPI),
                _ => (&OPEN_MPI, &MPICH),
            };
            first.iter().chain(second).chain(&PLAIN).map(PathBuf::from).collect()
        }
    };
    let mut refused = Vec::new();
    for file in candidates {
        match open_file(&file) {
            Ok(mpi) => return Ok((mpi, file)),
            Err(reason) => refused.push(format!("'{}': {reason}", file.display())),
        }
    }
    let error = Error::new(Kind::LibraryMissing, "No MPI could be loaded.")
        .hint("Install Open MPI or MPICH: on Debian and Ubuntu the packages openmpi-bin, or mpich.")
        .hint("Name the library's file in the environment variable PJRT_MPI if it is in an unusual place.");
    Err(refused.into_iter().fold(error, Error::hint))
}

/// The MPI that is in this process already, for example by another R package.
fn loaded() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let files = maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    let is_mpi = |file: &&Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        ["libmpi.so", "libmpich.so", "libmpi_abi.so"].iter().any(|start| name.starts_with(start))
    };
    files.filter(is_mpi).map(Path::to_owned).next()
}

#[cfg(unix)]
fn load(file: &Path) -> std::result::Result<libloading::Library, String> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // Open MPI's own plugins look for its symbols among the process's symbols.
    // SAFETY: loading an MPI asks nothing of its user.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) };
    library.map(Into::into).map_err(|error| error.to_string())
}

#[cfg(not(unix))]
fn load(_: &Path) -> std::result::Result<libloading::Library, String> {
    Err(UNSUPPORTED.into())
}

fn open_file(file: &Path) -> std::result::Result<Box<dyn Communicator>, String> {
    // No MPI survives being unloaded.
    let library = Box::leak(Box::new(load(file)?));
    let find = |name: &str| {
        // SAFETY: the symbol is only kept as an address.
        let symbol = unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.ok()?;
        Some(*symbol as *mut c_void)
    };
    let version = version_of(&find).ok_or("is not an MPI: it has no `MPI_Get_library_version`.")?;
    let family = family(&find, &version)?;
    // SAFETY: handles are pointers in Open MPI and in the standard ABI, and integers in MPICH and its relatives.
    unsafe {
        match family {
            Family::OpenMpi => {
                let constants = abi::open_mpi(find).ok_or("lacks symbols of Open MPI.")?;
                boxed::<Pointer>(find, constants, family, version)
            }
            Family::Mpich => boxed::<c_int>(find, abi::MPICH, family, version),
            Family::Standard => boxed::<Pointer>(find, abi::STANDARD, family, version),
        }
    }
}

/// # Safety
/// The library's handles must be `H`.
unsafe fn boxed<H: abi::Handle + Send>(
    find: impl Fn(&str) -> Option<*mut c_void>,
    constants: Constants<H>,
    family: Family,
    version: String,
) -> std::result::Result<Box<dyn Communicator>, String> {
    let missing = |name: &str| format!("has no `{name}`: MPI 3.0 or later is needed.");
    Ok(Box::new(Mpi::new(Calls::load(find).map_err(missing)?, constants, family, version)))
}

/// Which ABI a library has, by its symbols and its version.
fn family(find: &dyn Fn(&str) -> Option<*mut c_void>, version: &str) -> std::result::Result<Family, String> {
    if find("ompi_mpi_comm_world").is_some() {
        return Ok(Family::OpenMpi);
    }
    if let Some(get) = find("MPI_Abi_get_version") {
        // SAFETY: the standard says that this is its type, and that it may be called at any time.
        let get: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int = unsafe { std::mem::transmute(get) };
        let (mut major, mut minor) = (-1, -1);
        // SAFETY: it writes two integers.
        if unsafe { get(&mut major, &mut minor) } == 0 && major >= 1 {
            return Ok(Family::Standard);
        }
    }
    let relatives = ["MPICH", "Intel(", "MVAPICH", "CRAY MPICH", "ParaStation MPI"];
    if relatives.iter().any(|name| version.trim_start().starts_with(name)) {
        return Ok(Family::Mpich);
    }
    let first = version.lines().next().unwrap_or_default();
    Err(format!("is neither Open MPI nor MPICH, and lacks the standard ABI of MPI 5. It says: {first}"))
}

/// The text in which the library names its version. This may be asked before MPI is initialized.
fn version_of(find: &dyn Fn(&str) -> Option<*mut c_void>) -> Option<String> {
    let get = find("MPI_Get_library_version")?;
    // SAFETY: this is its type in every ABI.
    let get: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int = unsafe { std::mem::transmute(get) };
    let (mut text, mut length) = (vec![0u8; 16 << 10], 0);
    // SAFETY: no ABI's longest text is longer.
    if unsafe { get(text.as_mut_ptr().cast(), &mut length) } != 0 {
        return None;
    }
    text.truncate(usize::try_from(length).unwrap_or(0));
    Some(String::from_utf8_lossy(&text).trim_end_matches('\0').trim().to_owned())
}

/// Checks that the launcher and the library belong together.
///
/// # Errors
/// `LibraryMissing` if the launcher started several processes and the library sees one.
pub(crate) fn check_launcher(version: &str, size: usize) -> Result<()> {
    match launcher() {
        Some((launched_by, expected)) if expected > 1 && size == 1 => {
            let name = |family| if family == Family::OpenMpi { "Open MPI" } else { "MPICH" };
            bail!(
                LibraryMissing,
                "{expected} processes were started by the launcher of {}, but the library in use does not know them: {}",
                name(launched_by),
                version.lines().next().unwrap_or_default()
            )
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_are_refused_with_advice() {
        for file in ["/nowhere/libmpi.so", "libm.so.6"] {
            let Err(reason) = open_file(Path::new(file)) else { panic!("loaded") };
            assert!(!reason.is_empty());
        }
    }

    #[cfg(not(unix))]
    #[test]
    fn only_unix_is_supported() {
        let Err(error) = open(None) else { panic!("loaded") };
        assert_eq!((error.kind(), error.message()), (Kind::LibraryMissing, UNSUPPORTED));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_mpi_is_refused() {
        assert!(open_file(Path::new("libm.so.6")).err().unwrap().contains("not an MPI"));
    }

    #[test]
    fn an_unknown_abi_is_refused() {
        let nothing = |_: &str| None;
        assert_eq!(family(&nothing, "MPICH Version:\t4.0.2"), Ok(Family::Mpich));
        assert!(family(&nothing, "HP MPI 2.3").unwrap_err().contains("HP MPI 2.3"));
    }
}
