//! Reads programs before and after compilation: StableHLO as text and bytecode, HLO modules, functions exported by
//! JAX and PyTorch, and profiles of their runs. Must not know PJRT, plugins or devices.

#[macro_use]
extern crate pjrt_base;

pub mod annotations;
mod bytecode;
pub mod collectives;
mod content;
mod depth;
mod diagnostic;
pub mod eager;
pub mod exported;
#[cfg(test)]
mod forms;
pub mod graph;
pub mod hlo;
mod mesh;
pub mod module;
pub mod names;
pub mod narrow;
mod older;
pub mod profile;
pub mod program;
pub mod pytorch;
pub mod sharding;
mod sizes;
pub mod stablehlo;
mod suggest;
mod text;
