//! Rewrites a program for an older version of StableHLO, for plugins that do not know newer operations.
//!
//! Text has no versions of operations, and omits default values. Only new operations, attributes and forms remain: each
//! is listed here with the first version that has it.

use super::joined::join;
use super::mulhi;
use crate::program::stablehlo::Version;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_ir::module::{mesh, Attribute, Module, Name, Operation};
use std::collections::HashMap;

/// The first versions with a form.
const COMPOSITES: Version = Version([0, 19, 0]);
const ACCURACY: Version = Version([1, 9, 0]);
const COMPOSITES_WITH_REGIONS: Version = Version([1, 14, 0]);
const ASYNCHRONOUS: Version = Version([1, 15, 0]);
pub(super) const MESH_AXES: Version = Version([1, 16, 0]);
/// CHLO has no versions.
const STABLE_TOP: Version = Version([1, 20, 0]);

/// What has no older form: an operation, or one with this attribute, the first version that has it, and what it does in words.
const WITHOUT_OLDER: [(&str, &str, Version, &str); 5] = [
    ("async_start", "", ASYNCHRONOUS, ""),
    ("async_done", "", ASYNCHRONOUS, ""),
    ("custom_call", "result_tilings", Version([1, 17, 0]), " with tiled results"),
    ("collective_reduce", "", Version([1, 19, 0]), ""),
    ("collective_broadcast", "has_dynamic_root", Version([1, 20, 0]), " from a device that the program chooses"),
];

/// Text with one of these may be newer than a plugin. Every plugin reads composites in text.
pub(super) const NEWER: [&str; 6] = [
    "stablehlo.async_start",
    "result_tilings",
    "has_dynamic_root",
    "stablehlo.collective_reduce",
    "is_stable",
    "chlo.mulhi",
];

/// Replaces everything newer than `current`, the newest version that a plugin reads, and all meshes in attributes of StableHLO
/// unless they may stay. Whether there was something.
///
/// # Errors
/// `ProgramVersion`, which names the operation, for what has no older form.
pub(super) fn make_older(module: &mut Module, current: Version, keeps_meshes: bool) -> Result<bool> {
    let mut meshes = HashMap::new();
    for operation in module.root.inner().filter(|operation| &*operation.name == "sdy.mesh") {
        if let (Some(name), Some(Attribute::Other(mesh))) = (operation.symbol(), operation.attribute("mesh")) {
            meshes.insert(name.to_owned(), mesh.clone());
        }
    }
    // Most programs have neither, and it takes long to move all operations.
    let is_joined = current < ASYNCHRONOUS && module.root.contains("stablehlo.async_start");
    if is_joined {
        join(&mut module.root);
    }
    let is_expanded = module.root.contains("chlo.mulhi") && mulhi::expand(&mut module.root, &mut module.types);
    let keeps_meshes = keeps_meshes && current >= MESH_AXES;
    let mut change = Change { current, keeps_meshes, meshes, function: None, is_made: is_joined || is_expanded };
    change.operation(&mut module.root)?;
    Ok(change.is_made)
}

struct Change {
    current: Version,
    keeps_meshes: bool,
    /// The text of each mesh.
    meshes: HashMap<String, Name>,
    function: Option<String>,
    is_made: bool,
}

impl Change {
    fn operation(&mut self, operation: &mut Operation) -> Result<()> {
        if &*operation.name == "func.func" {
            self.function = operation.symbol().map(str::to_owned);
        }
        if !self.keeps_meshes {
            self.without_meshes(operation)?;
        }
        let is_new = |&&(kind, attribute, since, _): &&(&str, &str, Version, &str)| {
            let has_it = attribute.is_empty() || operation.attribute(attribute).is_some();
            kind == operation.kind() && has_it && self.current < since
        };
        if let Some((.., what)) = WITHOUT_OLDER.iter().find(is_new) {
            return Err(self.too_new(operation, what));
        }
        match operation.kind() {
            // A composite with regions, or any for a plugin without composites, becomes a call of its decomposition.
            "composite"
                if self.current < COMPOSITES
                    || self.current < COMPOSITES_WITH_REGIONS && !operation.regions.is_empty() =>
            {
                self.is_made |= operation.call_decomposition();
            }
            _ if &*operation.name == "chlo.top_k" && self.current < STABLE_TOP => {
                self.is_made |= operation.remove("is_stable").is_some();
            }
            _ if self.current < ACCURACY => {
                self.is_made |= operation.remove("result_accuracy").is_some();
            }
            _ => {}
        }
        operation.inner_mut().try_for_each(|operation| self.operation(operation))
    }

    /// Replaces groups along axes of a mesh by lists of devices, and leaves out other notes about meshes.
    fn without_meshes(&mut self, operation: &mut Operation) -> Result<()> {
        for i in 0..operation.attributes.len() {
            let Attribute::Other(text) = &operation.attributes[i].1 else { continue };
            if !text.starts_with(mesh::GROUPS) {
                continue;
            }
            let Some(groups) = mesh::explicit_groups(text, |name| self.meshes.get(name).map(|text| &**text)) else {
                return Err(self.too_new(operation, " along axes of a mesh that is not known"));
            };
            operation.attributes[i].1 = Attribute::Other(groups.into());
            self.is_made = true;
        }
        let count = operation.attributes.len();
        operation.attributes.retain(|(name, value)| {
            let is_mesh = matches!(value, Attribute::Other(text) if text.starts_with("#stablehlo.mesh<"));
            !is_mesh && &**name != "stablehlo.mesh"
        });
        self.is_made |= operation.attributes.len() < count;
        Ok(())
    }

    #[cold]
    fn too_new(&self, operation: &Operation, what: &str) -> Error {
        let place = self.function.as_ref().map(|name| format!(" in function `{name}`")).unwrap_or_default();
        let message = format!(
            "The plugin reads StableHLO up to version {}, which has no `{}`{what}{place}.",
            self.current, operation.name
        );
        Error::new(Kind::ProgramVersion, message).hint("Use a newer plugin, or write the function without it.")
    }
}
