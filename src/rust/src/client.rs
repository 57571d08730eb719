//! Clients: making them, and what they say of themselves.

use crate::conditions::{entry, Outcome};
use crate::{device, handle, sexp};
use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use pjrt_core::{Client, Plugin, Value};

/// Makes a client of a plugin; `names` and `values` are its whole-number options.
#[extendr]
fn client_create(plugin: Robj, names: Vec<String>, values: Vec<i32>) -> Outcome<Robj> {
    let plugin = *handle::get::<&'static Plugin>(unsafe { plugin.get() }, "plugin")?;
    let options: Vec<_> = names.into_iter().zip(values.into_iter().map(|v| Value::Int(v.into()))).collect();
    let client = Client::create(plugin, &options)?;
    Ok(handle::object(client))
}

/// The platform's name, as the plugin gives it.
#[extendr]
fn client_platform(client: Robj) -> Outcome<Robj> {
    Ok(get(&client)?.platform().into())
}

/// `client_devices(client)`: the client's devices, always the same R objects.
pub extern "C" fn client_devices(client: SEXP) -> SEXP {
    entry(|| Ok(device::all(handle::get(client, "client")?)))
}

/// `client_close_all()`: closes every client, waiting for its pending work. For the end of the session.
pub extern "C" fn client_close_all() -> SEXP {
    entry(|| {
        pjrt_core::client::close_all();
        Ok(sexp::nil())
    })
}

fn get(client: &Robj) -> Outcome<&Client> {
    handle::get(unsafe { client.get() }, "client")
}

extendr_module! {
    mod client;
    fn client_create;
    fn client_platform;
}
