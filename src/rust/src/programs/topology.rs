//! Topologies: a plugin's description of the whole system.

use crate::clients::client;
use crate::plugins::plugin::attributes_to_r;
use crate::programs::serialize::folder;
use crate::programs::{compile_options, executable};
use crate::r::conditions::Result;
use crate::r::{handle, progress, sexp};
use extendr_api::prelude::*;
use pjrt_core::client::device::Description;
use pjrt_core::client::holdings;
use pjrt_core::client::topology::{AbsentTopology, System, Topology};
use pjrt_core::compile::queue::compile_for;
use pjrt_core::executable::inspect::MemoryKinds;
use pjrt_core::executable::serialized;
use pjrt_core::{Client, Plugin};
use pjrt_program::program::Program;
use std::path::Path;
use std::sync::Arc;

owned!(System, c"PJRTSystem");

/// The system that the client is part of.
pub fn client_topology(client: &Client) -> Result<List> {
    Ok(described(&client.topology()?))
}

/// A system without a client, with options of these names, types and values: its description, and its handle as `system`.
pub fn topology_create(
    plugin: &&'static Plugin,
    platform: &str,
    name: &str,
    names: Vec<String>,
    types: Vec<String>,
    values: List,
) -> Result<Robj> {
    let options = client::options_of(names, &types, &values)?;
    let created = AbsentTopology::create(plugin, platform, name, &options)?;
    let described = described(created.topology());
    let mut found: Vec<_> = described.iter().collect();
    found.push(("system", handle::object(System::Absent(Arc::new(created)))));
    Ok(List::from_pairs(found).into())
}

/// Compiles a program for a system: its client, or the handle of one without a client. `kept` is the folder that keeps the
/// hashes of plugins' files. What [`executable::describe`] returns, the target, and the executable's bytes.
pub fn topology_compile(system: Robj, program: &Program, options: Robj, kept: &str) -> Result<Robj> {
    let options = compile_options::get(sexp::of(&options))?;
    let system = if sexp::inherits(sexp::of(&system), c"PJRTClient") {
        System::OfClient(client::get(&system)?.clone())
    } else {
        handle::get::<System>(sexp::of(&system), "topology")?.clone()
    };
    let compiled = progress::doing("compiling", || compile_for(&system, program, &options, folder(kept)));
    let compiled = compiled.map_err(|error| holdings::explain(error, || "the compiler's work".into()))?;
    let signature = &compiled.signature;
    let kinds =
        MemoryKinds { inputs: vec![None; signature.inputs.len()], outputs: vec![None; signature.outputs.len()] };
    let mut found = executable::described(signature, &compiled.shardings, compiled.counts, &kinds);
    found.push(("platform", compiled.target.platform.as_str().into()));
    found.push(("device_kind", compiled.target.device_kind.as_str().into()));
    found.push(("compile_seconds", compiled.compile_time.as_secs_f64().into()));
    found.push(("bytes", Raw::from_bytes(&compiled.container).into()));
    Ok(List::from_pairs(found).into())
}

/// Writes the bytes of an executable to a file, completely or not at all.
pub fn executable_write(content: &[u8], path: &str) -> Result<()> {
    serialized::Serialized::read(content)?;
    Ok(serialized::write(Path::new(path), content)?)
}

fn described(topology: &Topology) -> List {
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
}
