//! Plugins: loads each library once per process, and reads its version and attributes. A plugin is never unloaded.

use once_cell::sync::OnceCell;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_base::sync::Unpoisoned;
use pjrt_ffi::api::{call, named_values, Api, PluginValue};
use pjrt_ffi::exception::caught;
use pjrt_ffi::poison::Poison;
use pjrt_handlers::registry;
use pjrt_plugins::cuda;
use pjrt_plugins::library::{self, Library};
use pjrt_program::stablehlo::{Version, Versions};
use pjrt_sys::*;
use std::ffi::{c_void, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, OnceLock};

/// A loaded plugin. One exists per library file and lives until the process ends.
///
/// ```
/// # use pjrt_core::{Plugin, API_VERSION};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// let plugin = Plugin::load(path.as_ref())?;
/// assert_eq!(plugin.api().version().0, API_VERSION.0 as i32);
/// // It is loaded once.
/// assert!(std::ptr::eq(plugin, Plugin::load(path.as_ref())?));
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Plugin {
    api: Api,
    path: PathBuf,
    attributes: Vec<(String, PluginValue)>,
    /// Calls after which it may have registered exit handlers.
    pub(crate) first_client: Once,
    pub(crate) first_executable: Once,
    /// The SHA-256 of the library, in hexadecimal digits.
    pub(crate) hash: OnceCell<String>,
    /// Its compiler's flags at the creation of its first client.
    pub(crate) flags: OnceLock<Vec<String>>,
    /// Why its first client could not be created, if it threw a C++ exception instead of an error.
    pub(crate) absent: OnceLock<Error>,
    /// Whether it reads programs only as portable artifacts. Not known before it refuses a program in another form.
    pub(crate) reads_artifacts_only: OnceLock<bool>,
    /// The environment at that time.
    pub(crate) environment: OnceLock<Arc<Vec<(OsString, OsString)>>>,
}

/// Every plugin loaded so far; the lock is held during loading, so that two threads do not load the same one.
static LOADED: Mutex<Vec<&'static Plugin>> = Mutex::new(Vec::new());

