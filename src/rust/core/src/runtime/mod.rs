//! Everything that runs a plugin's work: loaded plugins, events, dispatch threads, and waits for memory.

pub(crate) mod dispatch;
pub mod event;
pub mod extension;
pub mod oom;
pub mod plugin;
pub mod profiler;
pub(crate) mod registry;
