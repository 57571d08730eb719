//! A program in memory: operations, regions and values, as they are in MLIR, with the names and attributes of StableHLO.
//!
//! [`Module::decode`] reads one from bytecode, and [`Module::text`] writes it.

mod attribute;
mod constant;
mod older;
mod operation;
mod refine;
mod types;
mod write;

pub(crate) use attribute::{Algorithm, Attribute, Conv, Dense, Dot, Gather, Scatter};
pub(crate) use older::MESH_AXES;
pub(crate) use operation::{Block, Operation, Region, Value};
pub use refine::{refine, with_constant_argument};
pub(crate) use types::{Element, Tensor, Type};
pub(crate) use write::{quoted, shown, shown_attribute, symbol_text};

use crate::bytecode;
use crate::stablehlo::Version;
use pjrt_base::error::{Error, Kind, Result};
use std::sync::Arc;

/// A name in a program.
pub(crate) type Name = Arc<str>;

/// A program in memory.
#[derive(Debug, Clone)]
pub struct Module {
    /// The operation that contains all others.
    pub(crate) root: Operation,
    /// The type of each value.
    pub(crate) types: Vec<Type>,
}

impl Module {
    /// Decodes bytecode, with its magic number: a portable artifact, or StableHLO.
    ///
    /// # Errors
    /// `InvalidInput` for damaged bytecode, and `UnsupportedProgram` for operations, attributes and types that are not known
    /// here.
    pub fn decode(code: &[u8]) -> Result<Module> {
        bytecode::decode(code, false)
    }

    /// The program as text.
    ///
    /// # Errors
    /// `UnsupportedProgram` for attributes that have no text, and if the text would be much larger than the program.
    pub fn text(&self) -> Result<String> {
        write::text(self)
    }

    /// Replaces what is newer than a version of StableHLO.
    ///
    /// # Errors
    /// `ProgramVersion` for what has no older form.
    pub(crate) fn make_older(&mut self, current: Version) -> Result<()> {
        older::make_older(self, current)
    }

    /// Replaces composites with regions, which most plugins refuse in text, by calls.
    pub(crate) fn without_regions_of_composites(&mut self) {
        older::without_regions_of_composites(&mut self.root);
    }

    /// The type of a value.
    pub(crate) fn type_of(&self, value: Value) -> &Type {
        &self.types[value.0 as usize]
    }
}

/// Something in a program that is not known here.
#[cold]
pub(crate) fn unknown(what: impl std::fmt::Display) -> Error {
    Error::new(Kind::UnsupportedProgram, format!("The program's bytecode cannot be read as text: {what}."))
        .hint("Write the program as text instead: `print(module)` in Python.")
}

#[cfg(test)]
mod tests;
