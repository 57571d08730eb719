//! Topologies: a plugin's description of the whole system.

use crate::client;
use crate::conditions::Result;
use crate::plugin::attributes_to_r;
use extendr_api::prelude::*;
use pjrt_core::client::device::Description;

/// The system that the client is part of.
#[extendr]
fn client_topology(client: Robj) -> Result<Robj> {
    let topology = client::get(&client)?.topology()?;
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
    Ok(list!(
        platform = topology.platform,
        platform_version = topology.platform_version,
        devices = List::from_values(topology.devices.iter().map(device)),
        attributes = attributes_to_r(&topology.attributes),
        serialized = topology.serialized.map_or(().into(), |bytes| Robj::from(Raw::from_bytes(&bytes)))
    )
    .into())
}

extendr_module! {
    mod topology;
    fn client_topology;
}
