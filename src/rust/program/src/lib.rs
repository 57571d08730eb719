//! Reads programs before and after compilation: StableHLO as text and bytecode, HLO modules, functions exported by
//! JAX and PyTorch, and profiles of their runs. Must not know PJRT, plugins or devices.

#[macro_use]
extern crate pjrt_base;

mod bytecode;
pub mod callable;
mod checks;
pub mod eager;
pub mod exported;
pub mod graph;
pub mod hlo;
pub mod module;
pub mod names;
pub mod profile;
pub mod program;
mod rewrite;
mod text;

pub use checks::{collectives, narrow, selections};
pub use exported::pytorch;
pub use hlo::sharding;
pub use module::annotations;
pub use program::stablehlo;
pub use rewrite::refine;
