//! The devices that a program is compiled for, including which of them belong to this process.

use crate::client::device::Device;
use crate::client::Client;
use pjrt_base::counted::counted;
use pjrt_base::error::Result;
use pjrt_ffi::api::{call, slice};
use pjrt_sys::*;

/// The devices that this process runs an executable on.
#[derive(Debug)]
pub enum Placement {
    /// These devices, by index in the client's list, in the order of their lists of inputs: all partitions of the first
    /// replica first.
    Fixed(Vec<usize>),
    /// One device, chosen at each execution.
    Portable,
}

impl Placement {
    /// The fixed devices; none for a portable executable.
    pub(crate) fn fixed(&self) -> &[usize] {
        match self {
            Placement::Fixed(devices) => devices,
            Placement::Portable => &[],
        }
    }
}

/// The devices of an executable.
#[derive(Debug)]
pub(crate) struct Places {
    pub placement: Placement,
    /// The devices of all processes, by index, all partitions of the first replica first; none for a portable executable.
    pub assigned: Vec<usize>,
}

impl Places {
    /// The devices of an executable that was compiled or loaded for these devices, unless it is portable.
    ///
    /// # Errors
    /// `Internal` if the plugin runs it on other devices of this process.
    pub fn new(
        client: &Client,
        loaded: *mut PJRT_LoadedExecutable,
        devices: &[Device],
        is_portable: bool,
    ) -> Result<Places> {
        if is_portable {
            return Ok(Places { placement: Placement::Portable, assigned: Vec::new() });
        }
        let assigned: Vec<usize> = devices.iter().map(Device::index).collect();
        let own: Vec<usize> = devices.iter().filter(|device| device.is_addressable()).map(Device::index).collect();
        let own = if own.len() < assigned.len() { in_order_of_plugin(client, loaded, own)? } else { own };
        Ok(Places { placement: Placement::Fixed(own), assigned })
    }
}

/// The same devices in the order in which the plugin takes their inputs.
fn in_order_of_plugin(client: &Client, loaded: *mut PJRT_LoadedExecutable, own: Vec<usize>) -> Result<Vec<usize>> {
    let found = match call!(client.plugin().api(), PJRT_LoadedExecutable_AddressableDevices { executable: loaded }) {
        Err(error) if error.is_unsupported() => return Ok(own),
        found => found?,
    };
    // SAFETY: the plugin has just returned this array.
    let handles = unsafe { slice(found.addressable_devices, found.num_addressable_devices) };
    let ordered: Vec<usize> = handles
        .iter()
        .filter_map(|&handle| own.iter().copied().find(|&index| client.device_facts(index).handle == handle))
        .collect();
    if ordered.len() != own.len() || handles.len() != own.len() {
        let devices = counted(handles.len(), "device");
        bail!(Internal, "The plugin runs the program on {devices} of this process, but {} were asked for.", own.len());
    }
    Ok(ordered)
}
