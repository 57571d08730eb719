//! Topologies: the devices of a whole system as a plugin describes them, for all processes.

use crate::client::device::Description;
use crate::client::flags::KnownFlags;
use crate::client::{check_generation, named_value, Client};
use crate::runtime::plugin::Plugin;
use pjrt_base::error::{Error, Result, UNIMPLEMENTED};
use pjrt_base::process;
use pjrt_ffi::api::{bytes, call, named_values, slice, text, Api, PluginValue};
use pjrt_sys::*;
use std::borrow::Cow;
use std::sync::Arc;

/// A plugin's description of the system that a client is part of.
#[derive(Debug, Clone)]
pub struct Topology {
    pub platform: String,
    pub platform_version: String,
    pub devices: Vec<Description>,
    pub attributes: Vec<(String, PluginValue)>,
    /// The plugin's serialized form, equal for equal topologies; `None` if the plugin has none.
    pub serialized: Option<Vec<u8>>,
}

impl Client {
    /// Describes the system that the client is part of.
    ///
    /// # Errors
    /// `UnsupportedCall` or code 12 (unimplemented) when the plugin cannot; `Forked`, `ClientClosed`.
    pub fn topology(&self) -> Result<Topology> {
        // The client owns what it returns.
        let handle = call!(self.plugin().api(), PJRT_Client_TopologyDescription { client: self.handle()? });
        let read = handle.and_then(|found| Topology::read(self.plugin().api(), found.topology));
        read.map_err(|error| error.on_platform(self.platform()))
    }
}

/// A topology that a plugin creates from a description, without a client and without its devices; destroyed when dropped.
#[derive(Debug)]
pub struct AbsentTopology {
    plugin: &'static Plugin,
    handle: *mut PJRT_TopologyDescription,
    generation: u32,
    topology: Topology,
    known_flags: KnownFlags,
}

/// What programs can be compiled for without a client: clones share it.
#[derive(Debug, Clone)]
pub enum System {
    Absent(Arc<AbsentTopology>),
    /// The system that a client is part of.
    OfClient(Client),
}

impl System {
    pub fn plugin(&self) -> &'static Plugin {
        match self {
            System::Absent(absent) => absent.plugin,
            System::OfClient(client) => client.plugin(),
        }
    }

    pub(crate) fn known_flags(&self) -> &KnownFlags {
        match self {
            System::Absent(absent) => &absent.known_flags,
            System::OfClient(client) => client.known_flags(),
        }
    }

    /// The plugin's handle, which lives as long as the system.
    ///
    /// # Errors
    /// `Forked` in a child of the process that made it, `ClientClosed`, `PluginPoisoned`.
    pub(crate) fn handle(&self) -> Result<*const PJRT_TopologyDescription> {
        match self {
            System::Absent(absent) if absent.generation != process::generation() => Err(process::forked()),
            System::Absent(absent) => absent.plugin.api().poison().check().map(|()| absent.handle.cast_const()),
            System::OfClient(client) => {
                let found = call!(client.plugin().api(), PJRT_Client_TopologyDescription { client: client.handle()? });
                found.map(|found| found.topology.cast_const())
            }
        }
    }

    /// Its description.
    ///
    /// # Errors
    /// As [`Client::topology`].
    pub fn describe(&self) -> Result<Cow<'_, Topology>> {
        match self {
            System::Absent(absent) => Ok(Cow::Borrowed(&absent.topology)),
            System::OfClient(client) => client.topology().map(Cow::Owned),
        }
    }
}

// SAFETY: PJRT's functions may be called from any thread, and a topology does not change.
unsafe impl Send for AbsentTopology {}
// SAFETY: as above.
unsafe impl Sync for AbsentTopology {}

impl AbsentTopology {
    /// Creates the topology of this name. `platform` is the name of the plugin's platform in messages, `options` are the
    /// plugin's own.
    ///
    /// # Errors
    /// `UnsupportedCall` or code 12 (unimplemented) if the plugin cannot; the plugin's own for names and options; `Forked` in a child of
    /// a process that used the package.
    pub fn create(
        plugin: &'static Plugin,
        platform: &str,
        name: &str,
        options: &[(String, PluginValue)],
    ) -> Result<AbsentTopology> {
        process::watch_forks();
        check_generation()?;
        let named: Vec<PJRT_NamedValue> = options.iter().map(named_value).collect::<Result<_>>()?;
        let explain = |error: Error| match error.code() {
            Some(UNIMPLEMENTED) => error
                .unsupported(platform, "Creating a topology without its devices is")
                .hint("Create a client on a machine that has the devices, and compile there."),
            _ => error.on_platform(platform),
        };
        let made = call!(
            plugin.api(),
            PJRT_TopologyDescription_Create {
                topology_name: name.as_ptr().cast(),
                topology_name_size: name.len(),
                create_options: named.as_ptr(),
                num_options: named.len(),
            }
        )
        .map_err(explain)?;
        ensure!(!made.topology.is_null(), Internal, "The plugin returned no topology.");
        let (handle, generation) = (made.topology, process::generation());
        match Topology::read(plugin.api(), handle) {
            Ok(topology) => Ok(AbsentTopology { plugin, handle, generation, topology, known_flags: KnownFlags::new() }),
            Err(error) => {
                destroy(plugin, handle);
                Err(error.on_platform(platform))
            }
        }
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }
}

impl Drop for AbsentTopology {
    fn drop(&mut self) {
        if self.generation == process::generation() {
            destroy(self.plugin, self.handle);
        }
    }
}

fn destroy(plugin: &Plugin, topology: *mut PJRT_TopologyDescription) {
    // Nothing can be done about a failure to free.
    let _ = call!(plugin.api(), PJRT_TopologyDescription_Destroy { topology: topology });
}

impl Topology {
    fn read(api: &Api, topology: *mut PJRT_TopologyDescription) -> Result<Topology> {
        let name = call!(api, PJRT_TopologyDescription_PlatformName { topology: topology })?;
        let version = call!(api, PJRT_TopologyDescription_PlatformVersion { topology: topology })?;
        let found = call!(api, PJRT_TopologyDescription_GetDeviceDescriptions { topology: topology })?;
        let attributes = call!(api, PJRT_TopologyDescription_Attributes { topology: topology })?;
        let serialized = match serialize(api, topology) {
            Err(error) if error.code() == Some(UNIMPLEMENTED) => None,
            outcome => Some(outcome?),
        };
        // SAFETY: the plugin has just returned these strings and arrays, which live as long as the topology.
        unsafe {
            let devices = slice(found.descriptions, found.num_descriptions);
            Ok(Topology {
                platform: text(name.platform_name, name.platform_name_size),
                platform_version: text(version.platform_version, version.platform_version_size),
                devices: devices.iter().map(|&device| Description::read(api, device)).collect::<Result<_>>()?,
                attributes: named_values(attributes.attributes, attributes.num_attributes),
                serialized,
            })
        }
    }
}

fn serialize(api: &Api, topology: *mut PJRT_TopologyDescription) -> Result<Vec<u8>> {
    let made = call!(api, PJRT_TopologyDescription_Serialize { topology: topology })?;
    // SAFETY: the bytes live until they are given back, which happens once.
    unsafe {
        let copy = bytes(made.serialized_bytes, made.serialized_bytes_size).to_vec();
        if let Some(give_back) = made.serialized_topology_deleter.filter(|_| !api.poison().is_noted()) {
            give_back(made.serialized_topology);
        }
        Ok(copy)
    }
}
