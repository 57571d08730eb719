//! Clients: creation and information.

use crate::clients::device;
use crate::memory;
use crate::plugins::plugin::attributes_to_r;
use crate::r::conditions::Result;
use crate::r::{handle, progress, sexp};
use extendr_api::prelude::*;
use extendr_ffi::SEXP;
use pjrt_core::client::distributed::Distributed;
use pjrt_core::client::shared_store::SharedStore;
use pjrt_core::{Client, Plugin, PluginValue};
use std::ffi::{c_char, CStr};
use std::time::Duration;

owned!(Client, c"PJRTClient", const ARGUMENT: &'static str = "client";);

/// Creates a client of a plugin, with options of these names, types and values.
pub fn client_create(plugin: &&'static Plugin, names: Vec<String>, types: Vec<String>, values: List) -> Result<Robj> {
    handle::release_forgotten();
    let options = options_of(names, &types, &values)?;
    let client = memory::with_retry(|| "a client's threads".into(), || Client::create(plugin, &options))?;
    Ok(handle::object(client))
}

/// The same together with other processes. `place` is a list of rank, size, store, job, name and timeout.
pub fn client_create_distributed(
    plugin: &&'static Plugin,
    names: Vec<String>,
    types: Vec<String>,
    values: List,
    place: List,
) -> Result<Robj> {
    handle::release_forgotten();
    let options = options_of(names, &types, &values)?;
    let of = |index: usize| place.elt(index).unwrap_or_default();
    let text = |index: usize| of(index).as_str().unwrap_or_default().to_owned();
    let number = |index: usize| of(index).as_real().unwrap_or_default();
    let Ok(timeout) = Duration::try_from_secs_f64(number(5)) else {
        bail!(InvalidInput, "`timeout` is too long.");
    };
    let place = Distributed {
        rank: number(0) as usize,
        size: number(1) as usize,
        store: SharedStore::read(&text(2))?,
        job: text(3),
        name: text(4),
        timeout,
    };
    let client =
        progress::doing("waiting for other processes", || Client::create_distributed(plugin, &options, &place))?;
    Ok(handle::object(client))
}

/// A store's address without its password.
pub fn store_shown(address: &str) -> Result<Robj> {
    Ok(SharedStore::read(address)?.to_string().into())
}

/// Options of these names, types and values.
pub fn options_of(names: Vec<String>, types: &[String], values: &List) -> Result<Vec<(String, PluginValue)>> {
    let mut options = Vec::with_capacity(names.len());
    for ((name, kind), (_, value)) in names.into_iter().zip(types).zip(values.iter()) {
        let Some(value) = option_value(kind, &value) else {
            bail!(InvalidInput, "Option `{name}` has a value that is not a valid {kind}.");
        };
        options.push((name, value));
    }
    Ok(options)
}

/// The value of an option. Whole numbers come as text, because R has no 64-bit integers.
fn option_value(kind: &str, value: &Robj) -> Option<PluginValue> {
    let whole =
        |value: &Robj| value.as_str_vector()?.iter().map(|text| text.parse().ok()).collect::<Option<Vec<i64>>>();
    match kind {
        "string" => value.as_str().map(|text| PluginValue::String(text.to_owned())),
        "int64" => whole(value)?.first().map(|&number| PluginValue::Int(number)),
        "int64 list" => whole(value).map(PluginValue::IntList),
        "float" => value.as_real().map(|number| PluginValue::Float(number as f32)),
        "bool" => value.as_bool().map(PluginValue::Bool),
        _ => None,
    }
}

/// The platform's name as the plugin spells it.
pub fn client_platform(client: &Client) -> Result<Robj> {
    Ok(client.platform().into())
}

/// Information about the client.
pub fn client_info(client: &Client) -> Result<List> {
    let (major, minor) = client.plugin().api().version();
    Ok(list!(
        platform = client.platform(),
        platform_version = client.platform_version(),
        api_version = format!("{major}.{minor}"),
        process_index = client.process_index(),
        attributes = attributes_to_r(client.plugin().attributes())
    ))
}

/// `client_devices(client)`: the devices that this process can use, always the same R objects.
pub fn client_devices(client: SEXP) -> Result<SEXP> {
    Ok(device::addressable(handle::get(client, "client")?))
}

/// `client_all_devices(client)`: the devices of all processes.
pub fn client_all_devices(client: SEXP) -> Result<SEXP> {
    Ok(device::all(handle::get(client, "client")?))
}

/// `default_platform()`: the name of the platform that is used if none is named.
pub fn default_platform() -> Result<SEXP> {
    Ok(sexp::new_string(&default_name().to_string_lossy()))
}

/// The client of the default platform, if it exists: the element of `the$clients` in R with the platform's name.
pub fn default_client<'a>() -> Option<&'a Client> {
    let clients = sexp::variable(sexp::state(), c"clients")?;
    handle::get(sexp::variable(clients, default_name())?, "client").ok()
}

fn default_name<'a>() -> &'a CStr {
    // SAFETY: on R's main thread, which alone changes the environment.
    let name = unsafe { getenv(c"PJRT_PLATFORM".as_ptr()).as_ref().map(|name| CStr::from_ptr(name)) };
    name.filter(|name| !name.is_empty()).unwrap_or(c"cpu")
}

extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
}

/// The client of a handle.
pub fn get(client: &Robj) -> Result<&Client> {
    handle::get(sexp::of(client), "client")
}
