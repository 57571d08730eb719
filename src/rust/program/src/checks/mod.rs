//! Checks of programs, in any form, before they are compiled.

pub mod collectives;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod forms;
pub mod narrow;
pub mod selections;
