//! Topologies: a plugin's description of the whole system.

use crate::conditions::Result;
use crate::plugin::attributes_to_r;
use crate::{client, plugin};
use extendr_api::prelude::*;
use pjrt_core::client::device::Description;
use pjrt_core::client::topology::{AbsentTopology, Topology};

/// The system that the client is part of.
#[extendr]
fn client_topology(client: Robj) -> Result<Robj> {
    Ok(described(&client::get(&client)?.topology()?))
}

/// A system without a client, with options of these names, types and values.
#[extendr]
fn topology_create(
    plugin: Robj,
    platform: &str,
    name: &str,
    names: Vec<String>,
    types: Vec<String>,
    values: List,
) -> Result<Robj> {
    let options = client::options_of(names, &types, &values)?;
    let created = AbsentTopology::create(plugin::get(&plugin)?, platform, name, &options)?;
    Ok(described(created.topology()))
}

fn described(topology: &Topology) -> Robj {
    let device = |device: &Description| {
        list!(
            id = device.id,
            kind = device.kind.as_str(),
            label = device.label.as_str(),
            debug = device.debug_label.as_str(),
            process_index = device.process_index,
            attributes = attributes_to_r(&device.attributes)
        )
    };
    list!(
        platform = topology.platform.as_str(),
        platform_version = topology.platform_version.as_str(),
        devices = List::from_values(topology.devices.iter().map(device)),
        attributes = attributes_to_r(&topology.attributes),
        serialized = topology.serialized.as_ref().map_or(().into(), |bytes| Robj::from(Raw::from_bytes(bytes)))
    )
    .into()
}

extendr_module! {
    mod topology;
    fn client_topology;
    fn topology_create;
}
