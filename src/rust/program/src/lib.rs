//! Programs before and after compilation: what is checked and rewritten, functions exported by JAX and PyTorch, operators, graphs,
//! and profiles of runs. Must not know PJRT, plugins or devices.

#[macro_use]
extern crate pjrt_base;

pub mod callable;
mod checks;
pub mod eager;
pub mod exported;
pub mod graph;
pub mod names;
pub mod profile;
pub mod program;
mod rewrite;

pub use checks::{collectives, narrow, selections};
pub use program::stablehlo;
pub use rewrite::refine;
