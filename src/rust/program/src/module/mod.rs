//! A program in memory: operations, regions and values, as they are in MLIR, with the names and attributes of StableHLO.
//!
//! [`Module::decode`] reads one from bytecode, and [`Module::text`] writes it.

pub mod annotations;
mod attribute;
pub(crate) mod choices;
mod constant;
#[cfg(test)]
pub(crate) mod damage;
pub(crate) mod depth;
pub(crate) mod mesh;
mod operation;
pub(crate) mod sizes;
mod types;
mod write;

pub(crate) use attribute::{Algorithm, Attribute, Conv, Dense, Dot, Gather, Parts, Scatter};
pub(crate) use operation::{is_elementwise, Block, Operation, Region, Value};
pub(crate) use types::{Element, Tensor, Type};
pub(crate) use write::{quoted, shown, shown_attribute, symbol_text};

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
    /// The program as text.
    ///
    /// # Errors
    /// `UnsupportedProgram` for attributes that have no text, and if the text would be much larger than the program.
    pub fn text(&self) -> Result<String> {
        write::text(self)
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
