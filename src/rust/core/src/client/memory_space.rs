//! Memory spaces: the kinds of memory that a device's buffers can be in, such as `"device"` or `"pinned_host"`.

use crate::client::device::Device;
use crate::client::Client;
use crate::runtime::plugin::where_there;
use pjrt_base::error::Result;
use pjrt_ffi::api::{call, slice, text, Api};
use pjrt_sys::*;

/// A memory space of a client.
///
/// ```
/// # use pjrt_core::{Buffer, Client, Plugin};
/// # use pjrt_data::{array::Spec, dtype::DType};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// let device = client.devices().next().unwrap();
/// let scalar = Buffer::from_bytes(&device, Spec::new(DType::I32, &[])?, &7i32.to_ne_bytes())?;
/// for memory in device.memories() {
///     let copy = scalar.copy_to_memory(&memory)?;
///     assert_eq!(copy.memory()?.unwrap().kind(), memory.kind());
///     assert_eq!(copy.read()?.bytes(), 7i32.to_ne_bytes());
/// }
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MemorySpace {
    client: Client,
    index: usize,
}

/// A plugin's description of one memory space.
#[derive(Debug)]
pub(crate) struct MemoryFacts {
    pub handle: *mut PJRT_Memory,
    pub id: i32,
    pub kind: String,
    pub label: String,
    pub debug_label: String,
}

// SAFETY: memory handles are constant for the life of the client.
unsafe impl Send for MemoryFacts {}
// SAFETY: as above.
unsafe impl Sync for MemoryFacts {}

impl MemorySpace {
    pub(crate) fn new(client: Client, index: usize) -> Self {
        MemorySpace { client, index }
    }

    pub(crate) fn facts(&self) -> &MemoryFacts {
        self.client.memory_facts(self.index)
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its index in the client's list of memory spaces, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    pub fn id(&self) -> i32 {
        self.facts().id
    }

    /// The kind, e.g. `"device"`, `"pinned_host"`, `"unpinned_host"`.
    pub fn kind(&self) -> &str {
        &self.facts().kind
    }

    /// The plugin's string for it.
    pub fn label(&self) -> &str {
        &self.facts().label
    }

    /// The plugin's longer string, for logs.
    pub fn debug_label(&self) -> &str {
        &self.facts().debug_label
    }

    /// The devices of this process that can use it.
    pub fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.client.devices().filter(|device| device.facts().memories.contains(&self.index))
    }
}

impl PartialEq for MemorySpace {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.client.same(&other.client)
    }
}

/// Reads the plugin's description of each memory space of a client; empty for a plugin without memory spaces, or
/// without their descriptions.
pub(crate) fn list(api: &Api, client: *mut PJRT_Client) -> Result<Vec<MemoryFacts>> {
    let Ok(found) = call!(api, PJRT_Client_AddressableMemories { client: client }) else {
        return Ok(Vec::new());
    };
    // SAFETY: the plugin has just returned this array, and the strings below.
    let handles = unsafe { slice(found.addressable_memories, found.num_addressable_memories) };
    let read = |&handle: &*mut PJRT_Memory| {
        let kind = call!(api, PJRT_Memory_Kind { memory: handle })?;
        let label = call!(api, PJRT_Memory_ToString { memory: handle })?;
        let debug = call!(api, PJRT_Memory_DebugString { memory: handle })?;
        let id = call!(api, PJRT_Memory_Id { memory: handle })?.id;
        // SAFETY: the plugin's strings live as long as its client.
        unsafe {
            Ok(MemoryFacts {
                handle,
                id,
                kind: text(kind.kind, kind.kind_size),
                label: text(label.to_string, label.to_string_size),
                debug_label: text(debug.debug_string, debug.debug_string_size),
            })
        }
    };
    Ok(where_there(handles.iter().map(read).collect())?.unwrap_or_default())
}
