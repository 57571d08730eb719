//! Devices of a client. A plugin's description of them is read once, when the client is created.

use crate::client::memory_space::{MemoryFacts, MemorySpace};
use crate::client::Client;
use crate::runtime::plugin::where_there;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_ffi::api::{call, named_values, slice, text, Api, PluginValue};
use pjrt_sys::*;

/// A device of a client.
///
/// ```
/// # use pjrt_core::{Client, Plugin};
/// # let path = std::env::var("PJRT_PLUGIN_PATH_CPU").expect("PJRT_PLUGIN_PATH_CPU names the CPU plugin's library");
/// # let client = Client::create(Plugin::load(path.as_ref())?, &[])?;
/// let device = client.devices().next().unwrap();
/// assert!(device.is_addressable());
/// // A device has memory spaces, and arrays are in one of them.
/// let memory = device.default_memory().unwrap();
/// assert!(memory.devices().any(|other| other.id() == device.id()));
/// # Ok::<(), pjrt_base::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Device {
    client: Client,
    index: usize,
}

/// A plugin's description of a device, whether or not this process can use it.
#[derive(Debug, Clone)]
pub struct Description {
    /// Unique over all processes.
    pub id: i32,
    /// The process that the device belongs to.
    pub process_index: i32,
    /// The vendor's name of the device's kind, e.g. `"NVIDIA H200"`.
    pub kind: String,
    /// The plugin's string for it, e.g. `"CpuDevice(id=0)"`.
    pub label: String,
    /// The plugin's longer string, for logs.
    pub debug_label: String,
    /// Other attributes, e.g. coordinates or the number of cores.
    pub attributes: Vec<(String, PluginValue)>,
}

/// A plugin's description of one device of a client.
#[derive(Debug)]
pub(crate) struct Facts {
    pub handle: *mut PJRT_Device,
    pub description: Description,
    pub local_hardware_id: i32,
    /// Positions in the client's list of memories.
    pub memories: Vec<usize>,
    pub default_memory: Option<usize>,
}

/// Every device of a client; those that this process can use come first.
#[derive(Debug)]
pub(crate) struct AllFacts {
    pub devices: Vec<Facts>,
    /// The number of devices that this process can use.
    pub addressable: usize,
    /// Positions in `devices` in the plugin's order.
    pub order: Vec<usize>,
}

// SAFETY: device handles are constant for the life of the client and PJRT's functions may be called from any thread.
unsafe impl Send for Facts {}
// SAFETY: as above.
unsafe impl Sync for Facts {}

impl Device {
    pub(crate) fn new(client: Client, index: usize) -> Self {
        Device { client, index }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its index in the client's list of devices, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The plugin's handle of the device, valid while the client is open.
    ///
    /// # Errors
    /// `Forked`, `ClientClosed`, `PluginPoisoned`.
    pub fn raw(&self) -> Result<*mut PJRT_Device> {
        self.client.handle()?;
        Ok(self.facts().handle)
    }

    pub(crate) fn facts(&self) -> &Facts {
        self.client.device_facts(self.index)
    }

    pub fn description(&self) -> &Description {
        &self.facts().description
    }

    pub fn id(&self) -> i32 {
        self.description().id
    }

    pub fn kind(&self) -> &str {
        &self.description().kind
    }

    pub fn label(&self) -> &str {
        &self.description().label
    }

    /// The device's number on this machine; -1 if the plugin does not say.
    pub fn local_hardware_id(&self) -> i32 {
        self.facts().local_hardware_id
    }

    /// Whether this process can use it.
    #[inline]
    pub fn is_addressable(&self) -> bool {
        self.index < self.client.addressable_devices()
    }

    /// Checks that this process can use it.
    ///
    /// # Errors
    /// `DeviceMismatch`.
    #[inline]
    pub fn check_addressable(&self) -> Result<()> {
        if self.is_addressable() {
            return Ok(());
        }
        let Description { label, process_index, .. } = self.description();
        bail!(DeviceMismatch, "{label} belongs to process {process_index}: this process cannot use it.")
    }

    /// The memory spaces it can use.
    pub fn memories(&self) -> impl Iterator<Item = MemorySpace> + '_ {
        self.facts().memories.iter().map(|&index| MemorySpace::new(self.client.clone(), index))
    }

    /// The default memory space of its buffers.
    pub fn default_memory(&self) -> Option<MemorySpace> {
        self.facts().default_memory.map(|index| MemorySpace::new(self.client.clone(), index))
    }

    /// Statistics of the device's memory allocator, in bytes except for `num_allocs`: all that the plugin returns.
    ///
    /// # Errors
    /// Code 12 (unimplemented) if it returns none; `DeviceMismatch`, `Forked`, `ClientClosed`.
    pub fn memory_stats(&self) -> Result<Vec<(&'static str, i64)>> {
        self.client.handle()?;
        self.check_addressable()?;
        let platform = self.client.platform();
        let stats = call!(self.client.plugin().api(), PJRT_Device_MemoryStats { device: self.facts().handle });
        let stats = stats.map_err(|e| e.unsupported(platform, "Statistics of a device's memory are"))?;
        let all = [
            ("bytes_in_use", stats.bytes_in_use, true),
            ("peak_bytes_in_use", stats.peak_bytes_in_use, stats.peak_bytes_in_use_is_set),
            ("num_allocs", stats.num_allocs, stats.num_allocs_is_set),
            ("largest_alloc_size", stats.largest_alloc_size, stats.largest_alloc_size_is_set),
            ("bytes_limit", stats.bytes_limit, stats.bytes_limit_is_set),
            ("bytes_reserved", stats.bytes_reserved, stats.bytes_reserved_is_set),
            ("peak_bytes_reserved", stats.peak_bytes_reserved, stats.peak_bytes_reserved_is_set),
            ("bytes_reservable_limit", stats.bytes_reservable_limit, stats.bytes_reservable_limit_is_set),
            ("largest_free_block_bytes", stats.largest_free_block_bytes, stats.largest_free_block_bytes_is_set),
            ("pool_bytes", stats.pool_bytes, stats.pool_bytes_is_set),
            ("peak_pool_bytes", stats.peak_pool_bytes, stats.peak_pool_bytes_is_set),
        ];
        Ok(all.into_iter().filter(|&(_, _, is_set)| is_set).map(|(name, value, _)| (name, value)).collect())
    }
}

