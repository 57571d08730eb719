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

/// The places at which tests damage a file: a few, spread over it, or ten times as many where tools/soak.sh runs the tests.
#[cfg(test)]
pub(crate) fn damaged_places(len: usize, few: usize) -> std::iter::StepBy<std::ops::Range<usize>> {
    let most = if std::env::var_os("PJRT_SOAK").is_some() { 10 * few } else { few };
    (0..len).step_by(1 + len / most)
}

pub use checks::{collectives, narrow};
pub use exported::pytorch;
pub use hlo::sharding;
pub use module::annotations;
pub use program::stablehlo;
pub use rewrite::refine;
