//! Extensions: a plugin's features beside the function table, as a chain of structs.

use crate::runtime::plugin::Plugin;
use pjrt_sys::*;

/// Names of the types, by number. Types from "Shardings" on are newer than our bindings.
const NAMES: [&str; 25] = [
    "Gpu_Custom_Call",
    "Profiler",
    "Custom_Partitioner",
    "Stream",
    "Layouts",
    "FFI",
    "MemoryDescriptions",
    "Triton",
    "RawBuffer",
    "PhaseCompile",
    "Example",
    "Unknown",
    "CrossHostTransfers",
    "ExecutableMetadata",
    "Callback",
    "HostAllocator",
    "TpuTopology",
    "TpuExecutable",
    "Megascale",
    "Shardings",
    "AbiVersion",
    "Collectives",
    "MultiSlice",
    "HostMemoryAllocator",
    "XlaTransform",
];

/// One extension of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// The number of its type, `PJRT_Extension_Type`.
    pub number: u32,
    /// The size of its struct, which grows with new versions.
    pub size: usize,
}

impl Extension {
    /// The name of its type in the PJRT headers; `None` for a type that is newer than this crate.
    pub fn name(&self) -> Option<&'static str> {
        NAMES.get(self.number as usize).copied()
    }
}

impl Plugin {
    /// The plugin's extensions, in the order of its chain, including unknown types.
    pub fn extensions(&self) -> Vec<Extension> {
        // SAFETY: the chain gives extensions that lie in the plugin's constant data.
        let described = |link: *const PJRT_Extension_Base| unsafe { ((*link).type_.0, (*link).struct_size) };
        self.api().extensions().into_iter().map(described).map(|(number, size)| Extension { number, size }).collect()
    }
}
