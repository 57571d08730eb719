//! Plugins: loading, version, attributes, extensions.

use crate::r::conditions::Result;
use crate::r::handle;
use extendr_api::prelude::*;
use pjrt_core::executable::serialized;
use pjrt_core::{Plugin, PluginValue};
use pjrt_plugins::trial;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

owned!(&'static Plugin, c"PJRTPlugin", const ARGUMENT: &'static str = "plugin";);

/// Loads the plugin library at `path`.
pub fn plugin_load(path: &str) -> Result<Robj> {
    Ok(handle::object(Plugin::load(Path::new(path))?))
}

/// The file that the plugin was loaded from.
pub fn plugin_file(plugin: &&'static Plugin) -> Result<Robj> {
    Ok(plugin.path().to_string_lossy().as_ref().into())
}

/// Whether the plugin's first client could not be created, because its hardware is absent.
pub fn plugin_is_absent(plugin: &&'static Plugin) -> Result<Robj> {
    Ok(plugin.is_absent().into())
}

/// Major and minor version of the plugin's C API.
pub fn plugin_version(plugin: &&'static Plugin) -> Result<Robj> {
    let (major, minor) = plugin.api().version();
    Ok(list!(major = major, minor = minor).into())
}

/// The plugin's attributes, as a named list.
pub fn plugin_attributes(plugin: &&'static Plugin) -> Result<Robj> {
    Ok(attributes_to_r(plugin.attributes()))
}

/// The plugin's extensions: the number, the name and the size of each.
pub fn plugin_extensions(plugin: &&'static Plugin) -> Result<Robj> {
    let extensions = plugin.extensions();
    let numbers: Vec<f64> = extensions.iter().map(|e| e.number.into()).collect();
    let names: Strings = extensions.iter().map(|e| e.name().map_or_else(Rstr::na, Rstr::from)).collect();
    let sizes: Vec<f64> = extensions.iter().map(|e| e.size as f64).collect();
    Ok(list!(name = names, number = numbers, size = sizes).into())
}

/// The functions of PJRT by name, and whether the plugin has each.
pub fn plugin_functions(plugin: &&'static Plugin) -> Result<Robj> {
    let (names, present): (Vec<&str>, Vec<bool>) = plugin.api().functions().unzip();
    Ok(list!(name = names, present = present).into())
}

/// Writes a report on a plugin to a file, completely or not at all.
pub fn plugin_report_write(report: &str, path: &str) -> Result<()> {
    Ok(serialized::write(Path::new(path), report.as_bytes())?)
}

/// Runs R with these arguments and a variable, as in `NAME=value`, to try a plugin, and waits for its end: its status.
pub fn plugin_part_run(r: &str, arguments: Vec<String>, variable: &str, log: &str, seconds: f64) -> Result<i32> {
    let mut command = Command::new(r);
    command.args(arguments).envs(variable.split_once('='));
    Ok(trial::run(&mut command, log, Duration::from_secs(seconds as u64))?)
}

/// The oldest and the newest version of StableHLO that the plugin reads, or nothing.
pub fn plugin_stablehlo_versions(plugin: &&'static Plugin) -> Result<Robj> {
    let versions = plugin.stablehlo_versions();
    Ok(versions.map_or(().into(), |v| list!(minimum = v.minimum.to_string(), current = v.current.to_string()).into()))
}

/// Attributes as a named list.
pub fn attributes_to_r(attributes: &[(String, PluginValue)]) -> Robj {
    let names = attributes.iter().map(|(name, _)| name.as_str());
    let values = attributes.iter().map(|(_, value)| value_to_r(value));
    List::from_names_and_values(names, values).map_or(().into(), Robj::from)
}

fn value_to_r(value: &PluginValue) -> Robj {
    match value {
        PluginValue::String(text) => text.as_str().into(),
        PluginValue::Int(number) => whole_numbers_to_r(&[*number]),
        PluginValue::IntList(numbers) => whole_numbers_to_r(numbers),
        PluginValue::Float(f) => f64::from(*f).into(),
        PluginValue::Bool(b) => (*b).into(),
        PluginValue::Unknown => Rbool::na().into(),
    }
}

/// Integers; doubles if a value is too large for that; otherwise `integer64` of bit64. Always exact.
fn whole_numbers_to_r(numbers: &[i64]) -> Robj {
    if numbers.iter().all(|i| i.unsigned_abs() <= i32::MAX as u64) {
        return numbers.iter().map(|&i| i as i32).collect::<Vec<_>>().into();
    }
    if numbers.iter().all(|&i| i as f64 as i128 == i.into()) {
        return numbers.iter().map(|&i| i as f64).collect::<Vec<_>>().into();
    }
    let mut bits: Robj = numbers.iter().map(|&i| f64::from_bits(i as u64)).collect::<Vec<_>>().into();
    // Only an invalid name of a class could fail.
    let _ = bits.set_class(["integer64"]);
    bits
}
