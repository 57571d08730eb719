//! The LAPACK in use: found among candidates, loaded once, its routines looked up by name.

use crate::routine::{Address, Routine};
use crate::scalar::Scalar;
use pjrt_base::ensure;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::process;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// The system's LAPACK, where the list of candidates is empty.
#[cfg(target_os = "macos")]
const USUAL: &[&str] = &["/System/Library/Frameworks/Accelerate.framework/Accelerate"];
#[cfg(windows)]
const USUAL: &[&str] = &["Rlapack.dll", "Rblas.dll", "libopenblas.dll"];
#[cfg(not(any(target_os = "macos", windows)))]
const USUAL: &[&str] = &["liblapack.so.3", "libblas.so.3", "libopenblas.so.0", "liblapack.so", "libopenblas.so"];

static CANDIDATES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static IN_USE: OnceLock<Library> = OnceLock::new();

/// A loaded LAPACK. It is never unloaded.
pub struct Library {
    candidates: Vec<PathBuf>,
    /// The files in use, as they were named.
    pub files: Vec<PathBuf>,
    routines: [[Option<Address>; 4]; Routine::COUNT],
}

/// Names the files to load LAPACK from, the preferred one first; BLAS may be another file of the list. An empty list
/// means the system's LAPACK. Call it before the first operation; the same list again is free.
///
/// # Errors
/// Another list, when a library is in use already.
pub fn set_libraries(candidates: Vec<PathBuf>) -> Result<()> {
    if let Some(library) = IN_USE.get() {
        let is_same = library.candidates == candidates;
        ensure!(is_same, InvalidInput, "LAPACK is in use already, loaded from {}.", library.names());
        return Ok(());
    }
    let Some(mut list) = process::lock(&CANDIDATES) else { return Err(process::forked()) };
    *list = candidates;
    Ok(())
}

/// The LAPACK in use, which the first call loads.
///
/// # Errors
/// No candidate is a usable LAPACK. The message lists what was tried and why it was refused.
pub fn library() -> Result<&'static Library> {
    if let Some(library) = IN_USE.get() {
        return Ok(library);
    }
    let Some(list) = process::lock(&CANDIDATES) else { return Err(process::forked()) };
    // another thread may have loaded it meanwhile
    if let Some(library) = IN_USE.get() {
        return Ok(library);
    }
    let library = Library::open(&list, &|_| false)?;
    Ok(IN_USE.get_or_init(|| library))
}

impl Library {
    /// Loads candidates until the routines of double precision are found, without the routines that are hidden.
    pub(crate) fn open(candidates: &[PathBuf], is_hidden: &dyn Fn(&str) -> bool) -> Result<Library> {
        let usual: Vec<PathBuf> = USUAL.iter().map(PathBuf::from).collect();
        let mut library = Library { candidates: candidates.to_vec(), files: vec![], routines: Default::default() };
        let mut refused = Vec::new();
        for file in if candidates.is_empty() { &usual } else { candidates } {
            match open_file(file) {
                Ok(handle) => {
                    if library.add(&handle, is_hidden) {
                        library.files.push(file.clone());
                    } else {
                        refused.push(format!("'{}': has no routine of LAPACK that is needed.", file.display()));
                    }
                    // Libraries with threads of their own do not survive being unloaded.
                    std::mem::forget(handle);
                }
                Err(reason) => refused.push(format!("'{}': {reason}", file.display())),
            }
            if library.is_enough() {
                return Ok(library);
            }
        }
        let message = if library.files.is_empty() {
            "No LAPACK could be loaded.".to_owned()
        } else {
            format!("LAPACK or BLAS is incomplete in {}.", library.names())
        };
        Err(refused.into_iter().fold(Error::new(Kind::LibraryMissing, message), Error::hint))
    }

    /// The address of a routine for a type, if the library has it.
    pub(crate) fn find<T: Scalar>(&self, routine: Routine) -> Option<Address> {
        self.routines[routine as usize][T::KIND as usize]
    }

    pub(crate) fn names(&self) -> String {
        self.files.iter().map(|file| format!("'{}'", file.display())).collect::<Vec<_>>().join(", ")
    }

    /// Looks up what is still missing. Returns whether something was found.
    fn add(&mut self, handle: &libloading::Library, is_hidden: &dyn Fn(&str) -> bool) -> bool {
        let mut is_used = false;
        for routine in Routine::ALL {
            for (place, name) in self.routines[*routine as usize].iter_mut().zip(routine.names()) {
                if place.is_none() && !name.is_empty() && !is_hidden(name) {
                    *place = look_up(handle, name);
                    is_used |= place.is_some();
                }
            }
        }
        is_used
    }

