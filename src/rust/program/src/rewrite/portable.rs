//! A program as a portable artifact, for plugins that read no other form.

use super::{older, OLDEST};
use crate::module::annotations::PARTITIONS;
use crate::module::{Attribute, Name, Operation};
use crate::program::stablehlo::Versions;
use crate::program::{Format, Program};
use pjrt_base::error::Result;

impl Program {
    /// Whether it is a portable artifact, or an HLO module, which has no other form.
    pub fn is_portable(&self) -> bool {
        self.format() != Format::Mlir || self.stablehlo_version().is_some()
    }

    /// The program as a portable artifact, in words of `versions`, those that the plugin reads. `None` if it is one.
    ///
    /// # Errors
    /// `UnsupportedProgram`, which names the operation, for what has no portable form; `ProgramVersion` for what is too new.
    pub fn to_portable(&self, versions: Option<Versions>) -> Result<Option<Program>> {
        if self.is_portable() {
            return Ok(None);
        }
        let mut module = self.whole_module()?;
        older::make_older(&mut module, versions.map_or(OLDEST, |versions| versions.current))?;
        if module.root.attribute(PARTITIONS).and_then(Attribute::as_integer).is_none_or(|count| count <= 1) {
            without_shardings(&mut module.root);
        }
        Program::new(module.artifact()?, Format::Mlir).map(Some)
    }
}

/// Leaves out what Shardy says about a program for one device.
fn without_shardings(operation: &mut Operation) {
    let is_other = |(name, _): &(Name, Attribute)| !name.starts_with("sdy.");
    operation.attributes.retain(is_other);
    for key in ["arg_attrs", "res_attrs"] {
        let Some(Attribute::Array(items)) = operation.attribute(key) else { continue };
        let item = |item: &Attribute| match item {
            Attribute::Dictionary(pairs) => {
                Attribute::Dictionary(pairs.iter().filter(|pair| is_other(pair)).cloned().collect())
            }
            other => other.clone(),
        };
        let items = items.iter().map(item).collect();
        operation.set(key, Attribute::Array(items));
    }
    for block in operation.regions.iter_mut().flat_map(|region| &mut region.blocks) {
        block.operations.retain(|operation| &*operation.name != "sdy.mesh");
        block.operations.iter_mut().for_each(without_shardings);
    }
}
