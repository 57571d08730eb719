//! Plugins: found, fetched, loaded, described.

pub mod cuda;
pub mod install;
pub mod plugin;
pub mod plugin_search;
pub mod sitrep;