    fn is_enough(&self) -> bool {
        [Routine::Getrf, Routine::Trsm].into_iter().all(|routine| self.find::<f64>(routine).is_some())
    }
}

fn open_file(file: &Path) -> std::result::Result<libloading::Library, String> {
    // SAFETY: LAPACK's initialization asks nothing of its user.
    let handle = unsafe { libloading::Library::new(file) }.map_err(|error| error.to_string())?;
    if has_wide_integers(&handle, file) {
        std::mem::forget(handle);
        return Err("has integers of 64 bits (ILP64); one with integers of 32 bits (LP64) is needed.".to_owned());
    }
    Ok(handle)
}

/// Fortran compilers add an underscore to names, with few exceptions.
fn look_up(handle: &libloading::Library, name: &str) -> Option<Address> {
    let find = |name: &str| {
        // SAFETY: the symbol is only kept as an address.
        *unsafe { handle.get::<Option<Address>>(name.as_bytes()) }.ok()?
    };
    find(&format!("{name}_")).or_else(|| find(name))
}

/// Whether the library's integers have 64 bits: by asking for its version, or else by the file's name.
fn has_wide_integers(handle: &libloading::Library, file: &Path) -> bool {
    match look_up(handle, "ilaver") {
        // SAFETY: `ilaver` has this type, but for the size of the integers.
        Some(ilaver) => writes_wide_integers(unsafe { std::mem::transmute::<Address, Ilaver>(ilaver) }),
        None => names_wide_integers(file),
    }
}

/// LAPACK's `ilaver`, with room for integers of either size.
type Ilaver = unsafe extern "C" fn(*mut [i32; 2], *mut [i32; 2], *mut [i32; 2]);

fn writes_wide_integers(ilaver: Ilaver) -> bool {
    #[repr(align(8))]
    struct Aligned([i32; 2]);
    // Of each pair, a library with integers of 32 bits writes only the first.
    let mut version = [const { Aligned([-1; 2]) }; 3];
    let [major, minor, patch] = &mut version;
    // SAFETY: it writes three integers, and there is room for either size.
    unsafe { ilaver(&mut major.0, &mut minor.0, &mut patch.0) };
    version.iter().any(|number| number.0[1] != -1)
}

fn names_wide_integers(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default().trim_end_matches('_');
    let is_platform = ["x86_64", "amd64", "arm64", "aarch64", "x64", "win64", "ppc64", "riscv64"]
        .iter()
        .any(|platform| stem.ends_with(platform));
    let is_lp64 = stem.ends_with("lp64") && !stem.ends_with("ilp64");
    stem.contains("ilp64") || (stem.ends_with("64") && !is_platform && !is_lp64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ilp64_library_is_recognized_by_its_name() {
        for name in ["libopenblas64_.so", "/usr/lib/liblapack64.so.3", "libmkl_intel_ilp64.so", "libopenblas_ilp64.dll"]
        {
            assert!(names_wide_integers(Path::new(name)), "{name}");
        }
        for name in ["/usr/lib64/liblapack.so.3", "libmkl_intel_lp64.so", "libopenblas_x64.dll", "Rlapack.dll", ""] {
            assert!(!names_wide_integers(Path::new(name)), "{name}");
        }
    }

    unsafe extern "C" fn narrow(major: *mut [i32; 2], minor: *mut [i32; 2], patch: *mut [i32; 2]) {
        for number in [major, minor, patch] {
            // SAFETY: there is room for more.
            unsafe { number.cast::<i32>().write(3) };
        }
    }

    unsafe extern "C" fn wide(major: *mut [i32; 2], minor: *mut [i32; 2], patch: *mut [i32; 2]) {
        for number in [major, minor, patch] {
            // SAFETY: there is room for as much.
            unsafe { number.cast::<i64>().write(3) };
        }
    }

    #[test]
    fn an_ilp64_library_is_recognized_by_what_it_writes() {
        assert!(!writes_wide_integers(narrow));
        assert!(writes_wide_integers(wide));
    }

    #[test]
    fn the_error_lists_what_was_tried() {
        let files = [PathBuf::from("/nowhere/liblapack.so"), std::env::current_exe().unwrap()];
        let Err(error) = Library::open(&files, &|_| false) else { panic!("loaded") };
        assert_eq!((error.kind(), error.message()), (Kind::LibraryMissing, "No LAPACK could be loaded."));
        assert!(error.hints()[0].contains("/nowhere/liblapack.so"), "{error}");
        assert_eq!(error.hints().len(), 2, "{error}");
    }
}
