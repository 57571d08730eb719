//! Meshes of devices in StableHLO's attributes, as the text that `crate::module::mesh` reads.

use super::super::damaged;
use crate::module::mesh::GROUPS;
use crate::module::{quoted, shown_attribute, symbol_text, Attribute};
use pjrt_base::error::Result;

/// An axis of a mesh, or the part of one: the size of what is before it in the axis, and its own size.
pub(super) fn axis(name: &str, part: Option<&Attribute>) -> Result<Attribute> {
    let name = quoted(name.as_bytes());
    let part = match part.map(Attribute::as_numbers) {
        None => String::new(),
        Some(Some(numbers)) if numbers.len() == 2 => format!(", sub_axis_info = ({}){}", numbers[0], numbers[1]),
        Some(_) => return Err(damaged("the part of an axis is something else")),
    };
    Ok(Attribute::Other(format!("#stablehlo.axis_ref<name = {name}{part}>").into()))
}

pub(super) fn mesh_axis(name: &str, size: i64) -> Attribute {
    Attribute::Other(format!("#stablehlo.mesh_axis<name = {}, size = {size}>", quoted(name.as_bytes())).into())
}

pub(super) fn mesh(axes: &Attribute, devices: Option<&Attribute>) -> Result<Attribute> {
    let devices = match devices {
        Some(devices) => format!(", device_ids = {}", shown_attribute(devices)?),
        None => String::new(),
    };
    Ok(Attribute::Other(format!("#stablehlo.mesh<axes = {}{devices}>", shown_attribute(axes)?).into()))
}

/// Groups of devices along axes of a mesh, which is a symbol or given itself.
pub(super) fn groups(mesh: &Attribute, axes: &Attribute) -> Result<Attribute> {
    let mesh = match mesh {
        Attribute::String(name) => symbol_text(std::str::from_utf8(name).map_err(|_| damaged("a name is not text"))?),
        mesh => shown_attribute(mesh)?,
    };
    Ok(Attribute::Other(format!("{GROUPS}mesh = {mesh}, axes = {}>", shown_attribute(axes)?).into()))
}
