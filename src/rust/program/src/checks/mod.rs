//! Checks of programs, in any form, before they are compiled.

pub mod collectives;
#[cfg(test)]
mod fixtures;
pub(crate) mod folding;
#[cfg(test)]
mod forms;
pub mod narrow;
