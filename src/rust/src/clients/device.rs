//! Devices: one R object for each, so that they can be compared and used as keys.

use crate::clients::client;
use crate::plugins::plugin::attributes_to_r;
use crate::r::conditions::Result;
use crate::r::handle::{self, ClientLists};
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::{SEXP, SEXPTYPE};
use pjrt_core::client::device::Description;
use pjrt_core::{Client, Device};

owned!(Device, c"PJRTDevice", const ARGUMENT: &'static str = "device";);

thread_local! {
    static DEVICES: ClientLists = const { ClientLists::new(Vec::new()) };
}

/// The list of all devices of a client by position. Those that this process can use come first.
fn known(client: &Client) -> SEXP {
    handle::kept(
        &DEVICES,
        client,
        || client.all_devices().count(),
        |list| {
            for device in client.all_devices() {
                let position = device.index();
                sexp::set_at(list, position, handle::wrap(device));
            }
        },
    )
}

/// The list of the devices that this process can use; not protected.
pub fn addressable(client: &Client) -> SEXP {
    let known = Protected::new(known(client));
    let count = client.addressable_devices();
    if sexp::len(known.sexp()) == count {
        return known.sexp();
    }
    sexp::list((0..count).map(|position| sexp::at(known.sexp(), position)))
}

/// The list of the devices of all processes, in the plugin's order; not protected.
pub fn all(client: &Client) -> SEXP {
    let known = Protected::new(known(client));
    let order: Vec<usize> = client.all_devices().map(|device| device.index()).collect();
    sexp::over_jumps(order, |order| sexp::list(order.iter().map(|&position| sexp::at(known.sexp(), position))))
}

/// Releases the objects of a closed client.
pub fn forget(client: &Client) {
    handle::forget(&DEVICES, client);
}

/// The R object of a client's device; not protected.
pub fn object(client: &Client, index: usize) -> SEXP {
    sexp::at(known(client), index)
}

/// The device of an argument: a `PJRTDevice`, or anything that `as_pjrt_device()` in R accepts. R may leave this by a
/// long jump, so call it before you own anything.
pub fn resolve<'a>(x: SEXP) -> Result<&'a Device> {
    let device: &Device = if sexp::kind(x) == SEXPTYPE::EXTPTRSXP && sexp::inherits(x, c"PJRTDevice") {
        handle::get(x, "device")?
    } else {
        match sexp::is_nil(x).then(client::default_client).flatten() {
            Some(client) => handle::get(object(client, 0), "device")?,
            // A device's object is kept while its client is open.
            None => handle::get(sexp::call_ours(c"as_pjrt_device", x), "device")?,
        }
    };
    device.check_addressable()?;
    Ok(device)
}

/// The plugin's string for the device.
pub fn device_label(device: &Device) -> Result<Robj> {
    Ok(device.label().into())
}

/// The platform of the device's client.
pub fn device_platform(device: &Device) -> Result<Robj> {
    Ok(device.client().platform().into())
}

/// Information about the device.
pub fn device_info(device: &Device) -> Result<List> {
    let Description { id, process_index, kind, label, debug_label, attributes } = device.description();
    Ok(list!(
        platform = device.client().platform(),
        id = *id,
        kind = kind.as_str(),
        label = label.as_str(),
        debug = debug_label.as_str(),
        process_index = *process_index,
        local_hardware_id = device.local_hardware_id(),
        addressable = device.is_addressable(),
        attributes = attributes_to_r(attributes)
    ))
}