/// Plugins that threw a C++ exception while they were loaded.
static LOST: Mutex<Vec<(PathBuf, &'static Poison)>> = Mutex::new(Vec::new());

impl Plugin {
    /// Loads the plugin library at `path`, or returns the one already loaded from there.
    ///
    /// # Errors
    /// `PluginNotFound` if there is no such file, `PluginInvalid` if it is not a PJRT plugin that this crate can use,
    /// and the plugin's own error if its initialization fails.
    pub fn load(path: &Path) -> Result<&'static Plugin> {
        let file = path.canonicalize().map_err(|error| {
            Error::new(Kind::PluginNotFound, format!("There is no plugin at '{}': {error}.", path.display()))
        })?;
        let mut loaded = LOADED.lock().unpoisoned();
        if let Some(plugin) = loaded.iter().find(|p| p.path == file) {
            return Ok(plugin);
        }
        if let Some((_, poison)) = LOST.lock().unpoisoned().iter().find(|(path, _)| *path == file) {
            poison.check().map_err(|error| error.about(&file))?;
        }
        // Checked before its code runs, and before the system maps a truncated file, which would end the process.
        let library = library::inspect(&file)?;
        if !library.is_plugin {
            let path = file.display();
            let message = format!("'{path}' is a shared library, but not a PJRT plugin: it has no GetPjrtApi().");
            return Err(Error::new(Kind::PluginInvalid, message)
                .hint("Give the path of the plugin itself; in Python packages it is in a folder jax_plugins/*."));
        }
        cuda::before_load(&file);
        let api = open(&file, &library).map_err(|error| error.about(&file))?;
        let attributes = set_up(&api).map_err(|error| {
            if api.poison().is_noted() {
                LOST.lock().unpoisoned().push((file.clone(), api.poison()));
            }
            error.about(&file)
        })?;
        let plugin: &'static Plugin = Box::leak(Box::new(Plugin {
            api,
            path: file,
            attributes,
            first_client: Once::new(),
            first_executable: Once::new(),
            hash: OnceCell::new(),
            flags: OnceLock::new(),
            absent: OnceLock::new(),
            reads_artifacts_only: OnceLock::new(),
            environment: OnceLock::new(),
        }));
        loaded.push(plugin);
        registry::add_plugin(&plugin.api);
        Ok(plugin)
    }

    pub(crate) fn loaded() -> Vec<&'static Plugin> {
        LOADED.lock().unpoisoned().clone()
    }

    pub fn api(&self) -> &Api {
        &self.api
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the plugin at `path` did not throw a C++ exception in this process.
    ///
    /// # Errors
    /// `PluginPoisoned`.
    pub fn check_sound(path: &Path) -> Result<()> {
        let Ok(file) = path.canonicalize() else { return Ok(()) };
        let loaded = LOADED.lock().unpoisoned();
        let loaded = loaded.iter().map(|plugin| (&plugin.path, plugin.api.poison()));
        let lost = LOST.lock().unpoisoned();
        let lost = lost.iter().map(|(path, poison)| (path, *poison));
        loaded.chain(lost).filter(|(path, _)| **path == file).try_for_each(|(_, poison)| poison.check())
    }

    /// The plugin's attributes, e.g. `stablehlo_current_version`.
    pub fn attributes(&self) -> &[(String, PluginValue)] {
        &self.attributes
    }

    /// Whether its first client could not be created, so that it drives nothing in this process.
    pub fn is_absent(&self) -> bool {
        self.absent.get().is_some()
    }

    /// The versions of StableHLO that the plugin reads, if it lists them.
    pub fn stablehlo_versions(&self) -> Option<Versions> {
        let version = |name: &str| match self.attributes().iter().find(|(key, _)| key == name)? {
            (_, PluginValue::IntList(numbers)) => <[i64; 3]>::try_from(numbers.as_slice()).ok().map(Version),
            _ => None,
        };
        let (minimum, current) = (version("stablehlo_minimum_version")?, version("stablehlo_current_version")?);
        Some(Versions { minimum, current })
    }

    /// The attributes for CUDA plugins.
    pub(crate) fn for_cuda(&self) -> cuda::Loaded<'_> {
        let cuda_version = self.attributes().iter().find_map(|(name, value)| match value {
            PluginValue::Int(version) if name == "cuda_version" => Some(*version),
            _ => None,
        });
        cuda::Loaded { path: self.path(), cuda_version }
    }
}

/// Initializes the plugin, and reads its attributes.
fn set_up(api: &Api) -> Result<Vec<(String, PluginValue)>> {
    where_there(call!(api, PJRT_Plugin_Initialize {}))?;
    let found = where_there(call!(api, PJRT_Plugin_Attributes {}))?;
    // SAFETY: the plugin has just returned this array, which lives as long as the process.
    Ok(found.map_or_else(Vec::new, |found| unsafe { named_values(found.attributes, found.num_attributes) }))
}

/// The result of a call; the default if the plugin lacks an optional call.
pub(crate) fn where_there<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(error) if error.is_unsupported() => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Loads the library and checks its function table.
fn open(file: &Path, library: &Library) -> Result<Api> {
    // SAFETY: loading runs the library's initializers; that is what the user asked for by naming this plugin.
    let loaded = unsafe { libloading::Library::new(file) }.map_err(|error| load_error(&error.to_string(), library))?;
    // It has no argument, and ignores the one that comes with the guard against exceptions.
    type GetPjrtApi = unsafe extern "C" fn(*mut c_void) -> *mut PJRT_Api;
    // SAFETY: the symbol has this type in every plugin; it is called once and its table outlives the process' use.
    let function = match unsafe { loaded.get::<GetPjrtApi>(b"GetPjrtApi\0") } {
        Ok(function) => *function,
        Err(error) => return Err(load_error(&error.to_string(), library)),
    };
    // Unloading a plugin crashes at exit: its threads and static objects live on.
    std::mem::forget(loaded);
    // SAFETY: as above.
    let raw = unsafe { caught(function, std::ptr::null_mut()) }.map_err(|what| {
        Error::new(Kind::PluginInvalid, format!("The plugin's GetPjrtApi() threw a C++ exception, {what}."))
    })?;
    // SAFETY: the library is never unloaded, so the table stays.
    unsafe { Api::new(raw) }
}

