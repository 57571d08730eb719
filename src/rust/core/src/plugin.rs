//! Plugins: loading the library once per process, its version, attributes and extensions. A plugin is never unloaded.

use crate::api::{call, named_values, Api, Value};
use crate::cuda;
use crate::error::{Error, Kind, Result};
use pjrt_sys::*;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A loaded plugin. One exists per library file and lives until the process ends.
#[derive(Debug)]
pub struct Plugin {
    api: Api,
    path: PathBuf,
    attributes: Vec<(String, Value)>,
}

/// Every plugin loaded so far; the lock is held while one loads, so that two threads do not load the same.
static LOADED: Mutex<Vec<&'static Plugin>> = Mutex::new(Vec::new());

/// Longest extension chain believed; a longer one is a plugin's mistake.
const MAX_EXTENSIONS: usize = 1000;

impl Plugin {
    /// Loads the plugin library at `path`, or returns the one already loaded from there.
    ///
    /// # Errors
    /// `PluginNotFound` when there is no such file, `PluginInvalid` when it is not a PJRT plugin this crate can drive, and
    /// the plugin's own error when its initialization fails.
    pub fn load(path: &Path) -> Result<&'static Plugin> {
        let file = path.canonicalize().map_err(|error| {
            Error::new(Kind::PluginNotFound, format!("There is no plugin at '{}': {error}.", path.display()))
        })?;
        if !file.is_file() {
            fail!(PluginNotFound, "'{}' is not a file, so it cannot be a plugin.", path.display());
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.iter().find(|p| p.path == file) {
            return Ok(plugin);
        }
        cuda::before_load(&file);
        let api = open(&file)?;
        call!(&api, PJRT_Plugin_Initialize {})?;
        let found = call!(&api, PJRT_Plugin_Attributes {})?;
        // SAFETY: the plugin has just returned this array, which lives as long as the process.
        let attributes = unsafe { named_values(found.attributes, found.num_attributes) };
        let plugin: &'static Plugin = Box::leak(Box::new(Plugin { api, path: file, attributes }));
        loaded.push(plugin);
        Ok(plugin)
    }

    /// The plugin's function table.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The library file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the plugin says of itself, e.g. `stablehlo_current_version`.
    pub fn attributes(&self) -> &[(String, Value)] {
        &self.attributes
    }

    /// The types of the plugin's extensions, in the order of its chain; types unknown here are listed too.
    pub fn extensions(&self) -> Vec<PJRT_Extension_Type> {
        // SAFETY: the links lie in the plugin's constant data.
        self.chain().map(|extension| unsafe { (*extension).type_ }).collect()
    }

    /// The extension of this type, as the struct `T` that belongs to it.
    ///
    /// The plugin's struct may be shorter than `T`: read a field only when the extension's own `struct_size` reaches it.
    pub fn extension<T>(&self, kind: PJRT_Extension_Type) -> Option<*const T> {
        // SAFETY: as above.
        self.chain().find(|extension| unsafe { (**extension).type_ == kind }).map(|e| e.cast())
    }

    fn chain(&self) -> impl Iterator<Item = *const PJRT_Extension_Base> {
        // SAFETY: the table reaches beyond its first fields (checked in Api::new); each link is null or an extension.
        let first: *const PJRT_Extension_Base = unsafe { (*self.api.raw()).extension_start };
        std::iter::successors(Some(first), |e| if e.is_null() { None } else { Some(unsafe { (**e).next }) })
            .take_while(|e| !e.is_null())
            .take(MAX_EXTENSIONS)
    }
}

/// Loads the library and checks its function table.
fn open(file: &Path) -> Result<Api> {
    let invalid = |error: libloading::Error| {
        Error::new(Kind::PluginInvalid, format!("'{}' cannot be loaded as a plugin: {error}.", file.display()))
            .hint("Is it a PJRT plugin for this operating system and processor, and complete?")
    };
    // SAFETY: loading runs the library's initializers; that is what the user asked for by naming this plugin.
    let library = unsafe { libloading::Library::new(file) }.map_err(invalid)?;
    type GetPjrtApi = unsafe extern "C" fn() -> *const PJRT_Api;
    // SAFETY: the symbol has this type in every plugin; it is called once and its table outlives the process' use.
    let raw = unsafe { library.get::<GetPjrtApi>(b"GetPjrtApi\0").map_err(invalid)?() };
    // Unloading a plugin crashes at exit: its threads and static objects live on.
    std::mem::forget(library);
    // SAFETY: the library is never unloaded, so the table stays.
    unsafe { Api::new(raw) }
}
