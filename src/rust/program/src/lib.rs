//! Reads programs before and after compilation: StableHLO as text and bytecode, and HLO modules. Must not know PJRT,
//! plugins or devices.

#[macro_use]
extern crate pjrt_base;

pub mod annotations;
pub mod bytecode;
pub mod depth;
pub mod hlo;
pub mod mlir;
pub mod names;
pub mod narrow;
pub mod program;
pub mod sharding;
pub mod stablehlo;
