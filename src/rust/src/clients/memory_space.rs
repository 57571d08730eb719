//! Memory spaces: one R object for each, as for devices.

use crate::clients::device;
use crate::r::conditions::Result;
use crate::r::handle::{self, ClientLists};
use crate::r::sexp;
use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use pjrt_base::error::UNIMPLEMENTED;
use pjrt_core::{Buffer, Client, Device, MemorySpace};

owned!(MemorySpace, c"PJRTMemory", const ARGUMENT: &'static str = "memory";);

thread_local! {
    static MEMORIES: ClientLists = const { ClientLists::new(Vec::new()) };
}

/// The list of a client's memory spaces.
fn all(client: &Client) -> SEXP {
    handle::kept(
        &MEMORIES,
        client,
        || client.memories().count(),
        |list| {
            for (i, memory) in client.memories().enumerate() {
                sexp::set_at(list, i, handle::wrap(memory));
            }
        },
    )
}

/// Releases the objects of a closed client.
pub fn forget(client: &Client) {
    handle::forget(&MEMORIES, client);
}

/// The one R object of a memory space, or NULL for none.
fn object(memory: Option<MemorySpace>) -> Robj {
    memory.map_or(().into(), |m| sexp::robj(sexp::at(all(m.client()), m.index())))
}

/// The memory space of a buffer, or NULL if the plugin does not say.
pub fn buffer_memory(buffer: Robj) -> Result<Robj> {
    let buffer: &Buffer = handle::get(sexp::of(&buffer), "x")?;
    Ok(object(buffer.memory()?))
}

/// The memory spaces of a client.
pub fn client_memories(client: &Client) -> Result<Robj> {
    Ok(sexp::robj(all(client)))
}

/// The memory spaces that a device can use.
pub fn device_memories(device: &Device) -> Result<Robj> {
    let memories: Vec<_> = device.memories().map(|memory| object(Some(memory))).collect();
    Ok(List::from_values(memories).into())
}

/// The default memory space of a device's buffers, or NULL.
pub fn device_default_memory(device: &Device) -> Result<Robj> {
    Ok(object(device.default_memory()))
}

/// Information about a memory space.
pub fn memory_info(memory: &MemorySpace) -> Result<List> {
    let object = |d: Device| sexp::robj(device::object(d.client(), d.index()));
    let devices: Vec<_> = memory.devices().map(object).collect();
    Ok(list!(
        id = memory.id(),
        kind = memory.kind(),
        label = memory.label(),
        debug = memory.debug_label(),
        devices = List::from_values(devices)
    ))
}

/// Statistics of a device's memory allocator.
pub fn device_memory_stats(device: &Device) -> Result<Robj> {
    let stats = device.memory_stats().map_err(|error| match error.code() {
        Some(UNIMPLEMENTED) => error.hint("pjrt_memory_stats() shows how much memory your buffers use."),
        _ => error,
    })?;
    let values = stats.iter().map(|&(_, value)| value as f64).collect::<Vec<_>>();
    Ok(list!(names = stats.iter().map(|&(name, _)| name).collect::<Vec<_>>(), values = values).into())
}