/// An error of the system's loader, in plain words if it is a known one.
#[cold]
fn load_error(said: &str, library: &Library) -> Error {
    if let Some(name) = missing_library(said) {
        let by = if library.needed.iter().any(|needed| needed == name) { "" } else { " indirectly" };
        let message = format!("The library '{name}', which the plugin needs{by}, was not found.");
        return Error::new(Kind::LibraryMissing, message).hint(advice(name));
    }
    let error = Error::new(Kind::PluginInvalid, format!("The library cannot be loaded: {said}."));
    if said.contains("GLIBC") {
        return error
            .hint("The plugin was built for a newer system than this: use an older plugin, or update the system.");
    }
    error.hint("The libraries that it needs, or libraries loaded before it, may have the wrong version.")
}

/// The name is Intel's: other libraries for MPI have other numbers.
const INTEL_MPI: &str = "libmpi.so.12";

/// Advice for a missing library: part of a vendor's system, or any other.
fn advice(name: &str) -> Reason {
    let is_of = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if is_of(&["roc", "hip", "rccl", "hsa", "MIOpen", "amd"]) {
        Reason::LibraryOfRocm
    } else if is_of(&["sycl", "ccl", "mkl", "ze_loader", "OpenCL", INTEL_MPI]) {
        Reason::LibraryOfOneApi
    } else {
        Reason::LibraryMissing
    }
}

/// The library that the loader did not find, from the messages of glibc, musl or macOS.
fn missing_library(said: &str) -> Option<&str> {
    if let Some((name, _)) = said.split_once(": cannot open shared object file: No such file") {
        return Some(name);
    }
    let starts = ["Error loading shared library ", "Library not loaded: "];
    let (_, rest) = starts.iter().find_map(|start| said.split_once(start))?;
    rest.split([':', '\n']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_that_is_missing_is_named() {
        let glibc = "libcudnn.so.9: cannot open shared object file: No such file or directory";
        let musl = "Error loading shared library libcudnn.so.9: No such file or directory (needed by /a/b.so)";
        let macos = "dlopen(a.dylib, 0x0005): Library not loaded: libcudnn.so.9\n  Referenced from: a.dylib";
        for said in [glibc, musl, macos] {
            assert_eq!(missing_library(said), Some("libcudnn.so.9"), "{said}");
        }
        assert_eq!(missing_library("undefined symbol: f"), None);
        let library = Library { needed: vec!["libcudnn.so.9".into()], ..Library::default() };
        assert!(load_error(glibc, &library).message().ends_with("which the plugin needs, was not found."));
        assert!(load_error(glibc, &Library::default())
            .message()
            .ends_with("which the plugin needs indirectly, was not found."));
        let of = |name| load_error(&format!("{name}: cannot open shared object file: No such file"), &library);
        assert_eq!(of("librocprofiler-sdk.so.1").kind(), Kind::LibraryMissing);
        assert_eq!(of("librccl.so.1").hints(), [Reason::LibraryOfRocm.into()]);
        assert_eq!(of("libccl.so.1").hints(), [Reason::LibraryOfOneApi.into()]);
        assert_eq!(of("libmpi.so.12").hints(), [Reason::LibraryOfOneApi.into()]);
        assert_eq!(of("libmpi.so.40").hints(), [Reason::LibraryMissing.into()]);
        assert_eq!(of("libother.so").hints(), [Reason::LibraryMissing.into()]);
        assert!(load_error("version `GLIBC_2.99' not found", &library).hints()[0].contains("newer system"));
    }
}
