//! Topologies: the devices of a whole system as a plugin describes them, for all processes.

use crate::client::device::Description;
use crate::client::Client;
use crate::ffi::api::{bytes, call, named_values, slice, text, Api, Value};
use pjrt_base::error::{Result, UNIMPLEMENTED};
use pjrt_sys::*;

/// A plugin's description of the system that a client is part of.
#[derive(Debug)]
pub struct Topology {
    pub platform: String,
    pub platform_version: String,
    pub devices: Vec<Description>,
    pub attributes: Vec<(String, Value)>,
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
