//! Devices: what a client computes on. What a plugin says of them is read once, when the client is made.

use crate::api::{call, slice, text, Api};
use crate::client::Client;
use crate::error::Result;
use crate::memory::{Memory, MemoryFacts};
use pjrt_sys::*;

/// A device of a client.
#[derive(Debug, Clone)]
pub struct Device {
    client: Client,
    index: usize,
}

/// What a plugin says of one device.
#[derive(Debug)]
pub(crate) struct Facts {
    pub handle: *mut PJRT_Device,
    pub id: i32,
    pub local_hardware_id: i32,
    pub kind: String,
    pub label: String,
    pub debug_label: String,
    /// Positions in the client's list of memories.
    pub memories: Vec<usize>,
    pub default_memory: Option<usize>,
}

// SAFETY: device handles are constant for the life of the client and PJRT's functions may be called from any thread.
unsafe impl Send for Facts {}
unsafe impl Sync for Facts {}

impl Device {
    pub(crate) fn new(client: Client, index: usize) -> Self {
        Device { client, index }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Position among the client's devices, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn facts(&self) -> &Facts {
        self.client.device_facts(self.index)
    }

    /// The plugin's id of the device, unique over all processes.
    pub fn id(&self) -> i32 {
        self.facts().id
    }

    /// The device's number on this machine; -1 when the plugin does not say.
    pub fn local_hardware_id(&self) -> i32 {
        self.facts().local_hardware_id
    }

    /// The vendor's name of the device's kind, e.g. `"NVIDIA H200"`.
    pub fn kind(&self) -> &str {
        &self.facts().kind
    }

    /// The plugin's string for it, e.g. `"CpuDevice(id=0)"`.
    pub fn label(&self) -> &str {
        &self.facts().label
    }

    /// The plugin's longer string, for logs.
    pub fn debug_label(&self) -> &str {
        &self.facts().debug_label
    }

    /// The memory spaces it can use.
    pub fn memories(&self) -> impl Iterator<Item = Memory> + '_ {
        self.facts().memories.iter().map(|&index| Memory::new(self.client.clone(), index))
    }

    /// The memory space that buffers go to unless told otherwise.
    pub fn default_memory(&self) -> Option<Memory> {
        self.facts().default_memory.map(|index| Memory::new(self.client.clone(), index))
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.client.same(&other.client)
    }
}

impl Facts {
    /// Reads what the plugin says of each addressable device of a client.
    pub(crate) fn list(api: &Api, client: *mut PJRT_Client, memories: &[MemoryFacts]) -> Result<Vec<Facts>> {
        let found = call!(api, PJRT_Client_AddressableDevices { client: client })?;
        // SAFETY: the plugin has just returned this array.
        let handles = unsafe { slice(found.addressable_devices, found.num_addressable_devices) };
        handles.iter().map(|&handle| Facts::read(api, handle, memories)).collect()
    }

    fn read(api: &Api, handle: *mut PJRT_Device, memories: &[MemoryFacts]) -> Result<Facts> {
        let description = call!(api, PJRT_Device_GetDescription { device: handle })?.device_description;
        let kind = call!(api, PJRT_DeviceDescription_Kind { device_description: description })?;
        let label = call!(api, PJRT_DeviceDescription_ToString { device_description: description })?;
        let debug = call!(api, PJRT_DeviceDescription_DebugString { device_description: description })?;
        let position = |memory: &*mut PJRT_Memory| memories.iter().position(|m| m.handle == *memory);
        // Plugins without memory spaces answer these with an error, which means none.
        let own = call!(api, PJRT_Device_AddressableMemories { device: handle });
        let default = call!(api, PJRT_Device_DefaultMemory { device: handle });
        let id = call!(api, PJRT_DeviceDescription_Id { device_description: description })?.id;
        let local = call!(api, PJRT_Device_LocalHardwareId { device: handle });
        // SAFETY: the plugin has just returned these strings and this array.
        unsafe {
            Ok(Facts {
                handle,
                id,
                local_hardware_id: local.map_or(-1, |args| args.local_hardware_id),
                kind: text(kind.device_kind, kind.device_kind_size),
                label: text(label.to_string, label.to_string_size),
                debug_label: text(debug.debug_string, debug.debug_string_size),
                memories: own.map_or(Vec::new(), |args| {
                    slice(args.memories, args.num_memories).iter().filter_map(position).collect()
                }),
                default_memory: default.ok().and_then(|args| position(&args.memory)),
            })
        }
    }
}
