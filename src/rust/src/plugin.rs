//! Plugins: loading, version, attributes.

use crate::conditions::Outcome;
use crate::handle;
use extendr_api::prelude::*;
use pjrt_core::{Plugin, Value};
use std::path::Path;

/// Loads the plugin library at `path`.
#[extendr]
fn plugin_load(path: &str) -> Outcome<Robj> {
    Ok(handle::object(Plugin::load(Path::new(path))?))
}

/// The file that the plugin was loaded from.
#[extendr]
fn plugin_file(plugin: Robj) -> Outcome<Robj> {
    Ok(get(&plugin)?.path().to_string_lossy().as_ref().into())
}

/// Major and minor version of the plugin's C API.
#[extendr]
fn plugin_version(plugin: Robj) -> Outcome<Robj> {
    let (major, minor) = get(&plugin)?.api().version();
    Ok(list!(major = major, minor = minor).into())
}

/// What the plugin says of itself, as a named list.
#[extendr]
fn plugin_attributes(plugin: Robj) -> Outcome<Robj> {
    Ok(attributes_to_r(get(&plugin)?.attributes()))
}

/// Attributes as a named list.
pub fn attributes_to_r(attributes: &[(String, Value)]) -> Robj {
    let names = attributes.iter().map(|(name, _)| name.as_str());
    let values = attributes.iter().map(|(_, value)| value_to_r(value));
    List::from_names_and_values(names, values).map_or(().into(), Robj::from)
}

fn get(plugin: &Robj) -> Outcome<&'static Plugin> {
    Ok(handle::get::<&'static Plugin>(unsafe { plugin.get() }, "plugin")?)
}

/// Whole numbers that an R integer cannot hold become doubles.
fn value_to_r(value: &Value) -> Robj {
    let fits = |i: &i64| i.unsigned_abs() <= i32::MAX as u64;
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Int(i) if fits(i) => (*i as i32).into(),
        Value::Int(i) => (*i as f64).into(),
        Value::IntList(list) if list.iter().all(fits) => list.iter().map(|&i| i as i32).collect::<Vec<_>>().into(),
        Value::IntList(list) => list.iter().map(|&i| i as f64).collect::<Vec<_>>().into(),
        Value::Float(f) => f64::from(*f).into(),
        Value::Bool(b) => (*b).into(),
        Value::Unknown => Rbool::na().into(),
    }
}

extendr_module! {
    mod plugin;
    fn plugin_load;
    fn plugin_file;
    fn plugin_version;
    fn plugin_attributes;
}
