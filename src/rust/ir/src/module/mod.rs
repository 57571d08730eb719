//! A program in memory: operations, regions and values, as they are in MLIR, with the names and attributes of StableHLO.
//!
//! [`Module::decode`] reads one from bytecode, and [`Module::text`] writes it.

pub mod annotations;
mod attribute;
pub mod choices;
mod constant;
#[cfg(test)]
pub mod damage;
pub mod depth;
pub mod mesh;
mod operation;
pub mod sizes;
mod types;
mod write;

pub use attribute::{take, Algorithm, Attribute, Attributes, Conv, Dense, Dot, Gather, Scatter};
pub use operation::{are_both_elements, is_elementwise, is_listed, Block, Operation, Region, Value};
pub use types::{Element, Tensor, Type};
pub use write::{quoted, shown, shown_attribute, symbol_text};

use pjrt_base::error::{Error, Kind, Result};
use std::sync::Arc;

/// A name in a program.
pub type Name = Arc<str>;

/// A program in memory.
#[derive(Debug, Clone)]
pub struct Module {
    /// The operation that contains all others.
    pub root: Operation,
    /// The type of each value.
    pub types: Vec<Type>,
}

impl Module {
    /// The type of a value.
    pub fn type_of(&self, value: Value) -> &Type {
        &self.types[value.0 as usize]
    }
}

/// Refuses a program in which this does not hold, because of something that is not known here.
pub(crate) fn known(holds: bool, otherwise: impl std::fmt::Display) -> Result<()> {
    holds.then_some(()).ok_or_else(|| unknown(otherwise))
}

/// Something in a program that is not known here.
#[cold]
pub fn unknown(what: impl std::fmt::Display) -> Error {
    Error::new(Kind::UnsupportedProgram, format!("The program's bytecode cannot be read as text: {what}."))
        .hint("Write the program as text instead: `print(module)` in Python.")
}