/// Checks that this process can use at least one of these devices.
///
/// # Errors
/// `DeviceMismatch`.
pub(crate) fn check_any_addressable(devices: &[Device]) -> Result<()> {
    match devices {
        [] => Ok(()),
        [only] => only.check_addressable(),
        [first, ..] if devices.iter().any(Device::is_addressable) => first.client().check_open(),
        [first, ..] => {
            let count = devices.len();
            let message = format!("None of the {count} devices belongs to this process: it cannot run the program.");
            let own = first.client().devices().map(|device| device.label().to_owned()).collect::<Vec<_>>().join(", ");
            let hint = format!("This process can use: {own}. The program's devices must include one of them.");
            Err(Error::new(Kind::DeviceMismatch, message).hint(hint))
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.client.same(&other.client)
    }
}

impl Description {
    /// Reads a plugin's description of a device.
    pub(crate) fn read(api: &Api, description: *mut PJRT_DeviceDescription) -> Result<Description> {
        let id = call!(api, PJRT_DeviceDescription_Id { device_description: description })?.id;
        let process = where_there(call!(api, PJRT_DeviceDescription_ProcessIndex { device_description: description }))?;
        let kind = where_there(call!(api, PJRT_DeviceDescription_Kind { device_description: description }))?;
        let label = where_there(call!(api, PJRT_DeviceDescription_ToString { device_description: description }))?;
        let debug = where_there(call!(api, PJRT_DeviceDescription_DebugString { device_description: description }))?;
        let found = where_there(call!(api, PJRT_DeviceDescription_Attributes { device_description: description }))?;
        // SAFETY: the plugin has just returned these strings and this array.
        unsafe {
            let label = label.map_or_else(|| format!("Device(id={id})"), |l| text(l.to_string, l.to_string_size));
            Ok(Description {
                id,
                process_index: process.map_or(0, |found| found.process_index),
                kind: kind.map_or_else(String::new, |found| text(found.device_kind, found.device_kind_size)),
                debug_label: debug.map_or_else(|| label.clone(), |d| text(d.debug_string, d.debug_string_size)),
                label,
                attributes: found.map_or_else(Vec::new, |found| named_values(found.attributes, found.num_attributes)),
            })
        }
    }
}

impl AllFacts {
    /// Reads the plugin's description of each device of a client.
    pub(crate) fn read(api: &Api, client: *mut PJRT_Client, memories: &[MemoryFacts]) -> Result<AllFacts> {
        let own = call!(api, PJRT_Client_AddressableDevices { client: client })?;
        let all = where_there(call!(api, PJRT_Client_Devices { client: client }))?;
        // SAFETY: the plugin has just returned these arrays.
        let (own, all) = unsafe {
            let own = slice(own.addressable_devices, own.num_addressable_devices);
            (own, all.map_or(own, |all| slice(all.devices, all.num_devices)))
        };
        let mut devices = own.iter().map(|&handle| Facts::of_own(api, handle, memories)).collect::<Result<Vec<_>>>()?;
        let mut order = Vec::with_capacity(all.len());
        for &handle in all {
            order.push(own.iter().position(|&other| other == handle).unwrap_or(devices.len()));
            if order.last() == Some(&devices.len()) {
                devices.push(Facts::of_other(api, handle)?);
            }
        }
        Ok(AllFacts { devices, addressable: own.len(), order })
    }
}

impl Facts {
    /// Reads the plugin's description of a device that this process can use.
    fn of_own(api: &Api, handle: *mut PJRT_Device, memories: &[MemoryFacts]) -> Result<Facts> {
        let position = |memory: &*mut PJRT_Memory| memories.iter().position(|m| m.handle == *memory);
        // Plugins without memory spaces return an error here, which means none.
        let own = call!(api, PJRT_Device_AddressableMemories { device: handle });
        let default = call!(api, PJRT_Device_DefaultMemory { device: handle });
        let local = call!(api, PJRT_Device_LocalHardwareId { device: handle });
        Ok(Facts {
            local_hardware_id: local.map_or(-1, |args| args.local_hardware_id),
            memories: own.map_or(Vec::new(), |args| {
                // SAFETY: the plugin has just returned this array.
                unsafe { slice(args.memories, args.num_memories) }.iter().filter_map(position).collect()
            }),
            default_memory: default.ok().and_then(|args| position(&args.memory)),
            ..Facts::of_other(api, handle)?
        })
    }

    /// As `of_own`, for a device of another process.
    fn of_other(api: &Api, handle: *mut PJRT_Device) -> Result<Facts> {
        let described = call!(api, PJRT_Device_GetDescription { device: handle })?;
        let description = Description::read(api, described.device_description)?;
        Ok(Facts { handle, description, local_hardware_id: -1, memories: Vec::new(), default_memory: None })
    }
}
